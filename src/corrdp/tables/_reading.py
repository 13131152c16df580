"""What all readers of tables share: names, cells, and errors that quote nothing."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.tables._arrow_cells import number_column, text_column

Reader = Callable[[Path, Sequence[str] | None, Sequence[str], int], Iterator[Any]]
"""From path, columns, number columns and batch size to tables of text and floats."""


def texts_and_numbers(table: Any, number_columns: Sequence[str]) -> Any:
    """Return a table with numbers as floats and everything else as text."""
    import pyarrow as pa

    return pa.table(
        {
            name: number_column(table[name])
            if name in number_columns
            else text_column(table[name])
            for name in table.column_names
        }
    )


def check_names(
    path: Path, columns: Sequence[str] | None, present: Sequence[str]
) -> None:
    """Raise `PolicyError` if columns are absent, or two have the same name."""
    if len(set(present)) < len(present):
        raise PolicyError(
            f"{str(path)!r} has two columns of the same name. Rename one of them."
        )
    absent = [name for name in columns or () if name not in present]
    if absent:
        raise PolicyError(
            f"{str(path)!r} lacks the columns {', '.join(map(repr, absent))}. "
            "Add them, or remove them from the policy."
        )


def guarded(
    path: Path, batches: Callable[[], Iterator[Any]], hint: str
) -> Iterator[Any]:
    """Pass batches on; a parser's own error may quote rows and is dropped."""
    failure = ""
    try:
        yield from batches()
    except CorrDPError:
        raise
    except Exception as error:
        failure = type(error).__name__
    if failure:
        raise CorrDPError(f"cannot read {str(path)!r} ({failure}). {hint}")

"""Directories of files, with columns in the names of their folders (Hive).

Files are read one after the other, each by itself: what another file holds never
decides how a cell is read.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from corrdp.exceptions import CorrDPError
from corrdp.tables._cells import Reader, Wanted, number_column

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def files_under(directory: Path) -> list[Path]:
    """Return the files below a directory in order; hidden ones, ``_SUCCESS``, not.

    Links to files and folders are followed, so that no rows are left out in silence.
    """
    found = []
    try:
        below = sorted(_below(directory, [os.path.realpath(directory)]))
    except OSError as error:
        raise CorrDPError(
            f"cannot look into {str(error.filename)!r} ({error.strerror}), and rows "
            "could be left out. Check the path and its permissions."
        ) from None
    for path in below:
        if path.is_file():
            found.append(path)
        elif path.is_symlink() and not path.exists():
            raise CorrDPError(
                f"the link {str(path)!r} leads nowhere, so that rows would be left "
                "out. Bring the file there, or remove the link."
            )
    if not found:
        raise CorrDPError(
            f"there is no file in {str(directory)!r}. Check the path; names that begin "
            "with a dot or an underscore are left out."
        )
    return found


def _below(directory: Path, above: list[str]) -> Iterator[Path]:
    """Yield all that is not a folder below one; `above` are real names of folders."""
    for path in directory.iterdir():
        if path.name.startswith(("_", ".")) and "=" not in path.name:
            continue
        if not path.is_dir():
            yield path
        elif (real := os.path.realpath(path)) not in above:  # else a link in a circle
            yield from _below(path, [*above, real])


def with_folders(
    keys: Mapping[str, str | None], read: Reader, path: Path, wanted: Wanted
) -> Iterator[Any]:
    """Yield a file with the columns that its folders name, as `folder_columns` gave."""
    import pyarrow as pa

    columns = wanted.columns
    own = None if columns is None else [c for c in columns if c not in keys]
    # Rows are counted by some column, even if only folders name the wanted ones.
    for batch in read(path, wanted._replace(columns=own or None)):
        chosen = batch.column_names if own is None else own
        table = batch.select([name for name in chosen if name not in keys])
        for name, text in keys.items():
            if columns is None or name in columns:
                cell = pa.scalar(text, pa.string())
                cells = pa.chunked_array([pa.repeat(cell, batch.num_rows)])
                if name in wanted.number_columns:
                    cells = number_column(cells)
                table = table.append_column(name, cells)
        yield table if columns is None else table.select(list(columns))


def folder_columns(path: Path) -> dict[str, str | None]:
    """Return the columns that the folders of a file name, as texts."""
    pairs = [part.split("=", 1) for part in path.parts[:-1] if "=" in part]
    return {
        unquote(name): None if text == _NO_VALUE else unquote(text)
        for name, text in pairs
    }

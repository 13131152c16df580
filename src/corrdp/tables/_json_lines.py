"""JSON lines: one object per line, its values by name, in batches of texts and floats.

Arrow's own reader infers a type for every column from the rows that it sees, times
among them, so that one record could change how all others are read. Here a line is
parsed by itself, and a value is what its own line says (`docs/theory/encoder.md`).
"""

import io
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from corrdp.tables._arrow_cells import guarded, number_array, text_array


def json_lines_batches(
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    """Yield a file of JSON lines; a name that a line leaves out is a missing value.

    There is no header. Whether any line has a name depends on other records, so a name
    that none has is a column of missing values, too, and not refused.
    """
    import pyarrow as pa

    def batches() -> Iterator[Any]:
        names = _all_names(path) if columns is None else columns
        lines = _objects(path)
        while rows := list(islice(lines, batch_rows)):
            cells = {name: [row.get(name) for row in rows] for name in names}
            yield pa.table(
                {
                    name: (number_array if name in number_columns else text_array)(own)
                    for name, own in cells.items()
                }
            )

    return guarded(path, batches, "One JSON object per line, in UTF-8?")


def _all_names(path: Path) -> list[str]:
    """Return every name that some line has, in the order of their first lines."""
    return list(dict.fromkeys(name for row in _objects(path) for name in row))


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    with pa.input_stream(str(path), compression="detect") as stream:
        for line in io.TextIOWrapper(stream, encoding="utf-8-sig", newline="\n"):
            if line.strip():
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise TypeError("a line of JSON is not an object")
                yield row

"""Formats of files: CSV, JSON lines, Parquet, Arrow, read in batches of cells.

Columns declared numbers are read as floats, all others as canonical text, cell by cell
(`_cells`): no type is ever inferred, since one record could change how all others are
read. Arrow's own reader of JSON lines infers types, times among them: here a line is
parsed by itself, and a value is what its own line says (`docs/theory/encoder.md`).
"""

import codecs
import csv
import io
import json
import secrets
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from corrdp.exceptions import CorrDPError
from corrdp.tables._cells import (
    Reader,
    Wanted,
    arrow_batches,
    check_names,
    guarded,
    object_batch,
)
from corrdp.tables._databases import database_reader

CSV_BLOCK_BYTES = 2**24
"""Bytes of CSV text parsed at once."""


def reader_of(path: Path, table: str | None = None) -> Reader:
    """Return what reads a file, by its name; or a table of a database."""
    if table is not None:
        return database_reader(path, table)
    readers: dict[str, Reader] = {
        ".csv": _csv_batches,
        ".csv.gz": _csv_batches,
        ".tsv": _csv_batches,
        ".tsv.gz": _csv_batches,
        ".jsonl": json_lines_batches,
        ".jsonl.gz": json_lines_batches,
        ".ndjson": json_lines_batches,
        ".ndjson.gz": json_lines_batches,
        ".parquet": parquet_batches,
        ".arrow": _arrow_batches,
        ".feather": _arrow_batches,
        ".ipc": _arrow_batches,
    }
    known = [end for end in readers if path.name.lower().endswith(end)]
    if not known:
        raise CorrDPError(
            f"the format of {str(path)!r} is not known. Use one of "
            f"{', '.join(readers)}, or file.db::table for SQLite and DuckDB."
        )
    return readers[known[0]]


@guarded(
    "Rows of unequal length, text that is not UTF-8, or an end .gz that is missing, or "
    "on a file that is not compressed? Correct it, or convert the file, for example "
    "with iconv -f latin1 -t utf8."
)
def _csv_batches(path: Path, wanted: Wanted) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    is_tabbed = path.name.lower().endswith((".tsv", ".tsv.gz"))
    delimiter = "\t" if is_tabbed else ","
    present, n_lines = _header(path, delimiter)
    if not present:
        return
    _refuse_other_marks(path, wanted.columns, present, delimiter)
    check_names(path, wanted.columns, present)
    names = present if wanted.columns is None else wanted.columns
    mark = secrets.token_hex(16)
    last = delimiter.join([mark] * len(present)) + "\n"
    reader = arrow_csv.open_csv(
        io.BufferedReader(_WithLastRow(_opened(path), last.encode())),
        read_options=arrow_csv.ReadOptions(
            block_size=CSV_BLOCK_BYTES, skip_rows=n_lines, column_names=present
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            # A row whose only cell is empty is a row: their number is public.
            ignore_empty_lines=len(present) > 1,
        ),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=False,
        ),
    )
    held = next(reader)
    for batch in filter(len, reader):
        yield from arrow_batches(held, wanted)
        held = batch
    if held.column(0)[-1].as_py() != mark:
        raise CorrDPError(
            f"a cell of {str(path)!r} begins with a quotation mark and does not end, "
            "so that all rows after it would be lost. Write quotation marks inside of "
            "cells twice, between two others."
        )
    yield from arrow_batches(held.slice(0, len(held) - 1), wanted)


class _WithLastRow(io.RawIOBase):
    """The bytes of a CSV file and one more row, which a quote left open swallows."""

    def __init__(self, stream: Any, row: bytes) -> None:
        self._stream, self._row = stream, row
        self._end = b"\n"

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; return with how many bytes, 0 when all are read."""
        block: bytes = self._stream.read(len(buffer))
        if block:
            self._end = block[-1:]
        else:
            row = self._row if self._end in b"\r\n" else b"\n" + self._row
            block, self._row = row[: len(buffer)], row[len(buffer) :]
            self._end = b"\n"
        buffer[: len(block)] = block
        return len(block)

    def readable(self) -> bool:
        """Return that it can be read."""
        return True


def _opened(path: Path) -> Any:
    import pyarrow as pa

    is_zipped = path.suffix.lower() == ".gz"
    return pa.input_stream(str(path), compression="gzip" if is_zipped else None)


def _refuse_other_marks(
    path: Path, columns: Sequence[str] | None, present: Sequence[str], delimiter: str
) -> None:
    """Raise if the first line tells of marks, or reads like names between others."""
    line = delimiter.join(present)
    if len(line) == 5 and line.startswith("sep=") and line not in (columns or ()):
        raise CorrDPError(
            f"{str(path)!r} begins with {line!r}, a line that tells Excel what stands "
            "between cells and is no row of names. Remove that line."
        )
    if len(present) != 1 or present[0] in (columns or ()):
        return
    marks = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
    for mark, word in marks.items():
        if mark in present[0]:
            raise CorrDPError(
                f"the names in {str(path)!r} stand between {word}. Write it with "
                "commas and decimal points (.csv), or with tabs (.tsv)."
            )


def _header(path: Path, delimiter: str) -> tuple[list[str], int]:
    """Return the names that a CSV file begins with, and the lines that they end."""
    with _opened(path) as stream:
        opened = io.BufferedReader(stream)
        if opened.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise CorrDPError(
                f"the text of {str(path)!r} is UTF-16. Convert it, for example "
                "with iconv -f utf-16 -t utf-8."
            )
        text = io.TextIOWrapper(opened, encoding="utf-8-sig", newline="")
        lines = csv.reader(text, delimiter=delimiter)
        # Lines before the names may be empty, as everywhere else in the file.
        return next(filter(None, lines), []), lines.line_num


@guarded("Is it a Parquet file?")
def parquet_batches(
    path: Path, wanted: Wanted, *, part: int = 0, n_parts: int = 1
) -> Iterator[Any]:
    """Yield a Parquet file, or a share of its row groups: part number `part`."""
    from pyarrow import parquet

    # Buffers that are read ahead are all kept until the last batch.
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        check_names(path, wanted.columns, file.schema_arrow.names)
        count = file.num_row_groups
        cuts = [count * i // n_parts for i in (part, part + 1)]
        for batch in file.iter_batches(
            wanted.batch_rows, row_groups=range(*cuts), columns=wanted.columns
        ):
            yield from arrow_batches(batch, wanted)


@guarded("Is it an Arrow or Feather (version 2) file?")
def _arrow_batches(path: Path, wanted: Wanted) -> Iterator[Any]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        is_stream = source.read(6) != b"ARROW1"
        source.seek(0)
        reader = (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(source)
        check_names(path, wanted.columns, reader.schema.names)
        held = (
            reader
            if is_stream
            else (reader.get_batch(index) for index in range(reader.num_record_batches))
        )
        for batch in held:
            yield from arrow_batches(batch, wanted)


@guarded("One JSON object per line, in UTF-8?")
def json_lines_batches(path: Path, wanted: Wanted) -> Iterator[Any]:
    """Yield a file of JSON lines; a name that a line leaves out is a missing value.

    There is no header. Whether any line has a name depends on other records, so a name
    that none has is a column of missing values, too, and not refused.
    """
    names = _all_names(path) if wanted.columns is None else wanted.columns
    lines = _objects(path)
    while rows := list(islice(lines, wanted.batch_rows)):
        cells = {name: [row.get(name) for row in rows] for name in names}
        yield object_batch(cells.items(), wanted)


def _all_names(path: Path) -> list[str]:
    """Return every name that some line has, in the order of their first lines."""
    return list(dict.fromkeys(name for row in _objects(path) for name in row))


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    with _opened(path) as stream:
        for line in io.TextIOWrapper(stream, encoding="utf-8-sig", newline="\n"):
            if line.strip():
                yield _object(line)


def _object(line: str) -> dict[str, Any]:
    """Return the cells of a line; none where it nests deeper than Python reads.

    Such a line is JSON all the same, and must not end the reading of others.
    """
    try:
        row = json.loads(line, parse_int=_whole_number)
    except RecursionError:
        return {}
    if not isinstance(row, dict):
        raise TypeError("a line of JSON is not an object")
    return row


def _whole_number(digits: str) -> Any:
    """Return a number, or its text where Python reads no number of so many digits.

    Cells of other files say the same by that text, and one of them ends nothing.
    """
    try:
        return int(digits)
    except ValueError:
        return digits

"""Formats of files: CSV, JSON lines, Parquet, Arrow, read in batches of cells.

Columns declared numbers are read as floats, all others as canonical text, cell by cell
(`_cells`): no type is ever inferred, since one record could change how all others are
read. Arrow's own reader of JSON lines infers types, times among them: here a line is
parsed by itself, and a value is what its own line says (`docs/theory/encoder.md`).
"""

import io
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from corrdp.exceptions import CorrDPError
from corrdp.tables._cells import (
    Reader,
    check_names,
    guarded,
    number_array,
    text_array,
    texts_and_numbers,
)
from corrdp.tables._databases import database_reader

CSV_BLOCK_BYTES = 2**24
"""Bytes of CSV text parsed at once."""


def reader_of(path: Path, table: str | None = None) -> Reader:
    """Return what reads a file, by its name; or a table of a database."""
    if table is not None:
        return database_reader(path, table)
    suffix = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
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
    known = [end for end in readers if suffix.lower().endswith(end)]
    if not known:
        raise CorrDPError(
            f"the format of {str(path)!r} is not known. Use one of "
            f"{', '.join(readers)}, or file.db::table for SQLite and DuckDB."
        )
    return readers[known[0]]


def _csv_batches(
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    delimiter = "\t" if ".tsv" in path.name.lower() else ","

    def opened(names: Sequence[str], n_columns: int) -> Any:
        return csv.open_csv(
            pa.input_stream(str(path), compression="detect"),
            read_options=csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
            parse_options=csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                # A row whose only cell is empty is a row: their number is public.
                ignore_empty_lines=n_columns > 1,
            ),
            convert_options=csv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
            ),
        )

    def batches() -> Iterator[Any]:
        present, has_rows = _header(path, delimiter)
        if not has_rows:
            return
        _refuse_other_marks(path, columns, present)
        check_names(path, columns, present)
        reader = opened(present if columns is None else columns, len(present))
        inferred = [f.name for f in reader.schema if not pa.types.is_string(f.type)]
        if inferred:
            raise AssertionError("a column of a CSV file was not read as text")
        for batch in reader:
            table = pa.Table.from_batches([batch])
            for start in range(0, table.num_rows, batch_rows):
                yield texts_and_numbers(table.slice(start, batch_rows), number_columns)

    hint = (
        "Rows of unequal length, or text that is not UTF-8? Correct it, or convert "
        "the file, for example with iconv -f latin1 -t utf8"
    )
    return guarded(path, batches, f"{hint}.")


def _refuse_other_marks(
    path: Path, columns: Sequence[str] | None, present: Sequence[str]
) -> None:
    """Raise if the first line reads like several names between other marks."""
    if len(present) != 1 or present[0] in (columns or ()):
        return
    marks = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
    for mark, word in marks.items():
        if mark in present[0]:
            raise CorrDPError(
                f"the names in {str(path)!r} stand between {word}. Write it with "
                "commas and decimal points (.csv), or with tabs (.tsv)."
            )


def _header(path: Path, delimiter: str) -> tuple[list[str], bool]:
    """Return the names in the first line of a CSV file, and whether lines follow."""
    import csv
    import io

    import pyarrow as pa

    with pa.input_stream(str(path), compression="detect") as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        names = next(csv.reader(text, delimiter=delimiter), [])
        return names, any(len(names) == 1 or line.strip("\r\n") for line in text)


def parquet_batches(
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
    *,
    part: int = 0,
    n_parts: int = 1,
) -> Iterator[Any]:
    """Yield a Parquet file, or a share of its row groups: part number `part`."""
    import pyarrow as pa
    from pyarrow import parquet

    def batches() -> Iterator[Any]:
        # Buffers that are read ahead are all kept until the last batch.
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            check_names(path, columns, file.schema_arrow.names)
            count = file.num_row_groups
            cuts = [count * i // n_parts for i in (part, part + 1)]
            for batch in file.iter_batches(
                batch_rows, row_groups=range(*cuts), columns=columns
            ):
                table = pa.Table.from_batches([batch])
                table = table if columns is None else table.select(list(columns))
                yield texts_and_numbers(table, number_columns)

    return guarded(path, batches, "Is it a Parquet file?")


def _arrow_batches(
    path: Path,
    columns: Sequence[str] | None,
    number_columns: Sequence[str],
    batch_rows: int,
) -> Iterator[Any]:
    import pyarrow as pa

    def batches() -> Iterator[Any]:
        with pa.memory_map(str(path)) as source:
            is_stream = source.read(6) != b"ARROW1"
            source.seek(0)
            reader = (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(source)
            check_names(path, columns, reader.schema.names)
            count = None if is_stream else reader.num_record_batches
            held = (
                iter(reader)
                if count is None
                else (reader.get_batch(index) for index in range(count))
            )
            for batch in held:
                table = pa.Table.from_batches([batch])
                table = table if columns is None else table.select(list(columns))
                for start in range(0, table.num_rows, batch_rows):
                    yield texts_and_numbers(
                        table.slice(start, batch_rows), number_columns
                    )

    return guarded(path, batches, "Is it an Arrow or Feather (version 2) file?")


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
                row = json.loads(line, parse_int=_whole_number)
                if not isinstance(row, dict):
                    raise TypeError("a line of JSON is not an object")
                yield row


def _whole_number(digits: str) -> Any:
    """Return a number, or its text where Python reads no number of so many digits.

    Cells of other files say the same by that text, and one of them ends nothing.
    """
    try:
        return int(digits)
    except ValueError:
        return digits

"""Tables: every door to rows, and what identifies them.

Frames (pandas, polars, pyarrow, numpy) come in through `read_columns` and its
neighbors; files (CSV, JSON lines, Parquet, Arrow, SQLite, DuckDB), directories of them,
datasets, readers and lazy frames through `read_table` and `iter_batches`. Whatever the
door, a cell is read alone: `canonical_text` and `number_of` say what it is, and no
other row has a say in it. `ArrayFile` is where tiles of a large table are kept, for its
owner alone.
"""

from corrdp.tables._array_file import (
    ArrayFile,
    ArrayFileWriter,
    ForeignFileError,
    cache_key,
)
from corrdp.tables._cells import (
    MISSING_TEXTS,
    NO_TEXT,
    canonical_text,
    is_missing,
    loose_text,
    number_of,
    require_columns,
    spelled_number,
)
from corrdp.tables._files import (
    BATCH_ROWS,
    files_of,
    is_source,
    iter_batches,
    read_table,
    reads_again,
    reads_once,
    require_pyarrow,
    watching_rows,
)
from corrdp.tables._fingerprint import check_same_data, table_fingerprint
from corrdp.tables._frames import (
    Column,
    DistinctColumn,
    check_columns,
    read_columns,
    read_distinct,
    read_series,
    take_rows,
    with_twins,
)
from corrdp.tables._pieces import FilePiece, pieces_of

__all__ = [
    "BATCH_ROWS",
    "MISSING_TEXTS",
    "NO_TEXT",
    "ArrayFile",
    "ArrayFileWriter",
    "Column",
    "DistinctColumn",
    "FilePiece",
    "ForeignFileError",
    "cache_key",
    "canonical_text",
    "check_columns",
    "check_same_data",
    "files_of",
    "is_missing",
    "is_source",
    "iter_batches",
    "loose_text",
    "number_of",
    "pieces_of",
    "read_columns",
    "read_distinct",
    "read_series",
    "read_table",
    "reads_again",
    "reads_once",
    "require_columns",
    "require_pyarrow",
    "spelled_number",
    "table_fingerprint",
    "take_rows",
    "watching_rows",
    "with_twins",
]

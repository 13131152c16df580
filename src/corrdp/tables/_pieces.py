"""Pieces of a table in files, which others read: a file, or row groups of a large one.

Who cuts looks at names and sizes of files alone. Parquet files tell the smallest and
the largest cell of every column beside the number of row groups, so that is looked up
where the piece is read.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from corrdp.tables._cells import Reader, Wanted
from corrdp.tables._directories import folder_columns, with_folders
from corrdp.tables._files import BATCH_ROWS, files_of, require_pyarrow
from corrdp.tables._formats import parquet_batches, reader_of

PIECE_BYTES = 2**26
"""About the size of a piece, for files that can be cut."""


@dataclass(frozen=True)
class FilePiece:
    """Some rows of a table: part number `part` of `n_parts` of a file, by row groups.

    `path` is full, `folders` are the columns that its folders name; a part may have no
    rows.
    """

    path: str
    folders: Mapping[str, str | None]
    part: int = 0
    n_parts: int = 1

    def to_text(self) -> str:
        """Return the piece as one line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "FilePiece":
        """Return the piece that `to_text` gave."""
        return cls(**json.loads(text))

    def batches(
        self, columns: Sequence[str], number_columns: Sequence[str]
    ) -> Iterator[Any]:
        """Yield its rows, read as `iter_batches` reads those of the whole table."""
        require_pyarrow()
        path = Path(self.path)
        read: Reader = reader_of(path)
        if self.n_parts > 1:
            read = partial(parquet_batches, part=self.part, n_parts=self.n_parts)
        wanted = Wanted(columns, number_columns, BATCH_ROWS)
        yield from with_folders(self.folders, read, path, wanted)


def pieces_of(data: str | Path) -> list[FilePiece] | None:
    """Return the pieces of a file, a glob or a directory, in the order of the rows.

    None if the rows are not in files alone, but in a database.
    """
    found = files_of(data) if "::" not in str(data) else None
    if found is None:
        return None
    pieces = []
    for path in found:
        inside = path.relative_to(data) if Path(data).is_dir() else Path(path.name)
        is_cut = path.suffix.lower() == ".parquet"
        n_parts = 1 + path.stat().st_size // PIECE_BYTES if is_cut else 1
        pieces += [
            FilePiece(str(path.absolute()), folder_columns(inside), i, n_parts)
            for i in range(n_parts)
        ]
    return pieces

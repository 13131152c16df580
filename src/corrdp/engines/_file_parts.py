"""Files that the workers of an engine read, each by the readers of one process.

What an engine's own reader makes of a cell may depend on other rows: types are guessed
from a sample, from the first file or from a null beside. Here a partition is some
pieces of files (`corrdp.tables.FilePiece`), read on the worker by our own readers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v1 as nw

from corrdp.engines._parts import Maker, Part
from corrdp.exceptions import CorrDPError
from corrdp.tables import FilePiece, pieces_of

PIECE = "piece"


@dataclass(frozen=True)
class EngineFiles:
    """A table in files, in the place of a frame of the engine whose workers read it.

    A session of the engine runs, see `engine_session`, and all workers can read the
    pieces: files, or row groups of large ones, as texts.

    Guarantee
    ---------
    A cell is a function of the same cell of the file, as for one process
    (`docs/theory/encoder.md`).
    """

    engine: str
    pieces: Sequence[str]
    number_columns: Sequence[str]


def engine_files(engine: str, data: Any, number_columns: Sequence[str]) -> EngineFiles:
    """Return a file, a glob or a directory as a table for the workers of an engine."""
    found = pieces_of(data)
    if found is None:
        raise CorrDPError(
            f"workers of an engine read files, a glob or a directory, got "
            f"{str(data)!r}. Export the table, for example to Parquet."
        )
    pieces = [piece.to_text() for piece in found]
    return EngineFiles(engine, pieces, tuple(number_columns))


@dataclass(frozen=True, eq=False)
class FileMaker:
    """Reads the pieces of a partition on its worker, and makes them into a part."""

    make: Maker
    number_columns: Sequence[str]

    @property
    def columns(self) -> Sequence[str]:
        """Columns of the engine's table: pieces."""
        return (PIECE,)

    @property
    def named_columns(self) -> Sequence[str]:
        """Columns that a message may name."""
        return self.make.columns

    def __call__(self, table: Any) -> Part:
        """Return what is kept of all pieces of a partition."""
        import pyarrow as pa

        texts = nw.from_native(table, eager_only=True)[PIECE].to_list()
        columns = list(self.make.columns)
        numbers = [name for name in self.number_columns if name in columns]
        held = [_no_rows(columns, numbers)]
        for text in texts:
            held += FilePiece.from_text(text).batches(columns, numbers)
        return self.make(pa.concat_tables(held, promote_options="permissive"))


def _no_rows(columns: Sequence[str], number_columns: Sequence[str]) -> Any:
    import pyarrow as pa

    types = {
        name: pa.float64() if name in number_columns else pa.string()
        for name in columns
    }
    return pa.schema(types).empty_table()

"""From batches of encoded rows to segments of tiles, in memory or in a mapped file.

No more than one segment of codes is in memory at a time. Where a segment ends is a
function of the row's number and of the policy alone, not of the batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray, JSONObject
from corrdp.exceptions import CorrDPError
from corrdp.policy import Block
from corrdp.tables import ArrayFile, ArrayFileWriter
from corrdp.training._layout import (
    GradientLayout,
    central_reference,
    standardizing_scale,
)
from corrdp.training._prepared_rows import (
    PreparedRows,
    SegmentHost,
    SegmentsHere,
    kernel_module,
    tile_order,
)
from corrdp.training._tiles import TILE_ARRAYS, RowTiles
from corrdp.training._totals import (
    CodeTotals,
    LabelTotals,
    add_exact,
    exact_sums,
    label_sums,
    rounded,
)
from corrdp.training.losses import Loss

SEGMENT_CODES = 2**22
"""Numbers in a segment of codes; rows are a power of two."""

_LEAST_ROWS, _MOST_ROWS = 2**12, 2**16
_SUMS, _LABELS, _COUNT = "code_sums", "exact_labels", "n_rows"


@dataclass(frozen=True, eq=False)
class Segment:
    """Consecutive rows: tiles, and what is asked of the rows only once."""

    tiles: RowTiles  # as kernels read them
    code_sums: IntArray  # (3, n_codes): sum of the encoded rows, exact (`exact_sums`)
    # (n_rows,): labels without rounding: indices in one byte each, numbers in double
    # precision.
    labels: NDArray[Any]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all of it as named arrays."""
        own = {name: getattr(self.tiles, name) for name in TILE_ARRAYS}
        count = np.array([self.tiles.n_rows])
        return {**own, _SUMS: self.code_sums, _LABELS: self.labels, _COUNT: count}

    @classmethod
    def of_rows(
        cls,
        codes: FloatArray,
        labels: FloatArray,
        layout: GradientLayout,
        *,
        compiled: bool,
        in_order: bool = False,
    ) -> "Segment":
        """Return encoded rows and labels as a segment, `in_order` for samples."""
        tiles = RowTiles.from_codes(
            codes,
            labels,
            layout,
            tile_order(layout),
            tile_rows=kernel_module(compiled).TILE_ROWS,
            arrange=not in_order,
        )
        return cls(tiles, exact_sums(codes), _short(labels))

    @classmethod
    def of_arrays(cls, arrays: dict[str, NDArray[Any]]) -> "Segment":
        """Return the segment that `arrays` gave."""
        tiles = RowTiles(
            **{name: arrays[name] for name in TILE_ARRAYS},
            n_rows=int(arrays[_COUNT][0]),
        )
        return cls(tiles, arrays[_SUMS], arrays[_LABELS])


@dataclass(frozen=True, eq=False)
class TiledTable:
    """A table ready to be trained on; its rows stay in their segments.

    Parameters
    ----------
    segments : sequence of Segment
        In the order of the rows.
    layout : GradientLayout
        By which rows were scaled and columns ordered.
    compiled : bool
        For which kernel tiles were cut.
    file : ArrayFile, optional
        File that holds the segments.
    """

    segments: Sequence[Segment]
    layout: GradientLayout
    compiled: bool
    file: ArrayFile | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(segment.tiles.n_rows for segment in self.segments)

    @property
    def totals(self) -> CodeTotals:
        """Sum of the encoded rows."""
        total = add_exact([segment.code_sums for segment in self.segments])
        return CodeTotals(rounded(total), self.n_rows)

    def label_totals(self, loss: Loss) -> LabelTotals:
        """Return the sums of the labels, or one count per label."""
        sums = [label_sums(segment.labels, loss) for segment in self.segments]
        return LabelTotals.rounded(add_exact(sums), self.n_rows, loss)

    def prepared(self, host: SegmentHost | None = None) -> PreparedRows:
        """Return the rows as training asks them; by default in this process."""
        tiles = [segment.tiles for segment in self.segments]
        if host is None and len(tiles) > 1:
            host = SegmentsHere(tiles)
        return PreparedRows(tiles[0], tile_order(self.layout), self.compiled, host)


def tiling_layout(blocks: Sequence[Block]) -> GradientLayout:
    """Return the layout that tiles of a policy are cut by, whatever will be planned.

    Columns lie role by role, as plans group them, and are scaled as plans scale them.
    """
    scale = standardizing_scale(blocks)
    return GradientLayout.by_role(
        blocks, column_scale=scale, column_offset=central_reference(blocks) * scale
    )


def segment_rows(n_codes: int) -> int:
    """Return how many rows a segment has: a function of the policy."""
    wanted = SEGMENT_CODES // max(n_codes, 1)
    power = 1 << max(wanted.bit_length() - 1, 0)
    return min(max(power, _LEAST_ROWS), _MOST_ROWS)


def tiled_in_memory(
    batches: Iterable[tuple[FloatArray, NDArray[Any]]],
    blocks: Sequence[Block],
    *,
    compiled: bool,
    in_order: bool = False,
) -> TiledTable:
    """Return a table of tiles in memory, from encoded rows and labels in batches.

    Rows that will be asked for by their numbers are kept `in_order`.
    """
    layout = tiling_layout(blocks)
    segments = list(_segments(batches, layout, compiled=compiled, in_order=in_order))
    return TiledTable(segments, layout, compiled)


def write_tiles(
    path: Path,
    batches: Iterable[tuple[FloatArray, NDArray[Any]]],
    blocks: Sequence[Block],
    *,
    compiled: bool,
    key: bytes,
    facts: JSONObject,
    in_order: bool = False,
    kept: bool = True,
) -> TiledTable:
    """Write tiles to a private file and return them, mapped.

    One that is not `kept` has no name, and is gone with the last process that has it.

    Raises
    ------
    CorrDPError
        If they cannot be written; nothing is left then.
    """
    layout = tiling_layout(blocks)
    with ArrayFileWriter(path, key=key, kept=kept) as writer:
        for segment in _segments(batches, layout, compiled=compiled, in_order=in_order):
            writer.add(segment.arrays())
        return _mapped(writer.finish(facts), layout, compiled)


def open_tiles(
    path: Path,
    blocks: Sequence[Block],
    *,
    compiled: bool,
    key: bytes,
    check: bool = True,
) -> TiledTable:
    """Return the tiles of a file, mapped; `ForeignFileError` if it is not whole."""
    file = ArrayFile(path, key=key, check=check)
    return _mapped(file, tiling_layout(blocks), compiled)


def _mapped(file: ArrayFile, layout: GradientLayout, compiled: bool) -> TiledTable:
    segments = [Segment.of_arrays(arrays) for arrays in file.segments]
    return TiledTable(segments, layout, compiled, file)


def cut_segments(
    batches: Iterable[tuple[FloatArray, NDArray[Any]]],
    layout: GradientLayout,
    *,
    compiled: bool,
    in_order: bool = False,
) -> Iterator[Segment]:
    """Yield the segments of encoded rows and labels in batches; none of no rows."""
    n_codes = layout.blocks[-1].stop
    for codes, labels in _cut(batches, segment_rows(n_codes), n_codes):
        yield Segment.of_rows(
            codes, labels, layout, compiled=compiled, in_order=in_order
        )


def _short(labels: FloatArray) -> NDArray[Any]:
    """Return a copy of labels, in bytes if those hold them: a pass reads past them."""
    with np.errstate(invalid="ignore"):
        bytes_each = labels.astype(np.uint8)
    return bytes_each if np.array_equal(bytes_each, labels) else labels.copy()


def _segments(
    batches: Iterable[tuple[FloatArray, NDArray[Any]]],
    layout: GradientLayout,
    *,
    compiled: bool,
    in_order: bool,
) -> Iterator[Segment]:
    n_segments = 0
    for segment in cut_segments(batches, layout, compiled=compiled, in_order=in_order):
        yield segment
        n_segments += 1
    if n_segments == 0:
        raise CorrDPError("the table has no rows. Pass a table with at least one.")


def _cut(
    batches: Iterable[tuple[FloatArray, NDArray[Any]]], size: int, n_codes: int
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield `size` rows at a time, the last ones fewer, whatever the batches are."""
    # Columns lie together, as tiles store them.
    codes, labels = np.empty((size, n_codes), order="F"), np.empty(size)
    filled = 0
    for batch, batch_labels in batches:
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + size - filled)
            end = filled + stop - start
            codes[filled:end], labels[filled:end] = (
                batch[start:stop],
                batch_labels[start:stop],
            )
            filled, start = end, stop
            if filled == size:
                yield codes, labels
                filled = 0
    if filled:
        yield codes[:filled], labels[:filled]

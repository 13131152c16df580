"""A table whose partitions others host: asked for sums, in the place of tiles.

The driver never holds a tile. It asks how many rows there are, once paid for the sums
of codes or of labels, and at every step for the gradient
(`docs/theory/scale.md`, section 3).
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError
from corrdp.policy import Block
from corrdp.training._prepared_rows import (
    Answer,
    PreparedRows,
    SampledQuestion,
    SegmentsHere,
    StepQuestion,
    added,
    kernel_module,
    tile_order,
)
from corrdp.training._tiles import RowTiles
from corrdp.training._tiling import Segment, cut_segments, tiling_layout
from corrdp.training._totals import (
    CodeTotals,
    LabelTotals,
    add_exact,
    label_sums,
    rounded,
)
from corrdp.training.losses import Loss

Ask = Callable[[Any], list[Answer]]
"""From a question to one answer of every partition."""

_MIXER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class TiledPart:
    """A partition as it is kept on a worker.

    Parameters
    ----------
    segments : sequence of Segment
        Its rows; one without rows if there are none.
    kernel : str
        Which kernel the tiles are for: all workers must have that of the driver.
    mark : int
        Sum of keyed hashes of the rows, and of one of the kernel: the same for the
        same rows in any order.
    n_clipped : int
        Rows outside the declared bounds, if they were counted.
    """

    segments: Sequence[Segment]
    kernel: str
    mark: int
    n_clipped: int = 0


def tiled_part(
    batches: Iterable[tuple[FloatArray, NDArray[Any]]],
    blocks: Sequence[Block],
    *,
    compiled: bool,
    key: bytes,
    in_order: bool = False,
) -> TiledPart:
    """Return a partition in tiles, from encoded rows and labels in batches.

    `key` is drawn for each fit: marks are told to the driver and compared there. If
    rows are asked for by their numbers, they are kept `in_order`, and rows in another
    order have another mark.
    """
    marks = [0]

    def marked() -> Iterable[tuple[FloatArray, NDArray[Any]]]:
        first = 0
        for codes, labels in batches:
            marks.append(_mark(codes, labels, key, first if in_order else None))
            first += len(labels)
            yield codes, labels

    layout = tiling_layout(blocks)
    segments = list(
        cut_segments(marked(), layout, compiled=compiled, in_order=in_order)
    )
    if not segments:  # a partition may be empty, a segment without rows adds nothing
        none = np.empty((0, blocks[-1].stop)), np.empty(0)
        segments = [Segment.of_rows(*none, layout, compiled=compiled)]
    kernel = kernel_module(compiled).__name__
    # Made again where another kernel is, it would answer in other integers.
    marks.append(int.from_bytes(hashlib.shake_256(kernel.encode()).digest(8), "big"))
    return TiledPart(segments, kernel, sum(marks) % 2**64)


@dataclass(frozen=True)
class PartFacts:
    """Asks for the number of rows, of clipped rows if counted, and for the kernel."""

    # Name of the driver's, which is not looked up where the question is answered.
    kernel: str

    def answer(self, part: TiledPart) -> Answer:
        """Return both numbers, and whether tiles are for the driver's kernel."""
        rows = sum(segment.tiles.n_rows for segment in part.segments)
        same = part.kernel == self.kernel
        return (np.array([rows, part.n_clipped, same], dtype=np.int64),)


@dataclass(frozen=True)
class CodeSums:
    """Asks for the exact sum of the encoded rows."""

    def answer(self, part: TiledPart) -> Answer:
        """Return what one partition adds."""
        return (add_exact([segment.code_sums for segment in part.segments]),)


@dataclass(frozen=True)
class LabelSums:
    """Asks for the exact sum of the labels, or one count per label."""

    loss: Loss

    def answer(self, part: TiledPart) -> Answer:
        """Return what one partition adds."""
        sums = [label_sums(segment.labels, self.loss) for segment in part.segments]
        return (add_exact(sums),)


@dataclass(frozen=True, eq=False)
class PartGradient:
    """Asks a partition for the gradient sum over all of its segments."""

    question: StepQuestion

    def answer(self, part: TiledPart) -> Answer:
        """Return what one partition adds."""
        tiles = [segment.tiles for segment in part.segments]
        return SegmentsHere(tiles).total(self.question)


@dataclass(frozen=True, eq=False)
class PartSamples:
    """Asks every partition for the gradient sum over its own drawn rows."""

    questions: Sequence[PartGradient]

    def at(self, place: int) -> PartGradient:
        """Return what the partition at a place is asked."""
        return self.questions[place]


class HostedTable:
    """A table of partitions that are asked; see `TiledTable`, in whose place it is.

    Parameters
    ----------
    ask : callable
        One answer of every partition to a question, in their order.
    blocks : sequence of Block
        Blocks of the encoder.
    compiled : bool
        For which kernel tiles were cut.

    Guarantee
    ---------
    Answers are exact and summed exactly; noise is added to totals by whoever asks
    (`docs/theory/scale.md`, Propositions 1, 3 and 4).
    """

    def __init__(self, ask: Ask, blocks: Sequence[Block], *, compiled: bool) -> None:
        self._ask, self._compiled = ask, compiled
        self._layout = tiling_layout(blocks)
        self._n_codes = blocks[-1].stop
        self._label_totals: LabelTotals | None = None
        kernel = kernel_module(compiled).__name__
        facts = np.array([answer[0] for answer in ask(PartFacts(kernel))])
        if not facts[:, 2].all():
            raise CorrDPError(
                "some workers have another kernel than this process: numba must be "
                "installed on all or on none. pip install corrdp[fast] there."
            )
        self._sizes = facts[:, 0].tolist()
        self.n_rows, self.n_clipped = (int(facts[:, i].sum()) for i in (0, 1))
        if self.n_rows == 0:
            raise CorrDPError("the table has no rows. Pass a table with at least one.")

    @cached_property
    def totals(self) -> CodeTotals:
        """Sum of the encoded rows."""
        total = add_exact([answer[0] for answer in self._ask(CodeSums())])
        return CodeTotals(rounded(total), self.n_rows)

    def label_totals(self, loss: Loss) -> LabelTotals:
        """Return the sums of the labels, or one count per label; asked for once."""
        if self._label_totals is None:
            total = add_exact([answer[0] for answer in self._ask(LabelSums(loss))])
            self._label_totals = LabelTotals.rounded(total, self.n_rows, loss)
        return self._label_totals

    def total(self, question: StepQuestion) -> Answer:
        """Return the sum of the answers of all partitions, each counted once."""
        if isinstance(question, SampledQuestion):
            own = [PartGradient(each) for each in question.cut(self._sizes)]
            return added(self._ask(PartSamples(own)))
        return added(self._ask(PartGradient(question)))

    def prepared(self, host: Any = None) -> PreparedRows:
        """Return the rows as training asks them: tiles without rows, and a host."""
        del host  # it is its own
        order = tile_order(self._layout)
        none = RowTiles.from_codes(
            np.empty((0, self._n_codes)), np.empty(0), self._layout, order, tile_rows=1
        )
        return PreparedRows(none, order, self._compiled, self)


def _mark(
    codes: FloatArray, labels: NDArray[Any], key: bytes, first: int | None
) -> int:
    """Return the sum of a keyed hash of every row, which no order of rows changes.

    With `first`, the number of the first row, numbers of rows are hashed with them.
    """
    numbers = np.column_stack([codes, labels.astype(np.float64)])
    if first is not None:
        numbered = np.arange(first, first + len(labels), dtype=np.float64)
        numbers = np.column_stack([numbers, numbered])
    words = hashlib.shake_256(key).digest(8 * numbers.shape[1])
    factors = np.frombuffer(words, dtype=np.uint64) | np.uint64(1)
    with np.errstate(over="ignore"):
        hashes = (numbers.view(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _MIXER
        hashes ^= hashes >> np.uint64(32)
        return int(hashes.sum(dtype=np.uint64))

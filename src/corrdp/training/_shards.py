"""What a step asks of rows that stay where they are, and how answers become one sum.

Rows are cut into segments, fixed when they are tiled. A question holds public numbers;
the answer of a segment is a tuple of integers, which add up exactly in any order. Noise
is added to their total, by whoever asked, and nowhere else (`docs/theory/scale.md`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.training._tiles import GroupRules, RowTiles
from corrdp.training.kernels import _plain
from corrdp.training.kernels._choice import kernel_module

Answer: TypeAlias = tuple[NDArray[np.int64], ...]
"""Integers that one segment answers; equally shaped for all segments."""


@dataclass(frozen=True, eq=False)
class GradientQuestion:
    """The gradient sum at public parameters, as every segment is asked for it.

    Parameters
    ----------
    coef, offset : array of float
        In the tiles' order; see the kernels.
    rules : GroupRules
        Groups, their norms and bounds.
    residual_bound : float or None
        As for the kernels.
    compiled : bool
        Whether the compiled kernel is asked.
    anchor : array of float, optional
        Parameters whose residuals are subtracted (variance reduction).

    Guarantee
    ---------
    None: answers are sums before noise, and exact; a repeated answer is the same
    integers (`docs/theory/scale.md`, Proposition 1).
    """

    coef: FloatArray
    offset: FloatArray
    rules: GroupRules
    residual_bound: float | None
    compiled: bool
    anchor: FloatArray | None = None

    def answer(self, rows: RowTiles) -> Answer:
        """Return what one segment adds."""
        answer: Answer = self._kernel.gradient_counts(rows, *self._terms, **self._more)
        return answer

    def cut(self, sizes: Sequence[int]) -> "Sequence[StepQuestion]":
        """Return what is asked of consecutive rows, so many at a time."""
        return [self] * len(sizes)

    def gradient(self, rows: RowTiles, total: Answer) -> tuple[FloatArray, int]:
        """Return the gradient and the number of small residuals that a total counts.

        `rows` is any segment: of it the declared ends of columns are read, which are
        public and the same in all.
        """
        gradient, n_inside = self._kernel.counted_gradient(
            rows, total, *self._terms, **self._more
        )
        return gradient, n_inside

    @property
    def _kernel(self) -> Any:
        plain = self.coef.ndim == 1 and self.anchor is None
        return kernel_module(self.compiled) if plain else _plain

    @property
    def _terms(self) -> tuple[FloatArray, FloatArray, GroupRules]:
        return self.coef, self.offset, self.rules

    @property
    def _more(self) -> dict[str, Any]:
        more: dict[str, Any] = {"residual_bound": self.residual_bound}
        return more if self.anchor is None else {**more, "anchor": self.anchor}


@dataclass(frozen=True, eq=False)
class SampledQuestion:
    """The gradient sum over rows that were drawn before anybody is asked.

    Parameters
    ----------
    question : GradientQuestion
        What is asked of the drawn rows.
    drawn : array of int
        Their numbers, rising, counted from the first row of what is asked.

    Guarantee
    ---------
    None: answers are sums before noise. Whoever is asked draws nothing, and whoever is
    asked again is asked for the same rows (`docs/theory/scale.md`, Proposition 5).
    """

    question: GradientQuestion
    drawn: IntArray

    def answer(self, rows: RowTiles) -> Answer:
        """Return what the drawn rows of one segment add."""
        return self.question.answer(rows.taken(self.drawn.astype(np.int64)))

    def cut(self, sizes: Sequence[int]) -> "Sequence[StepQuestion]":
        """Return what is asked of consecutive rows, so many at a time."""
        starts = np.concatenate([[0], np.cumsum(sizes)])
        cuts = np.searchsorted(self.drawn, starts)
        return [
            SampledQuestion(self.question, _short(self.drawn[a:b] - start))
            for start, (a, b) in zip(starts, pairwise(cuts), strict=False)
        ]


def _short(numbers: IntArray) -> IntArray:
    """Return row numbers in four bytes each, if they fit: they travel at every step."""
    fits = not numbers.size or numbers[-1] < 2**32
    return np.asarray(numbers.astype(np.uint32) if fits else numbers)


StepQuestion: TypeAlias = GradientQuestion | SampledQuestion
"""What a step asks: of all rows, or of a sample."""


class SegmentHost(Protocol):
    """Whoever keeps segments and asks all of them."""

    def total(self, question: StepQuestion) -> Answer:
        """Return the sum of the answers of all segments, each counted once."""
        ...


@dataclass(frozen=True, eq=False)
class SegmentsHere:
    """Segments in this process: in memory, or mapped from a file."""

    segments: Sequence[RowTiles]

    def total(self, question: StepQuestion) -> Answer:
        """Ask segment after segment."""
        asked = question.cut([rows.n_rows for rows in self.segments])
        return added(
            [each.answer(rows) for each, rows in zip(asked, self.segments, strict=True)]
        )


def added(answers: Sequence[Answer]) -> Answer:
    """Return the sum of answers, one per segment."""
    return reduce(
        lambda total, answer: tuple(a + b for a, b in zip(total, answer, strict=True)),
        answers,
    )

"""What a step asks of rows that stay where they are, and how answers become one sum.

Rows are cut into segments, fixed when they are tiled. A question holds public numbers;
the answer of a segment is a tuple of integers, which add up exactly in any order. Noise
is added to their total, by whoever asked, and nowhere else (`docs/theory/scale.md`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
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


class SegmentHost(Protocol):
    """Whoever keeps segments and asks all of them."""

    def total(self, question: GradientQuestion) -> Answer:
        """Return the sum of the answers of all segments, each counted once."""
        ...


@dataclass(frozen=True, eq=False)
class SegmentsHere:
    """Segments in this process: in memory, or mapped from a file."""

    segments: Sequence[RowTiles]

    def total(self, question: GradientQuestion) -> Answer:
        """Ask segment after segment."""
        return added([question.answer(rows) for rows in self.segments])


def added(answers: Sequence[Answer]) -> Answer:
    """Return the sum of answers, one per segment."""
    return reduce(
        lambda total, answer: tuple(a + b for a, b in zip(total, answer, strict=True)),
        answers,
    )

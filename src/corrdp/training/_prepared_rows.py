"""Rows as kernels read them, what a step asks of them, how answers become one sum.

Rows are cut into segments, fixed when they are tiled, and stay where they are. A
question holds public numbers; the answer of a segment is a tuple of integers, which add
up exactly in any order. Noise is added to their total, by whoever asked, and nowhere
else (`docs/theory/scale.md`).
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from types import ModuleType
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.training._layout import GradientLayout
from corrdp.training._solver import LARGEST_PARAMETER
from corrdp.training._tiles import GroupRules, Model, RowTiles
from corrdp.training.kernels import _plain
from corrdp.training.losses import check_residual_bound

Answer: TypeAlias = tuple[NDArray[np.int64], ...]
"""Integers that one segment answers; equally shaped for all segments."""


@dataclass(frozen=True, eq=False)
class GradientQuestion:
    """The gradient sum at public parameters, as every segment is asked for it.

    Notes
    -----
    Answers are sums before noise, not to be released, and exact: a repeated answer is
    the same integers (`docs/theory/scale.md`, Proposition 1).
    """

    model: Model
    compiled: bool  # whether the compiled kernel is asked, if it knows such models

    def answer(self, rows: RowTiles) -> Answer:
        """Return what one segment adds."""
        answer: Answer = self._kernel.gradient_counts(rows, self.model)
        return answer

    def cut(self, sizes: Sequence[int]) -> "Sequence[StepQuestion]":
        """Return what is asked of consecutive rows, so many at a time."""
        return [self] * len(sizes)

    def gradient(self, rows: RowTiles, total: Answer) -> tuple[FloatArray, int]:
        """Return the gradient and the number of small residuals that a total counts.

        `rows` is any segment: of it the declared ends of columns are read, which are
        public and the same in all.
        """
        gradient, n_inside = self._kernel.counted_gradient(rows, total, self.model)
        return gradient, n_inside

    @property
    def _kernel(self) -> ModuleType:
        """That in numpy for several outputs and for differences."""
        plain = self.model.coef.ndim == 1 and self.model.anchor is None
        return kernel_module(self.compiled and plain)


@dataclass(frozen=True, eq=False)
class SampledQuestion:
    """The gradient sum over rows that were drawn before anybody is asked.

    Notes
    -----
    Whoever is asked draws nothing, and whoever is asked again is asked for the same
    rows (`docs/theory/scale.md`, Proposition 5).
    """

    question: GradientQuestion  # what is asked of the drawn rows
    # Their numbers, rising, counted from the first row of what is asked.
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


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Rows scaled and tiled once, for any number of models.

    Parameters
    ----------
    rows : RowTiles
        Scaled features with the constant column, groups adjacent, sensitive first.
    order : array of int, shape (n_columns,)
        Column of the layout at each place of the tiles.
    compiled : bool
        Whether the compiled kernel passes over them.
    host : SegmentHost, optional
        Who asks the segments of a table that has several, of which `rows` is the
        first; None if `rows` is all.
    """

    rows: RowTiles
    order: IntArray
    compiled: bool
    host: SegmentHost | None = None

    def grouped(self, layout: GradientLayout) -> "GroupedRows":
        """Return the rows as one model sees them."""
        rules = _group_rules(layout, self.order)
        constant = np.zeros(int(layout.has_intercept))
        offset = np.append(layout.column_offset, constant)[self.order]
        return GroupedRows(self, rules, offset)


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows with the groups, norms and offsets of one model."""

    prepared: PreparedRows  # the rows, shared between models
    rules: GroupRules  # what the kernel does to each group
    # (n_columns,): what is subtracted from every column, in the tiles' order.
    offset: FloatArray

    def gradient_sum(
        self,
        coef: FloatArray,
        *,
        residual_bound: float | None,
        anchor: FloatArray | None = None,
        drawn: IntArray | None = None,
    ) -> tuple[FloatArray, int]:
        """Return the clipped gradient sum in the layout's order; see the kernel.

        With `drawn`, rising numbers of rows, the sum over those alone: by the kernel
        in numpy, since a sample is prepared for one pass.

        Notes
        -----
        The sum before noise, not to be released (`docs/theory/solvers.md`, section 1).
        """
        _check_public(coef, residual_bound)
        prepared, order = self.prepared, self.prepared.order
        there = None if anchor is None else anchor[order]
        question = GradientQuestion(
            Model(coef[order], self.offset, self.rules, residual_bound, there),
            prepared.compiled and drawn is None,
        )
        asked: StepQuestion = question
        if drawn is not None:
            asked = SampledQuestion(question, drawn)
        total = (
            asked.answer(prepared.rows)
            if prepared.host is None
            else prepared.host.total(asked)
        )
        summed, n_inside = question.gradient(prepared.rows, total)
        gradient = np.empty_like(summed)
        gradient[order] = summed
        return gradient, n_inside


def gradient_sums(
    models: Sequence[GroupedRows],
    coefs: FloatArray,
    residual_bounds: Sequence[float | None],
) -> list[tuple[FloatArray, int]]:
    """Return what `gradient_sum` gives for each model, in one pass over shared rows.

    All models are of the same `PreparedRows`; `coefs` has one row for each.

    Notes
    -----
    Sums before noise, not to be released (`docs/theory/solvers.md`, section 1).
    """
    for coef, bound in zip(coefs, residual_bounds, strict=True):
        _check_public(coef, bound)
    prepared = models[0].prepared
    module = kernel_module(prepared.compiled)
    alone = prepared.host is not None or coefs.ndim == 3
    if alone or not hasattr(module, "gradient_sums"):
        return [
            model.gradient_sum(coef, residual_bound=bound)
            for model, coef, bound in zip(models, coefs, residual_bounds, strict=True)
        ]
    terms = zip(models, coefs[:, prepared.order], residual_bounds, strict=True)
    asked = [Model(coef, own.offset, own.rules, bound) for own, coef, bound in terms]
    summed, inside = module.gradient_sums(prepared.rows, asked)
    gradients = np.empty_like(summed)
    gradients[:, prepared.order] = summed
    return list(zip(gradients, inside.tolist(), strict=True))


def prepare_rows(
    codes: FloatArray,
    y: NDArray[Any],
    layout: GradientLayout,
    *,
    compiled: bool = True,
    sort_rows: bool = True,
) -> PreparedRows:
    """Scale and tile encoded rows once, for every step of every model.

    Parameters
    ----------
    codes : array of float, shape (n_rows, n_codes)
        Rows of the encoder.
    y : array of float, shape (n_rows,)
        Labels.
    layout : GradientLayout
        Scaling, and the order of columns: its groups one after the other.
    compiled : bool
        False to use numpy even where numba is installed.
    sort_rows : bool
        Whether to bring like rows together, which pays if many passes are to come.
    """
    order = tile_order(layout)
    tile_rows = kernel_module(compiled).TILE_ROWS
    rows = RowTiles.from_codes(
        codes, y, layout, order, tile_rows=tile_rows, arrange=sort_rows
    )
    return PreparedRows(rows, order, compiled)


def tile_order(layout: GradientLayout) -> IntArray:
    """Return the columns group by group, sensitive ones first."""
    return np.lexsort((~_sensitive(layout), layout.column_groups))


def _sensitive(layout: GradientLayout) -> NDArray[np.bool_]:
    """Mask of the columns of sensitive features, the intercept's included."""
    constant = np.zeros(int(layout.has_intercept), dtype=bool)
    return np.append(layout.sensitive_columns, constant)


def _check_public(coef: FloatArray, residual_bound: float | None) -> None:
    """Refuse what single precision cannot hold; both numbers are public."""
    if not np.abs(coef).max(initial=0.0) <= LARGEST_PARAMETER:
        raise CorrDPError(
            f"parameters must lie between plus and minus {LARGEST_PARAMETER:g}, got "
            f"{np.abs(coef).max():g} as the largest. Project them on a box, as "
            "Solver.projected does."
        )
    if residual_bound is not None:
        check_residual_bound("residual_bound", residual_bound)


def _group_rules(layout: GradientLayout, order: IntArray) -> GroupRules:
    groups = layout.groups
    placed = layout.column_groups[order]
    if (np.diff(placed) < 0).any():
        raise GuaranteeVoidError(
            f"the groups {[group.name for group in groups]} are not adjacent in the "
            "prepared rows, so they would be clipped wrongly. Prepare the rows with "
            "groups by role."
        )
    sizes = np.bincount(placed, minlength=len(groups))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    bounded = any(math.isfinite(group.influence_bound) for group in groups)
    sensitive = _sensitive(layout)[order]
    n_sensitive = int(np.count_nonzero(sensitive)) if bounded else 0
    if not sensitive[:n_sensitive].all():
        raise GuaranteeVoidError(
            "an influence bound needs all sensitive features in the first group, got "
            f"sensitive features in the groups "
            f"{sorted({groups[i].name for i in placed[sensitive]})}. Join them into "
            "one group and put it first, as GradientLayout.by_role does."
        )
    return GroupRules(
        starts=starts,
        n_sensitive=n_sensitive,
        feature_radius=np.array([group.feature_radius for group in groups]),
        clip_norm=np.array([group.clip_norm for group in groups]),
        influence_bound=np.array([group.influence_bound for group in groups]),
    )


_kernel: ModuleType = _plain
with suppress(ImportError):  # numba comes with the extra "fast"
    from corrdp.training.kernels import _compiled

    _kernel = _compiled


def kernel_module(compiled: bool) -> ModuleType:
    """Return the compiled kernel if it is wanted and there, else the one in numpy."""
    return _kernel if compiled else _plain

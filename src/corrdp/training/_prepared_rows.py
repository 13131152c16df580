"""Prepared rows and the kernel that passes over them: compiled if numba is there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.training._layout import GradientLayout
from corrdp.training._shards import (
    GradientQuestion,
    SampledQuestion,
    SegmentHost,
    StepQuestion,
)
from corrdp.training._solver import LARGEST_PARAMETER
from corrdp.training._tiles import GroupRules, RowTiles
from corrdp.training.kernels._choice import kernel_module
from corrdp.training.losses import check_residual_bound


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
    """Rows with the groups, norms and offsets of one model.

    Parameters
    ----------
    prepared : PreparedRows
        The rows, shared between models.
    rules : GroupRules
        What the kernel does to each group.
    offset : array of float, shape (n_columns,)
        What is subtracted from every column, in the tiles' order.
    """

    prepared: PreparedRows
    rules: GroupRules
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
        question = GradientQuestion(
            coef[order],
            self.offset,
            self.rules,
            residual_bound,
            prepared.compiled and drawn is None,
            anchor=None if anchor is None else anchor[order],
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

    Parameters
    ----------
    models : sequence of GroupedRows
        All of the same `PreparedRows`.
    coefs : array of float, shape (n_models, n_columns[, n_outputs])
        Parameters of each model.
    residual_bounds : sequence of float or None
        As for the kernel.

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
    summed, inside = module.gradient_sums(
        prepared.rows,
        coefs[:, prepared.order],
        np.array([model.offset for model in models]),
        [model.rules for model in models],
        residual_bounds=residual_bounds,
    )
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

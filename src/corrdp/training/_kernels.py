"""Prepared rows and the kernel that passes over them: compiled if numba is there."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import GuaranteeVoidError
from corrdp.training import _kernel_numpy
from corrdp.training._layout import GradientLayout, GroupRole
from corrdp.training._tiles import GroupRules, RowTiles

_kernel: ModuleType = _kernel_numpy
with suppress(ImportError):  # numba comes with the extra "fast"
    from corrdp.training import _kernel_numba

    _kernel = _kernel_numba


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
    """

    rows: RowTiles
    order: IntArray
    compiled: bool

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
        residual_bound: float,
        anchor: FloatArray | None = None,
    ) -> tuple[FloatArray, int]:
        """Return the clipped gradient sum in the layout's order; see the kernel.

        Guarantee
        ---------
        None: this is the sum before noise (`docs/theory/solvers.md`, section 1).
        """
        order = self.prepared.order
        rows, bound = self.prepared.rows, residual_bound
        at = coef[order], self.offset, self.rules
        if coef.ndim == 2 or anchor is not None:
            there = None if anchor is None else anchor[order]
            summed, n_inside = _kernel_numpy.gradient_sum(
                rows, *at, residual_bound=bound, anchor=there
            )
        else:
            module = _module(self.prepared.compiled)
            summed, n_inside = module.gradient_sum(rows, *at, residual_bound=bound)
        gradient = np.empty_like(summed)
        gradient[order] = summed
        return gradient, n_inside


def gradient_sums(
    models: Sequence[GroupedRows], coefs: FloatArray, residual_bounds: Sequence[float]
) -> list[tuple[FloatArray, int]]:
    """Return what `gradient_sum` gives for each model, in one pass over shared rows.

    Parameters
    ----------
    models : sequence of GroupedRows
        All of the same `PreparedRows`.
    coefs : array of float, shape (n_models, n_columns[, n_outputs])
        Parameters of each model.
    residual_bounds : sequence of float
        As for the kernel.

    Guarantee
    ---------
    None: these are the sums before noise (`docs/theory/solvers.md`, section 1).
    """
    prepared = models[0].prepared
    module = _module(prepared.compiled)
    if not hasattr(module, "gradient_sums") or coefs.ndim == 3:
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
    passes: bool = True,
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
    passes : bool
        Whether there are many passes to come, so that arranging the rows pays.
    """
    order = np.argsort(layout.column_groups, kind="stable")
    tile_rows = _module(compiled).TILE_ROWS
    rows = RowTiles.from_codes(
        codes, y, layout, order, tile_rows=tile_rows, arrange=passes
    )
    return PreparedRows(rows, order, compiled)


def _module(compiled: bool) -> ModuleType:
    return _kernel if compiled else _kernel_numpy


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
    leading = layout.roles[0] is GroupRole.SENSITIVE
    if bounded and GroupRole.SENSITIVE in layout.roles[1:]:
        raise GuaranteeVoidError(
            "an influence bound needs all sensitive features in the first group, got "
            f"sensitive groups among {[group.name for group in groups[1:]]}. Join them "
            "into one group and put it first, as GradientLayout.by_role does."
        )
    return GroupRules(
        starts=starts,
        n_sensitive=int(starts[1]) if bounded and leading else 0,
        feature_radius=np.array([group.feature_radius for group in groups]),
        clip_norm=np.array([group.clip_norm for group in groups]),
        influence_bound=np.array([group.influence_bound for group in groups]),
    )

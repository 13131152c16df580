"""Prepared rows and the kernel that passes over them: compiled if numba is there."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.training import _kernel_numpy
from corrdp.training._layout import GradientLayout, GroupRole
from corrdp.training._tiles import GroupRules, RowTiles

_kernel: ModuleType = _kernel_numpy
with suppress(ImportError):  # numba comes with the extra "fast"
    from corrdp.training import _kernel_numba

    _kernel = _kernel_numba


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Features in the kernel's order of columns: groups adjacent, sensitive first.

    Parameters
    ----------
    rows : RowTiles
        Scaled and centered features with the constant column.
    rules : GroupRules
        What the kernel does to each group.
    order : array of int, shape (n_columns,)
        Column of the layout at each place of the tiles.
    kernel : callable
        `gradient_sum` of one of the kernels.
    """

    rows: RowTiles
    rules: GroupRules
    order: IntArray
    kernel: Callable[..., tuple[FloatArray, int]]

    def gradient_sum(
        self, coef: FloatArray, *, residual_bound: float
    ) -> tuple[FloatArray, int]:
        """Return the clipped gradient sum in the layout's order; see the kernel.

        Guarantee
        ---------
        None: this is the sum before noise.
        """
        summed, n_inside = self.kernel(
            self.rows, coef[self.order], self.rules, residual_bound=residual_bound
        )
        gradient = np.empty_like(summed)
        gradient[self.order] = summed
        return gradient, n_inside


def prepare_rows(
    codes: FloatArray, y: NDArray[Any], layout: GradientLayout, *, compiled: bool = True
) -> PreparedRows:
    """Scale, center and tile encoded rows once, for every step of training.

    Parameters
    ----------
    codes : array of float, shape (n_rows, n_codes)
        Rows of the encoder.
    y : array of float, shape (n_rows,)
        Labels.
    layout : GradientLayout
        Groups, scaling and offsets.
    compiled : bool
        False to use numpy even where numba is installed.
    """
    groups = layout.groups
    order = np.argsort(layout.column_groups, kind="stable")
    sizes = np.bincount(layout.column_groups, minlength=len(groups))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    bounded = any(math.isfinite(group.influence_bound) for group in groups)
    leading = layout.roles[0] is GroupRole.SENSITIVE
    rules = GroupRules(
        starts=starts,
        n_sensitive=int(starts[1]) if bounded and leading else 0,
        feature_radius=np.array([group.feature_radius for group in groups]),
        clip_norm=np.array([group.clip_norm for group in groups]),
        influence_bound=np.array([group.influence_bound for group in groups]),
    )
    module = _kernel if compiled else _kernel_numpy
    tiles = RowTiles.from_codes(codes, y, layout, order, tile_rows=module.TILE_ROWS)
    return PreparedRows(tiles, rules, order, module.gradient_sum)

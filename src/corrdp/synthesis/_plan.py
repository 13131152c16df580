r"""Noise of the tables of one stage, within a budget that was fixed in advance.

A table of counts moves by :math:`\sqrt 2` when one of its columns changes in a record,
and not at all otherwise. Discrete Gaussian noise of scale :math:`\sigma` therefore
costs a neighbor class :math:`\rho = 1/\sigma^2` for every table that holds a column the
class may change: linear in the precisions, so the least noise is a convex program, and
exact in rational arithmetic.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np
from scipy.sparse import csr_array

from corrdp._typing import FloatArray
from corrdp.accounting import allocate_noise
from corrdp.exceptions import GuaranteeVoidError
from corrdp.mechanisms.noise import grid_scales
from corrdp.synthesis._junction_tree import Region, n_cells

MEAN_ABSOLUTE = math.sqrt(2.0 / math.pi)  # of a standard normal number
_MARGIN = 1.0 + 1e-9  # the search for the least noise ends at its last digits
# Of the tables that are noise, and of all of them: each allocation takes long if many.
_DROPPED_AT_ONCE, _LEAST_DROPPED = 0.15, 0.002

Number = TypeVar("Number", float, FloatArray)


@dataclass(frozen=True, eq=False)
class StagePlan:
    r"""Tables to measure, and the scale of the noise on each.

    The noise is discrete Gaussian, of scale 0 for a table that no class moves;
    `changed` are the columns that each neighbor class may change, `limits` the most
    that the stage may cost it.

    Guarantee
    ---------
    Measuring all tables with this noise is :math:`\rho_c`-concentrated DP for
    neighbors of class ``c``, with :math:`\rho_c` at most ``limits[c]``, checked in
    rational arithmetic (`docs/theory/synthesis.md`, Theorem 1).
    """

    regions: tuple[Region, ...]
    scales: tuple[Fraction, ...]
    changed: Mapping[str, frozenset[int]]
    limits: Mapping[str, float]

    def __post_init__(self) -> None:
        moved = frozenset[int]().union(*self.changed.values())
        for region, scale in zip(self.regions, self.scales, strict=True):
            if scale < 0 or (scale == 0 and not moved.isdisjoint(region)):
                raise GuaranteeVoidError(
                    f"the table of columns {region} moves between neighbors and has "
                    f"noise scale {float(scale)!r}. Give it a positive scale."
                )
        for name, limit in self.limits.items():
            if self.cost(name) > Fraction(limit):
                raise GuaranteeVoidError(
                    f"the tables cost class {name!r} rho={float(self.cost(name))!r}, "
                    f"the stage allows {limit!r}. Add noise."
                )

    def cost(self, class_name: str) -> Fraction:
        """Return what measuring costs a class, exactly."""
        return self._costs[class_name]

    @cached_property
    def _costs(self) -> dict[str, Fraction]:
        holding: dict[int, list[int]] = {}  # places of the tables with a column
        for place, region in enumerate(self.regions):
            for column in region:
                holding.setdefault(column, []).append(place)
        costs = {}
        for name, columns in self.changed.items():
            moved = {place for column in columns for place in holding.get(column, ())}
            # Wide stages have few distinct scales, and sums of fractions are slow.
            counts = Counter(self.scales[place] for place in moved)
            costs[name] = sum(
                (n_tables / scale**2 for scale, n_tables in counts.items()),
                Fraction(0),
            )
        return costs


def _moves(
    regions: Sequence[Region], n_columns: int, changed: Sequence[frozenset[int]]
) -> csr_array:
    """Return 1 where a class may change a column of a region, else 0."""
    columns = [column for region in regions for column in region]
    ends = np.cumsum([0, *map(len, regions)])
    holds = csr_array((np.ones(ends[-1]), columns, ends), (len(regions), n_columns))
    own = [sorted(columns) for columns in changed]
    ends = np.cumsum([0, *map(len, own)])
    flat = [column for columns in own for column in columns]
    moves = csr_array((np.ones(ends[-1]), flat, ends), (len(own), n_columns)) @ holds.T
    return moves.minimum(1.0)


def _least_noise(
    moves: csr_array, cells: FloatArray, limits: Mapping[str, float]
) -> FloatArray:
    """Return the scales of least total variance within the limits."""
    moved = moves.sum(axis=0) > 0
    scales = np.zeros(len(cells))
    if moved.any():
        allocation = allocate_noise(
            math.sqrt(2.0) * moves[:, moved],
            budget_mu=np.sqrt(2.0 * np.array(list(limits.values()))),
            sizes=cells[moved],
        )
        scales[moved] = grid_scales(allocation.noise_scale * _MARGIN)
    return scales


def plan_stage(
    regions: Sequence[Region],
    *,
    sizes: Sequence[int],
    changed: Mapping[str, frozenset[int]],
    limits: Mapping[str, float],
    n_rows: int = 1,
    most_noise: float = math.inf,
) -> StagePlan:
    """Return the noise of least total variance within the limits.

    Regions are distinct; `changed` and `limits` are those of `StagePlan`, where a class
    without a limit is priced only. Tables whose expected noise is above `most_noise` of
    the rows would be noise and little else: they are left out, the worst first, and the
    others share what they would have cost. Public numbers decide.
    """
    moves = _moves(regions, len(sizes), [changed[name] for name in limits])
    cells = np.array([n_cells(r, sizes) for r in regions], dtype=np.float64)
    kept = np.arange(len(regions))
    while True:
        scales = _least_noise(moves[:, kept], cells[kept], limits)
        noise = expected_noise(scales, cells[kept], n_rows)
        excess = int(np.sum(noise > most_noise))
        if not excess:
            used = tuple(regions[place] for place in kept.tolist())
            exact = tuple(map(Fraction, scales.tolist()))
            return StagePlan(used, exact, changed, limits)
        least = max(1, int(_LEAST_DROPPED * kept.size))
        n_dropped = max(int(_DROPPED_AT_ONCE * excess), min(least, excess))
        kept = np.delete(kept, np.argsort(-noise, kind="stable")[:n_dropped])


def expected_noise(noise_scale: Number, cells: Number, n_rows: int) -> Number:
    """Return the expected 1-norm of a table's noise, as a part of the rows."""
    return MEAN_ABSOLUTE * noise_scale * cells / n_rows

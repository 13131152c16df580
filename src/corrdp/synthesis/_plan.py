r"""Noise of the tables of one stage, within a budget that was fixed in advance.

A table of counts moves by :math:`\sqrt 2` when one of its columns changes in a record,
and not at all otherwise. Discrete Gaussian noise of scale :math:`\sigma` therefore
costs a neighbor class :math:`\rho = 1/\sigma^2` for every table that holds a column the
class may change: linear in the precisions, so the least noise is a convex program, and
exact in rational arithmetic.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from corrdp.accounting import WHOLE_RECORD, allocate_noise
from corrdp.exceptions import GuaranteeVoidError
from corrdp.mechanisms.noise import grid_scale
from corrdp.synthesis._junction_tree import Region, n_cells

MEAN_ABSOLUTE = math.sqrt(2.0 / math.pi)  # of a standard normal number
_MARGIN = 1.0 + 1e-9  # the search for the least noise ends at its last digits
_DROPPED_AT_ONCE = 0.15


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
        for name, limit in self.limits.items():
            if self.cost(name) > Fraction(limit):
                raise GuaranteeVoidError(
                    f"the tables cost class {name!r} rho={float(self.cost(name))!r}, "
                    f"the stage allows {limit!r}. Add noise."
                )
        for region, scale in zip(self.regions, self.scales, strict=True):
            moved = any(set(region) & columns for columns in self.changed.values())
            if scale < 0 or (moved and scale == 0):
                raise GuaranteeVoidError(
                    f"the table of columns {region} moves between neighbors and has "
                    f"noise scale {float(scale)!r}. Give it a positive scale."
                )

    def cost(self, class_name: str) -> Fraction:
        """Return what measuring costs a class, exactly."""
        columns = self.changed[class_name]
        return sum(
            (
                1 / scale**2
                for region, scale in zip(self.regions, self.scales, strict=True)
                if columns.intersection(region)
            ),
            Fraction(0),
        )


def plan_stage(
    regions: Sequence[Region],
    *,
    sizes: Sequence[int],
    changed: Mapping[str, frozenset[int]],
    limits: Mapping[str, float],
) -> StagePlan:
    """Return the noise of least total variance within the limits.

    Regions are distinct; `changed` and `limits` are those of `StagePlan`, where a class
    without a limit is priced only.
    """
    names = list(limits)
    moves = np.array(
        [[bool(changed[name].intersection(r)) for r in regions] for name in names],
        dtype=float,
    ).reshape(len(names), len(regions))
    moved = moves.max(axis=0, initial=0.0) > 0
    scales = [Fraction(0)] * len(regions)
    if moved.any():
        allocation = allocate_noise(
            math.sqrt(2.0) * moves[:, moved],
            budget_mu=np.sqrt(2.0 * np.array([limits[name] for name in names])),
            sizes=np.array([n_cells(r, sizes) for r in regions], dtype=np.float64)[
                moved
            ],
        )
        found = iter(allocation.noise_scale.tolist())
        scales = [
            grid_scale(next(found) * _MARGIN) if own else Fraction(0) for own in moved
        ]
    return StagePlan(tuple(regions), tuple(scales), changed, limits)


def plan_useful(
    regions: Sequence[Region],
    *,
    sizes: Sequence[int],
    changed: Mapping[str, frozenset[int]],
    limits: Mapping[str, float],
    n_rows: int,
    most_noise: float,
) -> StagePlan:
    """Return a plan without the tables that would be noise and little else.

    Tables whose expected noise is above `most_noise` of the rows are left out, the
    worst first, and the others share what they would have cost. Public numbers decide.
    """
    kept = list(regions)
    while True:
        plan = plan_stage(kept, sizes=sizes, changed=changed, limits=limits)
        noise = np.array(
            [
                expected_noise(float(scale), n_cells(region, sizes), n_rows)
                for region, scale in zip(plan.regions, plan.scales, strict=True)
            ]
        )
        excess = int(np.sum(noise > most_noise))
        if not excess:
            return plan
        worst = np.argsort(-noise, kind="stable")
        dropped = set(worst[: max(1, int(_DROPPED_AT_ONCE * excess))].tolist())
        kept = [region for i, region in enumerate(kept) if i not in dropped]


def expected_noise(noise_scale: float, cells: int, n_rows: int) -> float:
    """Return the expected 1-norm of a table's noise, as a part of the rows."""
    return MEAN_ABSOLUTE * noise_scale * cells / n_rows


def whole_record_limit(
    regions: Sequence[Region],
    *,
    sizes: Sequence[int],
    changed: Mapping[str, frozenset[int]],
    limits: Mapping[str, float],
) -> float:
    """Return a limit for the whole record that hardly ever binds, from public numbers.

    What a stage chosen from noisy tables costs a change of the whole record must be
    fixed in advance too, or its price would not be a claim.
    """
    plan = plan_stage(regions, sizes=sizes, changed=changed, limits=limits)
    return 1.5 * float(plan.cost(WHOLE_RECORD))

"""Rows of the bound, and the pair of residuals that each of them stands for."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from corrdp.policy import NeighborClass
from corrdp.training._layout import GradientLayout
from corrdp.training._losses import LogisticLoss, Loss
from corrdp.training._sensitivity_geometry import FeatureGeometry


class Corner(IntEnum):
    """Gap between the two residuals of a row.

    `LOW` and `HIGH` are, in order, the gap at which the larger residual must begin to
    fall and the gap beyond which influence bounds hold. `FLIP` is the largest gap
    when the label changes the sign; `FREE` and `FREE_FLIP` ignore that the residuals
    of neighbors are close.
    """

    ZERO = 0
    LOW = 1
    HIGH = 2
    END = 3
    FLIP = 4
    FREE = 5
    FREE_FLIP = 6


@dataclass(frozen=True, slots=True)
class Chain:
    """Rows of one class for one case of the label, in order of the gap.

    Parameters
    ----------
    neighbor : NeighborClass
        The class.
    flips : bool
        Whether the label changes the sign of the residual.
    reference_fixed : bool
        Whether the residual at the reference is the same for both records.
    corners : tuple of Corner
        One row each.
    """

    neighbor: NeighborClass
    flips: bool
    reference_fixed: bool
    corners: tuple[Corner, ...]

    @property
    def probes(self) -> tuple[Corner, Corner, Corner]:
        """Smallest, largest and unrelated residuals, for groups bound by influence."""
        if self.flips:
            return Corner.FLIP, Corner.FLIP, Corner.FREE_FLIP
        return Corner.ZERO, Corner.END, Corner.FREE


def chains_of(
    loss: Loss,
    layout: GradientLayout,
    geometries: Sequence[FeatureGeometry],
    classes: Sequence[NeighborClass],
) -> Iterator[Chain]:
    """Yield the chains of all classes, in order.

    A logistic label that changes flips the sign of the residual and gets a chain of
    its own; for other losses a change of the label only widens the gap.
    """
    bounded = {
        index
        for index, group in enumerate(layout.groups)
        if math.isfinite(group.influence_bound)
    }
    signed = isinstance(loss, LogisticLoss)
    for neighbor in classes:
        changed = [g for g in geometries if g.name in neighbor.features]
        flips = signed and neighbor.label_changes
        fixed = all(g.sensitive for g in changed)
        if changed or not flips:
            keeps = fixed and (signed or not neighbor.label_changes)
            shares = any(g.group not in bounded for g in changed)
            corners: tuple[Corner, ...] = (Corner.END,)
            if shares and loss.n_outputs == 1:
                kinks = keeps and bool(bounded)
                inner = (Corner.LOW,) * (signed or kinks)
                inner += (Corner.HIGH,) * (signed and kinks)
                corners = (Corner.ZERO, *inner, Corner.END)
            yield Chain(neighbor, False, keeps, corners)
        if flips:
            yield Chain(neighbor, True, False, (Corner.FLIP,))

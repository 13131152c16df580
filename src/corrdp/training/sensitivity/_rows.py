"""Rows of the bound, and the pair of residuals that each of them stands for."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from corrdp.policy import NeighborClass
from corrdp.training._layout import GradientLayout
from corrdp.training.losses import Loss
from corrdp.training.sensitivity._corners import ChangedFeatures, FeatureGeometry


class Corner(IntEnum):
    """Gap between the two residuals of a row.

    `FIRST` to `THIRD` are, in order of size: the gap at which the larger residual must
    begin to fall, the gap beyond which influence bounds hold, and the gap at which
    the movement of a changed group passes its clip norm. `FLIP` is the largest gap
    when the label changes the sign; `FREE` and `FREE_FLIP` ignore that the residuals
    of neighbors are close.
    """

    ZERO = 0
    FIRST = 1
    SECOND = 2
    THIRD = 3
    END = 4
    FLIP = 5
    FREE = 6
    FREE_FLIP = 7


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
    capped_group : int
        Changed group whose clip norm gets a corner, -1 for none.
    """

    neighbor: NeighborClass
    flips: bool
    reference_fixed: bool
    corners: tuple[Corner, ...]
    capped_group: int = -1

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
    signed = loss.label_fixes_sign
    all_changed = ChangedFeatures(geometries)
    for neighbor in classes:
        changed = all_changed.of(neighbor.features)
        flips = signed and neighbor.label_changes
        fixed = all(g.sensitive for g in changed)
        if changed or not flips:
            keeps = fixed and (signed or not neighbor.label_changes)
            shared = [g.group for g in changed if g.group not in bounded]
            if not shared or loss.n_outputs > 1:
                yield Chain(neighbor, False, keeps, (Corner.END,))
            else:
                clipped = [
                    i for i in shared if math.isfinite(layout.groups[i].clip_norm)
                ]
                n_inner = signed + (keeps and bool(bounded)) + bool(clipped)
                inner = (Corner.FIRST, Corner.SECOND, Corner.THIRD)[:n_inner]
                corners = (Corner.ZERO, *inner, Corner.END)
                largest = max(clipped, key=clipped.count, default=-1)
                yield Chain(neighbor, False, keeps, corners, largest)
        if flips:
            yield Chain(neighbor, True, False, (Corner.FLIP,))

"""Variance reduction: whole gradients now and then, differences to them in between."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from corrdp._typing import FloatArray

SNAPSHOT_SHARE = 2 / 3  # of mu**2, for whole gradients; the rest is for differences
SVRG_EPOCH_STEPS = 10


@dataclass(frozen=True, slots=True)
class Schedule:
    """How many whole gradients and how many differences a training run releases.

    Parameters
    ----------
    n_steps : int
        Number of both together.
    epoch_steps : int
        Every epoch begins with a whole gradient, at its anchor; the other steps
        release differences to the gradient at the anchor. 1 for none.

    Guarantee
    ---------
    Counts and shares are functions of public numbers, fixed before training
    (`docs/theory/solvers.md`, section 3).
    """

    n_steps: int
    epoch_steps: int = 1

    @property
    def n_snapshots(self) -> int:
        """Number of whole gradients."""
        return -(-self.n_steps // self.epoch_steps)

    @property
    def n_differences(self) -> int:
        """Number of differences."""
        return self.n_steps - self.n_snapshots

    def snapshot_mu(self, gradient_mu: Mapping[str, float]) -> dict[str, float]:
        """Return what one whole gradient may cost, given what all releases may."""
        share = SNAPSHOT_SHARE if self.n_differences else 1.0
        factor = math.sqrt(share / self.n_snapshots)
        return {name: factor * mu for name, mu in gradient_mu.items()}

    def difference_mu(self, gradient_mu: Mapping[str, float]) -> dict[str, float]:
        """Return what one difference may cost, given what all releases may."""
        factor = math.sqrt((1.0 - SNAPSHOT_SHARE) / max(self.n_differences, 1))
        return {name: factor * mu for name, mu in gradient_mu.items()}


class Epochs:
    """What an epoch remembers: its anchor and the noisy gradient released there.

    Parameters
    ----------
    epoch_steps : int
        As for `Schedule`; with 1, noisy gradients pass unchanged.
    """

    def __init__(self, epoch_steps: int) -> None:
        self._length = epoch_steps
        self._left = 0
        self._variance = 0.0
        self._snapshot: FloatArray | None = None
        self._anchor: FloatArray | None = None

    @property
    def anchor(self) -> FloatArray | None:
        """Parameters to which the next step asks the difference; None: whole."""
        return self._anchor if self._left else None

    def gradient(
        self, noisy: FloatArray, variance: float, coef: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the gradient that a release amounts to, and the variance that counts.

        The noise of a whole gradient is repeated in every step of its epoch: it counts
        once for each.

        Guarantee
        ---------
        A function of what was released (`docs/theory/solvers.md`, section 3).
        """
        if self._snapshot is None or self.anchor is None:
            self._snapshot, self._anchor = noisy, coef
            self._variance, self._left = self._length * variance, self._length - 1
            return noisy, self._variance
        self._left -= 1
        return self._snapshot + noisy, self._variance + variance

r"""Privacy-loss distributions, composed by FFT and never optimistic.

A distribution is kept as its factors and their counts. A question (delta at an epsilon,
epsilon at a delta) tilts every factor exponentially so that the composed loss
concentrates where the answer lies, convolves the tilted factors by FFT on a window
there, and undoes the tilt (`LossWindow`). Theory: ``docs/theory/composition.md``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.signal import lfilter

from corrdp._typing import FloatArray
from corrdp._validate import check_count, check_delta, check_real
from corrdp.accounting._loss_factor import (
    Factors,
    LossFactor,
    composed_cumulants,
    log_delta_factor,
    tilt_for_delta,
    tilt_for_epsilon,
)
from corrdp.accounting._loss_window import LossWindow, clean_width
from corrdp.exceptions import BudgetError, CorrDPError

_UNIT = 2.0**-52
_CURVE_POINTS = 600
_SAFE_SHARE = 0.9  # of an upper bound on epsilon, above which windows must be clean
_MOST_WINDOWS = 6  # per answer


@dataclass(frozen=True, eq=False)
class PrivacyLossDistribution:
    """Upper bound on the privacy loss of a release, on a grid.

    Build it with `from_profile`, compose it, then ask for `delta` or `epsilon`.

    Parameters
    ----------
    spacing : float
        Distance of neighboring losses on the grid.
    factors : tuple of (LossFactor, int)
        The composed releases and how often each occurs.

    Guarantee
    ---------
    `delta` and `epsilon` bound the composition from above, whatever the grid, for
    mechanisms that may look at earlier answers but whose profiles were fixed in
    advance. Not a filter: stopping or choosing the next profile by an earlier answer
    is not covered. Theory: ``docs/theory/composition.md``.
    """

    spacing: float
    factors: Factors

    @classmethod
    def from_profile(
        cls,
        profile: Callable[[FloatArray], FloatArray],
        *,
        spacing: float,
        loss_bound: float,
    ) -> Self:
        """Discretize a privacy profile pessimistically, by connecting its dots.

        Parameters
        ----------
        profile : callable
            Maps an array of non-negative epsilons to deltas that hold in both
            directions; non-increasing, convex in exp(epsilon), accurate to 1e-12
            relative. A profile that is not convex is refused: its dots cannot be
            connected. Its lower convex hull is as valid and can be.
        spacing : float
            Grid spacing; the bound tightens with its square.
        loss_bound : float
            Largest finite loss; what the profile leaves there becomes infinite loss.

        Examples
        --------
        >>> def laplace(epsilon):
        ...     return -np.expm1(np.minimum(epsilon - 0.1, 0.0) / 2)
        >>> loss = PrivacyLossDistribution.from_profile(
        ...     laplace, spacing=1e-3, loss_bound=0.1
        ... )
        >>> round(loss.self_compose(40).epsilon(1e-6), 3)
        2.732
        """
        spacing = check_real("spacing", spacing, lower=0.0, open_lower=True)
        loss_bound = check_real("loss_bound", loss_bound, lower=0.0)
        factor = LossFactor.from_profile(
            profile, spacing=spacing, loss_bound=loss_bound
        )
        return cls(spacing=spacing, factors=((factor, 1),))

    def self_compose(self, count: int) -> Self:
        """Return the distribution of `count` releases like this one."""
        count = check_count("count", count)
        factors = tuple((factor, count * times) for factor, times in self.factors)
        return type(self)(spacing=self.spacing, factors=factors)

    def compose(self, other: "PrivacyLossDistribution") -> Self:
        """Return the distribution of both releases together."""
        if other.spacing != self.spacing:
            raise CorrDPError(
                f"other must have the same grid, got spacing={other.spacing!r} beside "
                f"{self.spacing!r}. Build both with one spacing."
            )
        return type(self)(spacing=self.spacing, factors=self.factors + other.factors)

    @property
    def infinity_mass(self) -> float:
        """Probability of infinite loss, a floor under every delta."""
        finite = (
            count * math.log1p(-factor.infinity_mass) for factor, count in self.factors
        )
        return -math.expm1(math.fsum(finite))

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at `epsilon`, any real number."""
        epsilon = check_real("epsilon", epsilon, error=BudgetError)
        if epsilon < 0.0:
            return -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon)
        tilt = tilt_for_epsilon(self.factors, epsilon)
        log_delta = self._log_delta_upper(tilt, epsilon)
        window = LossWindow.around(
            self.factors, tilt, log_delta, lowest=epsilon, whole=True
        )
        finite = window.weights @ -np.expm1(np.minimum(epsilon - window.losses, 0.0))
        finite += window.round_off(np.array([epsilon]))[0]
        return min(self.infinity_mass + window.mass_above + float(finite), 1.0)

    def epsilon(self, delta: float) -> float:
        """Return an upper bound on epsilon at `delta`; infinite if there is none."""
        delta = check_delta(delta)
        available = delta - self.infinity_mass
        if available <= 0.0:
            return math.inf
        log_delta = math.log(available)
        tilt, chernoff = self._epsilon_upper(log_delta)
        # Any window gives a valid answer. It is clean above `lowest`; an answer below
        # may count wrapped mass, and the next window reaches further down.
        answer, lowest = math.inf, _SAFE_SHARE * chernoff
        for _ in range(_MOST_WINDOWS):
            window = LossWindow.around(
                self.factors, tilt, log_delta, lowest=max(lowest, 0.0)
            )
            answer = min(answer, self._epsilon_within(window, available))
            if answer >= lowest:
                break
            lowest = _SAFE_SHARE * answer
            tilt = tilt_for_epsilon(self.factors, lowest)
        return answer

    def curve_end(self, delta: float) -> float:
        """Return an epsilon from which on the finite loss adds at most `delta`."""
        return max(self._epsilon_upper(math.log(delta))[1], 0.0)

    def curve(self, reach: float) -> tuple[FloatArray, FloatArray]:
        """Return epsilons from 0 to about `reach`, and upper bounds on their deltas.

        Points lie on the grid, where delta is a sum without interpolation; one window
        answers them all.
        """
        # Tilted for its middle: at 0 and at the end round-off is still far below 1e-9.
        tilt = tilt_for_epsilon(self.factors, 0.5 * reach)
        log_delta = self._log_delta_upper(tilt, reach)
        window = LossWindow.around(
            self.factors, tilt, log_delta, lowest=0.0, whole=True
        )
        _, deltas = self._deltas(window)
        deltas = deltas + window.round_off(window.losses)
        deltas += self.infinity_mass + window.mass_above
        first = int(np.argmin(np.abs(window.losses)))
        last = min(first + math.ceil(reach / self.spacing), window.losses.size - 1)
        # Denser near 0, where likelihood ratios of common outcomes lie.
        share = np.linspace(0.0, 1.0, _CURVE_POINTS) ** 2
        chosen = np.unique(first + np.rint(share * (last - first)).astype(np.int64))
        return window.losses[chosen], np.minimum(deltas[chosen], 1.0)

    def window_width(self, delta: float, epsilon: float) -> float:
        """Return how much of the composed loss an answer near `epsilon` needs."""
        lowest = _SAFE_SHARE * epsilon
        tilt = tilt_for_epsilon(self.factors, lowest)
        return clean_width(self.factors, tilt, math.log(delta), lowest)

    def _epsilon_upper(self, log_delta: float) -> tuple[float, float]:
        """Return the best tilt at a delta, and Chernoff's bound on epsilon there."""
        tilt = tilt_for_delta(self.factors, log_delta)
        log_moment, _, _ = composed_cumulants(self.factors, tilt)
        return tilt, (log_moment + log_delta_factor(tilt) - log_delta) / tilt

    def _log_delta_upper(self, tilt: float, epsilon: float) -> float:
        """Return Chernoff's bound on the logarithm of delta, at a tilt."""
        log_moment, _, _ = composed_cumulants(self.factors, tilt)
        return min(log_moment - tilt * epsilon + log_delta_factor(tilt), 0.0)

    def _epsilon_within(self, window: LossWindow, available: float) -> float:
        """Return the epsilon at which a window leaves at most `available`."""
        other, deltas = self._deltas(window)
        round_off = window.round_off(window.losses)
        index = int(np.argmax(deltas + round_off <= available))
        loss = float(window.losses[index])
        available -= float(round_off[max(index - 1, 0)])
        # Within the cell below, delta is linear in exp(epsilon).
        spare = max(available - float(deltas[index]), 0.0)
        share = spare / float(other[index]) if other[index] > 0.0 else 0.0
        step = math.log1p(-min(share, -math.expm1(-self.spacing)))
        loss = min(loss, loss + step + 4.0 * _UNIT * (abs(loss) + self.spacing))
        return max(loss, 0.0)

    def _deltas(self, window: LossWindow) -> tuple[FloatArray, FloatArray]:
        """Return Q's mass from each loss on, times exp(loss), and delta there."""
        # Backwards along the grid; both recursions only add non-negative terms.
        decay = math.exp(-self.spacing)
        other = lfilter([1.0], [1.0, -decay], window.weights[::-1])[::-1]
        increments = -math.expm1(-self.spacing) * other
        return other, np.append(np.cumsum(increments[:0:-1])[::-1], 0.0)

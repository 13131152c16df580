r"""One release's privacy loss on a grid, and how far to tilt it.

Theory: ``docs/theory/composition.md``, sections "Connect the dots" and "Tilting".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError

_VALUE_ERROR = 1e-12  # profiles are trusted to this relative accuracy, and raised by it
_CONVEXITY_ERROR = 1e-9
_MOST_CELLS = 2.0**23  # on each side of loss 0
_TILT_TOLERANCE = 1e-3  # of its logarithm
_LARGEST_TILT = 30.0  # per cell; the top of the support then outweighs all the rest
_LOG_FLATTEST = 30.0  # below where a search begins, a tilt moves nothing


class NoGridError(CorrDPError):
    """A loss that no grid of affordable size holds, or whose curve it cannot join."""


@dataclass(frozen=True, eq=False)
class LossFactor:
    """Masses at the losses -n, ..., n times the spacing, and the mass at infinity."""

    masses: FloatArray
    infinity_mass: float
    spacing: float

    @classmethod
    def from_profile(
        cls,
        profile: Callable[[FloatArray], FloatArray],
        *,
        spacing: float,
        loss_bound: float,
    ) -> Self:
        """Connect the dots of a convex profile; see `PrivacyLossDistribution`."""
        if loss_bound > _MOST_CELLS * spacing:
            raise NoGridError(
                f"spacing must be larger here, got spacing={spacing!r} for losses up "
                f"to {loss_bound:g}. Pass a coarser grid."
            )
        n_cells = max(math.ceil(loss_bound / spacing), 1)
        losses = spacing * np.arange(n_cells + 1, dtype=np.float64)
        values = np.minimum(profile(losses) * (1.0 + _VALUE_ERROR), 1.0)
        decay = math.exp(-spacing)
        # -slope * e^loss of each chord in e^epsilon. Slopes must not grow: a convex
        # majorant repairs round-off, anything larger is refused.
        with np.errstate(divide="ignore"):
            log_slope = np.log(np.maximum(-np.diff(values), 0.0)) - losses[1:]
        repaired = np.maximum.accumulate(log_slope[::-1])[::-1]
        slope = np.exp(repaired + losses[1:]) / -math.expm1(-spacing)
        upper = slope - decay * np.append(slope[1:], 0.0)
        upper = np.maximum(upper, 0.0)
        reflected = upper * np.exp(-losses[1:])
        infinity_mass = float(values[-1])
        center = 1.0 - infinity_mass - float(upper.sum()) - float(reflected.sum())
        excess = float(np.sum(slope) * -math.expm1(-spacing)) - (values[0] - values[-1])
        if center < -_CONVEXITY_ERROR or excess > _CONVEXITY_ERROR * values[0]:
            raise NoGridError(
                "profile must be convex in exp(epsilon) on both sides of 0, got one "
                f"that misses it by {max(excess, -center):.3g}. Pass its lower convex "
                "hull, which is as valid a bound."
            )
        masses = np.concatenate([reflected[::-1], [max(center, 0.0)], upper])
        masses.setflags(write=False)
        return cls(masses=masses, infinity_mass=infinity_mass, spacing=spacing)

    @property
    def n_cells(self) -> int:
        """Number of cells on each side of loss 0."""
        return (self.masses.size - 1) // 2

    @cached_property
    def losses(self) -> FloatArray:
        """Grid of losses, ascending."""
        cells = np.arange(-self.n_cells, self.n_cells + 1, dtype=np.float64)
        return self.spacing * cells

    def tilted(self, tilt: float) -> tuple[FloatArray, float]:
        """Return masses * exp(tilt * losses) scaled to sum 1, and the log of their sum.

        The scale is taken out before exponentiation, so no tilt overflows.
        """
        weights = tilt * self.losses
        weights += self._log_masses
        largest = float(weights.max())
        weights -= largest
        np.exp(weights, out=weights)
        total = float(weights.sum())
        weights /= total
        return weights, largest + math.log(total)

    # A composed loss is tilted some sixty times before it is convolved.
    @cached_property
    def _log_masses(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.masses))

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Return the log moment-generating function and its first two derivatives."""
        weights, log_moment = self.tilted(tilt)
        losses = self.losses
        mean = float(weights @ losses)
        return log_moment, mean, float(weights @ np.square(losses - mean))


Factors = tuple[tuple[LossFactor, int], ...]


def composed_cumulants(factors: Factors, tilt: float) -> tuple[float, float, float]:
    """Return the cumulants of the sum of the factors' losses."""
    terms = [(count, *factor.cumulants(tilt)) for factor, count in factors]
    log_moment = math.fsum(count * term for count, term, _, _ in terms)
    mean = math.fsum(count * term for count, _, term, _ in terms)
    return log_moment, mean, math.fsum(count * term for count, _, _, term in terms)


def log_delta_factor(tilt: float) -> float:
    """Return log of max over u of (1 - e^-u) e^(-tilt u).

    It sharpens Chernoff's bound on P(loss > epsilon) to one on delta(epsilon).
    """
    return -math.log1p(tilt) - tilt * math.log1p(1.0 / tilt)


def tilt_for_delta(factors: Factors, log_delta: float) -> float:
    """Return the tilt with the smallest Chernoff bound on epsilon at this delta."""

    def excess(tilt: float) -> tuple[float, float]:
        log_moment, mean, variance = composed_cumulants(factors, tilt)
        slope = mean - math.log1p(1.0 / tilt)
        value = tilt * slope - log_moment - log_delta_factor(tilt) + log_delta
        return value, tilt * tilt * variance + tilt / (1.0 + tilt)

    return _increasing_root(excess, factors)


def tilt_for_epsilon(factors: Factors, epsilon: float) -> float:
    """Return the tilt with the smallest Chernoff bound on delta at this epsilon."""

    def excess(tilt: float) -> tuple[float, float]:
        _, mean, variance = composed_cumulants(factors, tilt)
        value = mean - math.log1p(1.0 / tilt) - epsilon
        return value, tilt * variance + 1.0 / (1.0 + tilt)

    return _increasing_root(excess, factors)


def saddle_epsilon(factors: Factors, log_delta: float) -> float:
    """Return about the epsilon at this delta, by a saddle point.

    With K the cumulants of the loss, delta is the contour integral of exp(K(t) - t
    epsilon) / (t (1 + t)), of which only the highest point is looked at. No bound: for
    searches whose end is priced.
    """

    def saddle(tilt: float) -> tuple[float, float, float]:
        """Return epsilon, log delta there, and the fall of the latter by log tilt."""
        log_moment, mean, variance = composed_cumulants(factors, tilt)
        epsilon = mean - 1.0 / tilt - 1.0 / (1.0 + tilt)
        curvature = variance + tilt**-2 + (1.0 + tilt) ** -2
        height = log_moment - tilt * epsilon - math.log(tilt) - math.log1p(tilt)
        width = 0.5 * math.log(2.0 * math.pi * curvature)
        return epsilon, height - width, tilt * tilt * curvature

    def excess(tilt: float) -> tuple[float, float]:
        _, log_there, fall = saddle(tilt)
        return log_delta - log_there, fall

    tilt = _increasing_root(excess, factors)
    epsilon, log_there, _ = saddle(tilt)
    return max(epsilon + (log_there - log_delta) / tilt, 0.0)


def _increasing_root(
    function: Callable[[float], tuple[float, float]], factors: Factors
) -> float:
    """Find roughly where an increasing function of the tilt crosses 0.

    `function` returns its value and its derivative by the logarithm of the tilt. Any
    tilt gives a valid answer later, so three digits are enough. Every value tried
    becomes an end of the bracket, so it closes. A delta near 1 asks for no tilt at all.
    """
    _, _, variance = composed_cumulants(factors, 0.0)
    highest = math.log(_LARGEST_TILT / factors[0][0].spacing)
    point = min(-0.5 * math.log(max(variance, 1e-300)) + 1.0, highest)
    flattest = point - _LOG_FLATTEST
    lower, upper, step = -math.inf, highest, math.inf
    while abs(step) > _TILT_TOLERANCE and point > flattest:
        value, slope = function(math.exp(point))
        lower, upper = (lower, point) if value > 0.0 else (point, upper)
        step = min(max(-value / slope, -2.0), 2.0)
        if not lower < point + step < upper and lower > -math.inf:
            step = 0.5 * (lower + upper) - point
        point += step
    return math.exp(max(point, flattest))

r"""Privacy-loss distributions, composed by FFT and never optimistic.

A distribution is kept as its factors and their counts. A question (delta at an epsilon,
epsilon at a delta) tilts every factor exponentially so that the composed loss
concentrates where the answer lies, convolves the tilted factors by FFT on a window
there, and undoes the tilt. Round-off is then relative to the answer instead of to 1.
What the window leaves out above is bounded by Chernoff's inequality and added, as is a
bound on the round-off of the transforms. Theory: ``docs/theory/composition.md``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
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
    total_infinity_mass,
)
from corrdp.exceptions import BudgetError, CorrDPError

_UNIT = 2.0**-52
_LOG_NEGLIGIBLE = 60.0
_SMALLEST_WINDOW = 64
_LARGEST_WINDOW = 2**25


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
        return total_infinity_mass(self.factors)

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at `epsilon`, any real number."""
        epsilon = check_real("epsilon", epsilon, error=BudgetError)
        if epsilon < 0.0:
            return -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon)
        tilt = tilt_for_epsilon(self.factors, epsilon)
        log_moment, _, _ = composed_cumulants(self.factors, tilt)
        log_delta = log_moment - tilt * epsilon + log_delta_factor(tilt)
        window = _compose(self.factors, tilt, min(log_delta, 0.0), lowest=epsilon)
        finite = window.weights @ -np.expm1(np.minimum(epsilon - window.losses, 0.0))
        return min(self.infinity_mass + window.mass_above + float(finite), 1.0)

    def epsilon(self, delta: float) -> float:
        """Return an upper bound on epsilon at `delta`; infinite if there is none."""
        delta = check_delta(delta)
        available = delta - self.infinity_mass
        if available <= 0.0:
            return math.inf
        tilt = tilt_for_delta(self.factors, math.log(available))
        window = _compose(self.factors, tilt, math.log(available), lowest=math.inf)
        available -= window.mass_above
        # Backwards along the grid: Q's mass above each loss, scaled by exp(loss), and
        # from it delta at each loss. Both recursions only add non-negative terms.
        decay = math.exp(-self.spacing)
        other = lfilter([1.0], [1.0, -decay], window.weights[::-1])[::-1]
        increments = -math.expm1(-self.spacing) * other
        deltas = np.append(np.cumsum(increments[:0:-1])[::-1], 0.0)
        index = int(np.argmax(deltas <= available))
        loss = float(window.losses[index])
        # Within the cell below, delta is linear in exp(epsilon).
        spare = (available - float(deltas[index])) / float(other[index])
        step = math.log1p(-min(spare, -math.expm1(-self.spacing)))
        loss = min(loss, loss + step + 4.0 * _UNIT * (abs(loss) + self.spacing))
        return max(loss, 0.0)


@dataclass(frozen=True, eq=False)
class _Window:
    """Upper bounds on the composed masses on part of the grid, and on those above."""

    losses: FloatArray
    weights: FloatArray
    mass_above: float


def _compose(
    factors: Factors, tilt: float, log_delta: float, *, lowest: float
) -> _Window:
    """Convolve the tilted factors on a window around the answer."""
    spacing = factors[0][0].spacing
    support = sum(factor.n_cells * count for factor, count in factors)
    log_mass_above = log_delta - _LOG_NEGLIGIBLE
    far_tilt = tilt_for_delta(factors, log_mass_above)
    far_log_moment, _, _ = composed_cumulants(factors, far_tilt)
    top = math.ceil((far_log_moment - log_mass_above) / far_tilt / spacing)
    top = min(top, support)
    # Mass wrapped up from below the window arrives damped by exp(-tilt * width).
    width = math.ceil((_LOG_NEGLIGIBLE - log_delta) / tilt / spacing)
    if lowest < math.inf:
        width = max(width, top - math.floor(lowest / spacing))
    size = next_fast_len(max(width, _SMALLEST_WINDOW) + 1, real=True)
    if size > _LARGEST_WINDOW:
        raise CorrDPError(
            f"grid must be coarser here, got spacing={spacing!r}, which needs {size} "
            "cells. Pass a larger grid, for example ten times this one."
        )
    masses, round_off, log_moment = _circular_convolution(factors, tilt, size)
    indices = np.arange(top - size + 1, top + 1)
    losses = spacing * indices
    exponents = log_moment - tilt * losses
    exponent_error = _UNIT * (
        sum(count * 64.0 for _, count in factors)
        + 4.0 * (abs(log_moment) + tilt * float(np.abs(losses).max()))
    )
    raised = np.maximum(masses[indices % size], 0.0) + round_off
    # No mass exceeds 1, whatever the bound says far below the answer.
    weights = np.exp(np.minimum(exponents + exponent_error + np.log(raised), 0.0))
    mass_above = math.exp(log_mass_above) if top < support else 0.0
    return _Window(losses=losses, weights=weights, mass_above=mass_above)


def _circular_convolution(
    factors: Factors, tilt: float, size: int
) -> tuple[FloatArray, float, float]:
    """Return composed tilted masses modulo `size`, an error bound, the log moment.

    The error bound adds, to first order, what each transform (relative error
    4 log2(size) units in the 2-norm), each power and the inverse contribute to any one
    entry; see "Round-off" in the theory note.
    """
    spectra = []
    norms = []
    log_moment = 0.0
    for factor, count in factors:
        tilted, log_term = factor.tilted(tilt)
        log_moment += count * log_term
        wrapped = _wrap(tilted, -factor.n_cells, size)
        spectra.append(rfft(wrapped))
        norms.append(float(np.linalg.norm(wrapped)))
    counts = [count for _, count in factors]
    product = np.ones_like(spectra[0])
    for spectrum, count in zip(spectra, counts, strict=True):
        product = product * spectrum**count
    transform_error = 4.0 * _UNIT * math.log2(size)
    round_off = transform_error * _norm(product, size)
    round_off += 8.0 * _UNIT * sum(counts) * 2.0 * float(np.abs(product).sum()) / size
    for spectrum, count, norm in zip(spectra, counts, norms, strict=True):
        rest = np.abs(spectrum) ** (count - 1)
        for other, other_count in zip(spectra, counts, strict=True):
            if other is not spectrum:
                rest = rest * np.abs(other) ** other_count
        round_off += transform_error * count * norm * _norm(rest, size)
    return irfft(product, n=size), round_off, log_moment


def _norm(half_spectrum: FloatArray, size: int) -> float:
    """Return at least the 2-norm of the sequence with this half spectrum."""
    return math.sqrt(2.0 / size) * float(np.linalg.norm(half_spectrum))


def _wrap(masses: FloatArray, start: int, size: int) -> FloatArray:
    """Add up masses at start, start + 1, ... modulo `size`."""
    shift = start % size
    padded = np.zeros(-(-(shift + masses.size) // size) * size)
    padded[shift : shift + masses.size] = masses
    return np.asarray(padded.reshape(-1, size).sum(axis=0))

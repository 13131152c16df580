r"""Exact discrete noise: whole numbers from uniform whole numbers, no rounding.

The samplers follow Canonne, Kamath and Steinke, "The discrete Gaussian for
differential privacy" (2020), run on whole arrays at once. Every number in them is a
64-bit integer, so what is drawn has the stated distribution and not a rounded one.

*Priced by a Gaussian plan.* A discrete Gaussian is a Gaussian that was rounded at
random: noise of variance :math:`\sigma^2` steps is Gaussian noise of variance
:math:`\sigma^2 - s^2`, followed by a step that looks at nothing else. So a plan of
Gaussian noise is kept by discrete noise that is larger by :math:`s` in the squares.
Theory: ``docs/theory/discrete_noise.md``; Claims 4 and 5 for the plan.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp._validate import check_count
from corrdp.exceptions import GuaranteeVoidError

LARGEST_SCALE = 2**45
# Binary digits: scales are multiples of 1/4096 or finer than 1/4096 of themselves.
_FINEST_PART = 12
ROUNDING_PART = 16
"""Steps: standard deviation :math:`s` that random rounding takes of the noise."""
ROUNDING_REACH = 256
"""Steps: farther than this no value is rounded, except with probability 1e-56."""
LARGEST_MU = 190.0
"""Largest movement in units of the noise for which Claim 5 is proved."""
_MARGIN = Fraction(1, 10**12)  # of Claim 5, and of the plan's own last digits


def grid_scale(scale: float) -> Fraction:
    """Return the smallest scale on the sampler's own grid not below `scale`.

    Parameters
    ----------
    scale : float
        Positive, in grid units.

    Returns
    -------
    scale : Fraction
        At most 1/4096 larger (absolutely below 1, relatively above), so noise is
        never less than was asked for.

    Examples
    --------
    >>> grid_scale(0.1), grid_scale(5000.2)
    (Fraction(205, 2048), Fraction(5001, 1))
    """
    if not 0.0 < scale <= LARGEST_SCALE:
        raise GuaranteeVoidError(
            f"the noise scale must be above 0 and at most 2**45 grid steps, got "
            f"{scale!r}. Declare a positive noise, or a coarser grid."
        )
    return Fraction(float(grid_scales(np.array(scale))))


def grid_scales(scales: FloatArray) -> FloatArray:
    """Return `grid_scale` of each, unchecked: floats hold such numbers exactly."""
    digits = np.clip(_FINEST_PART + 1 - np.frexp(scales)[1], 0, _FINEST_PART)
    return np.asarray(np.ldexp(np.ceil(np.ldexp(scales, digits)), -digits))


def discrete_laplace(
    scale: Fraction, *, size: int, generator: np.random.Generator
) -> IntArray:
    r"""Draw whole numbers with probability proportional to ``exp(-abs(k) / scale)``.

    The scale is one that `grid_scale` returned.

    Guarantee
    ---------
    Exact: moving the center by a whole number :math:`\Delta` changes no probability by
    more than the factor :math:`\exp(\Delta / scale)`. Proof:
    ``docs/theory/discrete_noise.md``.
    """
    numerator, denominator = _checked(scale)

    def draw(count: int) -> tuple[IntArray, NDArray[np.bool_]]:
        # Algorithm 2: |Y| = floor((U + t V) / s), U < t with weight e^(-U/t).
        rest = _weighted_remainder(numerator, count, generator)
        wholes = _geometric(count, generator)
        magnitude = (rest + numerator * wholes) // denominator
        negative = generator.integers(0, 2, count).astype(np.bool_)
        accepted = ~(negative & (magnitude == 0))  # zero has one sign only
        return np.where(negative, -magnitude, magnitude), accepted

    return _until_accepted(check_count("size", size, lower=0), draw)


def discrete_gaussian(
    scale: Fraction, *, size: int, generator: np.random.Generator
) -> IntArray:
    r"""Draw whole numbers with probability proportional to ``exp(-k^2 / (2 scale^2))``.

    Parameters
    ----------
    scale : Fraction
        As returned by `grid_scale`; the standard deviation is at most this.
    size : int
        How many.
    generator : numpy Generator
        Source of uniform whole numbers.

    Guarantee
    ---------
    Exact: moving the center by a whole number :math:`\Delta` has Renyi divergence at
    most :math:`\alpha \Delta^2 / (2\, scale^2)` at every order. The curve of the
    continuous Gaussian is not claimed. Proof: ``docs/theory/discrete_noise.md``.
    """
    numerator, denominator = _checked(scale)
    proposal = math.ceil(scale)
    # Algorithm 3 accepts Y with probability exp(-(a / c)^2 / 2), where
    # a = | |Y| s^2 t - p^2 |, c = p s t for scale p / s and proposal scale t.
    slope = denominator**2 * proposal
    offset = numerator**2
    unit = numerator * denominator * proposal
    common = math.gcd(slope, offset, unit)
    slope, offset, unit = slope // common, offset // common, unit // common

    def draw(count: int) -> tuple[IntArray, NDArray[np.bool_]]:
        values = discrete_laplace(Fraction(proposal), size=count, generator=generator)
        distance = np.abs(np.abs(values) * slope - offset)
        return values, _keeps_half_square(distance, unit, generator)

    return _until_accepted(check_count("size", size, lower=0), draw)


def flip_exponential(
    numerators: IntArray, denominator: int, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Flip coins of probability ``exp(-numerator / denominator)``, exactly."""
    wholes, rest = np.divmod(numerators, denominator)
    kept = _keeps_fraction(rest, denominator, generator)
    kept &= _geometric(wholes.size, generator) >= wholes
    return kept


def _checked(scale: Fraction) -> tuple[int, int]:
    if grid_scale(float(scale)) != scale:
        raise GuaranteeVoidError(
            f"the scale of discrete noise must come from grid_scale, got {scale!r}. "
            "Pass grid_scale(scale)."
        )
    return scale.numerator, scale.denominator


def _weighted_remainder(
    numerator: int, size: int, generator: np.random.Generator
) -> IntArray:
    """Draw U in 0 .. t - 1 with probability proportional to ``exp(-U / t)``."""

    def draw(count: int) -> tuple[IntArray, NDArray[np.bool_]]:
        values = generator.integers(0, numerator, count)
        return values, _keeps_fraction(values, numerator, generator)

    return _until_accepted(size, draw)


def _until_accepted(
    size: int, draw: Callable[[int], tuple[IntArray, NDArray[np.bool_]]]
) -> IntArray:
    """Draw values, and those that were not accepted again."""
    out = np.empty(size, dtype=np.int64)
    missing = np.arange(size)
    while missing.size:
        values, accepted = draw(missing.size)
        out[missing[accepted]] = values[accepted]
        missing = missing[~accepted]
    return out


def _geometric(size: int, generator: np.random.Generator) -> IntArray:
    """Count how often a coin of probability ``exp(-1)`` comes up before it fails."""
    out = np.zeros(size, dtype=np.int64)
    alive = np.arange(size)
    while alive.size:
        alive = alive[_keeps_fraction(np.ones_like(alive), 1, generator)]
        out[alive] += 1
    return out


def _keeps_half_square(
    distance: IntArray, unit: int, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Flip coins of probability ``exp(-(distance / unit)^2 / 2)``.

    With distance / unit = q + f the exponent is q^2 / 2 + q f + f^2 / 2: coins for
    each term, so that no square of a large number is ever formed.
    """
    wholes, rest = np.divmod(distance, unit)
    kept = _keeps_fraction(rest, unit, generator, other=(rest, 2 * unit))
    kept &= _all_of(wholes**2, np.ones_like(rest), 2, kept, generator)
    kept &= _all_of(wholes, rest, unit, kept, generator)
    return kept


def _all_of(
    counts: IntArray,
    numerators: IntArray,
    denominator: int,
    wanted: NDArray[np.bool_],
    generator: np.random.Generator,
) -> NDArray[np.bool_]:
    """Flip `counts` coins of probability ``exp(-numerator / denominator)`` each."""
    kept = wanted.copy()
    done = 0
    while (alive := np.flatnonzero(kept & (counts > done))).size:
        kept[alive] = _keeps_fraction(numerators[alive], denominator, generator)
        done += 1
    return kept


def _keeps_fraction(
    numerators: IntArray,
    denominator: int,
    generator: np.random.Generator,
    other: tuple[IntArray, int] | None = None,
) -> NDArray[np.bool_]:
    """Flip coins of probability ``exp(-g)``, g = numerator / denominator in [0, 1].

    With `other`, g is the product of the two fractions.
    """
    # Algorithm 1: the first k at which a coin of probability g / k fails is odd with
    # probability e^(-g).
    kept = np.empty(numerators.size, dtype=np.bool_)
    alive = np.arange(numerators.size)
    tries = 1
    while alive.size:
        if other is None:
            bound = denominator * tries
            passed = generator.integers(0, bound, alive.size) < numerators[alive]
        else:
            first, bound = other
            passed = generator.integers(0, denominator, alive.size) < numerators[alive]
            passed &= generator.integers(0, bound * tries, alive.size) < first[alive]
        kept[alive[~passed]] = tries % 2 == 1
        alive = alive[passed]
        tries += 1
    return kept


def covering_scale(noise_scale: float) -> Fraction:
    r"""Return the scale of discrete noise that hides as much as Gaussian noise.

    Parameters
    ----------
    noise_scale : float
        Standard deviation of the Gaussian noise that was planned and priced, in steps.

    Returns
    -------
    scale : Fraction
        On the grid of the sampler, at least
        :math:`\sqrt{noise\_scale^2 (1 + 10^{-12})^2 + s^2}`.

    Guarantee
    ---------
    Discrete Gaussian noise of these scales is :math:`\mu`-Gaussian DP wherever
    Gaussian noise of the planned ones is, for :math:`\mu` up to `LARGEST_MU`
    (``docs/theory/discrete_noise.md``, Claim 5).

    Examples
    --------
    >>> covering_scale(30.0), covering_scale(1e6)
    (Fraction(4353, 128), Fraction(1000001, 1))
    """
    grid_scale(noise_scale)  # refuses what cannot be drawn
    square = (Fraction(noise_scale) * (1 + _MARGIN)) ** 2 + ROUNDING_PART**2
    guess = math.sqrt(float(square))
    scale = grid_scale(guess)
    while scale**2 < square:  # the root was rounded down
        guess *= 1.0 + 2.0**-52
        scale = grid_scale(guess)
    return scale


def gaussian_part(scale: Fraction) -> float:
    r"""Return the standard deviation of the Gaussian in a discrete Gaussian, in steps.

    Guarantee
    ---------
    Noise of this scale is Gaussian noise of the returned one plus a rounding within
    `ROUNDING_REACH`, except with probability 1e-56
    (``docs/theory/discrete_noise.md``, Claim 4).
    """
    return math.sqrt(float(scale**2 - ROUNDING_PART**2))

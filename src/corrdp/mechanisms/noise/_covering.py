r"""Discrete Gaussian noise that a Gaussian plan prices, without a new price.

A discrete Gaussian is a Gaussian that was rounded at random: noise of variance
:math:`\sigma^2` steps is Gaussian noise of variance :math:`\sigma^2 - s^2`, followed
by a step that looks at nothing else. So a plan of Gaussian noise is kept by discrete
noise that is larger by :math:`s` in the squares.
Theory: ``docs/theory/discrete_noise.md``, Claims 4 and 5.
"""

import math
from fractions import Fraction

from corrdp.exceptions import GuaranteeVoidError
from corrdp.mechanisms.noise._discrete import grid_scale

ROUNDING_PART = 16
"""Steps: standard deviation :math:`s` that random rounding takes of the noise."""

ROUNDING_REACH = 256
"""Steps: farther than this no value is rounded, except with probability 1e-56."""

LARGEST_MU = 190.0
"""Largest movement in units of the noise for which Claim 5 is proved."""

_MARGIN = Fraction(1, 10**12)  # of Claim 5, and of the plan's own last digits


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
    if not 0.0 < noise_scale < math.inf:
        raise GuaranteeVoidError(
            f"noise_scale must be positive and finite, got {noise_scale!r}. Plan some "
            "noise."
        )
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

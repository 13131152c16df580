"""The exponential mechanism, drawn exactly: whole scores, a rational rate, no logs."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from corrdp.exceptions import GuaranteeVoidError
from corrdp.mechanisms.noise._discrete import flip_exponential

_FINEST_RATE = 2**20
_TRIES_AT_ONCE = 64


def grid_rate(rate: float) -> Fraction:
    """Return the largest rate on the sampler's grid not above `rate`.

    Examples
    --------
    >>> grid_rate(0.1) <= Fraction(1, 10)
    True
    """
    if not 0.0 <= rate <= 1.0:
        raise GuaranteeVoidError(
            f"the rate of an exponential choice must be in [0, 1], got {rate!r}. "
            "Score in coarser units."
        )
    return Fraction(math.floor(Fraction(rate) * _FINEST_RATE), _FINEST_RATE)


def exponential_choice(
    scores: Sequence[int], *, rate: Fraction, generator: np.random.Generator
) -> int:
    r"""Return a place with probability proportional to ``exp(rate * score)``.

    Parameters
    ----------
    scores : sequence of int
        Whole numbers, one per candidate.
    rate : Fraction
        As returned by `grid_rate`.
    generator : numpy Generator
        Source of uniform whole numbers.

    Guarantee
    ---------
    Exact. If no score moves by more than :math:`\Delta` between neighbors, log
    probabilities move within an interval of length :math:`\eta = 2\Delta \cdot rate`:
    :math:`\eta^2/8`-concentrated DP; if no score moves, nothing is told
    (`docs/theory/synthesis.md`, Lemma 3).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> exponential_choice([0, 5000, 3], rate=grid_rate(0.5), generator=rng)
    1
    """
    if grid_rate(float(rate)) != rate:
        raise GuaranteeVoidError(
            f"the rate of an exponential choice must come from grid_rate, got {rate!r}."
            " Pass grid_rate(rate)."
        )
    best = max(scores)
    # Rejection: a uniform candidate is kept with probability e^(-rate * (best - own)).
    behind = np.array([(best - own) * rate.numerator for own in scores], dtype=np.int64)
    while True:
        tried = generator.integers(0, len(scores), _TRIES_AT_ONCE)
        kept = flip_exponential(behind[tried], rate.denominator, generator)
        if kept.any():
            return int(tried[int(np.argmax(kept))])

"""The exponential mechanism, drawn exactly: whole scores, a rational rate, no logs."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from corrdp._typing import IntArray
from corrdp.exceptions import GuaranteeVoidError
from corrdp.mechanisms.noise._discrete import flip_exponential

_FINEST_RATE = 2**20


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
    scores: Sequence[int] | IntArray,
    *,
    rate: Fraction,
    generator: np.random.Generator,
    tries_at_once: int = 64,
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
    tries_at_once : int
        Candidates that are drawn together: more of them are quicker where there are
        many candidates, and change no probability.

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
    behind = _behind(scores, rate)
    # Rejection: a uniform candidate is kept with probability e^(-rate * (best - own)).
    while True:
        tried = generator.integers(0, behind.size, tries_at_once)
        kept = flip_exponential(behind[tried], rate.denominator, generator)
        if kept.any():
            return int(tried[int(np.argmax(kept))])


def flipped_choice(
    scores: Sequence[int] | IntArray, *, rate: Fraction, generator: np.random.Generator
) -> int:
    r"""Return one of the places whose coin of ``exp(rate * (score - best))`` came up.

    Permute-and-flip (McKenna and Sheldon 2020): never farther from the best score than
    `exponential_choice` at the same pure epsilon, and not concentrated like it.

    Parameters
    ----------
    scores, rate, generator
        As in `exponential_choice`.

    Guarantee
    ---------
    Exact. If no score moves by more than :math:`\Delta` between neighbors, no
    probability changes by more than the factor :math:`\exp(2\Delta \cdot rate)`; if
    no score moves, nothing is told (`docs/theory/discrete_noise.md`).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> flipped_choice([0, 5000, 3], rate=grid_rate(0.5), generator=rng)
    1
    """
    return int(flipped_choices(scores, rate=rate, size=1, generator=generator)[0])


def flipped_choices(
    scores: Sequence[int] | IntArray,
    *,
    rate: Fraction,
    size: int,
    generator: np.random.Generator,
) -> IntArray:
    """Return several independent draws of `flipped_choice`, each of which is paid."""
    behind = _behind(scores, rate)
    coins = flip_exponential(np.tile(behind, size), rate.denominator, generator)
    came_up = coins.reshape(size, behind.size)
    # The best comes up for certain, so that there is one to draw in every row.
    wanted = generator.integers(0, came_up.sum(axis=1)) + 1
    chosen: IntArray = np.argmax(np.cumsum(came_up, axis=1) == wanted[:, None], axis=1)
    return chosen


def _behind(scores: Sequence[int] | IntArray, rate: Fraction) -> IntArray:
    """Return how far each score is behind the best, times the rate's numerator."""
    if grid_rate(float(rate)) != rate:
        raise GuaranteeVoidError(
            f"the rate of an exponential choice must come from grid_rate, got {rate!r}."
            " Pass grid_rate(rate)."
        )
    whole = np.asarray(scores, dtype=np.int64)
    behind: IntArray = (whole.max() - whole) * rate.numerator
    return behind

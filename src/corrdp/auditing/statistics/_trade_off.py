"""How many coins can be guessed in one run, from a whole trade-off curve."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.special import ndtr, ndtri

from corrdp.auditing.statistics._claims import Claim

LeastChance: TypeAlias = Callable[[float], float]


def least_chance(claim: Claim) -> LeastChance:
    """Return what gives the least probability on one neighbor, from the other's.

    Infinite above 1. Gaussian claims are inverted exactly, others through points of
    their curve.

    Guarantee
    ---------
    A lower bound for every mechanism within the claim: (1) of `docs/theory/audit.md`,
    for the event and for its complement, at each point of the curve.
    """
    mu = claim.mu
    if mu is not None:

        def exact(chance: float) -> float:
            if chance > 1.0:
                return np.inf
            return float(ndtr(ndtri(chance) - mu))

        return exact
    epsilons, deltas = claim.curve
    growth = np.exp(epsilons)

    def along_curve(chance: float) -> float:
        if chance > 1.0:
            return np.inf
        rare = (chance - deltas) / growth
        likely = 1.0 - deltas - growth * (1.0 - chance)
        return max(0.0, float(rare.max()), float(likely.max()))

    return along_curve


def is_too_many_correct(
    n_correct: int,
    *,
    n_guesses: int,
    n_canaries: int,
    claim: Claim,
    failure_probability: float,
) -> bool:
    """Return whether so many correct guesses contradict a claim.

    The number of guesses, among as many canaries of the claimed class, was fixed before
    the run. A true claim may be contradicted with `failure_probability`.

    Guarantee
    ---------
    If the claim is true, so many or more are correct with probability below
    `failure_probability` whenever the answer is yes (`docs/theory/audit.md`, Theorem 3,
    after Mahloujifar, Melis and Chaudhuri 2025).

    Examples
    --------
    >>> claim = Claim.gaussian(1.0, delta=1e-5)
    >>> given = {"n_guesses": 1000, "n_canaries": 1000, "failure_probability": 0.01}
    >>> is_too_many_correct(690, claim=claim, **given)  # 691 are to be expected
    False
    >>> is_too_many_correct(970, claim=claim, **given)
    True
    """
    if claim.events is None or n_correct == 0:
        return False
    least = least_chance(claim)
    # tail: least P[at least i correct] if that of n_correct is failure_probability
    tail = above = failure_probability
    for i in range(n_correct - 1, -1, -1):
        wrong = n_canaries * least((i * tail + above) / n_canaries)
        tail = max(tail, (wrong + above) / (n_guesses - i))
        if tail > 1.0:
            return True
        above += tail
    return False

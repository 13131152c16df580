"""Auditing in one run: many replacement canaries in one data set, guessed at once."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom

from corrdp._random import noise_generator
from corrdp._typing import FloatArray
from corrdp._validate import check_choice, check_count, check_real
from corrdp.accounting import gaussian_epsilon
from corrdp.auditing._report import AuditResult
from corrdp.auditing.statistics import (
    Claim,
    is_too_many_correct,
    roc_points,
)
from corrdp.auditing.statistics._attacks import check_scores
from corrdp.exceptions import CorrDPError

_LARGEST = 64.0
_HALVINGS = 20

Coins = NDArray[np.bool_]


def audit_one_run(
    run: Callable[[Coins, np.random.Generator], Any],
    score: Callable[[Any], FloatArray],
    *,
    n_canaries: int,
    n_guesses: int | Sequence[int],
    claim: Claim,
    class_name: str,
    bound: str = "binomial",
    target: str = "one run",
    confidence: float = 0.99,
    random_state: int | None = None,
) -> AuditResult:
    """Run a mechanism once on canaries that are replaced by coins, and guess the coins.

    Parameters
    ----------
    run : callable
        ``run(coins, rng)`` runs the mechanism on a data set in which canary ``i`` is
        its second version where ``coins[i]``, else its first; returns the output.
    score : callable
        From the output, one number per canary, positive if it looks like its second
        version; its size says how sure that is.
    n_canaries : int
        Number of canaries.
    n_guesses : int or sequence of int
        How many of them are guessed: those of largest score. Several numbers are all
        tried, and share the error.
    claim : Claim
        What is stated for the class of all canary pairs.
    class_name : str
        Their neighbor class.
    bound : {"binomial", "trade-off"}
        How the number of correct guesses is bounded: by one point of the claim's curve
        and a binomial tail, or by its whole trade-off function, which allows for less
        where the claim is one of Gaussian noise.
    target : str
        Name of the mechanism in the report.
    confidence : float
        Probability with which the lower bound holds.
    random_state : int, optional
        Makes the audit replayable.

    Returns
    -------
    result : AuditResult
        Its number of runs is 1; `roc` is that of the canaries' scores.

    Guarantee
    ---------
    If the claim is true, the verdict is ``violated`` with probability at most
    ``1 - confidence``; the canaries may be anything and need not be independent of
    each other's effect. Proof: `docs/theory/audit.md`, Theorem 2 after Steinke, Nasr
    and Jagielski (2023), for replacement and with a shorter treatment of delta, and
    Theorem 3 after Mahloujifar, Melis and Chaudhuri (2025); several numbers of guesses
    share the error.
    """
    check_count("n_canaries", n_canaries)
    tried = list(n_guesses) if isinstance(n_guesses, Sequence) else [n_guesses]
    for count in tried:
        check_count("n_guesses", count)
    if not tried or max(tried) > n_canaries:
        raise CorrDPError(
            f"n_guesses={n_guesses} must be numbers up to n_canaries={n_canaries}. "
            "Guess fewer."
        )
    check_choice("bound", bound, _BOUNDS)
    check_real(
        "confidence", confidence, lower=0.0, upper=1.0, open_lower=True, open_upper=True
    )
    rng = noise_generator(random_state)
    coins = rng.random(n_canaries) < 0.5
    scores = np.asarray(score(run(coins, rng)), dtype=np.float64)
    check_scores("score", scores, n_canaries)
    surest = np.argsort(-np.abs(scores), kind="stable")
    correct = np.cumsum((scores > 0)[surest] == coins[surest])
    found = [(int(correct[count - 1]), count) for count in tried]
    failure = (1.0 - confidence) / len(tried)

    def is_refuted(stated: Claim) -> bool:
        return any(
            _BOUNDS[bound](
                n_correct,
                n_guesses=count,
                n_canaries=n_canaries,
                claim=stated,
                failure_probability=failure,
            )
            for n_correct, count in found
        )

    mu_lower = None
    if claim.mu is not None:
        mu_lower = _largest(
            lambda mu: is_refuted(Claim.gaussian(mu, delta=claim.delta))
        )
        lower = gaussian_epsilon(mu=mu_lower, delta=claim.delta)
    else:
        lower = _largest(
            lambda epsilon: is_refuted(
                Claim.approximate(epsilon=epsilon, delta=claim.delta)
            )
        )
    return AuditResult.of(
        claim,
        is_broken=claim.events is not None and is_refuted(claim),
        epsilon_lower=lower,
        mu_lower=mu_lower,
        target=target,
        class_name=class_name,
        attack=", ".join(f"{right} of {count}" for right, count in found)
        + " coins guessed",
        n_runs=1,
        roc=roc_points(scores[~coins], scores[coins]),
    )


def correct_guesses_upper(
    n_correct: int, *, n_guesses: int, n_canaries: int, claim: Claim
) -> float:
    """Return an upper bound on the probability of so many correct guesses.

    Guarantee
    ---------
    Holds for every mechanism within the claim and every way of guessing
    (`docs/theory/audit.md`): a binomial tail at accuracy ``1 / (1 + exp(-epsilon))``
    plus ``n_canaries * delta``, for each point of the stated curve.
    """
    epsilons, deltas = claim.curve
    tails = binom.sf(n_correct - 1, n_guesses, expit(epsilons))
    return float(np.min(tails + n_canaries * deltas, initial=1.0))


def _exceeds_binomial(
    n_correct: int,
    *,
    n_guesses: int,
    n_canaries: int,
    claim: Claim,
    failure_probability: float,
) -> bool:
    tail = correct_guesses_upper(
        n_correct, n_guesses=n_guesses, n_canaries=n_canaries, claim=claim
    )
    return tail <= failure_probability


_BOUNDS: dict[str, Callable[..., bool]] = {
    "binomial": _exceeds_binomial,
    "trade-off": is_too_many_correct,
}


def _largest(is_refuted: Callable[[float], bool]) -> float:
    """Return the largest value found to be refuted, by doubling and halving."""
    low, high = 0.0, 1.0
    while high < _LARGEST and is_refuted(high):
        low, high = high, 2.0 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low

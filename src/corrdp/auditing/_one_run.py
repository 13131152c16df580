"""Auditing in one run: many replacement canaries in one data set, guessed at once."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom

from corrdp._random import noise_generator
from corrdp._typing import FloatArray
from corrdp._validate import check_count, check_real
from corrdp.accounting import gaussian_epsilon
from corrdp.auditing._report import AuditResult, Verdict
from corrdp.auditing.statistics import Claim
from corrdp.exceptions import CorrDPError

_LARGEST = 64.0
_HALVINGS = 20

Coins = NDArray[np.bool_]


def audit_one_run(
    run: Callable[[Coins, np.random.Generator], Any],
    score: Callable[[Any], FloatArray],
    *,
    n_canaries: int,
    n_guesses: int,
    claim: Claim,
    class_name: str,
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
    n_canaries, n_guesses : int
        Canaries, and how many of them are guessed: those of largest score.
    claim : Claim
        What is stated for the class of all canary pairs.
    class_name : str
        Their neighbor class.
    target : str
        Name of the mechanism in the report.
    confidence : float
        Probability with which the lower bound holds.
    random_state : int, optional
        Makes the audit replayable.

    Returns
    -------
    result : AuditResult
        Its number of runs is 1.

    Guarantee
    ---------
    If the claim is true, the verdict is ``violated`` with probability at most
    ``1 - confidence``; the canaries may be anything and need not be independent of
    each other's effect. Proof: `docs/theory/audit.md`, after Steinke, Nasr and
    Jagielski (2023), for replacement and with a shorter treatment of delta.
    """
    check_count("n_canaries", n_canaries)
    check_count("n_guesses", n_guesses)
    if n_guesses > n_canaries:
        raise CorrDPError(
            f"n_guesses={n_guesses} is above n_canaries={n_canaries}. Guess fewer."
        )
    check_real(
        "confidence", confidence, lower=0.0, upper=1.0, open_lower=True, open_upper=True
    )
    rng = noise_generator(random_state)
    coins = rng.random(n_canaries) < 0.5
    scores = np.asarray(score(run(coins, rng)), dtype=np.float64)
    chosen = np.argsort(-np.abs(scores), kind="stable")[:n_guesses]
    n_correct = int(np.count_nonzero((scores[chosen] > 0) == coins[chosen]))
    failure = 1.0 - confidence

    def is_refuted(stated: Claim) -> bool:
        tail = correct_guesses_upper(
            n_correct, n_guesses=n_guesses, n_canaries=n_canaries, claim=stated
        )
        return tail <= failure

    broken = claim.events is not None and is_refuted(claim)
    audited_mu = None
    if claim.mu is not None:
        audited_mu = _largest(
            lambda mu: is_refuted(Claim.gaussian(mu, delta=claim.delta))
        )
        lower = gaussian_epsilon(mu=audited_mu, delta=claim.delta)
    else:
        lower = _largest(
            lambda epsilon: is_refuted(
                Claim.approximate(epsilon=epsilon, delta=claim.delta)
            )
        )
    verdict = Verdict.VIOLATED if broken else Verdict.CONSISTENT
    return AuditResult(
        target=target,
        class_name=class_name,
        certified_epsilon=claim.epsilon,
        audited_epsilon=lower,
        certified_mu=claim.mu,
        audited_mu=audited_mu,
        delta=claim.delta,
        verdict=Verdict.NO_CLAIM if claim.events is None else verdict,
        attack=f"{n_correct} of {n_guesses} coins guessed",
        n_runs=1,
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


def _largest(is_refuted: Callable[[float], bool]) -> float:
    """Return the largest value found to be refuted, by doubling and halving."""
    low, high = 0.0, 1.0
    while high < _LARGEST and is_refuted(high):
        low, high = high, 2.0 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low

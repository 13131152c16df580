"""Correct guesses in one run against a whole trade-off curve."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from corrdp.accounting import SampledGaussianEvent
from corrdp.auditing import Claim, Verdict, audit_one_run
from corrdp.auditing.statistics import is_too_many_correct, least_chance, roc_points
from corrdp.exceptions import CorrDPError

DELTA = 1e-5


def fewest_refuted(claim, *, n_guesses, n_canaries, failure_probability):
    """Return the smallest number of correct guesses that contradicts a claim."""
    low, high = 0, n_guesses + 1
    while low < high:
        middle = (low + high) // 2
        refuted = is_too_many_correct(
            middle,
            n_guesses=n_guesses,
            n_canaries=n_canaries,
            claim=claim,
            failure_probability=failure_probability,
        )
        low, high = (low, middle) if refuted else (middle + 1, high)
    return low


def alarms(mu, fewest, n_guesses, *, n_canaries=200, n_audits=2000, seed=0):
    """Return how often normal scores of a true mu reach a number of correct guesses."""
    rng = np.random.default_rng(seed)
    coins = rng.random((n_audits, n_canaries)) < 0.5
    scores = np.where(coins, mu, -mu) / 2 + rng.standard_normal(coins.shape)
    surest = np.argsort(-np.abs(scores), axis=1)[:, :n_guesses]
    right = np.take_along_axis((scores > 0) == coins, surest, axis=1).sum(axis=1)
    return float(np.mean(right >= fewest))


@pytest.mark.statistical
@pytest.mark.parametrize("mu", [0.3, 1.0])
@pytest.mark.parametrize("n_guesses", [10, 50, 200])
def test_noise_exactly_as_claimed_is_hardly_ever_called_broken(mu, n_guesses):
    fewest = fewest_refuted(
        Claim.gaussian(mu, delta=DELTA),
        n_guesses=n_guesses,
        n_canaries=200,
        failure_probability=0.1,
    )
    rate = alarms(mu, fewest, n_guesses)
    assert rate <= binom.isf(1e-9, 2000, 0.1) / 2000


def test_a_mechanism_that_is_rarely_bad_for_everybody_nearly_fills_the_bound():
    """Seldom, and then for all coins at once, answers are as true as the claim allows.

    The claim holds: rare * accuracy = exp(epsilon) * rare * (1 - accuracy) + delta.
    """
    epsilon, delta, rare = 1.0, 0.05, 0.1
    growth = math.exp(epsilon)
    accuracy = (growth + delta / rare) / (1.0 + growth)
    for failure in (0.09, 0.1):
        fewest = fewest_refuted(
            Claim.approximate(epsilon=epsilon, delta=delta),
            n_guesses=2000,
            n_canaries=2000,
            failure_probability=failure,
        )
        assert rare * binom.sf(fewest - 1, 2000, accuracy) < failure
        # and it could hardly be sharper
        assert rare * binom.sf(fewest - 61, 2000, accuracy) > 0.95 * failure


def test_half_the_noise_is_seen_and_more_than_by_one_point_of_the_curve():
    claim = Claim.gaussian(1.0, delta=DELTA)
    given = {"n_guesses": 250, "n_canaries": 1000, "failure_probability": 0.05}
    fewest = fewest_refuted(claim, **given)
    assert alarms(2.0, fewest, 250, n_canaries=1000, n_audits=100) > 0.9
    points = Claim(
        (SampledGaussianEvent(rate=1.0, contribution=0.5, change=1.0, n_steps=1),),
        DELTA,
    )
    assert fewest <= fewest_refuted(points, **given)


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_points_of_a_curve_are_below_the_curve(mu):
    exact = least_chance(Claim.gaussian(mu, delta=DELTA))
    event = SampledGaussianEvent(rate=1.0, contribution=mu / 2, change=mu, n_steps=1)
    points = least_chance(Claim((event,), DELTA))
    for chance in np.linspace(0.001, 0.999, 50):
        assert exact(chance) == pytest.approx(ndtr(ndtri(chance) - mu))
        assert points(chance) <= exact(chance) + 1e-3
    assert points(0.9) > 0.0
    assert exact(1.1) == points(1.1) == math.inf


def one_run(noise_factor, **changes):
    """Audit coins shown with normal noise of mu 1, or some of it, in one run."""
    settings = {
        "n_canaries": 1000,
        "n_guesses": (125, 250),
        "claim": Claim.gaussian(1.0, delta=DELTA),
        "class_name": "sensitive",
        "bound": "trade-off",
        "random_state": 1,
    }
    return audit_one_run(
        lambda coins, rng: (
            np.where(coins, 0.5, -0.5) + noise_factor * rng.standard_normal(coins.size)
        ),
        lambda output: output,
        **settings | changes,
    )


def test_one_run_by_the_curve_is_sound_and_sees_missing_noise():
    honest, planted = one_run(1.0), one_run(0.4)
    assert honest.verdict is Verdict.CONSISTENT
    assert 0.0 < honest.audited_mu < 1.0
    assert planted.verdict is Verdict.VIOLATED
    assert planted.audited_mu > 1.0
    assert "of 125, " in honest.attack
    assert honest.roc[0] == (0.0, 0.0)
    assert honest.roc[-1] == (1.0, 1.0)


def test_several_numbers_of_guesses_share_the_error():
    alone = one_run(1.0, n_guesses=250).audited_mu
    shared = one_run(1.0, n_guesses=[250] * 8).audited_mu
    assert shared < alone


def test_unknown_bounds_and_no_guesses_are_refused():
    with pytest.raises(CorrDPError, match="binomial, trade-off"):
        one_run(1.0, bound="exact")
    with pytest.raises(CorrDPError, match="n_guesses"):
        one_run(1.0, n_guesses=())


def test_a_claim_of_nothing_is_not_contradicted():
    assert not is_too_many_correct(
        10,
        n_guesses=10,
        n_canaries=10,
        claim=Claim(None, DELTA),
        failure_probability=0.5,
    )


def test_an_attack_that_knows_nothing_has_equal_rates():
    scores = np.random.default_rng(0).standard_normal((2, 20_000))
    for false, true in roc_points(*scores):
        assert true == pytest.approx(false, abs=0.03)
    assert roc_points(np.array([]), scores[0]) == ()

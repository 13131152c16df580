"""One run, leakage and attribute inference."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from corrdp.auditing import (
    Claim,
    Verdict,
    audit_leakage,
    audit_one_run,
    conditional_prior,
    infer_attribute,
)
from corrdp.auditing._one_run import correct_guesses_upper
from corrdp.exceptions import CorrDPError


def one_run(flip_probability, claim, **changes):
    """Audit randomized response of every canary's coin."""

    def run(coins, rng):
        return coins ^ (rng.random(coins.size) < flip_probability)

    settings = {
        "n_canaries": 400,
        "n_guesses": 400,
        "class_name": "sensitive",
        "random_state": 0,
    }
    return audit_one_run(
        run,
        lambda answers: np.where(answers, 1.0, -1.0),
        claim=claim,
        **settings | changes,
    )


def response(epsilon):
    return 1.0 / (1.0 + math.exp(epsilon))


def test_one_run_of_randomized_response_is_nearly_tight():
    claim = Claim.approximate(epsilon=1.0, delta=0.0)
    result = one_run(response(1.0), claim, n_canaries=5000, n_guesses=5000)
    assert result.verdict is Verdict.CONSISTENT
    assert 0.85 < result.audited_epsilon <= 1.0


def test_one_run_catches_too_little_randomness():
    claim = Claim.approximate(epsilon=1.0, delta=0.0)
    assert one_run(response(2.0), claim).verdict is Verdict.VIOLATED


def test_one_run_without_a_claim():
    assert one_run(0.1, Claim(None, 1e-6)).verdict is Verdict.NO_CLAIM


def test_bound_on_correct_guesses_holds_for_all_small_mechanisms():
    """Randomized response of three coins with delta: every guess, exactly."""
    epsilon, delta = 0.7, 0.05
    # with probability delta a coin is shown, else randomized response
    accuracy = delta + (1 - delta) / (1 + math.exp(-epsilon))
    claim = Claim.approximate(epsilon=epsilon, delta=delta)
    for n_correct in range(4):
        bound = correct_guesses_upper(n_correct, n_guesses=3, n_canaries=3, claim=claim)
        assert binom.sf(n_correct - 1, 3, accuracy) <= bound
    # without the term for delta the bound is wrong
    pure = Claim.approximate(epsilon=epsilon, delta=0.0)
    bound = correct_guesses_upper(3, n_guesses=3, n_canaries=3, claim=pure)
    assert accuracy**3 > bound


def test_more_guesses_than_canaries_are_refused():
    with pytest.raises(CorrDPError, match="n_guesses=9"):
        one_run(0.5, Claim.gaussian(1.0, delta=1e-6), n_canaries=5, n_guesses=9)


@pytest.mark.parametrize("score", [lambda o: o[:, None], lambda o: o * np.nan])
def test_scores_of_one_run_are_one_number_per_canary(score):
    with pytest.raises(CorrDPError, match="must give 5 numbers"):
        audit_one_run(
            lambda coins, rng: coins.astype(float),
            score,
            n_canaries=5,
            n_guesses=5,
            claim=Claim.gaussian(1.0, delta=1e-6),
            class_name="sensitive",
        )


def test_rows_that_do_not_match_and_nobody_to_attack_are_refused():
    with pytest.raises(CorrDPError, match="has 3 rows"):
        audit_leakage(np.zeros(3, int), np.zeros(2, int), feature="u", declared=0.1)
    with pytest.raises(CorrDPError, match="nobody to attack"):
        infer_attribute(
            lambda level: np.empty(0),
            np.empty((0, 2)),
            np.empty(0, int),
            feature="s",
            method="corr",
        )


def test_leakage_of_a_copy_is_found_and_of_noise_is_not():
    rng = np.random.default_rng(0)
    column = rng.integers(3, size=3000)
    noise = rng.integers(4, size=3000)
    copied = audit_leakage(column, column, feature="u", declared=0.5)
    unrelated = audit_leakage(noise, column, feature="u", declared=0.0)
    assert copied.audited > 0.95
    assert copied.is_understated
    assert unrelated.audited == 0.0
    assert not unrelated.is_understated


def test_leakage_through_two_sensitive_features_together():
    """Each alone says nothing (erratum E2): only both are an exclusive or."""
    rng = np.random.default_rng(1)
    parts = rng.integers(2, size=(4000, 2))
    column = parts[:, 0] ^ parts[:, 1]
    both = audit_leakage(parts, column, feature="u", declared=0.1)
    one = audit_leakage(parts[:, 0], column, feature="u", declared=0.1)
    assert both.is_understated
    assert not one.is_understated


def test_leakage_bound_is_below_the_truth_for_nearly_all_samples():
    truth, failures = 0.4, 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        column = rng.integers(2, size=400)
        copied = rng.random(400) < truth
        sensitive = np.where(copied, column, rng.integers(2, size=400))
        found = audit_leakage(
            sensitive, column, feature="u", declared=truth, confidence=0.9
        )
        failures += found.is_understated
    assert failures <= binom.isf(1e-9, 100, 0.1)


def test_attribute_inference_uses_what_the_model_says():
    truth = np.array([0, 1] * 50)
    prior = np.full((100, 2), 0.5)
    knowing = infer_attribute(
        lambda level: np.where(truth == level, 0.9, 0.1),
        prior,
        truth,
        feature="s",
        method="nonprivate",
    )
    blind = infer_attribute(
        lambda level: np.ones(100), prior, truth, feature="s", method="none"
    )
    assert knowing.accuracy == 1.0
    assert knowing.advantage == 0.5
    assert blind.advantage == 0.0
    assert knowing.accuracy_lower < 1.0 < knowing.to_json()["accuracy_upper"] + 1e-9


def test_attribute_inference_needs_a_prior_per_target():
    with pytest.raises(CorrDPError, match="one row per target"):
        infer_attribute(
            lambda level: np.ones(3),
            np.ones((2, 2)),
            np.zeros(3, dtype=int),
            feature="s",
            method="none",
        )


def test_prior_counts_rows_that_look_like_the_target():
    known = np.array(list(itertools.product([0, 1], repeat=2)) * 25)
    levels = known[:, 0] & known[:, 1]
    prior = conditional_prior(known, levels, np.array([[1, 1], [0, 1]]), 2)
    np.testing.assert_allclose(prior.sum(axis=1), 1.0)
    assert prior[0, 1] > 0.95
    assert prior[1, 0] > 0.95

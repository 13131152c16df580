"""Bounds, claims and attacks: known numbers, and the planted mistakes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from corrdp.accounting import GaussianEvent, LaplaceEvent, gaussian_delta, gaussian_mu
from corrdp.auditing import Challenge, Claim, LinearAttack, audit
from corrdp.auditing.statistics import EventBounds, clopper_pearson, event_bounds
from corrdp.auditing.statistics._attacks import gaussian_score
from corrdp.exceptions import CorrDPError

PROBABILITIES = st.floats(0.001, 0.999)


@pytest.mark.parametrize("count", [1, 7, 49])
def test_exact_bounds_invert_the_binomial_tails(count):
    lower, upper = clopper_pearson(count, 50, failure_probability=0.01)
    assert binom.sf(count - 1, 50, float(lower)) == pytest.approx(0.01)
    assert binom.cdf(count, 50, float(upper)) == pytest.approx(0.01)


def test_nothing_seen_bounds_nothing_from_the_other_side():
    lower, upper = clopper_pearson(np.array([0, 20]), 20, failure_probability=0.01)
    assert lower[0] == 0.0
    assert upper[1] == 1.0


def test_failure_probability_of_zero_is_refused():
    with pytest.raises(CorrDPError, match="failure_probability"):
        clopper_pearson(1, 10, failure_probability=0.0)


@given(st.floats(0.05, 5.0), st.floats(-1.5, 1.5))
def test_exact_gaussian_probabilities_give_back_mu(mu, shift):
    threshold = mu / 2 + shift  # far from it a probability of almost 1 is rounded
    bounds = EventBounds(norm.sf(threshold - mu), norm.sf(threshold))
    assert bounds.mu_lower() == pytest.approx(mu, rel=1e-6)


@given(st.floats(0.05, 5.0), st.floats(-3.0, 3.0), st.floats(0.0, 6.0))
def test_exact_gaussian_probabilities_never_pass_the_curve(mu, threshold, epsilon):
    bounds = EventBounds(norm.sf(threshold - mu), norm.sf(threshold))
    proved = bounds.hockey_stick_lower(epsilon)
    assert proved <= gaussian_delta(epsilon, mu=mu) + 1e-12


@given(PROBABILITIES, PROBABILITIES)
def test_the_complement_in_the_other_direction_says_the_same_of_mu(likely, rare):
    swapped = EventBounds(1.0 - rare, 1.0 - likely)
    assert EventBounds(likely, rare).mu_lower() == pytest.approx(
        swapped.mu_lower(), abs=1e-9
    )


def test_epsilon_of_randomized_response():
    bounds = EventBounds(likely_lower=0.75, rare_upper=0.25)
    assert bounds.epsilon_lower(0.0) == pytest.approx(math.log(3.0))


def test_an_event_that_never_happens_on_one_neighbor_has_no_epsilon():
    assert EventBounds(0.5, 0.0).epsilon_lower(0.1) == math.inf
    assert EventBounds(0.05, 0.9).epsilon_lower(0.1) == 0.0


def test_event_bounds_split_their_error():
    rare, likely = np.zeros(100), np.ones(100)
    bounds = event_bounds(rare, likely, 0.5, failure_probability=0.02)
    assert bounds.likely_lower == pytest.approx(0.01 ** (1 / 100))
    assert bounds.rare_upper == pytest.approx(1 - 0.01 ** (1 / 100))


def test_gaussian_claim_composes_its_events():
    claim = Claim((GaussianEvent(mu=3.0), GaussianEvent(mu=2.0, count=4)), 1e-5)
    assert claim.mu == pytest.approx(5.0)
    assert gaussian_mu(epsilon=claim.epsilon, delta=1e-5) == pytest.approx(5.0)


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_a_claim_is_broken_exactly_beyond_its_mu(mu):
    claim = Claim.gaussian(mu, delta=1e-5)
    just_below = EventBounds(norm.sf(-0.999 * mu), 0.5)
    just_above = EventBounds(norm.sf(-1.001 * mu), 0.5)
    assert not claim.is_broken_by(just_below)
    assert claim.is_broken_by(just_above)


def test_a_pure_claim_is_broken_beyond_its_ratio():
    claim = Claim((LaplaceEvent(epsilon=1.0),), 0.0)
    assert claim.mu is None
    assert claim.epsilon == pytest.approx(1.0, rel=1e-3)
    assert not claim.is_broken_by(EventBounds(0.2, 0.2 / math.exp(0.99)))
    assert claim.is_broken_by(EventBounds(0.2, 0.2 / math.exp(1.1)))


def test_a_pure_claim_is_broken_by_total_variation_too():
    # Laplace noise of epsilon 1 has total variation 1 - exp(-1/2): 0.393
    claim = Claim((LaplaceEvent(epsilon=1.0),), 0.0)
    assert claim.is_broken_by(EventBounds(0.71, 0.29))
    assert not claim.is_broken_by(EventBounds(0.69, 0.31))


def test_no_claim_cannot_be_broken():
    claim = Claim(None, 1e-5)
    assert claim.epsilon == math.inf
    assert not claim.is_broken_by(EventBounds(1.0, 0.0))


def test_audited_epsilon_takes_the_better_of_two_forms():
    bounds = EventBounds(0.9, 0.1)
    gaussian = Claim.gaussian(1.0, delta=1e-5).epsilon_lower(bounds)
    plain = Claim.approximate(epsilon=1.0, delta=1e-5).epsilon_lower(bounds)
    assert plain == pytest.approx(math.log((0.9 - 1e-5) / 0.1))
    assert gaussian > plain


def test_linear_attack_finds_the_coordinate_without_noise():
    rng = np.random.default_rng(0)
    first = rng.normal(size=(200, 3))
    second = rng.normal(size=(200, 3))
    first[:, 1], second[:, 1] = 0.0, 1e-4
    score = LinearAttack().fit(first, second)
    assert score(first).max() < score(second).min()


def test_linear_attack_finds_noise_that_was_used_twice():
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(400, 1))
    outputs = np.hstack([noise, noise])
    first, second = outputs[:200], outputs[200:] + np.array([0.0, 1e-3])
    score = LinearAttack().fit(first, second)
    assert score(first).max() < score(second).min()


def test_gaussian_score_is_the_log_likelihood_ratio():
    first, second = np.array([0.0, 1.0]), np.array([2.0, 1.5])
    scale = np.array([1.0, 0.5])
    output = np.array([[0.3, 0.9]])
    expected = norm.logpdf(output, second, scale) - norm.logpdf(output, first, scale)
    score = gaussian_score(first, second, scale)
    assert score(output)[0] == pytest.approx(expected.sum())


@pytest.mark.parametrize("size", [1e-300, 1e-5, 1.0, 1e200, 1e308])
def test_outputs_of_any_size_can_give_a_record_away(size):
    def release(data, n_runs, rng):
        return size * (data + 0.01 * rng.standard_normal((n_runs, 2)))

    claim = Claim.gaussian(1.0, delta=1e-5)
    challenge = Challenge("size", "sensitive", claim, 0.0, 0.9, release, n_runs=400)
    assert not audit([challenge], random_state=0).passed

"""Numbers that the paper prints, and those that show where it must not be followed."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from corrdp.accounting import (
    experiment_leakage,
    experiment_noise_variance,
    paper_noise_variance,
    scored_leakage,
)
from corrdp.theory import (
    CorrDPGuarantee,
    amplification_claim,
    amplified_epsilon,
    bounded_wasserstein,
    critic_total_variation_lower,
    dimension_upper,
    discrete_total_variation,
    gaussian_total_variation,
    improvement_factor,
    network_dimension,
    noise_dimension,
    printed_dimension,
    whole_record,
)


def gaussian_delta(epsilon, mu):
    """Balle and Wang (2018), Theorem 8, an independent twin of the accountant."""
    second = math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
    return norm.cdf(-epsilon / mu + mu / 2) - second


def gaussian_epsilon(mu, delta):
    return brentq(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0.0, 200.0)


def gaussian_mu(epsilon, delta):
    return brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, 1e-3, 50.0)


def bernoulli(probability):
    return [1 - probability, probability]


def test_example_2_6_insensitive_change():
    distance = discrete_total_variation(bernoulli(1 / 3), bernoulli(2 / 3))
    assert distance == pytest.approx(1 / 3, abs=1e-15)


def test_example_2_6_sensitive_change():
    # Given the sensitive column itself, its distribution is a point mass.
    assert discrete_total_variation(bernoulli(1.0), bernoulli(0.0)) == 1.0


def proved_epsilon(variance, *, shift, n_steps, delta):
    """Exact epsilon of full-batch steps when each coordinate moves by `shift`."""
    moves, scales = np.broadcast_arrays(shift, np.sqrt(variance))
    if np.any((moves > 0) & (scales == 0)):
        return math.inf
    moving = moves > 0
    mu = math.sqrt(n_steps * np.sum((moves[moving] / scales[moving]) ** 2))
    return gaussian_epsilon(mu, delta)


@pytest.mark.parametrize(("factor", "expected"), [(1, 1.06), (2, 2.29)])
def test_e5_equation_4_does_not_give_its_epsilon(factor, expected):
    variance = paper_noise_variance(
        [1.0], epsilon=1.0, delta=1e-5, lipschitz=3.0, n_steps=70, n_rows=500,
        n_sensitive=1,
    )  # fmt: skip
    epsilon = proved_epsilon(variance, shift=factor * 3.0 / 500, n_steps=70, delta=1e-5)
    assert round(epsilon, 2) == expected
    assert epsilon > 1.0


def test_e6_exact_accounting_needs_less_than_proportional_noise():
    ratio = (gaussian_mu(1.0, 1e-5) / gaussian_mu(1.0 / 0.22, 1e-5)) ** 2
    assert round(ratio, 3) == 0.067
    printed = scored_leakage([0.22], score=[0.0])[0]
    assert 0.22**2 < ratio < printed


def test_e3_semi_leaves_infinite_epsilon_and_the_experiments_too_little_noise():
    sensitive = np.array([True, False])
    setting = {"epsilon": 1.0, "delta": 1e-4, "constant": 1.0}
    # A change of the sensitive column also moves the other one, through the residual.
    shift = np.array([0.2, 0.05])
    epsilons = {
        method: proved_epsilon(
            experiment_noise_variance(
                experiment_leakage([1.0, 0.01], sensitive=sensitive, method=method),
                **setting,
            ),
            shift=shift,
            n_steps=1,
            delta=1e-4,
        )
        for method in ("standard", "corr", "semi")
    }
    assert epsilons["semi"] == math.inf
    assert epsilons["standard"] < epsilons["corr"] < math.inf


def test_e8_the_amplification_lemma_claims_a_tenth_where_five_is_true():
    claim = amplification_claim(epsilon=1.0, distance=0.1, sampling_rate=0.01)
    assert round(claim.claimed_epsilon, 10) == 0.1
    assert round(claim.true_epsilon, 2) == 5.40
    assert not claim.holds


def test_e8_a_corrdp_promise_alone_gives_even_more():
    """CorrDP bounds a change of the record, not its presence: 11 by two steps."""
    whole = whole_record(CorrDPGuarantee(epsilon=1.0), distance=0.1)
    assert whole.epsilon == pytest.approx(11.0)
    epsilon = amplified_epsilon(
        class_epsilon=10.0, presence_epsilon=whole.epsilon, sampling_rate=0.01
    )
    assert round(epsilon, 2) == 6.38


def test_e12_whole_record_is_not_exactly_dp():
    """Laplace noise 1 on S and 0.25 on U: CorrDP at epsilon 1 with d = 0.25."""
    shift, noise_scale = np.array([1.0, 1.0]), np.array([1.0, 0.25])
    by_class = shift / noise_scale
    assert by_class[0] <= 1.0
    assert by_class[1] <= 1.0 / 0.25
    together = float(by_class.sum())
    implied = whole_record(CorrDPGuarantee(epsilon=1.0), distance=0.25)
    assert together == pytest.approx(implied.epsilon)
    assert together > 1.0


def test_e16_the_printed_minimum_is_below_the_noise_it_bounds():
    # The paper's synthetic data, 10 sensitive of 100 columns, at leakage 0.22.
    leakage = np.full(90, 0.22)
    assert noise_dimension(leakage, n_sensitive=10) == pytest.approx(29.8)
    assert printed_dimension(leakage, n_sensitive=10) == pytest.approx(12.5)
    assert dimension_upper(leakage, n_sensitive=10) == pytest.approx(32.3)


def test_introduction_improvement_factor_sqrt_m_over_ms():
    factor = improvement_factor(np.zeros(9990), n_sensitive=10)
    assert factor == pytest.approx(math.sqrt(10_000 / 10), rel=1e-3)


def test_e18_the_dual_form_is_twice_the_distance():
    first, second = np.array(bernoulli(1 / 3)), np.array(bernoulli(2 / 3))
    supremum = float(np.abs(first - second).sum())  # attained at f = sign(p - q)
    assert supremum == pytest.approx(2 / 3)
    assert critic_total_variation_lower(supremum) == pytest.approx(1 / 3)


def test_e19_wasserstein_needs_the_diameter():
    # Point masses at 20 and 80 in an age range of [0, 100].
    assert bounded_wasserstein(60.0, diameter=100.0) == pytest.approx(0.6)


def test_e20_score_one_is_sensitive():
    assert scored_leakage([0.3, 0.3], score=[1.0, 0.0]).tolist() == [1.0, 0.3]


def test_e26_a_small_distance_is_no_bound_on_inference():
    first, second = 0.001, 0.101
    distance = discrete_total_variation(bernoulli(first), bernoulli(second))
    odds_ratio = (second / (1 - second)) / (first / (1 - first))
    assert distance == pytest.approx(0.1)
    assert round(odds_ratio) == 112


def test_sepsis_network_of_section_5():
    # 8 input columns (age, 2 sexes, 5 episodes), 5 neurons, 2 classes.
    n_parameters = 8 * 5 + 5 + 5 * 2 + 2
    dimension = network_dimension(
        n_parameters=n_parameters, n_columns=8, n_sensitive=1, first_layer_width=5
    )
    assert dimension == 57 - 35


def test_synthetic_data_leakage_of_one_column():
    """Appendix E.1, one sensitive column: covariance 0.1, variances 2 and 1."""
    width = 4 * math.sqrt(math.log(2 * 10 / 1e-4))
    distance = gaussian_total_variation(
        slope=0.1 / 2,
        conditional_scale=math.sqrt(1 - 0.1**2 / 2),
        width=width,
    )
    expected = 2 * norm.cdf(0.05 * width / (2 * math.sqrt(0.995))) - 1
    assert distance == pytest.approx(expected, abs=1e-14)

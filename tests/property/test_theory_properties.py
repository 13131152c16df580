"""Properties that the closed forms and calculators must have everywhere."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrdp.accounting import (
    in_sample_leakage_upper,
    paper_noise_variance,
    scored_leakage,
)
from corrdp.theory import (
    BoxModel,
    amplified_epsilon,
    check_gradient_assumption,
    check_relaxed_assumption,
    convex_utility_upper,
    correlated_sensitivity,
    dimension_upper,
    discrete_total_variation,
    gaussian_renyi_divergence,
    gradient_constants,
    improvement_factor,
    noise_dimension,
    utility_lower_rate,
    variability_loss,
    variability_loss_upper,
)

UNIT = st.floats(0.0, 1.0)
LEAKAGE = st.lists(UNIT, min_size=1, max_size=12)
SENSITIVE = st.integers(1, 12)
EPSILON = st.floats(0.01, 20.0)
SETTING = {
    "epsilon": 0.7,
    "delta": 1e-6,
    "lipschitz": 1.0,
    "n_steps": 10,
    "n_rows": 100,
}


def full_leakage(leakage, n_sensitive):
    return np.concatenate([np.ones(n_sensitive), leakage])


@given(LEAKAGE, st.data(), SENSITIVE)
def test_more_leakage_never_means_less_noise(leakage, data, n_sensitive):
    raised = [data.draw(st.floats(entry, 1.0)) for entry in leakage]
    low, high = (
        paper_noise_variance(
            full_leakage(part, n_sensitive), **SETTING, n_sensitive=n_sensitive
        )
        for part in (leakage, raised)
    )
    assert np.all(low <= high)


@given(LEAKAGE, SENSITIVE)
def test_leakage_one_everywhere_is_equal_noise(leakage, n_sensitive):
    ones = np.ones(n_sensitive + len(leakage))
    variance = paper_noise_variance(ones, **SETTING, n_sensitive=n_sensitive)
    assert np.ptp(variance) == 0.0


@given(LEAKAGE, SENSITIVE, st.randoms(use_true_random=False))
def test_column_order_is_irrelevant(leakage, n_sensitive, random):
    shuffled = random.sample(leakage, len(leakage))
    for function in (noise_dimension, dimension_upper, improvement_factor):
        assert function(leakage, n_sensitive=n_sensitive) == pytest.approx(
            function(shuffled, n_sensitive=n_sensitive)
        )
    setting = {"epsilon": 1.0, "n_rows": 100, "n_sensitive": n_sensitive}
    assert utility_lower_rate(leakage, **setting) == utility_lower_rate(
        shuffled, **setting
    )


@given(LEAKAGE, st.data())
def test_scores_only_raise_leakage(leakage, data):
    score = [data.draw(UNIT) for _ in leakage]
    scored = scored_leakage(leakage, score=score)
    assert np.all(scored >= np.asarray(leakage) - 1e-15)
    assert np.all(scored <= 1.0 + 1e-15)


@given(LEAKAGE, st.integers(1, 10**6), st.floats(0.01, 10.0), st.floats(0.01, 0.5))
def test_in_sample_leakage_is_at_least_the_estimate(leakage, n_rows, constant, gamma):
    upper = in_sample_leakage_upper(
        leakage,
        delta=1e-5,
        n_rows=n_rows,
        error_constant=constant,
        rate_exponent=gamma,
    )
    assert np.all(upper >= leakage)
    assert np.all(upper <= 1.0)


@given(LEAKAGE, SENSITIVE)
def test_the_sum_of_e16_is_an_upper_bound(leakage, n_sensitive):
    exact = noise_dimension(leakage, n_sensitive=n_sensitive)
    upper = dimension_upper(leakage, n_sensitive=n_sensitive)
    assert n_sensitive <= exact <= upper * (1 + 1e-12)
    assert exact <= n_sensitive + len(leakage) + 1e-9


@given(LEAKAGE, SENSITIVE, EPSILON, st.integers(2, 10**5))
def test_lower_rate_never_exceeds_the_upper_rate(leakage, n_sensitive, epsilon, n_rows):
    setting = {"epsilon": epsilon, "n_rows": n_rows, "n_sensitive": n_sensitive}
    upper = convex_utility_upper(
        leakage, **setting, delta=1e-5, lipschitz=1.0, parameter_radius=1.0
    )
    assert utility_lower_rate(leakage, **setting) <= upper.rate * (1 + 1e-12)
    assert upper.rate <= upper.upper  # constants and logarithms only add


@given(LEAKAGE, st.lists(st.floats(0, 10), min_size=1, max_size=5), st.data())
def test_the_maximum_is_never_above_the_printed_sum(leakage, own, data):
    others = [data.draw(st.floats(0, 10)) for _ in leakage]
    printed = correlated_sensitivity(own, others, leakage, form="sum")
    one = correlated_sensitivity(own, others, leakage)
    every = correlated_sensitivity(own, others, leakage, relation="all_insensitive")
    slack = 1 + 1e-12
    assert sum(own) <= one * slack
    assert one <= every * slack
    assert every <= printed * slack


def distributions(n_points):
    weights = st.lists(st.floats(0.01, 1.0), min_size=n_points, max_size=n_points)
    return weights.map(lambda w: np.array(w) / sum(w))


@given(*(distributions(4) for _ in range(3)))
def test_total_variation_is_a_distance(first, second, third):
    direct = discrete_total_variation(first, third)
    detour = discrete_total_variation(first, second) + discrete_total_variation(
        second, third
    )
    assert 0.0 <= direct <= detour + 1e-12
    assert direct == discrete_total_variation(third, first)
    assert discrete_total_variation(first, first) == 0.0


@given(*(distributions(4) for _ in range(3)), st.floats(0.01, 0.99))
def test_no_mechanism_exceeds_the_amplified_epsilon(absent, present, neighbor, rate):
    presence = max(
        np.abs(np.log(present / absent)).max(), np.abs(np.log(neighbor / absent)).max()
    )
    between = np.abs(np.log(present / neighbor)).max()
    first, second = ((1 - rate) * absent + rate * part for part in (present, neighbor))
    seen = np.abs(np.log(first / second)).max()
    bound = amplified_epsilon(
        class_epsilon=max(between, 1e-12),
        presence_epsilon=max(presence, 1e-12),
        sampling_rate=rate,
    )
    assert seen <= bound + 1e-9
    assert bound <= between + 1e-9


@given(EPSILON, EPSILON, st.floats(0.001, 1.0), st.floats(1.0, 2.0))
def test_amplified_epsilon_grows_with_every_argument(between, presence, rate, factor):
    def value(**change):
        setting = {
            "class_epsilon": between,
            "presence_epsilon": presence,
            "sampling_rate": rate,
        }
        return amplified_epsilon(**{**setting, **change})

    slack = 1e-9
    assert value() <= value(class_epsilon=factor * between) + slack
    assert value() <= value(presence_epsilon=factor * presence) + slack
    assert value() <= value(sampling_rate=min(1.0, factor * rate)) + slack


VARIANCE = st.floats(0.1, 10.0)


@given(st.floats(-3, 3), VARIANCE, VARIANCE, st.floats(0.1, 8), st.floats(1.01, 3))
def test_renyi_divergence_is_nonnegative_and_grows_with_order(
    mean, first, second, order, factor
):
    def value(at):
        return gaussian_renyi_divergence([mean], [[first]], [0.0], [[second]], order=at)

    assert value(order) >= -1e-9
    higher = value(factor * order)
    assert value(order) <= higher * (1 + 1e-6) + 1e-9 or math.isinf(higher)


@given(st.floats(0.01, 10), st.floats(0.01, 10), st.floats(0.01, 50), st.floats(-1, 1))
def test_lemma_a9_bounds_every_allowed_neighbor(variance, constant, order, position):
    n_rows = math.ceil(10 * constant * max(order, 1.0) / variance)
    loss = variability_loss(
        variance,
        neighbor_variance=variance + position * constant / n_rows,
        order=order,
    )
    upper = variability_loss_upper(
        variance, stability_constant=constant, n_rows=n_rows, order=order
    )
    assert -1e-12 <= loss <= upper + 1e-12


@st.composite
def box_models(draw):
    n_columns = draw(st.integers(1, 5))
    columns = {"min_size": n_columns, "max_size": n_columns}
    lower = np.array(draw(st.lists(st.floats(-2, 1), **columns)))
    width = np.array(draw(st.lists(st.floats(0.1, 3), **columns)))
    loss = draw(st.sampled_from(["least_squares", "logistic"]))
    return BoxModel(
        loss=loss,
        lower=lower,
        upper=lower + width,
        parameter_radius=draw(st.floats(0.1, 5)),
        coefficient_bound=draw(
            st.none() | st.lists(st.floats(0.05, 2), **columns).map(np.array)
        ),
        label_bound=draw(st.floats(0.1, 3)) if loss == "least_squares" else None,
    )


@given(box_models(), st.integers(0, 10))
def test_no_search_refutes_the_proved_constants(model, seed):
    constants = gradient_constants(model)
    setting = {"n_candidates": 512, "seed": seed}
    report = check_gradient_assumption(
        model, direct=constants.direct, cross=constants.cross, **setting
    )
    assert report.verdict == "proved"
    relaxed = check_relaxed_assumption(model, constant=constants.relaxed, **setting)
    assert relaxed.verdict == "proved"

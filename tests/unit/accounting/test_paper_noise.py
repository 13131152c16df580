"""Closed forms of the paper, each against the formula written out by hand."""

import math

import numpy as np
import pytest

from corrdp.accounting import (
    experiment_leakage,
    experiment_noise_variance,
    in_sample_leakage_upper,
    paper_network_noise_variance,
    paper_noise_variance,
    scored_leakage,
)
from corrdp.exceptions import BudgetError, CorrDPError

LEAKAGE = np.array([1.0, 1.0, 0.9, 0.22, 0.0])
SETTING = {
    "epsilon": 0.5,
    "delta": 1e-5,
    "lipschitz": 2.0,
    "n_steps": 300,
    "n_rows": 1000,
    "n_sensitive": 2,
}
FULL = (math.log(1e5) + 1) * 2.0**2 * 300 / (1000**2 * 0.5**2)


def test_equation_4_column_by_column():
    variance = paper_noise_variance(LEAKAGE, **SETTING)
    floor = (2 / 5) ** 2
    np.testing.assert_allclose(
        variance, FULL * np.array([1, 1, 0.9, 0.22, floor]), rtol=1e-14
    )


def test_without_the_floor_an_independent_column_gets_no_noise():
    assert paper_noise_variance(LEAKAGE, **SETTING, floor=False)[-1] == 0.0
    assert paper_noise_variance(LEAKAGE, **SETTING)[-1] > 0.0


def test_label_score_lifts_every_insensitive_column_and_no_other():
    variance = paper_noise_variance(LEAKAGE, **SETTING, label_score=0.5)
    np.testing.assert_allclose(variance / FULL, [1, 1, 0.9, 0.5, 0.5], rtol=1e-14)


def test_label_score_of_one_is_equal_noise():
    variance = paper_noise_variance(LEAKAGE, **SETTING, label_score=1.0)
    np.testing.assert_allclose(variance, np.full(5, FULL), rtol=1e-14)


def test_tiny_delta_does_not_overflow():
    variance = paper_noise_variance(LEAKAGE, **{**SETTING, "delta": 5e-324})
    assert np.all(np.isfinite(variance))


def test_equation_5_scales_rows_of_the_first_layer_and_nothing_else():
    noise = paper_network_noise_variance(LEAKAGE, **SETTING, first_layer_width=3)
    assert noise.first_layer.shape == (5, 3)
    by_column = paper_noise_variance(LEAKAGE, **SETTING)
    for neuron in range(3):
        np.testing.assert_array_equal(noise.first_layer[:, neuron], by_column)
    assert noise.other == pytest.approx(FULL, rel=1e-14)
    assert noise.other == noise.first_layer[0, 0]


def test_experiments_use_the_constant_and_no_floor():
    variance = experiment_noise_variance(LEAKAGE, epsilon=0.5, delta=1e-5, constant=3.0)
    expected = 3.0 * (math.log(1e5) + 1) / 0.25 * LEAKAGE
    np.testing.assert_allclose(variance, expected, rtol=1e-14)


def test_experiment_constant_l2_t_over_n2_is_equation_4_without_floor():
    constant = 2.0**2 * 300 / 1000**2
    np.testing.assert_allclose(
        experiment_noise_variance(LEAKAGE, epsilon=0.5, delta=1e-5, constant=constant),
        paper_noise_variance(LEAKAGE, **SETTING, floor=False),
        rtol=1e-14,
    )


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("corr", [1, 1, 0.9, 1.0, 0.0]),
        ("semi", [1, 1, 0, 0, 0]),
        ("standard", [1, 1, 1, 1, 1]),
    ],
)
def test_methods_of_section_5(method, expected):
    leakage = [0.3, 1.0, 0.9, 1.0, 0.0]  # leakage 1 does not make a column sensitive
    sensitive = np.array([True, True, False, False, False])
    multiplier = experiment_leakage(leakage, sensitive=sensitive, method=method)
    np.testing.assert_array_equal(multiplier, expected)


def test_scores_run_from_insensitive_to_sensitive():
    scored = scored_leakage([0.2, 0.2, 0.2], score=[0.0, 0.5, 1.0])
    np.testing.assert_allclose(scored, [0.2, 0.6, 1.0], rtol=1e-15)


def test_in_sample_adjustment_of_definition_4_3():
    upper = in_sample_leakage_upper(
        [0.1, 0.3], delta=1e-4, n_rows=10_000, error_constant=0.5, rate_exponent=0.5
    )
    margin = 2 * 0.5 * math.sqrt(math.log(2 / 1e-4)) / 100
    np.testing.assert_allclose(upper, [0.1 + margin, 0.3 + margin], rtol=1e-14)


def test_in_sample_adjustment_never_exceeds_one():
    upper = in_sample_leakage_upper(
        [0.9], delta=1e-4, n_rows=10, error_constant=5.0, rate_exponent=1 / 3
    )
    assert upper.tolist() == [1.0]


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"epsilon": 0.0}, BudgetError, "epsilon=0.0"),
        ({"epsilon": math.nan}, BudgetError, "epsilon=nan"),
        ({"epsilon": None}, BudgetError, "epsilon is None"),
        ({"delta": 1.0}, BudgetError, "delta=1.0"),
        ({"delta": 0.0}, BudgetError, "delta=0.0"),
        ({"lipschitz": 0.0}, CorrDPError, "lipschitz=0.0"),
        ({"lipschitz": math.inf}, CorrDPError, "lipschitz=inf"),
        ({"n_steps": 0}, CorrDPError, "n_steps=0"),
        ({"n_rows": 10.0}, CorrDPError, "n_rows=10.0"),
        ({"n_sensitive": 3}, CorrDPError, "n_sensitive=3 .* got 2 of 5"),
        ({"n_sensitive": -1}, CorrDPError, "n_sensitive=-1"),
        ({"label_score": 1.5}, CorrDPError, "label_score=1.5"),
    ],
)
def test_arguments_of_equation_4_are_checked(change, error, match):
    with pytest.raises(error, match=match):
        paper_noise_variance(LEAKAGE, **{**SETTING, **change})


@pytest.mark.parametrize("leakage", [[], [1.0, 1.0, 1.1], [1.0, -0.1], [[1.0]], ["a"]])
def test_leakage_must_be_a_vector_of_distances(leakage):
    with pytest.raises(CorrDPError, match="leakage"):
        paper_noise_variance(leakage, **{**SETTING, "n_sensitive": 0})


def test_message_on_an_estimate_does_not_show_it():
    with pytest.raises(CorrDPError) as caught:
        in_sample_leakage_upper(
            [1.2345], delta=1e-4, n_rows=10, error_constant=1.0, rate_exponent=0.5
        )
    assert "1.2345" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"error_constant": 0.0}, "error_constant=0.0"),
        ({"rate_exponent": 0.6}, "rate_exponent=0.6"),
        ({"rate_exponent": 0.0}, "rate_exponent=0.0"),
        ({"n_rows": 0}, "n_rows=0"),
        ({"delta": 2.0}, "delta=2.0"),
    ],
)
def test_arguments_of_definition_4_3_are_checked(change, match):
    setting = {"delta": 1e-4, "n_rows": 9, "error_constant": 1.0, "rate_exponent": 0.5}
    with pytest.raises(CorrDPError, match=match):
        in_sample_leakage_upper([0.5], **{**setting, **change})


def test_other_arguments_are_checked():
    with pytest.raises(CorrDPError, match=r"constant=-1\.0"):
        experiment_noise_variance([1.0], epsilon=1.0, delta=1e-5, constant=-1.0)
    with pytest.raises(CorrDPError, match="method='partial'"):
        experiment_leakage([1.0], sensitive=[True], method="partial")
    with pytest.raises(CorrDPError, match="boolean array"):
        experiment_leakage([1.0], sensitive=[1.0], method="corr")
    with pytest.raises(CorrDPError, match="boolean array"):
        experiment_leakage([1.0, 0.5], sensitive=[True], method="corr")
    with pytest.raises(CorrDPError, match="score must have shape"):
        scored_leakage([1.0, 0.5], score=[1.0])
    with pytest.raises(CorrDPError, match="first_layer_width=0"):
        paper_network_noise_variance(LEAKAGE, **SETTING, first_layer_width=0)

"""Constants of the examples of Appendix D, written out by hand."""

import math

import pytest

from corrdp.exceptions import CorrDPError
from corrdp.theory import (
    EstimationConstants,
    discrete_estimation_constants,
    gaussian_estimation_constants,
    histogram_bin_width,
    histogram_estimation_constants,
)

DISCRETE = {
    "n_sensitive_categories": 4,
    "n_insensitive_categories": 3,
    "smallest_probability": 0.02,
}
HISTOGRAM = {
    "n_bins": 10,
    "n_insensitive_categories": 3,
    "smallest_probability": 0.2,
    "bound": 2.0,
}


def test_example_d1_discrete():
    assert discrete_estimation_constants(**DISCRETE) == EstimationConstants(
        error_constant=pytest.approx(math.sqrt(math.log(12) / 0.02)),
        stability_constant=pytest.approx(50.0),
        rate_exponent=0.5,
        example="D.1",
    )


def test_several_discrete_columns_multiply():
    several = discrete_estimation_constants(
        **{**DISCRETE, "n_sensitive_categories": [2, 2]}
    )
    assert several.error_constant == pytest.approx(
        discrete_estimation_constants(**DISCRETE).error_constant
    )


def test_example_d2_histogram():
    assert histogram_estimation_constants(**HISTOGRAM) == EstimationConstants(
        error_constant=pytest.approx(2.0 * math.sqrt(math.log(30) / 0.2)),
        stability_constant=pytest.approx(10.0),
        rate_exponent=pytest.approx(1 / 3),
        example="D.2",
    )


@pytest.mark.parametrize("n_sensitive", [1, 2, 5])
def test_histogram_rate_falls_with_the_dimension(n_sensitive):
    constants = histogram_estimation_constants(
        **{**HISTOGRAM, "n_bins": [10] * n_sensitive}
    )
    assert constants.rate_exponent == pytest.approx(1 / (n_sensitive + 2))
    width = histogram_bin_width(n_rows=1000, n_sensitive=n_sensitive)
    # Bias h and noise 1 / sqrt(n h^m_s) balance at that width.
    assert width == pytest.approx(1 / math.sqrt(1000 * width**n_sensitive))


def test_example_d3_gaussian():
    constants = gaussian_estimation_constants(
        conditional_scale=0.5, n_rows=2000, constant=3.0
    )
    assert constants == EstimationConstants(
        error_constant=pytest.approx(6.0 * math.sqrt(math.log(2000))),
        stability_constant=pytest.approx(6.0),
        rate_exponent=0.5,
        example="D.3",
    )


@pytest.mark.parametrize("gamma", [0.2, 1 / 3, 0.5])
def test_minimum_rows_is_the_first_that_satisfies_the_proof(gamma):
    constants = EstimationConstants(
        error_constant=0.7, stability_constant=40.0, rate_exponent=gamma, example="-"
    )
    setting = {"order": 20.0, "n_insensitive": 9, "delta": 1e-5}
    n_rows = constants.minimum_rows(**setting)
    needed = (20.0 * 40.0 / 0.7) ** 2 / math.log(9 / 1e-5)
    assert n_rows ** (2 * (1 - gamma)) >= needed > (n_rows - 1) ** (2 * (1 - gamma))


@pytest.mark.parametrize(
    ("function", "setting", "change", "match"),
    [
        (
            discrete_estimation_constants,
            DISCRETE,
            {"n_sensitive_categories": 1},
            "n_sensitive_categories=1",
        ),
        (
            discrete_estimation_constants,
            DISCRETE,
            {"n_sensitive_categories": []},
            "number of entries",
        ),
        (
            discrete_estimation_constants,
            DISCRETE,
            {"smallest_probability": 0.0},
            "smallest_probability=0.0",
        ),
        (
            discrete_estimation_constants,
            DISCRETE,
            {"n_insensitive_categories": 0},
            "n_insensitive_categories=0",
        ),
        (histogram_estimation_constants, HISTOGRAM, {"bound": -1.0}, "bound=-1.0"),
        (histogram_estimation_constants, HISTOGRAM, {"n_bins": [3, 1]}, "n_bins=1"),
        (histogram_bin_width, {"n_rows": 10}, {"n_sensitive": 0}, "n_sensitive=0"),
        (
            gaussian_estimation_constants,
            {"conditional_scale": 1.0, "n_rows": 10},
            {"n_rows": 1},
            "n_rows=1",
        ),
    ],
)
def test_arguments_are_checked(function, setting, change, match):
    with pytest.raises(CorrDPError, match=match):
        function(**{**setting, **change})

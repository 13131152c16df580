"""Assumption 3.4: proofs against finite differences, violations found by search."""

import math

import numpy as np
import pytest

from corrdp.exceptions import CorrDPError
from corrdp.theory import (
    BoxModel,
    check_gradient_assumption,
    check_relaxed_assumption,
    gradient_constants,
    printed_least_squares_constants,
    printed_logistic_constants,
)


def box_model(loss, n_columns=6, **changes):
    setting = {
        "loss": loss,
        "lower": np.full(n_columns, -1.0),
        "upper": np.full(n_columns, 1.0),
        "parameter_radius": 1.0,
        "label_bound": 2.0 if loss == "least_squares" else None,
    }
    return BoxModel(**{**setting, **changes})


LOSSES = pytest.mark.parametrize("loss", ["least_squares", "logistic"])


def loss_value(loss, coef, row, label):
    predictor = float(coef @ row)
    if loss == "least_squares":
        return (predictor - label) ** 2
    return math.log1p(math.exp(predictor)) - label * predictor


@LOSSES
def test_gradient_is_the_derivative_of_the_loss(loss):
    model = box_model(loss, 3)
    coef, row, label = np.array([0.3, -0.5, 0.1]), np.array([0.2, 0.9, -1.0]), 1.0
    gradient = model.gradient(coef[np.newaxis], row[np.newaxis], np.array([label]))[0]
    for column in range(3):
        step = 1e-6 * np.eye(3)[column]
        slope = (
            loss_value(loss, coef + step, row, label)
            - loss_value(loss, coef - step, row, label)
        ) / 2e-6
        assert gradient[column] == pytest.approx(slope, abs=1e-8)


@LOSSES
def test_lipschitz_bounds_every_gradient(loss):
    model = box_model(loss)
    rng = np.random.default_rng(0)
    coef = rng.normal(size=(5000, 6))
    coef /= np.linalg.norm(coef, axis=1, keepdims=True)
    rows = rng.choice([-1.0, 1.0], size=(5000, 6))
    labels = rng.choice(model.label_range, size=5000)
    norms = np.linalg.norm(model.gradient(coef, rows, labels), axis=1)
    assert norms.max() <= model.lipschitz
    assert norms.max() > 0.8 * model.lipschitz


@LOSSES
def test_sufficient_constants_are_proved_and_nearly_needed(loss):
    model = box_model(loss)
    constants = gradient_constants(model)
    report = check_gradient_assumption(
        model, direct=constants.direct, cross=constants.cross
    )
    assert report.verdict == "proved"
    assert report.direct_lower <= constants.direct * (1 + 1e-9)
    assert 0.9 * constants.cross < report.cross_lower <= constants.cross * (1 + 1e-9)
    assert report.sufficient == constants


@LOSSES
def test_constants_that_are_too_small_are_violated(loss):
    model = box_model(loss)
    constants = gradient_constants(model)
    for change in (
        {"direct": 0.3 * constants.direct},
        {"cross": 0.8 * constants.cross},
    ):
        setting = {"direct": constants.direct, "cross": constants.cross, **change}
        report = check_gradient_assumption(model, **setting)
        assert report.verdict == "violated"
        assert report.largest_ratio > 1.0


def test_constants_between_needed_and_proved_stay_undecided():
    model = box_model("logistic")
    constants = gradient_constants(model)
    report = check_gradient_assumption(
        model, direct=0.99 * constants.direct, cross=constants.cross
    )
    assert report.verdict == "undecided"


@LOSSES
def test_the_relaxed_assumption_has_a_proved_and_a_violated_constant(loss):
    model = box_model(loss)
    constant = gradient_constants(model).relaxed
    assert check_relaxed_assumption(model, constant=constant).verdict == "proved"
    report = check_relaxed_assumption(model, constant=0.5 * constant)
    assert report.verdict == "violated"


def printed_logistic(model):
    return printed_logistic_constants(
        feature_bound=model.feature_bound,
        parameter_radius=model.parameter_radius,
        n_columns=model.n_columns,
        spread_constant=1.0,
    )


@pytest.mark.parametrize("n_columns", [5, 20, 80])
def test_a_radius_does_not_give_example_3_6(n_columns):
    """E7: all the weight on one coefficient breaks the 1/m cross term."""
    model = box_model("logistic", n_columns)
    printed = printed_logistic(model)
    report = check_gradient_assumption(
        model, direct=printed.direct, cross=printed.cross, lipschitz=1.0
    )
    assert report.verdict == "violated"
    # What is needed grows like m / 4: no constant will do.
    assert report.cross_lower == pytest.approx(n_columns / 4, rel=0.02)


@pytest.mark.parametrize("n_columns", [5, 20, 80])
def test_bounding_every_coefficient_gives_example_3_6(n_columns):
    model = box_model("logistic", n_columns)
    spread = np.full(n_columns, 1.0 / (n_columns * model.feature_bound))
    projected = box_model("logistic", n_columns, coefficient_bound=spread)
    printed = printed_logistic(projected)
    report = check_gradient_assumption(
        projected, direct=printed.direct, cross=printed.cross, lipschitz=1.0
    )
    assert report.verdict == "proved"


def test_example_3_5_as_printed():
    constants = printed_least_squares_constants(
        feature_bound=2.0,
        parameter_radius=3.0,
        label_bound=1.0,
        n_columns=10,
        spread_constant=0.5,
    )
    assert constants.lipschitz == pytest.approx(16.0)
    assert constants.direct == pytest.approx(8.3)
    assert constants.cross == pytest.approx(3.0)
    assert constants.relaxed == constants.direct


def test_example_3_5_prints_a_lipschitz_constant_that_is_too_small():
    """|theta . x| is at most B D, not D: wrong as soon as B exceeds 1."""
    model = box_model("least_squares", 16, parameter_radius=3.0)
    printed = printed_least_squares_constants(
        feature_bound=model.feature_bound,
        parameter_radius=3.0,
        label_bound=2.0,
        n_columns=16,
        spread_constant=1.0,
    )
    row, coef = np.ones((1, 16)), np.full((1, 16), 3.0 / 4.0)
    seen = float(np.linalg.norm(model.gradient(coef, row, np.array([-2.0]))))
    assert printed.lipschitz < seen <= model.lipschitz * (1 + 1e-12)


def test_one_column_has_no_cross_term():
    report = check_gradient_assumption(box_model("logistic", 1), direct=10.0, cross=0.0)
    assert report.verdict == "proved"
    assert report.cross_lower == 0.0


@pytest.mark.parametrize(
    ("loss", "changes", "match"),
    [
        ("poisson", {}, "loss='poisson'"),
        ("least_squares", {"label_bound": None}, "label_bound=None"),
        ("logistic", {"label_bound": 1.0}, "label_bound=1.0"),
        ("least_squares", {"label_bound": 0.0}, "label_bound=0.0"),
        ("logistic", {"lower": np.full(6, 2.0)}, "at column 0"),
        ("logistic", {"upper": [1.0]}, "upper must be a vector"),
        ("logistic", {"lower": [np.nan] * 6}, "lower must be a vector"),
        ("logistic", {"parameter_radius": -1.0}, "parameter_radius=-1.0"),
        ("logistic", {"coefficient_bound": [0.0] * 6}, "must be positive, got 0"),
        ("logistic", {"coefficient_bound": [1.0]}, "coefficient_bound"),
    ],
)
def test_models_are_checked(loss, changes, match):
    with pytest.raises(CorrDPError, match=match):
        box_model(loss, **changes)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"direct": -1.0}, r"direct=-1\.0"),
        ({"cross": math.nan}, "cross=nan"),
        ({"lipschitz": 0.0}, r"lipschitz=0\.0"),
        ({"n_candidates": 1}, "n_candidates=1"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_arguments_of_the_check_are_checked(change, match):
    with pytest.raises(CorrDPError, match=match):
        check_gradient_assumption(
            box_model("logistic"), **{"direct": 1.0, "cross": 1.0, **change}
        )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"feature_bound": 0.0}, "feature_bound"),
        ({"parameter_radius": 0.0}, "parameter_radius"),
        ({"n_columns": 0}, "n_columns"),
        ({"spread_constant": 0.0}, "spread_constant"),
    ],
)
def test_arguments_of_the_printed_constants_are_checked(change, match):
    setting = {
        "feature_bound": 1.0,
        "parameter_radius": 1.0,
        "n_columns": 2,
        "spread_constant": 1.0,
        **change,
    }
    with pytest.raises(CorrDPError, match=match):
        printed_logistic_constants(**setting)
    with pytest.raises(CorrDPError, match=match):
        printed_least_squares_constants(**setting, label_bound=1.0)

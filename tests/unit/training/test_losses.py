import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrdp.exceptions import CorrDPError
from corrdp.training.losses import (
    HuberLoss,
    LogisticLoss,
    MultinomialLoss,
    SquaredLoss,
    UnclippedSquaredLoss,
)

SCALAR = {
    "logistic": (LogisticLoss(), [0.0, 1.0]),
    "huber": (HuberLoss(0.4), [-0.5, 0.1, 0.5]),
    "unclipped": (UnclippedSquaredLoss(), [-0.5, 0.1, 0.5]),
    "squared": (SquaredLoss(5.0), [-0.5, 0.1, 0.5]),
}
scores = st.floats(-4.0, 4.0)


@pytest.mark.parametrize("name", SCALAR)
@given(score=scores)
def test_the_residual_is_the_derivative_of_the_value(name, score):
    loss, labels = SCALAR[name]
    y = np.array(labels)
    at = np.full(y.size, score)
    step = 1e-5
    slope = (loss.value(at + step, y) - loss.value(at - step, y)) / (2 * step)
    np.testing.assert_allclose(loss.residual(at, y), slope, atol=1e-5)


@given(st.lists(scores, min_size=3, max_size=3), st.integers(0, 2))
def test_the_multinomial_residual_is_the_gradient_of_the_value(row, label):
    loss = MultinomialLoss(3)
    at, y, step = np.array([row]), np.array([label]), 1e-5
    slope = [
        (loss.value(at + step * e, y) - loss.value(at - step * e, y))[0] / (2 * step)
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(loss.residual(at, y)[0], slope, atol=1e-8)


@pytest.mark.parametrize("name", SCALAR)
@given(first=scores, second=scores)
def test_residuals_are_bounded_and_lipschitz(name, first, second):
    loss, labels = SCALAR[name]
    y = np.array(labels)
    a, b = (loss.residual(np.full(y.size, s), y) for s in (first, second))
    assert np.all(np.abs(a) <= loss.residual_limit)
    assert np.all(np.abs(a - b) <= loss.lipschitz * abs(first - second) + 1e-12)


@given(
    st.lists(scores, min_size=4, max_size=4), st.lists(scores, min_size=4, max_size=4)
)
def test_the_softmax_is_lipschitz_with_constant_one_half(first, second):
    loss, y = MultinomialLoss(4), np.array([0])
    a, b = (loss.residual(np.array([s]), y)[0] for s in (first, second))
    distance = np.linalg.norm(np.subtract(first, second))
    assert np.linalg.norm(a) <= loss.residual_limit + 1e-12
    assert np.linalg.norm(a - b) <= loss.lipschitz * distance + 1e-12


def test_two_classes_of_the_multinomial_loss_are_the_logistic_loss():
    score, y = np.linspace(-3, 3, 7), np.array([0, 1, 0, 1, 0, 1, 1])
    two = np.column_stack([np.zeros(7), score])
    residual = MultinomialLoss(2).residual(two, y)
    np.testing.assert_allclose(residual[:, 1], LogisticLoss().residual(score, y))
    np.testing.assert_allclose(
        MultinomialLoss(2).value(two, y), LogisticLoss().value(score, y)
    )


def test_a_clipped_squared_loss_has_the_gradient_of_huber():
    score, y = np.linspace(-3, 3, 13), np.zeros(13)
    np.testing.assert_array_equal(
        SquaredLoss(0.7).residual(score, y), HuberLoss(0.7).residual(score, y)
    )
    np.testing.assert_allclose(SquaredLoss(0.7).value(score, y), score**2 / 2)


def test_large_scores_do_not_overflow():
    loss = LogisticLoss()
    score = np.array([-1e4, 1e4])
    np.testing.assert_allclose(loss.value(score, np.array([1, 0])), [1e4, 1e4])
    np.testing.assert_allclose(loss.residual(score, np.array([1, 0])), [-1.0, 1.0])


def test_limits_of_the_residuals():
    assert LogisticLoss().residual_limit == 1.0
    assert SquaredLoss(0.25).residual_limit == 0.25
    assert HuberLoss(0.1).residual_limit == 0.1
    assert MultinomialLoss(5).residual_limit == math.sqrt(2.0)
    assert MultinomialLoss(5).n_outputs == 5
    assert UnclippedSquaredLoss().residual_limit == math.inf


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan, None])
def test_bounds_must_be_positive_and_finite(bound):
    with pytest.raises(CorrDPError, match="residual_bound"):
        SquaredLoss(bound)
    with pytest.raises(CorrDPError, match="threshold"):
        HuberLoss(bound)


def test_one_class_is_refused():
    with pytest.raises(CorrDPError, match="n_classes"):
        MultinomialLoss(1)

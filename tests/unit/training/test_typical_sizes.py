"""Nominal sizes: two labels are the binary model, a high threshold is least squares."""

import math

import numpy as np
import pytest

from corrdp.policy import PolicyEncoder
from corrdp.training import (
    SQUARED_LOSS,
    HuberLoss,
    LogisticLoss,
    MultinomialLoss,
    nominal_coef,
)
from corrdp.training._expectations import typical_sizes
from descent_examples import example_policy


def test_two_scores_describe_the_binary_model():
    one, two = typical_sizes(LogisticLoss()), typical_sizes(MultinomialLoss(2))
    assert two.residual == pytest.approx(math.sqrt(2.0) * one.residual)
    assert two.expected_distance == pytest.approx(
        one.expected_distance / math.sqrt(2.0)
    )
    assert two.curvature == 2.0 * one.curvature
    assert two.gain == pytest.approx(one.gain)
    assert two.influence_bias == pytest.approx(one.influence_bias)
    blocks = PolicyEncoder(example_policy()).blocks_
    scores = nominal_coef(blocks, MultinomialLoss(2))
    difference = scores[:, 1] - scores[:, 0]
    np.testing.assert_allclose(difference, nominal_coef(blocks, LogisticLoss()))


@pytest.mark.parametrize("n_classes", [3, 7])
def test_nominal_parameters_have_their_norm_and_add_up_to_nothing(n_classes):
    loss = MultinomialLoss(n_classes)
    blocks = PolicyEncoder(example_policy()).blocks_  # a number and three levels
    coef = nominal_coef(blocks, loss)
    assert coef.shape == (5, n_classes)
    np.testing.assert_allclose(coef.sum(axis=1), 0.0, atol=1e-12)
    size = typical_sizes(loss).expected_distance / 2 / math.sqrt(2)
    np.testing.assert_allclose(np.linalg.norm(coef[:-1], axis=1), size)


def test_a_high_threshold_is_least_squares_and_a_low_one_costs_less():
    squared = typical_sizes(SQUARED_LOSS)
    assert typical_sizes(HuberLoss(50.0)) == squared
    low = typical_sizes(HuberLoss(0.01))
    assert low.residual == 0.01
    rng = np.random.default_rng(0)
    labels = rng.normal(0.0, 1 / 6, 200_000)
    mean = HuberLoss(0.01).value(np.zeros(labels.size), labels).mean()
    assert low.gain == pytest.approx(mean / 2, rel=0.02)

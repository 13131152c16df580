"""Steps by column follow released means and the noise that was added."""

import numpy as np
import pytest

from corrdp.estimators import AdditiveClassifier
from corrdp.policy import (
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    policy_blocks,
)
from corrdp.training import ColumnSteps, Descent, GradientLayout, prepare_rows
from corrdp.training._step_sizes import column_curvature

KNOTS = (0.0, 5.0, 10.0)


def curved_policy():
    return Policy(
        (Feature("age", "sensitive", NumberDomain(0, 10, knots=KNOTS)),),
        Label("y", CategoryDomain(("n", "p")), score=0.0),
    )


def test_without_noise_curvature_alone_decides():
    steps = ColumnSteps(progress=8.0, distance=0.5)
    sizes = steps.sizes(np.array([0.1, 1.0]), np.zeros(2), 100)
    np.testing.assert_allclose(sizes * np.array([0.1, 1.0]) * 100, 8.0)


def test_where_noise_rules_it_moves_a_weight_by_the_distance():
    steps = ColumnSteps(progress=8.0, distance=0.5)
    noise, n_steps = np.array([1e3]), 100
    (size,) = steps.sizes(np.array([1e-9]), noise, n_steps)
    # noise of a step is the root of the number of steps times that of one release
    every = noise[0] * np.sqrt(n_steps)
    assert size * every * np.sqrt(n_steps) == pytest.approx(0.5, rel=1e-6)


def test_a_histogram_tells_the_variance_of_its_number():
    blocks = policy_blocks(curved_policy())
    layout = GradientLayout.by_role(blocks, joint_sensitive=False)
    means = np.array([0.0, 0.25, 0.5, 0.25])
    curvature = column_curvature(layout, means, 0.25)
    assert curvature[0] == pytest.approx(0.25 * (0.25 * 0.25 + 0.25 * 0.25))
    np.testing.assert_allclose(curvature[1:4], 0.25 * np.array([0.1875, 0.25, 0.1875]))
    assert curvature[4] == 0.25  # the intercept


def test_steps_follow_released_means():
    """Two tables with the same released means and noise take the same steps."""
    rng = np.random.default_rng(0)
    model = AdditiveClassifier(curved_policy(), epsilon=1.0, delta=1e-6, n_knots=3)
    plan = model.plan(200)
    codes, y = model.encode(
        rng.uniform(0, 10, (200, 1)).astype(object), rng.choice(["n", "p"], 200)
    )
    descent = Descent(
        codes, prepare_rows(codes, y, plan.layout), plan, np.random.default_rng(1)
    )
    released = descent.layout.column_offset / plan.layout.column_scale
    expected = column_curvature(descent.layout, released, 0.25)
    np.testing.assert_allclose(descent._curvature, expected, rtol=1e-12)

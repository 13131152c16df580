"""Many models at once are the same models as one at a time, with noise of its size."""

from dataclasses import replace

import numpy as np
import pytest

from corrdp.policy import (
    Budget,
    Feature,
    NumberDomain,
    Policy,
    neighbor_classes,
    policy_blocks,
)
from corrdp.reproduction._theorem import ridge_sums
from corrdp.training import (
    LogisticLoss,
    SquaredLoss,
    iterates_by_theorem,
    layout_by_feature,
    sums_by_theorem,
    theorem_plan,
)

N_COLUMNS = 7
N_ROWS = 600
POLICY = Policy(
    tuple(Feature(f"x{i}", "sensitive", NumberDomain(-1, 1)) for i in range(N_COLUMNS))
)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    codes = rng.uniform(-0.5, 0.5, (N_ROWS, N_COLUMNS))
    labels = (codes @ np.arange(N_COLUMNS) + rng.normal(size=N_ROWS) > 0).astype(float)
    return codes, labels


def plan_of(loss, n_steps=40, epsilon=1.0, step_size=0.5):
    return theorem_plan(
        layout_by_feature(policy_blocks(POLICY), intercept=False),
        neighbor_classes(POLICY),
        {},
        budget=Budget(epsilon=epsilon, delta=1e-5),
        epsilon_cap=10.0,
        n_rows=N_ROWS,
        loss=loss,
        method="standard",
        n_steps=n_steps,
        floor=False,
        step_size=step_size,
    )


def last(sums, plans, seeds):
    generators = [np.random.default_rng(seed) for seed in seeds]
    return list(iterates_by_theorem(sums, plans, generators))[-1]


def test_moments_and_rows_give_the_same_least_squares(table):
    plan = plan_of(SquaredLoss(1e3))
    on_rows = last(sums_by_theorem(*table, plan), [plan] * 3, [0, 1, 0])
    moments = ridge_sums(*table, ridge=0.0)
    assert last(moments, [plan] * 3, [0, 1, 0]) == pytest.approx(on_rows, abs=1e-5)
    clipped = plan_of(SquaredLoss(0.1))  # planted: this is another loss
    other = last(sums_by_theorem(*table, clipped), [plan] * 3, [0, 1, 0])
    assert np.abs(on_rows - other).max() > 0.01


def test_ridge_shrinks(table):
    plan = plan_of(SquaredLoss(1e3)).without_noise()
    plain, shrunk = (
        last(ridge_sums(*table, ridge=ridge), [plan], [0]) for ridge in (0.0, 100.0)
    )
    assert np.linalg.norm(shrunk) < np.linalg.norm(plain)


def test_gradients_are_those_of_logistic_regression(table):
    codes, labels = table
    coefs = 6 * np.random.default_rng(2).normal(size=(3, N_COLUMNS))
    residual = 1 / (1 + np.exp(-codes @ coefs.T)) - labels[:, None]
    exact = (codes.T @ residual).T
    found = sums_by_theorem(*table, plan_of(LogisticLoss()))(coefs)
    assert found / N_ROWS == pytest.approx(exact / N_ROWS, abs=5e-6)


def test_a_model_does_not_depend_on_its_company(table):
    plans = [plan_of(LogisticLoss(), epsilon=e) for e in (0.5, 1.0, 2.0)]
    sums = sums_by_theorem(*table, plans[0])
    together = last(sums, plans, [4, 5, 6])
    assert (together[1] == last(sums, plans[1:2], [5])[0]).all()
    assert np.abs(together[1] - together[2]).max() > 1e-3


def test_noise_has_the_scale_it_should(table):
    """One step from 0 without rows' pull: the iterate is minus step times noise."""
    codes, labels = table
    plan = plan_of(LogisticLoss(), n_steps=1, step_size=1.0)
    still = ridge_sums(0 * codes, labels, ridge=0.0)
    moved = last(still, [plan] * 400, range(400))
    found = moved.std(axis=0) * N_ROWS / plan.noise.noise_scale
    # 400 draws: a deviation is off by more than a quarter with probability < 1e-9
    assert np.abs(found - 1).max() < 0.25
    assert np.abs(2 * found - 1).max() > 0.25  # planted: twice the noise


def test_without_noise_nothing_is_proved():
    plan = plan_of(LogisticLoss())
    assert plan.noise.epsilon("sensitive") < np.inf
    bare = plan.without_noise()
    assert bare.noise.epsilon("sensitive") == np.inf
    assert replace(bare, noise=plan.noise).size(3) == plan.size(3)

"""Parameters receive the noise that was priced; false alarms have probability 1e-9.

Noise is read off what a step did to the parameters, not off what the step says of it:
with a constant step size and all else known, the move is the noisy gradient.
"""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from corrdp._random import noise_generator
from corrdp.accounting import step_mu
from corrdp.policy import Budget, PolicyEncoder, neighbor_classes
from corrdp.training import (
    Descent,
    GradientSensitivity,
    LogisticLoss,
    MultinomialLoss,
    PlanInputs,
    Solver,
    default_plan,
    plan_spending,
    prepare_rows,
)
from descent_examples import example_policy, example_rows
from helpers.statistics import dkw_radius, ks_distance

pytestmark = pytest.mark.statistical

N_ROWS, N_RUNS = 60, 350
LOSSES = {"logistic": LogisticLoss(), "multinomial": MultinomialLoss(3)}


@pytest.fixture(scope="module", params=LOSSES)
def noise(request):
    """Return noise over its priced scale, of whole gradients and of differences."""
    loss = LOSSES[request.param]
    policy = example_policy()
    spending = plan_spending(
        policy, neighbor_classes(policy), budget=Budget(epsilon=5.0, delta=1e-4)
    )
    facts = PlanInputs(PolicyEncoder(policy).blocks_, spending, N_ROWS, loss)
    solver = Solver(step_size=1.0, epoch_steps=2)
    plan = default_plan(facts).with_steps(2).with_solver(solver)
    codes, y = example_rows(N_ROWS)
    rows = prepare_rows(codes, y, plan.layout, compiled=False)
    allowed = plan.spending.gradient_mu
    budgets = plan.schedule.snapshot_mu(allowed), plan.schedule.difference_mu(allowed)
    draws = ([], [])
    for seed in range(N_RUNS):
        descent = Descent(codes, rows, plan, noise_generator(seed))
        sensitivity = GradientSensitivity(
            loss, descent.layout, spending.classes, reference=descent._means
        )
        direction = snapshot = np.zeros_like(descent.coef)
        for kind in (0, 1):
            before, past = descent.coef, direction
            exact, n_inside = descent.exact_gradient()
            bounds = sensitivity.bounds(before, anchor=descent.anchor)
            descent.advance(exact, n_inside)
            price = step_mu(bounds, descent.noise_scale)
            budget = [budgets[kind][name] for name in sensitivity.row_classes]
            assert (price <= budget).all()
            direction = before - descent.coef
            gradient = (direction - plan.momentum * past) / (1.0 - plan.momentum)
            added = (gradient - snapshot) * N_ROWS - _centered(exact)
            snapshot = gradient
            one = added if added.ndim == 1 else added[:, 0] / math.sqrt(1 - 1 / 3)
            scale = descent.noise_scale[plan.layout.column_groups]
            noisy = scale > 0  # groups that no neighbor moves get none
            assert np.abs(one[~noisy]).max(initial=0.0) < 1e-9
            draws[kind].append(one[noisy] / scale[noisy])
    return [np.concatenate(own) for own in draws]


def _centered(gradient):
    return gradient if gradient.ndim == 1 else gradient - gradient.mean(1)[:, None]


@pytest.mark.parametrize("kind", [0, 1], ids=["whole gradients", "differences"])
def test_parameters_receive_the_noise_that_was_priced(noise, kind):
    radius = dkw_radius(noise[kind].size, false_alarm_probability=1e-9)
    assert ks_distance(noise[kind], ndtr) <= radius


@pytest.mark.parametrize("kind", [0, 1], ids=["whole gradients", "differences"])
def test_a_scale_wrong_by_a_third_is_caught(noise, kind):
    radius = dkw_radius(noise[kind].size, false_alarm_probability=1e-9)
    assert ks_distance(noise[kind] / 1.5, ndtr) > radius
    assert ks_distance(noise[kind] * 1.5, ndtr) > radius

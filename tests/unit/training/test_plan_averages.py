"""What a plan says of averages and residual bounds is what descent does."""

from dataclasses import replace

import numpy as np
import pytest

from corrdp.policy import (
    Budget,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    neighbor_classes,
)
from corrdp.training import (
    SQUARED_LOSS,
    Descent,
    PlanInputs,
    default_plan,
    plan_spending,
    prepare_rows,
)
from corrdp.training._gradient_descent import in_codes
from corrdp.training._solver import first_averaged

POLICY = Policy(
    (
        Feature("age", "sensitive", NumberDomain(0, 1)),
        Feature("paid", "insensitive", NumberDomain(0, 1), leakage=0.4),
    ),
    Label("y", NumberDomain(0, 1), score=0.0),
)
N_ROWS = 300


def descent(plan):
    rng = np.random.default_rng(3)
    codes = PolicyEncoder(POLICY).transform(rng.random((N_ROWS, 2)))
    labels = rng.choice([-0.5, 0.5], N_ROWS)  # far from every score
    rows = prepare_rows(codes, labels, plan.layout, compiled=False)
    return Descent(codes, rows, plan, np.random.default_rng(4), labels)


def plan_of(epsilon):
    spending = plan_spending(
        POLICY,
        neighbor_classes(POLICY),
        budget=Budget(epsilon=epsilon, delta=1e-6),
        adapts_residual_bound=True,
    )
    blocks = PolicyEncoder(POLICY).blocks_
    plan = default_plan(PlanInputs(blocks, spending, N_ROWS, SQUARED_LOSS))
    return plan.with_steps(40)


@pytest.mark.parametrize("part", [0.5, 0.75, 1.0])
def test_the_planned_part_of_the_iterates_is_averaged(part):
    model = descent(replace(plan_of(2.0), averaged_part=part))
    iterates = []
    while not model.finished:
        model.advance(*model.exact_gradient())
        iterates.append(model.coef)
    wanted = np.mean(iterates[len(iterates) - round(part * 40) :], axis=0)
    slope, intercept = in_codes(wanted, model.layout.column_scale, model._means)
    result = model.result()
    np.testing.assert_allclose(result.coef, slope, rtol=1e-12)
    assert result.intercept == pytest.approx(intercept, rel=1e-12)


def test_an_average_is_of_one_iterate_at_least():
    assert first_averaged(1, 0.5) == 0
    assert first_averaged(1, 1e-9) == 0
    assert first_averaged(200, 0.75) == 50


def test_an_adapted_bound_stays_below_the_planned_one():
    model = descent(replace(plan_of(2.0), bound_growth=1.5))
    first = model.residual_bound
    seen = []
    while not model.finished:
        model.advance(*model.exact_gradient())
        seen.append(model.residual_bound)
    assert max(seen) == pytest.approx(1.5 * first)  # reached, and not passed

"""Steps of the default rule stand still where the loss does.

If labels follow the model, the expected residual of every row is 0 at the true
parameters, and so is the expected step: whatever weight a row gets may depend on its
features, not on its label by group (`docs/theory/default_rule.md`, Proposition 3).
Expectations are exact: all rows of a small domain, weighted.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import softmax

from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    neighbor_classes,
)
from corrdp.training import (
    SQUARED_LOSS,
    HuberLoss,
    LogisticLoss,
    MultinomialLoss,
    PlanInputs,
    default_plan,
    plan_spending,
)
from corrdp.training._candidates import group_candidate
from corrdp.training._records import record_gradients

POLICY = Policy(
    (
        Feature("age", "sensitive", NumberDomain(0, 1)),
        Feature("ill", "sensitive", BooleanDomain()),
        Feature("city", "insensitive", CategoryDomain(tuple("abc")), leakage=0.4),
        Feature("paid", "insensitive", NumberDomain(0, 1), leakage=0.4),
    ),
    Label("y", BooleanDomain(), score=0.0),
)
ROWS = list(product([0.0, 0.1, 0.3, 1.0], [False, True], "abc", [0.0, 0.2, 0.9]))
RNG = np.random.default_rng(5)
WEIGHTS = RNG.dirichlet(np.full(len(ROWS), 0.3))


def facts_of(loss, epsilon):
    spending = plan_spending(
        POLICY, neighbor_classes(POLICY), budget=Budget(epsilon=epsilon, delta=1e-6)
    )
    blocks = PolicyEncoder(POLICY).blocks_
    return PlanInputs(blocks, spending, 4000, loss)


def plan_of(loss, epsilon):
    return default_plan(facts_of(loss, epsilon))


def expected_step(loss, layout):
    """Return the expected gradient at the parameters by which labels are drawn."""
    codes = PolicyEncoder(POLICY).transform(np.array(ROWS, dtype=object))
    shape = (codes.shape[1] + 1, *([loss.n_outputs] if loss.n_outputs > 1 else []))
    coef = RNG.normal(0, 1.5, shape)
    coef[-1] += 1.0 if loss.n_outputs == 1 else [2.0, 0.0, -1.0]  # a rare label
    offset = WEIGHTS @ codes * layout.column_scale
    layout = replace(layout, column_offset=offset)
    score = layout.features(codes) @ coef
    if loss.n_outputs == 1:
        score = np.column_stack([np.zeros_like(score), score])
    chances = softmax(score, axis=1)
    total = 0.0
    for label in range(chances.shape[1]):
        y = np.full(len(ROWS), float(label))
        gradients = record_gradients(codes, y, coef, loss, layout)
        total = total + np.tensordot(WEIGHTS * chances[:, label], gradients, axes=1)
    return float(np.abs(total).max())


@pytest.mark.parametrize("loss", [LogisticLoss(), MultinomialLoss(3)])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_expected_step_is_zero_at_the_truth(loss, epsilon):
    layout = plan_of(loss, epsilon).layout
    free = replace(
        layout,
        groups=tuple(replace(g, influence_bound=np.inf) for g in layout.groups),
    )
    assert expected_step(loss, free) < 1e-14


def test_a_norm_per_group_would_move_it():
    layout = plan_of(LogisticLoss(), 1.0).layout
    clipped = replace(
        layout,
        groups=tuple(
            replace(g, influence_bound=np.inf, clip_norm=0.3) for g in layout.groups
        ),
    )
    assert expected_step(LogisticLoss(), clipped) > 0.01


def expected_step_of_numbers(loss, layout):
    """Return the expected gradient where labels lie symmetrically around scores."""
    codes = PolicyEncoder(POLICY).transform(np.array(ROWS, dtype=object))
    coef = np.random.default_rng(6).normal(0, 0.1, codes.shape[1] + 1)
    offset = WEIGHTS @ codes * layout.column_scale
    layout = replace(layout, column_offset=offset)
    score = layout.features(codes) @ coef
    total = 0.0
    for error, chance in ((0.02, 0.8), (0.6, 0.2)):  # the larger one is cut
        for sign in (-1, 1):
            y = score + sign * error
            gradients = record_gradients(codes, y, coef, loss, layout)
            total = total + chance / 2 * np.tensordot(WEIGHTS, gradients, axes=1)
    return float(np.abs(total).max())


@pytest.mark.parametrize("loss", [SQUARED_LOSS, HuberLoss(0.3)])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_expected_step_of_numbers_is_zero_at_the_truth(loss, epsilon):
    plan = plan_of(loss, epsilon)
    free = replace(
        plan.layout,
        groups=tuple(replace(g, influence_bound=np.inf) for g in plan.layout.groups),
    )
    assert expected_step_of_numbers(plan.loss, free) < 1e-14


@pytest.mark.parametrize("loss", [SQUARED_LOSS, HuberLoss(0.3)])
def test_residuals_of_numbers_are_cut_lower_under_more_noise(loss):
    bounds = []
    for epsilon in (0.01, 0.1, 1.0, 8.0):
        plan = plan_of(loss, epsilon)
        assert plan.loss.residual_limit <= loss.residual_limit
        growth = plan.bound_growth if loss is SQUARED_LOSS else 1.0
        bounds.append(plan.loss.residual_limit * growth)
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1]


def test_rules_have_no_norm_per_group():
    for loss in (LogisticLoss(), MultinomialLoss(3), SQUARED_LOSS, HuberLoss(0.3)):
        plan = plan_of(loss, 0.5)
        assert plan.noise == "corr"
        assert all(np.isinf(group.clip_norm) for group in plan.layout.groups)


def test_influence_is_bounded_in_units_of_the_residual():
    facts = facts_of(LogisticLoss(), 0.3)
    layout = group_candidate(facts, 0.5, joint=False).layout
    bounds = {group.name: group.influence_bound for group in layout.groups}
    # One residual, so one bound, whatever a group holds.
    assert bounds["city"] == bounds["paid"] == 0.5 * facts.nominal.residual


def test_a_boolean_is_a_category_of_two():
    sizes = []
    for domain, ends in ((BooleanDomain(), (0, 1)), (CategoryDomain(("0", "1")), "01")):
        features = tuple(
            replace(f, domain=domain) if f.name == "ill" else f for f in POLICY.features
        )
        policy = replace(POLICY, features=features)
        spending = plan_spending(
            policy, neighbor_classes(policy), budget=Budget(epsilon=1.0, delta=1e-6)
        )
        encoder = PolicyEncoder(policy)
        facts = PlanInputs(encoder.blocks_, spending, 4000, LogisticLoss())
        rows = np.array([(0.5, end, "a", 0.5) for end in ends], dtype=object)
        features_of = default_plan(facts).layout.features
        moved = np.diff(features_of(encoder.transform(rows)), axis=0)
        sizes.append((np.linalg.norm(moved), facts.variance["ill"]))
    assert sizes[0] == pytest.approx(sizes[1])

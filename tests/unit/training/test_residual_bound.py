"""The bound on residuals balances what noise costs with what cutting costs."""

import math

import numpy as np
import pytest

from corrdp.policy import Budget, PolicyEncoder, neighbor_classes
from corrdp.training import (
    SQUARED_LOSS,
    LogisticLoss,
    PlanInputs,
    default_plan,
    plan_spending,
    standard_plan,
)
from corrdp.training._step_sizes import CUTTING_COST, ResidualBound
from descent_examples import example_policy


def settled(price, residuals, *, first=0.25):
    """Return the bound that exact fractions lead to."""
    bound = ResidualBound(first, growth=8.0, price=price)
    for step in range(2000):
        inside = float(np.mean(residuals <= bound.value))
        bound.adapted(inside, step / 2000)
    return bound.value


def test_less_noise_leaves_more_residuals_uncut():
    rng = np.random.default_rng(0)
    residuals = rng.exponential(0.1, 20_000)
    prices = [math.inf, 1e-2, 1e-3, 1e-4, 1e-6]
    bounds = [settled(price, residuals) for price in prices]
    shares = [np.mean(residuals <= bound) for bound in bounds]
    assert shares[0] == pytest.approx(0.9, abs=0.005)
    assert shares[-1] == pytest.approx(0.99, abs=0.005)
    assert np.all(np.diff(shares) >= -1e-3)
    assert shares[0] + 0.04 < shares[3] < shares[-1]


@pytest.mark.parametrize("tail", ["exponential", "normal"])
def test_the_bound_is_near_the_least_of_noise_and_bias(tail):
    """On skewed residuals, whose mean the bound misses: the model of the note."""
    rng = np.random.default_rng(1)
    drawn = getattr(rng, f"standard_{tail}")(50_000)
    residuals = 0.1 * np.abs(drawn)
    grid = np.quantile(residuals, np.linspace(0.9, 0.99, 46))
    for price in (1e-4, 3e-4, 1e-3):

        def cost(bound, price=price):
            cut = float(np.mean(residuals > bound))
            return price * bound + CUTTING_COST / 3 * (cut * bound) ** 2

        best = min(cost(bound) for bound in grid)
        assert cost(settled(price, residuals)) < 1.1 * best


def test_a_small_scale_is_found_early():
    residuals = np.abs(np.random.default_rng(2).normal(0.0, 0.01, 4000))
    bound, seen = ResidualBound(0.25, growth=1.0, price=1e-3), []
    for step in range(200):
        inside = float(np.mean(residuals <= bound.value))
        seen.append(bound.adapted(inside, step / 200))
    scale = np.quantile(residuals, 0.9)
    assert seen[60] < 1.6 * scale  # most iterates that are averaged come after it
    assert seen[-1] == pytest.approx(scale, rel=0.1)


def test_plans_know_what_noise_costs_per_unit_of_the_bound():
    policy = example_policy()
    prices = []
    for epsilon in (0.3, 1.0, 3.0):
        spending = plan_spending(
            policy,
            neighbor_classes(policy),
            budget=Budget(epsilon=epsilon, delta=1e-6),
            adapts_residual_bound=True,
        )
        blocks = PolicyEncoder(policy).blocks_
        facts = PlanInputs(blocks, spending, 1000, SQUARED_LOSS)
        for plan in (default_plan(facts), standard_plan(facts)):
            bound = plan.loss.clips_residuals_at
            sizes = facts.nominal
            noise = (
                sizes.noise_cost * sizes.expected_distance * plan.noise_deviation / 2
            )
            assert plan.bound_price == pytest.approx(noise / bound)
        prices.append(plan.bound_price)
        logistic = default_plan(PlanInputs(blocks, spending, 1000, LogisticLoss()))
        assert math.isinf(logistic.bound_price)
    assert prices == sorted(prices, reverse=True)


@pytest.mark.parametrize(("fraction", "ends_at"), [(-1e6, 2.0), (1e6, 0.01)])
def test_a_fraction_that_is_nothing_but_noise_moves_the_bound_to_its_end(
    fraction, ends_at
):
    bound = ResidualBound(0.25, growth=8.0)
    assert bound.adapted(fraction, progress=0.0) == pytest.approx(ends_at)

"""Descent releases what was planned, within every budget, or refuses to go on."""

from dataclasses import replace

import numpy as np
import pytest

from corrdp._random import noise_generator
from corrdp.accounting import step_mu
from corrdp.exceptions import GuaranteeVoidError
from corrdp.training import GradientSensitivity, default_plan, descend, standard_plan
from corrdp.training import _step_sizes as module
from corrdp.training._totals import release_means
from descent_examples import accuracy, example_plan, example_rows


@pytest.mark.parametrize("rule", [default_plan, standard_plan])
def test_a_generous_budget_finds_the_signal(rule):
    codes, y = example_rows()
    plan = example_plan(epsilon=5.0, rule=rule)
    model = descend(codes, y, plan, noise_generator(1))
    # the best linear model is right in about 74 of 100 rows, a constant in 58
    assert accuracy(model, codes, y) > 0.7


def test_squared_loss_adapts_its_bound_and_finds_the_signal():
    rng = np.random.default_rng(3)
    codes, _ = example_rows()
    y = 0.6 * codes[:, 0] + rng.normal(0, 0.05, len(codes))
    model = descend(codes, y, example_plan(logistic=False), noise_generator(1))
    errors = y - codes @ model.coef - model.intercept
    assert 1 - errors.var() / y.var() > 0.8


def test_a_residual_count_that_nobody_paid_for_is_refused():
    codes, y = example_rows()
    paid_for_means_only = example_plan(logistic=True).spending
    unpaid = replace(example_plan(logistic=False), spending=paid_for_means_only)
    with pytest.raises(GuaranteeVoidError, match="pays for none"):
        descend(codes, y, unpaid, np.random.default_rng(0))


def test_compiled_and_plain_kernels_train_the_same_model():
    codes, y = example_rows()
    plan = example_plan()
    fast = descend(codes, y, plan, noise_generator(7))
    slow = descend(codes, y, plan, noise_generator(7), compiled=False)
    np.testing.assert_allclose(fast.coef, slow.coef, atol=1e-4)


def test_every_step_stays_within_its_budget(monkeypatch):
    prices = []
    true_check = module.is_within_budget

    def recorded(bounds, noise_scale, budget_mu):
        prices.append(step_mu(bounds, noise_scale))
        return true_check(bounds, noise_scale, budget_mu)

    monkeypatch.setattr(module, "is_within_budget", recorded)
    codes, y = example_rows()
    plan = example_plan()
    descend(codes, y, plan, noise_generator(2))
    names = GradientSensitivity(
        plan.loss, plan.layout, plan.spending.classes
    ).row_classes
    allowed = plan.spending.step_mu(plan.n_steps)
    budget = np.array([allowed[name] for name in names])
    assert len(prices) == plan.n_steps
    assert (np.array(prices) <= budget).all()
    assert (np.max(prices, axis=0) >= 0.9 * budget).any()  # and spends it


def test_noise_that_is_too_small_is_caught(monkeypatch):
    class Stingy(module.OnlineAllocator):
        def update(self, sensitivity):
            return 0.999 * super().update(sensitivity)

    monkeypatch.setattr(module, "OnlineAllocator", Stingy)
    codes, y = example_rows()
    with pytest.raises(GuaranteeVoidError, match="more than its budget"):
        descend(codes, y, example_plan(), noise_generator(2))


def test_noise_of_an_earlier_step_used_again_is_caught(monkeypatch):
    class Lazy(module.OnlineAllocator):
        def update(self, sensitivity):
            if not hasattr(self, "first"):
                self.first = super().update(sensitivity)
            return self.first

    monkeypatch.setattr(module, "OnlineAllocator", Lazy)
    codes, y = example_rows()
    with pytest.raises(GuaranteeVoidError, match="more than its budget"):
        descend(codes, y, example_plan(), noise_generator(2))


def test_means_cost_what_the_spending_allows_and_stay_in_the_domain():
    codes, _ = example_rows(200)
    plan = example_plan(200, epsilon=0.05)
    means = release_means(codes, plan.spending, noise_generator(0))
    cost, allowed = plan.spending.means_cost, plan.spending.means_mu
    assert all(cost[name] <= allowed[name] for name in cost)
    assert cost["sensitive"] == pytest.approx(allowed["sensitive"], rel=1e-6)
    assert -0.5 <= means[0] <= 0.5
    assert ((means[1:] >= 0) & (means[1:] <= 1)).all()
    assert not np.allclose(means, codes.mean(axis=0), atol=1e-3)

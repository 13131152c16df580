"""Epochs of variance reduction: what is released, and that shares add up."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrdp._random import noise_generator
from corrdp.accounting import step_mu
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.training import (
    Descent,
    Schedule,
    Solver,
    _step_sizes,
    descend,
    prepare_rows,
)
from corrdp.training import _step_sizes as module
from corrdp.training._solver import Epochs
from descent_examples import example_plan, example_rows
from linear_model_examples import example_frame, model_of

SVRG = Solver(epoch_steps=10)


@given(n_steps=st.integers(1, 500), epoch_steps=st.integers(1, 60))
def test_shares_add_up_to_the_whole(n_steps, epoch_steps):
    schedule = Schedule(n_steps, epoch_steps)
    budget = {"sensitive": 0.7, "whole_record": 2.0}
    whole, rest = schedule.snapshot_mu(budget), schedule.difference_mu(budget)
    for name, mu in budget.items():
        spent = schedule.n_snapshots * whole[name] ** 2
        spent += schedule.n_differences * rest[name] ** 2
        assert spent == pytest.approx(mu**2, rel=1e-12)


@given(n_steps=st.integers(1, 60), epoch_steps=st.integers(1, 20))
def test_epochs_ask_for_what_the_schedule_counts(n_steps, epoch_steps):
    epochs, schedule = Epochs(epoch_steps), Schedule(n_steps, epoch_steps)
    whole = 0
    for _ in range(n_steps):
        whole += epochs.anchor is None
        epochs.gradient(np.zeros(2), 0.0, np.zeros(2))
    assert whole == schedule.n_snapshots


def test_differences_are_added_to_the_gradient_at_the_anchor():
    epochs = Epochs(3)
    start, later = np.array([1.0, 2.0]), np.array([0.5, 0.5])
    np.testing.assert_array_equal(epochs.gradient(start, 4.0, later)[0], start)
    assert epochs.anchor is later
    gradient, variance = epochs.gradient(np.array([0.1, 0.0]), 1.0, start)
    np.testing.assert_allclose(gradient, [1.1, 2.0])
    assert variance == 3 * 4.0 + 1.0
    epochs.gradient(np.zeros(2), 1.0, start)
    assert epochs.anchor is None  # a new epoch


def test_one_budget_pays_for_gradients_and_differences():
    frame = example_frame()
    model = model_of(solver="svrg", bounds="declared").fit(frame)
    names = [component.name for component in model.certificate_.components]
    assert names == ["column means", "gradients", "gradient differences"]
    plain = model_of(bounds="declared").fit(frame)
    assert model.certificate_.epsilon == pytest.approx(plain.certificate_.epsilon)
    assert model.certificate_.epsilon <= 1.0
    assert model.certificate_.verify(model.policy_)
    assert model.score(frame, frame.rich) > 0.85


def test_the_same_seed_trains_the_same_model():
    frame = example_frame()
    one, two = (model_of(solver=SVRG).fit(frame) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert not np.array_equal(one.coef_, model_of().fit(frame).coef_)


@pytest.mark.parametrize("logistic", [True, False])
def test_every_release_stays_within_its_own_budget(monkeypatch, logistic):
    prices = []
    true_check = module.is_within_budget

    def recorded(bounds, noise_scale, budget_mu):
        prices.append(step_mu(bounds, noise_scale)[0])
        return true_check(bounds, noise_scale, budget_mu)

    monkeypatch.setattr(module, "is_within_budget", recorded)
    codes, y = example_rows()
    plan = example_plan(logistic=logistic).with_solver(SVRG)
    descend(codes, y, plan, noise_generator(2))
    allowed = plan.spending.gradient_mu
    whole = plan.schedule.snapshot_mu(allowed)["sensitive"]
    rest = plan.schedule.difference_mu(allowed)["sensitive"]
    assert max(prices[::10]) <= whole
    assert max(prices[::10]) > 0.9 * whole
    inner = [price for step, price in enumerate(prices) if step % 10]
    assert max(inner) <= rest
    assert sum(price**2 for price in prices) <= allowed["sensitive"] ** 2


def test_differences_under_the_noise_of_gradients_elsewhere_are_caught(monkeypatch):
    """Noise of the anchor is not noise for where the parameters have gone."""

    class Lazy(module.OnlineAllocator):
        def update(self, sensitivity):
            if not hasattr(self, "first"):
                self.first = super().update(sensitivity)
            return self.first

    monkeypatch.setattr(module, "OnlineAllocator", Lazy)
    codes, y = example_rows()
    with pytest.raises(GuaranteeVoidError, match="more than its budget"):
        descend(codes, y, example_plan().with_solver(SVRG), noise_generator(2))


@pytest.mark.parametrize("logistic", [True, False])
def test_exact_differences_make_plain_descent(monkeypatch, logistic):
    """Without noise and clipping an epoch is nothing but gradient descent."""

    class Silent(module.OnlineAllocator):
        def update(self, sensitivity):
            return np.full(sensitivity.shape[1], 1e-9)

    monkeypatch.setattr(module, "OnlineAllocator", Silent)
    monkeypatch.setattr(module, "is_within_budget", lambda *_: True)
    monkeypatch.setattr(_step_sizes, "_RATES", (0.0, 0.0))
    codes, y = example_rows()
    y = y if logistic else y - 0.5
    plan = example_plan(logistic=logistic, epsilon=50.0).with_steps(40)
    free = [
        replace(group, clip_norm=np.inf, influence_bound=np.inf)
        for group in plan.layout.groups
    ]
    layout = replace(plan.layout, groups=tuple(free))
    plan = replace(plan, layout=layout)
    plain, reduced = (
        descend(
            codes,
            y,
            plan.with_solver(Solver(epoch_steps=m, step_size=0.3, ridge=0.1)),
            noise_generator(1),
            compiled=False,
        )
        for m in (1, 8)
    )
    np.testing.assert_allclose(reduced.coef, plain.coef, atol=1e-4)


def test_ridge_is_not_added_to_what_an_epoch_remembers():
    """Else it would pull once more in every step of the epoch."""
    codes, y = example_rows()
    solver = Solver(epoch_steps=4, ridge=0.5)
    rows = prepare_rows(codes, y, example_plan().layout, compiled=False)
    model = Descent(codes, rows, example_plan().with_solver(solver), noise_generator(1))
    for _ in range(5):  # parameters are no longer 0 at the second anchor
        model.advance(*model.exact_gradient())
    kept = model._epochs._snapshot.copy()
    model.advance(*model.exact_gradient())
    np.testing.assert_array_equal(model._epochs._snapshot, kept)
    released = model.rows.gradient_sum(model.anchor, residual_bound=None)[0]
    assert np.abs(kept - released / len(y)).max() < 0.1


def test_sampling_and_the_papers_descent_have_no_epochs():
    with pytest.raises(CorrDPError, match="sampling_rate must be None"):
        model_of(solver="svrg", sampling_rate=0.1).fit(example_frame())
    with pytest.raises(CorrDPError, match="has epochs"):
        model_of(solver="svrg", calibration="theorem").fit(example_frame())


def test_the_plan_says_how_long_epochs_are():
    assert "in epochs of 10" in model_of(solver="svrg").plan(4000).to_text()

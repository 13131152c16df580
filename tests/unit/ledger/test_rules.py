"""Costs and limits: what fits is (epsilon, delta), what does not is refused."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrdp.accounting import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    SampledGaussianEvent,
    compose_epsilon,
    gaussian_epsilon,
    renyi_divergence,
)
from corrdp.exceptions import BudgetError, UnsupportedEventError
from corrdp.ledger import ConcentratedEvent, Ledger, Rule
from corrdp.ledger._rules import (
    UNITS,
    cost_units,
    epsilon_of,
    fixed_order,
    largest_gaussian_mu,
    largest_pure_epsilon,
    limit_units,
    read_event,
)
from corrdp.policy import Budget, Feature, NumberDomain, Policy

EVENTS = [
    GaussianEvent(0.3, 2),
    LaplaceEvent(0.4),
    ApproximateEvent(0.4, 0.0, 3),
    SampledGaussianEvent(0.01, 1.0, 0.5, 10),
    ConcentratedEvent(0.05),
]


def account(rule, epsilon=1.0, delta=1e-6):
    order = fixed_order(rule, epsilon=epsilon, delta=delta)
    return order, limit_units(rule, order, epsilon=epsilon, delta=delta)


@settings(max_examples=30)
@given(epsilon=st.floats(0.01, 50), delta=st.floats(1e-12, 1e-2))
@pytest.mark.parametrize("rule", [Rule.RENYI, Rule.GAUSSIAN])
def test_a_full_account_is_within_its_budget(rule, epsilon, delta):
    order, limit = account(rule, epsilon, delta)
    assert limit > 0
    assert epsilon_of(rule, order, limit, delta=delta) <= epsilon
    # The twin: one percent more is caught.
    assert epsilon_of(rule, order, math.ceil(limit * 1.01), delta=delta) > epsilon


def test_gaussian_events_fill_the_renyi_rule_nearly_as_far_as_their_own():
    order, limit = account(Rule.RENYI)
    mu = largest_gaussian_mu(Rule.RENYI, order, limit)
    assert gaussian_epsilon(mu=mu, delta=1e-6) <= 1.0
    _, own_limit = account(Rule.GAUSSIAN)
    own_mu = largest_gaussian_mu(Rule.GAUSSIAN, None, own_limit)
    assert 0.9 * own_mu < mu < own_mu


def test_what_fits_one_by_one_is_within_the_budget_as_a_whole():
    """Exact composition of the mix that the filter let through."""
    order, limit = account(Rule.RENYI, epsilon=2.0)
    mix = [GaussianEvent(0.1), LaplaceEvent(0.1)]
    taken, spent = [], 0
    while True:
        event = mix[len(taken) % 2]
        cost = cost_units(Rule.RENYI, order, [event])
        if spent + cost > limit:
            break
        spent += cost
        taken.append(event)
    assert len(taken) > 5
    assert compose_epsilon(taken, delta=1e-6) <= 2.0


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: e.kind)
def test_costs_are_never_below_the_divergence(event):
    cost = cost_units(Rule.RENYI, 7.5, [event])
    exact = (
        7.5 * event.rho
        if isinstance(event, ConcentratedEvent)
        else renyi_divergence(event, 7.5)
    )
    assert exact * UNITS <= cost <= exact * UNITS * (1 + 1e-9) + 2
    assert cost_units(Rule.RENYI, 7.5, [event, event]) == 2 * cost


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: e.kind)
def test_events_are_read_back_equal(event):
    assert read_event(event.to_json()) == event


def test_ten_tenths_are_one():
    limit = limit_units(Rule.PURE, None, epsilon=1.0, delta=0.0)
    assert cost_units(Rule.PURE, None, [LaplaceEvent(0.1)] * 10) == limit
    assert cost_units(Rule.PURE, None, [LaplaceEvent(0.1, 10)]) == limit
    assert epsilon_of(Rule.PURE, None, limit, delta=0.0) == 1.0


def test_rules_refuse_the_events_they_cannot_add():
    with pytest.raises(UnsupportedEventError, match="rule='gaussian' cannot price"):
        cost_units(Rule.GAUSSIAN, None, [ConcentratedEvent(0.1)])
    with pytest.raises(UnsupportedEventError, match="kind 'gaussian'"):
        cost_units(Rule.PURE, None, [GaussianEvent(0.1)])
    assert cost_units(Rule.PURE, None, [ApproximateEvent(0.1, 1e-9)]) is None
    assert cost_units(Rule.RENYI, 2.0, [ApproximateEvent(0.1, 1e-9)]) is None
    with pytest.raises(UnsupportedEventError, match="has the field 'rho'"):
        read_event({"kind": "concentrated", "sigma": 1.0})
    with pytest.raises(UnsupportedEventError, match="kind must be one of"):
        read_event({"kind": "exponential"})


def test_budgets_that_hold_nothing_are_refused():
    with pytest.raises(BudgetError, match="delta must be"):
        limit_units(Rule.GAUSSIAN, None, epsilon=1.0, delta=0.0)
    with pytest.raises(BudgetError, match="no release fits"):
        limit_units(Rule.RENYI, 2.0, epsilon=1e-6, delta=1e-6)


@pytest.mark.parametrize("units", [0, 10**6, 10**12, 10**13])
def test_largest_next_release_fits_and_hardly_more_does(units):
    pure = largest_pure_epsilon(Rule.RENYI, 9.0, units)
    cost = cost_units(Rule.RENYI, 9.0, [ApproximateEvent(pure * (1 - 1e-6), 0.0)])
    assert cost <= units + 1
    bigger = [ApproximateEvent(pure * 1.001 + 1e-9, 0.0)]
    assert cost_units(Rule.RENYI, 9.0, bigger) > units
    assert largest_pure_epsilon(Rule.PURE, None, units) == units / UNITS
    assert largest_pure_epsilon(Rule.GAUSSIAN, None, units) == 0.0
    assert largest_gaussian_mu(Rule.PURE, None, units) == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-6, 0.9999, 1.0 - 2.0**-53])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-12, 1e11, 1e18, 1.7e308])
@pytest.mark.parametrize("rule", list(Rule))
def test_budgets_at_the_ends_are_held_or_refused(rule, epsilon, delta, tmp_path):
    policy = Policy((Feature("age", "sensitive", NumberDomain(0, 100)),))
    budget = Budget(epsilon=epsilon, delta=delta)
    event = GaussianEvent(1e-9) if rule is Rule.GAUSSIAN else LaplaceEvent(1e-9)
    try:
        ledger = Ledger.create(tmp_path / "ends", policy, budget=budget, rule=rule)
        ledger.charge({"whole_record": [event]}, policy=policy, purpose="x")
    except BudgetError:
        assert epsilon < 1.0 or (delta == 0.0 and rule is not Rule.PURE)
    else:
        left = ledger.remaining()
        assert left["sensitive"].epsilon_spent <= epsilon
        assert 0.0 < left.share_left <= 1.0
        assert left["sensitive"].account.limit < 2**62

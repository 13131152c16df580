"""A budget split in advance composes to the budget, and to no more."""

import math

import pytest

from corrdp.accounting import GaussianEvent, LaplaceEvent, epsilon_within, gaussian_mu
from corrdp.certificate import Component, certify
from corrdp.certificate import LeakageClaim as Claim
from corrdp.exceptions import BudgetError, GuaranteeVoidError, UnsupportedEventError
from corrdp.policy import (
    Budget,
    ColumnRole,
    Feature,
    Label,
    NumberDomain,
    Policy,
    neighbor_classes,
)
from corrdp.training import plan_spending, whole_record_spending

BUDGET = Budget(epsilon=0.7, delta=1e-5)


def example_policy(score=0.0):
    return Policy(
        (
            Feature("a", ColumnRole.SENSITIVE, NumberDomain(0, 1)),
            Feature("b", ColumnRole.INSENSITIVE, NumberDomain(0, 1), leakage=0.25),
            Feature("c", ColumnRole.INSENSITIVE, NumberDomain(0, 1), leakage=0.5),
        ),
        Label("y", NumberDomain(0, 1), score=score),
    )


def released(event):
    return Component("leakage", events={"whole_record": (event,)})


def spending_of(policy, **options):
    return plan_spending(policy, neighbor_classes(policy), budget=BUDGET, **options)


@pytest.mark.parametrize("adapts", [False, True])
@pytest.mark.parametrize("score", [0.0, 0.4])
def test_everything_released_composes_to_the_budget(adapts, score):
    policy = example_policy(score)
    spending = spending_of(policy, adapts_residual_bound=adapts)
    components = spending.components(200)
    certificate = certify(
        policy, components, budget=BUDGET, leakage=Claim.declared(policy)
    )
    assert certificate.epsilon == pytest.approx(0.7, rel=1e-6)
    assert certificate.epsilon <= 0.7
    assert math.isfinite(certificate.classes["whole_record"].epsilon)


def test_every_class_can_spend_all_it_has():
    """Means cannot move a label, so a label's budget is not theirs to take."""
    policy = example_policy(score=0.4)
    spending = spending_of(policy)
    assert spending.means_cost["label"] == 0.0
    for name, total in spending.total_mu.items():
        parts = spending.components(30)
        squares = [e.count * e.mu**2 for p in parts for e in p.events[name]]
        assert math.fsum(squares) == pytest.approx(total**2, rel=1e-9)
        assert math.fsum(squares) <= total**2
    ordinary = whole_record_spending(spending)
    assert ordinary.means_cost != spending.means_cost  # of its own noise


def test_one_step_more_than_planned_is_refused():
    policy = example_policy()
    spending = spending_of(policy)
    events = {
        name: (GaussianEvent(mu=mu, count=201),)
        for name, mu in spending.step_mu(200).items()
    }
    parts = [
        *spending.components(200)[:-1],
        Component("g", events=events),
    ]
    with pytest.raises(GuaranteeVoidError, match="sensitive"):
        certify(policy, parts, budget=BUDGET, leakage=Claim.declared(policy))


def test_the_price_of_a_whole_record_is_the_root_of_the_sum_of_squares():
    spending = spending_of(example_policy())
    promised = [spending.total_mu[c.name] for c in spending.classes if c.promised]
    assert spending.total_mu["whole_record"] == pytest.approx(math.hypot(*promised))


def test_whole_record_spending_never_spends_more():
    spending = spending_of(example_policy())
    ordinary = whole_record_spending(spending)
    for name, mu in ordinary.total_mu.items():
        assert mu <= spending.total_mu[name]
    assert set(ordinary.total_mu) == {c.name for c in spending.classes}


def test_earlier_releases_are_charged_to_the_same_budget():
    policy = example_policy()
    earlier = gaussian_mu(epsilon=0.3, delta=1e-5)
    leakage = released(GaussianEvent(mu=earlier))
    spending = spending_of(policy, spent=[leakage])
    components = spending.components(50)
    events = [e for part in components for e in part.events["sensitive"]]
    alone = epsilon_within(events, delta=1e-5, allowed_epsilon=0.7)
    together = epsilon_within(
        [*events, GaussianEvent(mu=earlier)], delta=1e-5, allowed_epsilon=0.7
    )
    assert alone < 0.65
    assert together == pytest.approx(0.7, rel=1e-6)
    assert together <= 0.7


def test_a_budget_that_is_already_spent_is_refused():
    leakage = released(GaussianEvent(mu=gaussian_mu(epsilon=1, delta=1e-5)))
    with pytest.raises(BudgetError, match="Raise epsilon"):
        spending_of(example_policy(), spent=[leakage])


def test_an_earlier_release_without_gaussian_noise_is_refused():
    leakage = released(LaplaceEvent(epsilon=0.1))
    with pytest.raises(UnsupportedEventError, match="LaplaceEvent"):
        spending_of(example_policy(), spent=[leakage])

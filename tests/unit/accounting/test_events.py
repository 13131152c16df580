"""One suite that every kind of event passes, and what is refused."""

import json
import math

import pytest

from corrdp.accounting import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    _profiles,
    _renyi,
    compose_delta,
    compose_epsilon,
    event_from_json,
    renyi_divergence,
    renyi_epsilon,
)
from corrdp.exceptions import BudgetError, CorrDPError, UnsupportedEventError

EVENTS = [
    GaussianEvent(mu=0.3, count=5),
    SampledGaussianEvent(rate=0.1, contribution=0.8, change=0.3, n_steps=50),
    SampledGaussianEvent(0.1, 0.8, 0.3, 50, sampling="fixed_size"),
    SampledGaussianEvent(rate=1.0, contribution=0.8, change=0.3, n_steps=5),
    LaplaceEvent(epsilon=0.2, count=12),
    ApproximateEvent(epsilon=0.2, delta=1e-9, count=12),
    ApproximateEvent(epsilon=0.2, delta=0.0, count=12),
]
ORDERS = [1.1, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0]


@pytest.mark.parametrize("event", EVENTS, ids=repr)
class TestEveryEvent:
    """What holds whatever the mechanism."""

    def test_survives_json(self, event):
        text = json.dumps(event.to_json(), allow_nan=False)
        assert event_from_json(json.loads(text)) == event

    def test_epsilon_falls_with_delta(self, event):
        prices = [compose_epsilon([event], delta=delta) for delta in (1e-8, 1e-5, 1e-2)]
        assert prices[0] > prices[1] > prices[2] >= 0

    def test_delta_at_its_own_epsilon_is_delta(self, event):
        epsilon = compose_epsilon([event], delta=1e-6)
        assert compose_delta([event], epsilon=epsilon) == pytest.approx(1e-6, rel=1e-3)

    def test_another_release_never_costs_less(self, event):
        alone = compose_epsilon([event], delta=1e-6)
        for other in EVENTS:
            assert compose_epsilon([event, other], delta=1e-6) > alone

    def test_order_is_irrelevant(self, event):
        other = LaplaceEvent(epsilon=0.1)
        one_way = compose_epsilon([event, other], delta=1e-6)
        other_way = compose_epsilon([other, event], delta=1e-6)
        assert one_way == pytest.approx(other_way, rel=1e-9)

    def test_an_event_twice_is_twice_the_event(self, event):
        data = event.to_json()
        field = "n_steps" if "n_steps" in data else "count"
        doubled = event_from_json(data | {field: 2 * data[field]})
        assert compose_epsilon([event, event], delta=1e-6) == pytest.approx(
            compose_epsilon([doubled], delta=1e-6), rel=1e-12
        )

    def test_renyi_divergences_never_prove_less_than_the_loss_itself(self, event):
        divergences = [renyi_divergence(event, order) for order in ORDERS]
        finite = [value for value in divergences if value < math.inf]
        assert finite == sorted(finite)
        exact = compose_epsilon([event], delta=1e-6)
        proved = renyi_epsilon(ORDERS, divergences, 1e-6)
        assert proved >= exact * (1 - 1e-4)
        assert proved < 2 * exact or not finite

    def test_renyi_divergence_adds_up(self, event):
        data = event.to_json()
        field = "n_steps" if "n_steps" in data else "count"
        single = event_from_json(data | {field: 1})
        assert renyi_divergence(event, 4.0) == pytest.approx(
            data[field] * renyi_divergence(single, 4.0), rel=1e-12
        )

    def test_is_frozen_and_hashable(self, event):
        assert hash(event) == hash(event_from_json(event.to_json()))
        with pytest.raises(AttributeError):
            event.count = 3


class Unknown(PrivacyEvent):
    """An event nobody taught the accountant."""


@pytest.mark.parametrize("event", [Unknown(), None, 0.5, "gaussian", GaussianEvent])
def test_unknown_events_are_refused(event):
    with pytest.raises(UnsupportedEventError, match="events"):
        compose_epsilon([GaussianEvent(mu=1.0), event], delta=1e-5)
    with pytest.raises(UnsupportedEventError, match="events"):
        compose_delta([event], epsilon=1.0)
    with pytest.raises(UnsupportedEventError, match="events"):
        renyi_divergence(event, 2.0)


def test_each_price_list_refuses_on_its_own():
    with pytest.raises(UnsupportedEventError, match="privacy profile"):
        _profiles.event_profile(Unknown(), 1)
    with pytest.raises(UnsupportedEventError, match="Renyi"):
        _renyi._divergence(Unknown(), 2.0)


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "exponential", "epsilon": 1.0},
        {"kind": ["gaussian"], "mu": 1.0, "count": 1},
        {"kind": "gaussian", "mu": 1.0},
        {"kind": "gaussian", "mu": 1.0, "count": 1, "sampling": "poisson"},
        {"mu": 1.0},
        ["gaussian"],
        None,
    ],
    ids=repr,
)
def test_unknown_json_is_refused(data):
    with pytest.raises(UnsupportedEventError):
        event_from_json(data)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: GaussianEvent(mu=-1.0), "mu"),
        (lambda: GaussianEvent(mu=math.inf), "mu"),
        (lambda: GaussianEvent(mu=1.0, count=0), "count"),
        (lambda: GaussianEvent(mu=1.0, count=1.5), "count"),
        (lambda: LaplaceEvent(epsilon=-0.1), "epsilon"),
        (lambda: LaplaceEvent(epsilon=0.1, count=-1), "count"),
        (lambda: ApproximateEvent(epsilon=math.nan, delta=0.0), "epsilon"),
        (lambda: ApproximateEvent(epsilon=1.0, delta=1.0), "delta"),
        (lambda: ApproximateEvent(epsilon=1.0, delta=0.0, count=True), "count"),
        (lambda: SampledGaussianEvent(2.0, 1.0, 1.0, 1), "rate"),
        (lambda: SampledGaussianEvent(0.1, -1.0, 1.0, 1), "contribution"),
        (lambda: SampledGaussianEvent(0.1, 1.0, math.inf, 1), "change"),
        (lambda: SampledGaussianEvent(0.1, 1.0, 1.0, 0), "n_steps"),
        (lambda: SampledGaussianEvent(0.1, 1.0, 1.0, 1, "shuffle"), "sampling"),
    ],
)
def test_fields_out_of_range(make, field):
    with pytest.raises(CorrDPError, match=rf"{field} must be .*{field}="):
        make()


def test_budgets_out_of_range():
    events = [LaplaceEvent(epsilon=0.1)]
    with pytest.raises(BudgetError, match="delta must be"):
        compose_epsilon(events, delta=0.0)
    with pytest.raises(BudgetError, match="epsilon must be"):
        compose_delta(events, epsilon=-1.0)
    with pytest.raises(CorrDPError, match="grid must be"):
        compose_epsilon(events, delta=1e-5, grid=0.0)


def test_sampled_event_counts_its_steps():
    assert SampledGaussianEvent(0.1, 1.0, 1.0, 7).count == 7

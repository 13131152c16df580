import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrdp.accounting import (
    WHOLE_RECORD,
    Group,
    NoisePlan,
    SensitivityTable,
    _planning,
    _sampled_conversions,
    gaussian_mu,
    plan_noise,
    sampled_change,
    sampled_noise_multiplier,
)
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError

DELTA = 1e-6


def table_of(bounds, classes, sizes=None, contribution=None):
    bounds = np.asarray(bounds, dtype=float)
    sizes = sizes or [1] * bounds.shape[1]
    return SensitivityTable(
        groups=tuple(Group(f"g{i}", size) for i, size in enumerate(sizes)),
        classes=tuple(classes),
        bounds=bounds,
        contribution=contribution,
    )


def test_one_class_one_group_is_the_gaussian_mechanism():
    table = table_of([[2.0]], [WHOLE_RECORD], sizes=[7])
    plan = plan_noise(
        table, allowed_epsilon={WHOLE_RECORD: 1.0}, delta=DELTA, n_steps=50
    )
    expected = 2.0 * math.sqrt(50) / gaussian_mu(epsilon=1.0, delta=DELTA)
    assert plan.noise_scale[0] == pytest.approx(expected, rel=1e-9)
    assert plan.epsilon(WHOLE_RECORD) == pytest.approx(1.0, rel=1e-9)
    assert plan.epsilon(WHOLE_RECORD) <= 1.0


def test_whole_record_is_priced_without_costing_noise():
    rows = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    table = table_of(rows, ["sensitive", "insensitive:u", WHOLE_RECORD])
    plan = plan_noise(
        table,
        allowed_epsilon={
            "sensitive": 1.0,
            "insensitive:u": 4.0,
            WHOLE_RECORD: math.inf,
        },
        delta=DELTA,
    )
    assert plan.fits
    assert plan.epsilon(WHOLE_RECORD) > 4.0
    mu = {e: gaussian_mu(epsilon=e, delta=DELTA) for e in (1.0, 4.0)}
    assert plan.noise_scale == pytest.approx([1 / mu[1.0], 1 / mu[4.0]], rel=1e-9)


def test_a_class_is_priced_by_its_worst_row():
    table = table_of([[1.0], [3.0]], [WHOLE_RECORD, WHOLE_RECORD])
    plan = NoisePlan(table, np.array([2.0]), {WHOLE_RECORD: math.inf}, DELTA)
    assert plan.step_change(WHOLE_RECORD) == 1.5


def test_group_without_noise_that_moves_costs_an_infinite_epsilon():
    table = table_of([[1.0, 0.5]], [WHOLE_RECORD])
    plan = NoisePlan(table, np.array([1.0, 0.0]), {WHOLE_RECORD: 1.0}, DELTA)
    assert plan.epsilon(WHOLE_RECORD) == math.inf
    assert not plan.fits


def test_group_without_noise_that_never_moves_costs_nothing():
    table = table_of([[1.0, 0.0]], [WHOLE_RECORD])
    plan = plan_noise(table, allowed_epsilon={WHOLE_RECORD: 1.0}, delta=DELTA)
    assert plan.noise_scale[1] == 0.0
    assert plan.fits


@settings(max_examples=60)
@given(st.data())
def test_planned_noise_fits_and_reads_back_equal(data):
    n_groups = data.draw(st.integers(1, 5))
    entry = st.one_of(st.just(0.0), st.floats(1e-3, 1e3))
    n_classes = data.draw(st.integers(1, 4))
    rows = [
        data.draw(st.lists(entry, min_size=n_groups, max_size=n_groups))
        for _ in range(n_classes)
    ]
    names = [f"c{i}" for i in range(n_classes)]
    table = table_of([*rows, np.max(rows, axis=0)], [*names, WHOLE_RECORD])
    allowed = {name: data.draw(st.floats(0.01, 20.0)) for name in names}
    plan = plan_noise(
        table,
        allowed_epsilon={**allowed, WHOLE_RECORD: math.inf},
        delta=data.draw(st.sampled_from([1e-3, 1e-6, 1e-12])),
        n_steps=data.draw(st.integers(1, 1000)),
    )
    assert plan.fits
    again = NoisePlan.from_json(plan.to_json())
    assert again.to_json() == plan.to_json()
    assert all(again.epsilon(n) == plan.epsilon(n) for n in names)


def test_halved_noise_no_longer_fits():
    table = table_of([[1.0]], [WHOLE_RECORD])
    plan = plan_noise(table, allowed_epsilon={WHOLE_RECORD: 1.0}, delta=DELTA)
    halved = NoisePlan(table, plan.noise_scale / 2, {WHOLE_RECORD: 1.0}, DELTA)
    assert not halved.fits


def test_sampled_plan_fits_and_beats_full_noise_per_step():
    table = table_of(
        [[2.0, 0.4], [0.0, 2.0], [2.0, 2.0]],
        ["sensitive", "insensitive:u", WHOLE_RECORD],
        sizes=[3, 20],
        contribution=np.array([1.0, 1.0]),
    )
    allowed = {"sensitive": 1.0, "insensitive:u": 5.0, WHOLE_RECORD: math.inf}
    sampled = plan_noise(
        table, allowed_epsilon=allowed, delta=1e-5, n_steps=200, rate=0.05
    )
    full = plan_noise(table, allowed_epsilon=allowed, delta=1e-5, n_steps=200)
    assert sampled.fits
    assert sampled.epsilon("sensitive") > 0.9  # nor is the budget left unused
    assert sampled.weighted_variance < full.weighted_variance


def test_sampled_plan_of_flat_clipping_uses_its_budget():
    """Here change and contribution are tied, so no fixed point of the bound exists."""
    table = table_of([[2.0]], [WHOLE_RECORD], sizes=[9], contribution=np.array([1.0]))
    plan = plan_noise(
        table, allowed_epsilon={WHOLE_RECORD: 1.0}, delta=1e-5, n_steps=200, rate=0.02
    )
    assert plan.fits
    assert plan.epsilon(WHOLE_RECORD) > 0.995


TWO_GROUPS = {
    "bounds": [[2.0, 0.4], [0.0, 2.0], [2.0, 2.0]],
    "classes": ["sensitive", "insensitive:u", WHOLE_RECORD],
    "sizes": [3, 20],
    "contribution": np.array([1.0, 1.0]),
}


@pytest.mark.parametrize(
    ("n_steps", "rate", "epsilon", "allowance"),
    [
        (94, 0.02, 3.0, 0.002),
        (400, 0.1, 0.5, 0.002),
        (4, 0.02, 0.5, 0.01),  # losses so rare that estimates say nothing
    ],
)
def test_search_by_estimates_ends_where_priced_changes_say(
    monkeypatch, n_steps, rate, epsilon, allowance
):
    """No bound on a grid of some percent needs less noise, and few are priced."""
    table = table_of(**TWO_GROUPS)
    allowed = {"sensitive": epsilon, "insensitive:u": 3 * epsilon}
    allowed[WHOLE_RECORD] = math.inf
    steps = {"n_steps": n_steps, "rate": rate}
    calls = []
    honest = _sampled_conversions.compose_epsilon

    def counted(*given, **named):
        calls.append(given)
        return honest(*given, **named)

    monkeypatch.setattr(_sampled_conversions, "compose_epsilon", counted)
    plan = plan_noise(table, allowed_epsilon=allowed, delta=1e-5, **steps)
    assert plan.fits
    assert len(calls) <= 35
    tied = sampled_noise_multiplier(epsilon=epsilon, delta=1e-5, **steps, grid=1e-2)
    for log_bound in -math.log(tied) + np.array([0.0, 0.03, 0.12]):
        changes = {
            name: sampled_change(
                epsilon=value,
                delta=1e-5,
                contribution=math.exp(log_bound),
                grid=1e-3,
                **steps,
            )
            for name, value in allowed.items()
            if math.isfinite(value)
        }
        rival = _planning._allocate(table, changes, math.exp(log_bound))
        assert plan.weighted_variance <= rival.objective * (1 + allowance)


def test_ordinary_privacy_is_planned_without_a_search_of_two_numbers(monkeypatch):
    """Two groups whose changes are tied to contributions; the search agrees."""
    table = table_of(
        [[2.0, 0.6], [2.0, 0.6]],
        ["sensitive", WHOLE_RECORD],
        sizes=[9, 4],
        contribution=np.array([1.0, 0.3]),
    )
    allowed = {"sensitive": 1.0, WHOLE_RECORD: math.inf}
    setting = {"allowed_epsilon": allowed, "delta": 1e-5, "n_steps": 50, "rate": 0.1}
    calls = []
    honest = _sampled_conversions.compose_epsilon

    def counted(*given, **named):
        calls.append(given)
        return honest(*given, **named)

    monkeypatch.setattr(_sampled_conversions, "compose_epsilon", counted)
    plan = plan_noise(table, **setting)
    assert plan.fits
    assert len(calls) <= 15
    monkeypatch.setattr(_planning, "_is_tied", lambda *given: False)
    searched = plan_noise(table, **setting)
    assert plan.weighted_variance <= searched.weighted_variance * (1 + 1e-6)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"allowed_epsilon": {}}, BudgetError, "missing"),
        ({"allowed_epsilon": {WHOLE_RECORD: -1.0}}, BudgetError, "-1.0"),
        ({"allowed_epsilon": {WHOLE_RECORD: math.nan}}, BudgetError, "nan"),
        ({"allowed_epsilon": {WHOLE_RECORD: math.inf}}, BudgetError, "bounds no class"),
        ({"allowed_epsilon": {WHOLE_RECORD: 1.0, "x": 1.0}}, BudgetError, "'x'"),
        ({"delta": 0.0}, BudgetError, "delta=0.0"),
        ({"delta": None}, BudgetError, "delta is None"),
        ({"n_steps": 0}, CorrDPError, "n_steps=0"),
        ({"n_steps": 1.5}, CorrDPError, r"n_steps=1\.5"),
        ({"rate": 0.0}, CorrDPError, r"rate=0\.0"),
        ({"rate": 1.5}, CorrDPError, r"rate=1\.5"),
        ({"rate": 0.1}, CorrDPError, "contribution"),
    ],
)
def test_arguments_of_a_plan_are_checked(change, error, message):
    table = table_of([[1.0]], [WHOLE_RECORD])
    arguments = {"allowed_epsilon": {WHOLE_RECORD: 1.0}, "delta": DELTA} | change
    with pytest.raises(error, match=message):
        plan_noise(table, **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bounds": [[1.0, -1.0]]}, r"-1\.0 at index"),
        ({"bounds": [[1.0, math.inf]]}, "inf at index"),
        ({"bounds": [[1.0]]}, r"got \(1, 1\)"),
        ({"classes": ["sensitive"]}, "whole_record"),
        ({"contribution": np.array([1.0])}, "contribution"),
        ({"contribution": np.array([1.0, math.nan])}, "nan"),
    ],
)
def test_tables_are_checked(change, message):
    arguments = {
        "groups": (Group("a", 1), Group("b", 2)),
        "classes": (WHOLE_RECORD,),
        "bounds": np.ones((1, 2)),
    } | change
    with pytest.raises((CorrDPError, GuaranteeVoidError), match=message):
        SensitivityTable(**arguments)


def test_group_names_differ():
    with pytest.raises(CorrDPError, match="group names must differ"):
        SensitivityTable((Group("a", 1),) * 2, (WHOLE_RECORD,), np.ones((1, 2)))


@pytest.mark.parametrize(("size", "weight"), [(0, 1.0), (1, 0.0), (1, math.nan)])
def test_groups_are_checked(size, weight):
    with pytest.raises(CorrDPError, match="of group 'a'"):
        Group("a", size, weight=weight)


def test_a_plan_needs_a_noise_scale_per_group():
    table = table_of([[1.0]], [WHOLE_RECORD])
    with pytest.raises(CorrDPError, match="one entry per group"):
        NoisePlan(table, np.ones(2), {WHOLE_RECORD: 1.0}, DELTA)


def test_a_full_batch_plan_has_no_contribution_to_speak_of():
    table = table_of([[1.0]], [WHOLE_RECORD])
    plan = plan_noise(table, allowed_epsilon={WHOLE_RECORD: 1.0}, delta=DELTA)
    with pytest.raises(CorrDPError, match="no contribution"):
        plan.step_contribution  # noqa: B018


def test_plan_prints_noise_and_budget():
    table = table_of([[1.0]], [WHOLE_RECORD])
    plan = plan_noise(table, allowed_epsilon={WHOLE_RECORD: 1.0}, delta=DELTA)
    text = plan.to_text()
    assert "g0" in text
    assert "whole_record" in text
    assert "full batch, delta 1e-06" in text


def test_a_search_estimates_nothing_twice(monkeypatch):
    """Where losses are rare, every estimate is a composition."""
    calls = []
    honest = _planning.compose_epsilon

    def counted(events, **named):
        calls.append((tuple(events), *named.values()))
        return honest(events, **named)

    monkeypatch.setattr(_planning, "compose_epsilon", counted)
    _planning._estimate.cache_clear()
    plan_noise(
        table_of(**TWO_GROUPS),
        allowed_epsilon={"sensitive": 0.5, "insensitive:u": 1.5, WHOLE_RECORD: 9.0},
        delta=1e-5,
        n_steps=4,
        rate=0.02,
    )
    assert len(calls) > 50
    assert len(calls) == len(set(calls))

"""How far one row moves every noisy sum of every kind of query, by brute force."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from corrdp.mechanisms import answer_queries, plan_queries
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NeighborRelation,
    NumberDomain,
    Policy,
    Slot,
)

POLICY = Policy(
    (
        Feature("age", "sensitive", NumberDomain(0, 100, bins=4)),
        Feature("dose", "sensitive", NumberDomain(0, 8, missing=Slot())),
        Feature("ward", "insensitive", CategoryDomain(("a", "b", "c")), leakage=0.3),
        Feature("height", "insensitive", NumberDomain(100, 220), leakage=0.2),
        Feature("smoker", "insensitive", BooleanDomain(), leakage=0.1),
    ),
    Label("cost", NumberDomain(0, 10), 0.5),
)
CORNERS = {
    "age": (0.0, 50.0, 100.0),
    "dose": (0.0, 4.0, 8.0, None),
    "ward": ("a", "b", "c"),
    "height": (100.0, 160.0, 220.0),
    "smoker": (False, True),
    "cost": (0.0, 10.0),
}
ROWS = [
    dict(zip(CORNERS, row, strict=True)) for row in itertools.product(*CORNERS.values())
]
ASKS = [
    "sum(age)",
    "mean(dose)",
    "variance(age)",
    "count() by ward",
    "sum(age) by ward",
    "histogram(age)",
    "covariance(age, height)",
    "mean(cost)",
    "mean(cost) by ward",
    "count() where age > 50",
    "count() by ward, smoker",
    "count() by ward, smoker where age > 50",
    "count() by ward (a), smoker",
    "sum(age) by ward (a, b) where smoker",
    "sum(age) by ward, smoker where height >= 160 or smoker",
    "mean(dose) by smoker where not ward in (a, b)",
    "variance(age) by ward where smoker",
    "variance(dose) where dose is missing or ward = a",
    "median(age) by ward",
    "histogram(age) by smoker where dose is not missing",
    "sum(cost) / count() by ward where smoker",
]


def plan_of(ask, **options):
    budget = Budget(epsilon=1.0, delta=options.pop("delta", 0.0))
    # Draws of quantiles are searched by tests of their own.
    options["quantiles"] = "counts"
    return plan_queries(POLICY, [ask], budget=budget, n_rows=1000, **options)


def columns_of(policy):
    changes = {
        "sensitive": {"age", "dose"},
        "insensitive:ward": {"ward"},
        "insensitive:height": {"height"},
        "insensitive:smoker": {"smoker"},
    }
    # a protected label may change with every class, or alone
    changes = {name: columns | {"cost"} for name, columns in changes.items()}
    return changes | {"label": {"cost"}, "whole_record": set(CORNERS)}


# The same columns, of which insensitive ones may change together.
BLOCK = replace(
    POLICY,
    features=tuple(replace(feature, leakage=None) for feature in POLICY.features),
    relation=NeighborRelation.ALL_INSENSITIVE,
    block_leakage=0.4,
)


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_no_pair_of_rows_moves_the_sums_farther_than_the_block_is_promised(ask, kind):
    delta = 1e-6 if kind == "gaussian" else 0.0
    budget = Budget(epsilon=1.0, delta=delta)
    plan = plan_queries(
        BLOCK, [ask], budget=budget, n_rows=1000, kind=kind, quantiles="counts"
    )
    noise = plan.noise
    assert set(noise.movement.classes) == {
        "sensitive",
        "insensitive",
        "label",
        "whole_record",
    }
    read = frozenset().union(*(moment.columns for moment in plan.moments))
    used = [r for r in ROWS if all(r[c] == CORNERS[c][0] for c in set(CORNERS) - read)]
    table = [pd.DataFrame([row]) for row in used]
    sums = [np.array([m.evaluate(BLOCK, one) for one in table]) for m in plan.moments]
    changes = {
        "sensitive": {"age", "dose", "cost"},
        "insensitive": {"ward", "height", "smoker", "cost"},
        "label": {"cost"},
        "whole_record": set(CORNERS),
    }
    for name, changed in changes.items():
        kept = [c for c in CORNERS if c not in changed]
        keys = np.array([json.dumps([row[c] for c in kept]) for row in used])
        prices = np.zeros((len(used), len(used)))
        for own, scale in zip(sums, noise.scales, strict=True):
            gaps = np.abs(own[:, None] - own[None]).astype(float)
            if kind == "gaussian":
                prices += (gaps**2).sum(axis=2) / (2.0 * float(scale) ** 2)
            else:
                prices += gaps.sum(axis=2) / float(scale)
        reached = prices[keys[:, None] == keys[None]].max()
        # All sums together: a row that is worst for one need not be for another.
        assert reached <= float(noise.movement_in_noise(name)) * (1 + 1e-12)
        assert noise.epsilon(name) <= noise.allowed_epsilon[name]


@pytest.mark.parametrize("ask", ASKS)
def test_no_row_moves_a_sum_farther_than_planned_and_some_row_that_far(ask):
    plan = plan_of(ask)
    movement = plan.noise.movement
    sums = [
        np.array([m.evaluate(POLICY, pd.DataFrame([row])) for row in used]).T
        for m in plan.moments
        for used in [relevant(m)]
    ]
    for name, changed in columns_of(POLICY).items():
        row = movement.row(name)
        for index, moment in enumerate(plan.moments):
            used = relevant(moment)
            kept = [c for c in CORNERS if c not in changed]
            groups = {}
            for place, corner in enumerate(used):
                key = json.dumps([corner[c] for c in kept])
                groups.setdefault(key, []).append(sums[index][:, place])
            reached = max(
                int(np.abs(np.array(g)[:, None] - np.array(g)[None]).sum(axis=2).max())
                for g in groups.values()
            )
            assert reached == int(movement.absolute[row, index]), (ask, name)


def relevant(moment):
    """Return corners in the columns that a sum reads; others stay at their first."""
    read = moment.columns
    return [
        row
        for row in ROWS
        if all(row[c] == CORNERS[c][0] for c in CORNERS if c not in read)
    ]


@pytest.mark.parametrize("ask", ASKS)
def test_a_sum_says_every_column_that_it_reads(ask):
    """By these columns it is priced, and `relevant` trusts them."""
    for moment in plan_of(ask).moments:
        rows = relevant(moment)[:40]
        others = [
            row | {column: value}
            for column in CORNERS
            if column not in moment.columns
            for value in CORNERS[column][1:]
            for row in rows
        ]
        known = [moment.evaluate(POLICY, pd.DataFrame([r])).tolist() for r in rows]
        found = [
            moment.evaluate(POLICY, pd.DataFrame([row])).tolist() for row in others
        ]
        assert found == known * (len(others) // len(rows))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("ask", ASKS)
def test_every_sum_that_moves_has_noise_and_pays_for_it(ask, delta):
    """Prices from the scales that are drawn, by the formulas of the theory pages."""
    kind = "gaussian" if delta else "laplace"
    plan = plan_of(ask, delta=delta, kind=kind)
    movement, charged = plan.noise.movement, plan.noise.charged_events()
    for name in columns_of(POLICY):
        row = movement.row(name)
        moves = movement.absolute[row] > 0
        scales = np.array([float(scale) for scale in plan.noise.scales])
        assert np.all(scales[moves] > 0)
        if delta == 0.0:
            price = float(np.sum(movement.absolute[row][moves] / scales[moves]))
            stated = sum(event.epsilon for event in charged[name])
        else:
            squares = movement.squared[row][moves] / scales[moves] ** 2
            price, stated = float(squares.sum()) / 2, charged[name][0].rho
        assert stated == pytest.approx(price, rel=1e-12, abs=1e-300)
        assert stated >= price * (1 - 1e-14)


def test_answers_are_exact_sums_and_the_draws_of_the_plan():
    """Replayed: counts are the exact ones plus what the plan draws, and no more."""
    table = pd.DataFrame(ROWS * 3)
    result = answer_queries(
        table, POLICY, ["count() by ward"], epsilon=0.05, random_state=9
    )
    drawn = result.plan.noise.draw(random_state=9)
    exact = table.ward.value_counts().sort_index().to_numpy()
    assert np.array_equal(np.array(result.answers[0].values), exact + drawn)
    assert np.any(drawn)


def test_noise_is_new_in_every_call():
    """Five releases of three counts at scale 2000: all equal has odds below 1e-30."""
    table = pd.DataFrame(ROWS * 3)
    answers = {
        answer_queries(table, POLICY, ["sum(age) by ward"], epsilon=1e-3)
        .answers[0]
        .values
        for _ in range(5)
    }
    assert len(answers) > 1


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_every_coordinate_has_noise_of_its_own(kind):
    """Signs agree in half of the runs: Hoeffding, refused with probability 1e-9."""
    delta = 1e-6 if kind == "gaussian" else 0.0
    plan = plan_queries(
        POLICY,
        ["histogram(age)", "count() by ward"],
        budget=Budget(epsilon=1e-3, delta=delta),
        n_rows=1000,
        kind=kind,
    )
    n_runs = 2000
    draws = plan.noise.draw_runs(n_runs, np.random.default_rng(8))
    signs = np.sign(draws + 0.5)
    agreement = np.abs(signs.T @ signs)[np.triu_indices(draws.shape[1], 1)]
    limit = np.sqrt(2 * n_runs * np.log(2 * agreement.size / 1e-9)) + 4
    assert agreement.max() <= limit < n_runs

"""Exact privacy loss of worst-case neighbors, for every variant and any policy.

The loss is computed from the whole-numbered sums of real rows and the rational scales
that are drawn: no sampling, no tolerance.
"""

import contextlib
import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corrdp.exceptions import CorrDPError
from corrdp.mechanisms import parse_ask, plan_queries
from corrdp.mechanisms.noise import Movement, concentrated_epsilon, plan_vector
from corrdp.mechanisms.noise._laplace_scales import least_variance_scales
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    Slot,
    neighbor_classes,
)
from corrdp.queries import (
    Correlation,
    Count,
    Covariance,
    Histogram,
    Mean,
    Quantiles,
    Total,
    Variance,
    ask_text,
    col,
)

N_ROWS = 100


@st.composite
def domains(draw, slots=True):
    missing = {"missing": Slot()} if slots and draw(st.booleans()) else {}
    kind = draw(st.sampled_from(["number", "category", "boolean"]))
    if kind == "number":
        lower = draw(st.floats(-1e6, 1e6))
        width = draw(st.floats(1e-3, 1e6))
        return NumberDomain(lower, lower + width, bins=3, **missing)
    if kind == "category":
        levels = draw(st.integers(1, 4))
        other = draw(st.booleans())
        return CategoryDomain(tuple("abcd"[:levels]), other=other, **missing)
    return BooleanDomain(**missing)


@st.composite
def policies(draw):
    n_sensitive = draw(st.integers(0, 2))
    n_insensitive = draw(st.integers(0 if n_sensitive else 1, 2))
    features = [
        Feature(f"s{i}", "sensitive", draw(domains())) for i in range(n_sensitive)
    ]
    features += [
        Feature(
            f"u{i}",
            "insensitive",
            draw(domains()),
            leakage=draw(st.floats(0, 1)),
            score=draw(st.sampled_from([0.0, 0.5])),
        )
        for i in range(n_insensitive)
    ]
    label = None
    if draw(st.booleans()):
        label = Label(
            "y", draw(domains(slots=False)), draw(st.sampled_from([0, 0.3, 1]))
        )
    relation = draw(st.sampled_from(["one_insensitive", "all_insensitive"]))
    block = draw(st.floats(0, 1))
    return Policy(tuple(features), label, relation=relation, block_leakage=block)


def column_domains(policy):
    columns = {feature.name: feature.domain for feature in policy.features}
    if policy.label is not None:
        columns[policy.label.name] = policy.label.domain
    return columns


def extremes(domain):
    """Return values between which the farthest pair of any column lies."""
    missing = [None] if isinstance(domain.missing, Slot) else []
    if isinstance(domain, NumberDomain):
        middle = domain.lower / 2 + domain.upper / 2
        return [domain.lower, domain.upper, middle, *missing]
    if isinstance(domain, BooleanDomain):
        return [True, False, *missing]
    return [*domain.categories, *(["another"] if domain.other else []), *missing]


def _split(kind, name, by, where):
    return kind(name, by, where=where)


@st.composite
def conditions(draw, columns):
    """Return a condition on declared values, possibly of two columns."""
    name = draw(st.sampled_from(sorted(columns)))
    domain = columns[name]
    if isinstance(domain, NumberDomain):
        middle = domain.lower / 2 + domain.upper / 2
        found = col(name) >= middle
    elif isinstance(domain, BooleanDomain):
        found = col(name) == "true"
    else:
        found = col(name) == domain.categories[0]
    shape = draw(st.sampled_from(["plain", "not", "and", "or"]))
    if shape == "plain":
        return found
    if shape == "not":
        return ~found
    other = draw(conditions(columns))
    return found & other if shape == "and" else found | other


@st.composite
def workloads(draw, policy):
    columns = column_domains(policy)
    numbers = [n for n, d in columns.items() if not isinstance(d, CategoryDomain)]
    complete = [n for n in numbers if not isinstance(columns[n].missing, Slot)]
    binned = [n for n in complete if isinstance(columns[n], NumberDomain)]
    any_column = st.sampled_from(sorted(columns))
    several = st.lists(any_column, max_size=2, unique=True).map(tuple)
    where = st.none() | conditions(columns)
    kinds = [
        st.builds(Histogram, any_column),
        st.builds(Count, any_column),
        st.builds(lambda by, where: Count(by, where=where), several, where),
    ]
    if numbers:
        number = st.sampled_from(numbers)
        kinds += [
            st.builds(partial(_split, kind), number, several, where)
            for kind in (Mean, Total, Variance)
        ]
    if len(complete) > 1:
        pair = st.lists(st.sampled_from(complete), min_size=2, max_size=2, unique=True)
        kinds += [
            pair.map(lambda p: Covariance(*p)),
            pair.map(lambda p: Correlation(*p)),
        ]
    if binned:
        kinds.append(st.builds(Quantiles, st.sampled_from(binned), st.just((0.5,))))
    return draw(st.lists(st.one_of(*kinds), min_size=1, max_size=4))


@st.composite
def neighbor_rows(draw, policy, neighbor):
    """Return two rows that differ only where the class allows it."""
    columns = column_domains(policy)
    changed = set(neighbor.features)
    if neighbor.label_changes:
        changed.add(policy.label.name)
    first = {n: draw(st.sampled_from(extremes(d))) for n, d in columns.items()}
    second = {
        name: draw(st.sampled_from(extremes(columns[name])))
        if name in changed
        else value
        for name, value in first.items()
    }
    return first, second


def frame_of(row, policy):
    frame = pd.DataFrame({name: [value] for name, value in row.items()}, dtype=object)
    for name, domain in column_domains(policy).items():
        if isinstance(domain, NumberDomain):
            frame[name] = frame[name].astype(float)
    return frame


def exact_price(plan, scales, first, second):
    """Return the exact loss (Laplace) or divergence per order (Gaussian)."""
    price = Fraction(0)
    for moment, scale in zip(plan.moments, scales, strict=True):
        gap = moment.evaluate(plan.policy, frame_of(first, plan.policy))
        gap = gap - moment.evaluate(plan.policy, frame_of(second, plan.policy))
        for steps in np.abs(gap).tolist():
            if not steps:
                continue
            if plan.noise.kind == "laplace":
                price += Fraction(steps) / scale
            else:
                price += Fraction(steps) ** 2 / (2 * scale**2)
    return price


def is_within(plan, price, allowed):
    if plan.noise.kind == "laplace":
        return price <= Fraction(allowed)
    return concentrated_epsilon(rho=float(price), delta=plan.budget.delta) <= allowed


@settings(max_examples=25)
@given(data=st.data())
@pytest.mark.parametrize(
    ("kind", "variant"),
    [
        ("laplace", "paper"),
        ("laplace", "tight"),
        ("laplace", "optimal"),
        ("laplace", "ordinary"),
        ("gaussian", "tight"),
        ("gaussian", "optimal"),
    ],
)
def test_no_neighbors_lose_more_than_their_class_is_promised(kind, variant, data):
    policy = data.draw(policies())
    budget = Budget(epsilon=data.draw(st.floats(0.01, 5)), delta=1e-6)
    objective = data.draw(st.sampled_from(["total", "worst"]))
    plan = plan_queries(
        policy,
        data.draw(workloads(policy)),
        budget=budget,
        n_rows=N_ROWS,
        kind=kind,
        variant=variant,
        objective=objective,
    )
    for neighbor in neighbor_classes(policy):
        if not neighbor.promised:
            continue
        allowed = min(
            budget.epsilon / neighbor.distance,
            max(budget.epsilon, policy.epsilon_cap),
        )
        assert plan.noise.epsilon(neighbor.name) <= allowed
        pair = data.draw(neighbor_rows(policy, neighbor))
        price = exact_price(plan, plan.noise.scales, *pair)
        assert price <= plan.noise.movement_in_noise(neighbor.name)
        assert is_within(plan, price, allowed)


def hospital_policy():
    return Policy(
        (
            Feature("age", "sensitive", NumberDomain(0, 100, bins=4)),
            Feature("dose", "sensitive", NumberDomain(0, 8)),
            Feature("ward", "insensitive", CategoryDomain(("a", "b")), leakage=0.3),
            Feature("height", "insensitive", NumberDomain(1, 2), leakage=0.1),
        )
    )


ASKS = [
    "mean(age)",
    "sum(dose)",
    "mean(height)",
    "histogram(ward)",
    "mean(age) by ward",
]


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_some_neighbors_lose_nearly_all_and_less_noise_is_caught(kind):
    """The twin: with nine tenths of the noise the same check fails."""
    policy = hospital_policy()
    budget = Budget(epsilon=1.0, delta=1e-6)
    plan = plan_queries(policy, ASKS, budget=budget, n_rows=N_ROWS, kind=kind)
    rows = [
        {"age": age, "dose": dose, "ward": "a", "height": 1.0}
        for age, dose in itertools.product((0.0, 100.0), (0.0, 8.0))
    ]
    pairs = list(itertools.combinations(rows, 2))
    prices = [exact_price(plan, plan.noise.scales, *pair) for pair in pairs]
    assert all(is_within(plan, price, 1.0) for price in prices)
    less = tuple(scale * Fraction(9, 10) for scale in plan.noise.scales)
    assert not all(is_within(plan, exact_price(plan, less, *p), 1.0) for p in pairs)


def test_movement_that_forgets_the_group_a_row_enters_is_caught():
    """The twin of group-by: counting one end of a move is too little."""
    policy = hospital_policy()
    (moment,) = parse_ask("count() by ward").moments(policy)
    rows = [{"age": 0.0, "dose": 0.0, "ward": w, "height": 1.0} for w in "ab"]
    gap = [moment.evaluate(policy, frame_of(row, policy)) for row in rows]
    moved = int(np.abs(gap[0] - gap[1]).sum())
    absolute, squared = moment.movement(policy, frozenset({"ward"}))
    assert moved == absolute == 2
    assert squared == 2
    one_end = moment.largest
    assert moved > one_end


@settings(max_examples=40)
@given(
    leakage=st.floats(0, 1),
    epsilon=st.floats(0.01, 5),
    sensitivities=st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)),
)
def test_variants_are_ordered(leakage, epsilon, sensitivities):
    """Tight is never noisier than the paper, nor the paper than ordinary DP."""
    policy = Policy(
        (
            Feature("s", "sensitive", NumberDomain(0, 1)),
            Feature("u", "insensitive", NumberDomain(0, 1), leakage=leakage),
        )
    )
    first, second = sensitivities
    movement = Movement.of_coordinates(
        {
            "sensitive": [first, 0.0],
            "insensitive:u": [0.0, second],
            "whole_record": [first, second],
        },
        grid=2.0**-12,
    )
    total = {
        variant: sum(
            float(scale) ** 2
            for scale in plan_vector(
                movement,
                policy=policy,
                budget=Budget(epsilon=epsilon, delta=0.0),
                variant=variant,
            ).scales
        )
        for variant in ("optimal", "tight", "paper", "ordinary")
    }
    rounding = 1.001  # scales are rounded up by at most 1/4096
    assert total["optimal"] <= total["tight"] * rounding
    assert total["tight"] <= total["paper"] * rounding
    assert total["paper"] <= total["ordinary"] * rounding


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_laplace_allocation_reaches_its_lower_bound(seed):
    """Weak duality: any multipliers bound the optimum from below."""
    generator = np.random.default_rng(seed)
    n_rows, n_groups = generator.integers(1, 8, 2)
    bounds = generator.lognormal(0, 2, (n_rows, n_groups))
    bounds *= generator.random((n_rows, n_groups)) < 0.5
    bounds[generator.integers(0, n_rows, n_groups), np.arange(n_groups)] += 1.0
    bounds = bounds[bounds.max(axis=1) > 0]
    allowed = generator.lognormal(0, 1, len(bounds))
    cost = generator.lognormal(0, 2, n_groups)
    scale = least_variance_scales(bounds, allowed, cost)
    used = np.sum(bounds / scale, axis=1) / allowed
    assert used.max() <= 1.0 + 1e-12
    reached = float(np.sum(cost * scale**2))
    # No feasible random point, also near the optimum, has less cost.
    for spread in (1.0, 0.1, 0.001):
        other = scale * np.exp(spread * generator.normal(size=n_groups))
        other = other * np.max(np.sum(bounds / other, axis=1) / allowed)
        assert np.sum(cost * other**2) >= reached * (1 - 1e-7)


def marginal_and_definition(joint):
    """Return TV(S | u1) by itself, and the largest given any value of u2."""
    marginal = definition = 0.0
    given = {u: joint[:, u, :].sum(axis=1) / joint[:, u, :].sum() for u in (0, 1)}
    marginal = 0.5 * np.abs(given[0] - given[1]).sum()
    for v in (0, 1):
        rows = [joint[:, u, v] / joint[:, u, v].sum() for u in (0, 1)]
        definition = max(definition, 0.5 * np.abs(rows[0] - rows[1]).sum())
    return marginal, max(marginal, definition)


def test_exclusive_or_is_a_pitfall_of_marginal_conditioning():
    """Erratum E9: S = U1 xor U2, so U1 tells nothing alone and all beside U2."""
    joint = np.zeros((2, 2, 2))
    for u1, u2 in itertools.product((0, 1), repeat=2):
        joint[u1 ^ u2, u1, u2] = 0.25
    marginal, definition = marginal_and_definition(joint)
    assert (marginal, definition) == (0.0, 1.0)
    domain = CategoryDomain(("0", "1"))
    features = [Feature("s", "sensitive", domain)]
    features += [Feature(u, "insensitive", domain, leakage=0.0) for u in ("u1", "u2")]
    losses = {}
    for conditioning, leakage in (("marginal", marginal), ("definition", definition)):
        policy = replace(Policy(tuple(features)), conditioning=conditioning)
        policy = policy.with_leakage({"u1": leakage, "u2": leakage})
        plan = plan_queries(
            policy,
            ["count(u1 = 1)", "count(u2 = 1)"],
            budget=Budget(epsilon=1.0, delta=0.0),
            n_rows=1,
        )
        rows = [{"s": s, "u1": u, "u2": "0"} for s, u in (("0", "0"), ("0", "1"))]
        losses[conditioning] = exact_price(plan, plan.noise.scales, *rows)
        assert plan.certificate().conditioning == conditioning
    # To whoever knows U2, the loss about U1 is the loss about S.
    assert losses["definition"] <= 1
    assert losses["marginal"] > 9


@given(data=st.data())
@settings(max_examples=100)
def test_questions_read_back_as_the_query(data):
    name = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1)
    spaced = st.text("ab (),=\"'by", min_size=1).filter(lambda t: t.strip() == t != "")
    names = name | spaced
    groups = st.none() | st.lists(names, min_size=1, max_size=3).map(tuple)
    probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=3).map(tuple)
    pairs = st.tuples(names, names)
    leaves = st.one_of(
        st.builds(lambda n, v: col(n) >= v, names, names),
        st.builds(lambda n, v: col(n) != v, names, names),
        st.builds(lambda n, v: col(n).is_in(v, "x"), names, names),
        st.builds(lambda n: col(n).is_missing(), names),
    )
    wheres = st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(lambda c: ~c),
            st.builds(lambda a, b: a & b, inner, inner),
            st.builds(lambda a, b: a | b, inner, inner),
        ),
        max_leaves=4,
    )
    query = data.draw(
        st.one_of(
            st.builds(Count, names, groups),
            st.just(Count()),
            st.builds(Mean, names),
            st.builds(Mean, names, names, groups),
            st.builds(Total, names, names, groups),
            st.builds(Variance, names),
            st.builds(Histogram, names),
            st.builds(Covariance, names, names),
            st.builds(Correlation, names, names),
            st.builds(Quantiles, names, probabilities),
            st.builds(Quantiles, names, probabilities, names, groups, wheres),
            st.builds(Variance, names, pairs, st.none(), wheres),
            st.builds(Histogram, names, pairs, groups, wheres),
            st.builds(Mean, names, pairs, groups, wheres),
        )
    )
    assert parse_ask(ask_text(query)) == query


@given(st.text(max_size=40))
@settings(max_examples=200)
def test_any_text_is_read_or_refused_in_words(text):
    query = None
    with contextlib.suppress(CorrDPError):  # any other error fails the test
        query = parse_ask(text)
    assert query is None or parse_ask(ask_text(query)) == query


@given(rho=st.floats(1e-8, 50), delta=st.floats(1e-15, 1e-2))
@settings(max_examples=50)
def test_concentrated_epsilon_is_below_the_simple_conversion(rho, delta):
    assume(rho > 0)
    simple = rho + 2 * math.sqrt(rho * math.log(1 / delta))  # Bun and Steinke 2016
    assert 0 <= concentrated_epsilon(rho=rho, delta=delta) <= simple * (1 + 1e-9)

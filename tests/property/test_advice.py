"""What a plan says would do, does: the planner, given it back, learns."""

import warnings

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_prediction_order import LABELS, problems

from corrdp.estimators import AdditiveClassifier, LogisticRegression
from corrdp.exceptions import UtilityWarning
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
)
from corrdp.training import CONSTANT


def model_of(problem, **options):
    kinds, domains, n_sensitive, leakage, label, score = problem
    kind, domain = LABELS[label]
    features = tuple(
        Feature(
            f"f{i}",
            "sensitive" if i < n_sensitive else "insensitive",
            domains[letter],
            leakage=None if i < n_sensitive else leakage[i],
        )
        for i, letter in enumerate(kinds)
    )
    return kind(Policy(features, Label("y", domain, score=score)), **options)


@settings(max_examples=10)
@given(
    problem=problems(),
    epsilon=st.floats(0.02, 0.5),
    n_rows=st.integers(50, 2000),
    method=st.sampled_from(["corr", "semi", "standard"]),
    fits=st.sampled_from([1, 3]),
)
def test_advised_rows_and_epsilon_learn(problem, epsilon, n_rows, method, fits):
    options = {"delta": 1e-6, "method": method, "fits": fits}
    model = model_of(problem, epsilon=epsilon, **options)
    plan = model.plan(n_rows)
    if not plan.prediction.learns_little:
        assert plan.needed is None
        assert plan.rows_needed() == n_rows
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # delta, which is large for so many rows
        more = [model.plan(factor * plan.rows_needed()) for factor in (1, 2)]
    raised = [
        model_of(problem, epsilon=factor * plan.needed.epsilon, **options).plan(n_rows)
        for factor in (1, 2)
    ]
    for other in (*more, *raised):
        assert other.noise != CONSTANT
    for other in (more[0], raised[0]):
        assert not other.prediction.learns_little


POLICY = Policy(
    (
        Feature("s", "sensitive", NumberDomain(0, 1)),
        Feature("u", "insensitive", CategoryDomain(tuple("xyz")), leakage=0.5),
    ),
    Label("y", BooleanDomain(), score=0.0),
)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (AdditiveClassifier, {}),
        (AdditiveClassifier, {"n_knots": 8}),
        (LogisticRegression, {"bounds": "declared"}),
    ],
)
def test_advice_of_other_planners_learns(kind, options):
    model = kind(POLICY, epsilon=0.02, delta=1e-6, **options)
    needed = model.plan(200).needed
    assert not model.plan(int(needed.rows)).prediction.learns_little
    other = kind(POLICY, epsilon=needed.epsilon, delta=1e-6, **options)
    assert not other.plan(200).prediction.learns_little


@pytest.mark.parametrize("epsilon", [1e-9, 1e-60])
def test_an_epsilon_far_away_is_found(epsilon):
    """Plans of very small budgets look too far for what would do."""
    model = LogisticRegression(POLICY, epsilon=epsilon, delta=1e-6)
    needed = model.plan(50).needed
    assert needed.epsilon is not None
    other = LogisticRegression(POLICY, epsilon=needed.epsilon, delta=1e-6)
    assert not other.plan(50).prediction.learns_little


def test_a_fit_says_what_its_plan_says():
    columns = {"s": [0.2, 0.8], "u": ["x", "y"], "y": [False, True]}
    rows = pd.DataFrame({name: cells * 60 for name, cells in columns.items()})
    model = LogisticRegression(POLICY, epsilon=0.05, delta=1e-6, random_state=0)
    needed = model.plan(120).needed
    said = f"or epsilon={needed.epsilon:g}, would do"
    with pytest.warns(UtilityWarning, match=said):
        model.fit(rows)
    assert model.plan_.needed == needed


def test_where_no_number_of_rows_would_do_none_is_named():
    plan = LogisticRegression(POLICY, epsilon=1e-60, delta=1e-60).plan(50)
    assert plan.rows_needed() is None
    assert plan.needed.text == (
        f"No number of rows would do, epsilon={plan.needed.epsilon:g} would."
    )

"""Orders that common sense demands, on what plans predict.

More epsilon, more rows, less leakage and a weaker promise never predict more excess
risk; and the planner never predicts more than ordinary noise would.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
)

SLACK = 1 + 1e-6  # allocations are solved to a tolerance
LABELS = {
    "two": (LogisticRegression, BooleanDomain()),
    "three": (LogisticRegression, CategoryDomain(tuple("abc"))),
    "number": (LinearRegression, NumberDomain(0, 1)),
}


@st.composite
def problems(draw):
    kinds = draw(st.lists(st.sampled_from("nbc"), min_size=2, max_size=7))
    domains = {
        "n": NumberDomain(0, 1),
        "b": BooleanDomain(),
        "c": CategoryDomain(tuple("pqrs")),
    }
    n_sensitive = draw(st.integers(1, len(kinds) - 1))
    leakage = draw(
        st.lists(st.floats(0.02, 1.0), min_size=len(kinds), max_size=len(kinds))
    )
    label = draw(st.sampled_from(sorted(LABELS)))
    score = draw(st.sampled_from([0.0, 0.0, 1.0]))
    return kinds, domains, n_sensitive, leakage, label, score


def predicted(problem, *, method="corr", epsilon=0.5, n_rows=3000, leak=1.0):
    kinds, domains, n_sensitive, leakage, label, score = problem
    kind, domain = LABELS[label]
    features = tuple(
        Feature(
            f"f{i}",
            "sensitive" if i < n_sensitive else "insensitive",
            domains[letter],
            leakage=None if i < n_sensitive else leak * leakage[i],
        )
        for i, letter in enumerate(kinds)
    )
    policy = Policy(features, Label("y", domain, score=score))
    model = kind(policy, epsilon=epsilon, delta=1e-6, method=method)
    plan = model.plan(n_rows)
    assert 0 < plan.predicted_error < plan.prediction.gain
    low, high = plan.prediction.band
    assert low < plan.predicted_error < high
    return plan.predicted_error


@settings(max_examples=12)
@given(problem=problems(), epsilon=st.floats(0.05, 3.0), n_rows=st.integers(300, 10**5))
def test_predictions_are_in_order(problem, epsilon, n_rows):
    at = {"epsilon": epsilon, "n_rows": n_rows}
    corr = predicted(problem, **at)
    assert corr <= predicted(problem, method="standard", **at) * SLACK
    assert predicted(problem, method="semi", **at) <= corr * SLACK
    assert predicted(problem, leak=0.5, **at) <= corr * SLACK
    assert predicted(problem, epsilon=2 * epsilon, n_rows=n_rows) <= corr * SLACK
    assert predicted(problem, epsilon=epsilon, n_rows=2 * n_rows) <= corr * SLACK


def test_the_order_is_not_an_accident_of_equal_numbers():
    domains = {"n": NumberDomain(0, 1), "c": CategoryDomain(tuple("pq"))}
    problem = (list("nnnc"), domains, 1, [0.5] * 4, "two", 0.0)
    numbers = [predicted(problem, method=m) for m in ("semi", "corr", "standard")]
    assert np.all(np.diff(numbers) > 0)
    assert predicted(problem, leak=0.1) < predicted(problem)


def test_ordinary_noise_in_the_place_of_groups_keeps_the_order():
    """With little noise plans for numbers leave groups, whose bound is lower."""
    domains = {"n": NumberDomain(0, 1)}
    problem = (["n"] * 7, domains, 1, [1.0] * 7, "number", 0.0)
    few, many = (predicted(problem, epsilon=2.0, n_rows=n) for n in (524, 1048))
    assert many < few
    assert predicted(problem, epsilon=2.0, n_rows=1048, method="semi") <= many * SLACK

"""Valid bounds are intersected: the least holds, failure probabilities add."""

import dataclasses

import numpy as np
import pytest

from corrdp.estimators import LinearRegression
from corrdp.exceptions import MissingBoundError, PolicyError
from corrdp.leakage import declared_table, estimate_leakage, intersect_leakage
from corrdp.policy import Label, NumberDomain
from leakage_models import joint_of, policy_of, table_of

NAMES = ("s", "u", "v")
JOINT = np.einsum(
    "su,v->suv",
    joint_of([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]], [0.6, 0.38, 0.02]),
    [0.25, 0.75],
)


@pytest.fixture(scope="module")
def frame():
    return table_of(JOINT, NAMES, 6000, np.random.default_rng(21))


def policy_with(u=0.9, v=0.01):
    return policy_of(JOINT, NAMES, ("s",)).with_leakage({"u": u, "v": v})


def test_the_least_bound_of_each_feature_is_taken(frame):
    policy = policy_with()
    options = {"join_levels": True, "failure_probability": 0.01}
    public = estimate_leakage(frame, policy, source="public", **options)
    both = intersect_leakage(public, declared_table(policy))
    assert public.joined
    joined = both.policy_for(policy)
    assert both.joined == public.joined
    assert both.distances(policy=joined) == {
        "u": public.features["u"].upper,
        "v": 0.01,
    }
    assert both.failure_probability == 0.01
    assert both.source == "public"
    assert "others: declared: 0.9" in both.features["u"].reason
    assert both.distances() == {"u": 1.0, "v": 0.01}
    swapped = intersect_leakage(declared_table(policy), public)
    assert swapped.distances(policy=joined) == both.distances(policy=joined)


def test_costs_and_failure_probabilities_add(frame):
    policy = policy_with()
    options = {"join_levels": False, "failure_probability": 0.01}
    public = estimate_leakage(frame[:2000], policy, source="public", **options)
    paid = estimate_leakage(
        frame, policy, epsilon=0.5, delta=1e-6, random_state=1, **options
    )
    both = intersect_leakage(public, paid)
    assert both.source == "private"
    assert both.failure_probability == pytest.approx(0.02)
    assert both.components == paid.components
    assert both.replayable_noise
    for name, value in both.features.items():
        assert value.upper == min(
            public.features[name].upper, paid.features[name].upper
        )
    labelled = dataclasses.replace(policy, label=Label("y", NumberDomain(0, 1), 0.0))
    with pytest.raises(PolicyError, match="computed for policy"):
        LinearRegression(labelled, epsilon=1.0, delta=1e-6, leakage=both).plan(6000)


def test_tables_that_mean_different_things_are_refused(frame):
    policy = policy_with()
    options = {"source": "public", "join_levels": True}
    public = estimate_leakage(frame, policy, **options)
    other = policy_with(u=0.8)
    with pytest.raises(PolicyError, match="declared fingerprint"):
        intersect_leakage(public, declared_table(other))
    hellinger = estimate_leakage(frame, policy, source="public", metric="hellinger")
    with pytest.raises(PolicyError, match="metric"):
        intersect_leakage(public, hellinger)
    # Joined levels weigh as in the rows of each table: two laws, no least bound.
    assert public.joined
    again = estimate_leakage(frame[:5000], policy, **options)
    with pytest.raises(PolicyError, match="different laws"):
        intersect_leakage(public, again)
    sample = estimate_leakage(frame, policy, source="in_sample", research=True)
    with pytest.raises(MissingBoundError, match="in_sample"):
        intersect_leakage(public, sample)

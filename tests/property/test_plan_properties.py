"""What must hold for every policy whose column means are planned."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrdp.accounting import (
    WHOLE_RECORD,
    Group,
    SensitivityTable,
    gaussian_mu,
    plan_noise,
)
from corrdp.mechanisms import plan_means
from corrdp.policy import (
    Budget,
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NeighborRelation,
    NumberDomain,
    Policy,
    class_epsilon,
    neighbor_classes,
)

BUDGET = Budget(epsilon=0.7, delta=1e-6)


def feature(index: int, role: ColumnRole, leakage: float | None) -> Feature:
    domain = (
        NumberDomain(0.0, 1.0)
        if index % 2
        else CategoryDomain(tuple(f"v{i}" for i in range(2 + index % 3)))
    )
    return Feature(f"x{index}", role, domain, leakage=leakage)


def policy_with(leakages: list[float], n_sensitive: int = 2) -> Policy:
    sensitive = [feature(i, ColumnRole.SENSITIVE, None) for i in range(n_sensitive)]
    insensitive = [
        feature(n_sensitive + i, ColumnRole.INSENSITIVE, value)
        for i, value in enumerate(leakages)
    ]
    return Policy(
        tuple(sensitive + insensitive),
        label=None,
        relation=NeighborRelation.ONE_INSENSITIVE,
    )


def gradient_table(policy: Policy, cross: float) -> tuple[SensitivityTable, dict]:
    """Sensitivities in which every class moves every group, some of them less."""
    classes = neighbor_classes(policy)
    groups = tuple(Group(f.name, 2, (f.name,)) for f in policy.features)
    bounds = [[1.0 if g.name in c.features else cross for g in groups] for c in classes]
    allowed = {
        c.name: class_epsilon(
            c.distance, epsilon=BUDGET.epsilon, epsilon_cap=policy.epsilon_cap
        )
        if c.promised
        else math.inf
        for c in classes
    }
    table = SensitivityTable(groups, tuple(c.name for c in classes), np.array(bounds))
    return table, allowed


leakage_lists = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5)


@settings(max_examples=50)
@given(leakage_lists, st.data(), st.sampled_from([0.0, 0.1, 0.7]))
def test_more_leakage_never_means_less_variance(low, data, cross):
    high = [data.draw(st.floats(value, 1.0)) for value in low]
    variances = []
    for leakages in (low, high):
        table, allowed = gradient_table(policy_with(leakages), cross)
        plan = plan_noise(table, allowed_epsilon=allowed, delta=BUDGET.delta)
        variances.append(plan.weighted_variance)
    assert variances[0] <= variances[1] * (1 + 1e-7)


@settings(max_examples=50)
@given(leakage_lists, st.randoms(use_true_random=False))
def test_feature_order_is_irrelevant(leakages, random):
    policy = policy_with(leakages)
    shuffled = list(policy.features)
    random.shuffle(shuffled)
    other = Policy(tuple(shuffled), label=None, relation=policy.relation)
    plans = [plan_means(p, budget=BUDGET, n_rows=20_000) for p in (policy, other)]
    noise = [
        dict(
            zip(
                [g.name for g in p.noise.table.groups], p.noise.noise_scale, strict=True
            )
        )
        for p in plans
    ]
    assert noise[0] == pytest.approx(noise[1], rel=1e-6)
    assert policy.fingerprint() == other.fingerprint()


def test_all_sensitive_is_replace_one_gradient_descent():
    """One flat group clipped to C moves by 2C: the noise of ordinary DP-GD."""
    n_steps, clip_norm = 100, 1.5
    label = Label("y", CategoryDomain(("a", "b")), score=1.0)
    sensitive = tuple(feature(i, ColumnRole.SENSITIVE, None) for i in range(4))
    policy = Policy(sensitive, label, relation=NeighborRelation.ONE_INSENSITIVE)
    classes = neighbor_classes(policy)
    whole = next(c for c in classes if c.name == WHOLE_RECORD)
    everything = next(c for c in classes if c.name == "sensitive")
    assert set(whole.features) == set(everything.features)
    assert whole.label_changes
    assert everything.label_changes
    table = SensitivityTable(
        (Group("gradient", 12),),
        tuple(c.name for c in classes),
        np.full((len(classes), 1), 2 * clip_norm),
    )
    allowed = {c.name: BUDGET.epsilon if c.promised else math.inf for c in classes}
    plan = plan_noise(
        table, allowed_epsilon=allowed, delta=BUDGET.delta, n_steps=n_steps
    )
    mu = gaussian_mu(epsilon=BUDGET.epsilon, delta=BUDGET.delta)
    expected = 2 * clip_norm * math.sqrt(n_steps) / mu
    assert plan.noise_scale[0] == pytest.approx(expected, rel=1e-9)
    assert plan.epsilon(WHOLE_RECORD) == pytest.approx(BUDGET.epsilon, rel=1e-9)


def test_leakage_one_on_every_feature_is_as_noisy_as_one_class_at_a_time():
    policy = policy_with([1.0, 1.0])
    plan = plan_means(policy, budget=BUDGET, n_rows=20_000)
    epsilons = {c.epsilon for c in plan.certificate.classes.values() if c.promised}
    assert max(epsilons) <= BUDGET.epsilon
    assert plan.variance_ratio < 1.0  # changes of single features, not of all at once


def test_no_leakage_hits_the_floor():
    policy = policy_with([0.0])
    plan = plan_means(policy, budget=BUDGET, n_rows=20_000)
    claim = plan.certificate.classes["insensitive:x2"]
    assert claim.distance == policy.distance_floor
    assert claim.allowed_epsilon == policy.epsilon_cap
    assert plan.noise.noise_scale[-1] > 0


def test_large_delta_is_warned_about():
    with pytest.warns(UserWarning, match="delta"):
        plan_means(policy_with([0.5]), budget=BUDGET, n_rows=10**7)

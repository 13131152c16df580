"""Properties of clipped network gradients, for arbitrary small networks."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from corrdp.accounting import plan_noise
from corrdp.policy import Budget
from corrdp.torch._planning import grouped, plan_network
from unit.torch.networks import (
    brute_force_parts,
    facts_of,
    group_parts,
    released_sum,
    small_network,
    small_policy,
)

pytestmark = pytest.mark.torch

SETTINGS = settings(max_examples=25)
WIDTHS = st.integers(1, 4)


@st.composite
def problems(draw):
    policy = small_policy(draw(WIDTHS), draw(WIDTHS), draw(st.integers(0, 2)))
    n_columns = len(policy.features)
    seed = draw(st.integers(0, 2**16))
    network = small_network(n_columns, draw(WIDTHS), draw(WIDTHS), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    scale = 10.0 ** draw(st.floats(-2, 2))
    features = scale * torch.randn(4, n_columns, generator=generator).double()
    labels = scale * torch.randn(4, generator=generator).double()
    facts = facts_of(
        network,
        policy,
        clip_norm=10.0 ** draw(st.floats(-2, 2)),
        by_feature=draw(st.booleans()),
    )
    return facts, network, grouped(facts, draw(st.floats(0, 3))), features, labels


@given(problems())
@SETTINGS
def test_sums_are_those_of_single_examples(problem):
    _, network, layout, features, labels = problem
    ours = group_parts(layout, released_sum(network, layout, features, labels))
    wanted = brute_force_parts(network, layout, features, labels)
    for group, one, other in zip(layout.groups, ours, wanted, strict=True):
        tolerance = 1e-7 * group.clip_norm
        assert torch.allclose(one, other, rtol=1e-7, atol=tolerance)


@given(problems(), st.integers(0, 2**16))
@SETTINGS
def test_a_change_of_sensitive_columns_stays_within_the_table(problem, seed):
    facts, network, layout, features, labels = problem
    generator = torch.Generator().manual_seed(seed)
    sensitive = torch.as_tensor(layout.sensitive)
    other = features.clone()
    fresh = torch.randn(features.shape[1], generator=generator).double()
    other[0] = torch.where(sensitive, 10 * fresh, features[0])
    before = group_parts(layout, released_sum(network, layout, features, labels))
    after = group_parts(layout, released_sum(network, layout, other, labels))
    bounds = layout.sensitivity_table(facts.classes).rows_of("sensitive")[0]
    for bound, one, two, group in zip(
        bounds, before, after, layout.groups, strict=True
    ):
        assert (one - two).norm() <= bound + 1e-9 * group.clip_norm


@given(
    st.floats(0.01, 1.0),
    st.floats(0.01, 1.0),
    st.floats(0.1, 5.0),
    st.integers(1, 50),
)
@SETTINGS
def test_more_leakage_never_means_less_noise(one, two, epsilon, n_steps):
    variances = []
    for leakage in sorted((one, two)):
        facts = facts_of(
            small_network(),
            small_policy(leakage=leakage),
            budget=Budget(epsilon=epsilon, delta=1e-5),
            n_steps=n_steps,
        )
        layout = grouped(facts, 0.1)
        table = layout.sensitivity_table(facts.classes)
        plan = plan_noise(
            table, allowed_epsilon=facts.allowed_epsilon, delta=1e-5, n_steps=n_steps
        )
        assert plan.fits
        variances.append(plan.weighted_variance)
    assert variances[0] <= variances[1] * (1 + 1e-6)


@given(st.integers(10, 10**6), st.floats(0.05, 8.0))
@SETTINGS
def test_the_chosen_plan_never_predicts_more_error_than_plain_noise(n_rows, epsilon):
    facts = facts_of(
        small_network(),
        small_policy(),
        n_rows=n_rows,
        budget=Budget(epsilon=epsilon, delta=1e-6),
    )
    chosen = plan_network(facts)
    plain = plan_network(facts, method="standard")
    assert chosen.deviation <= plain.deviation
    assert math.isfinite(chosen.deviation)
    assert chosen.noise.fits

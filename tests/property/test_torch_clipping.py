"""Properties of clipped network gradients, for arbitrary small networks."""

import math
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from corrdp.accounting import WHOLE_RECORD, plan_noise
from corrdp.policy import Budget
from corrdp.torch._planning import grouped, plan_network
from unit.torch.networks import (
    brute_force_parts,
    facts_of,
    group_parts,
    released_sum,
    rows,
    small_network,
    small_policy,
    train,
)
from unit.torch.replaying import neighbor_movement

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


@cache
def long_training(method, dtype):
    """A training with little noise and room for many steps."""
    data = tuple(part.to(dtype) for part in rows(4))
    network = small_network().to(dtype)
    return train(network, data, method=method, epsilon=1e6, epochs=100_000)


CODES = st.lists(st.floats(-0.5, 0.5), min_size=5, max_size=5)
ANY = st.floats()  # infinite and NaN, too


@given(
    st.sampled_from(["corr", "layered", "standard"]),
    st.sampled_from([torch.float32, torch.float64]),
    st.booleans(),
    st.floats(-30, 38),
    st.tuples(CODES, ANY),
    st.tuples(CODES, ANY),
)
@settings(max_examples=150)
def test_no_record_moves_a_step_beyond_its_bound_whatever_its_values(
    method, dtype, sensitive_only, exponent, record, other
):
    training = long_training(method, dtype)
    network = training.module.module
    with torch.no_grad():  # far beyond where training would lead
        torch.nn.init.constant_(network[0].weight[:, :2], 10.0**exponent)
    (codes, label), (other_codes, other_label) = record, other
    name = WHOLE_RECORD
    if sensitive_only:
        name, other_label = "sensitive", label
        other_codes = other_codes[:2] + codes[2:]
    records = (
        (torch.tensor(codes).to(dtype), torch.tensor(label).to(dtype)),
        (torch.tensor(other_codes).to(dtype), torch.tensor(other_label).to(dtype)),
    )
    moved = neighbor_movement(training, records)
    bounds = training.module.plan.noise.table.rows_of(name)[0]
    assert (moved <= bounds * (1 + 1e-4)).all()


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

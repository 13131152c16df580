"""What must hold of leakage for every distribution and every table."""

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from corrdp.leakage import (
    METRICS,
    CountLayout,
    LeakageTable,
    count_codes,
    estimate_leakage,
    exact_leakage,
    metric_named,
    noisy_total_variation_upper,
    plan_leakage_release,
    sampling_margin,
)
from leakage_models import policy_of

SLACK = 1e-9


def distributions(n_rows, n_cells):
    weights = hnp.arrays(
        np.float64, (n_rows, n_cells), elements=st.floats(0.0, 1.0, width=32)
    )
    return weights.map(lambda w: (w + 1e-3) / (w + 1e-3).sum(axis=1, keepdims=True))


def joints(*shape):
    return distributions(1, int(np.prod(shape))).map(lambda w: w.reshape(shape))


LINE = np.abs(np.subtract.outer(np.linspace(0, 1, 4), np.linspace(0, 1, 4)))


@given(rows=distributions(3, 4))
def test_metrics_meet_the_axioms_they_state(rows):
    for metric in METRICS.values():
        distances = metric.pairwise(rows, [LINE])
        assert np.all((distances >= 0) & (distances <= 1))
        assert np.allclose(distances, distances.T)
        assert np.allclose(np.diag(distances), 0.0, atol=1e-7)
        assert metric.axioms.triangle
        assert distances[0, 2] <= distances[0, 1] + distances[1, 2] + SLACK


@given(rows=distributions(2, 4))
def test_metrics_are_ordered_as_theory_says(rows):
    variation, hellinger, wasserstein = (
        metric_named(name).pairwise(rows, [LINE])[0, 1]
        for name in ("total_variation", "hellinger", "wasserstein")
    )
    assert hellinger**2 <= variation + SLACK
    assert variation <= np.sqrt(2) * hellinger + SLACK
    assert wasserstein <= variation + SLACK
    for name, value in (("hellinger", hellinger), ("wasserstein", wasserstein)):
        assert value <= metric_named(name).upper_from_total_variation(variation) + SLACK


@given(joint=joints(3, 2, 2))
def test_knowing_more_never_tells_less(joint):
    marginal = exact_leakage(joint, sensitive=[0], changed=[1])
    full = exact_leakage(joint, sensitive=[0], changed=[1], conditioning="definition")
    block = exact_leakage(joint, sensitive=[0], changed=[1, 2])
    assert marginal <= full + SLACK
    assert full <= 1.0
    # a single feature's values are mixtures of the block's
    assert marginal <= block + SLACK


@given(joint=joints(4, 3))
def test_coarser_tables_tell_less(joint):
    fine = exact_leakage(joint, sensitive=[0], changed=[1])
    merged_secret = np.stack([joint[:2].sum(axis=0), joint[2:].sum(axis=0)])
    assert exact_leakage(merged_secret, sensitive=[0], changed=[1]) <= fine + SLACK
    merged_value = np.stack([joint[:, 0], joint[:, 1] + joint[:, 2]], axis=1)
    assert exact_leakage(merged_value, sensitive=[0], changed=[1]) <= fine + SLACK


@given(joint=joints(2, 3, 2), order=st.permutations([0, 1, 2]))
def test_the_order_of_columns_is_irrelevant(joint, order):
    moved = joint.transpose(order)
    for conditioning in ("marginal", "definition"):
        before = exact_leakage(
            joint, sensitive=[0], changed=[1], conditioning=conditioning
        )
        after = exact_leakage(
            moved,
            sensitive=[order.index(0)],
            changed=[order.index(1)],
            conditioning=conditioning,
        )
        assert abs(before - after) < SLACK


@given(
    codes=hnp.arrays(np.uint8, (50, 3), elements=st.integers(0, 2)),
    cut=st.integers(0, 50),
)
def test_counts_of_shards_add_up(codes, cut):
    n_codes = dict.fromkeys("abc", 3)
    layout = CountLayout(n_codes, ("a", "b"), {"c": ("c",), "bc": ("b", "c")})

    def chunk(rows):
        return dict(zip("abc", rows.T, strict=True))

    whole = count_codes([chunk(codes)], layout)
    shards = count_codes([chunk(codes[:cut])], layout) + count_codes(
        [chunk(codes[cut:])], layout
    )
    stream = count_codes([chunk(codes[:cut]), chunk(codes[cut:])], layout)
    for a, b, c in zip(whole.tables, shards.tables, stream.tables, strict=True):
        assert np.array_equal(a, b)
        assert np.array_equal(a, c)
    assert whole.n_rows == 50


@given(
    sizes=hnp.arrays(np.float64, 3, elements=st.floats(1, 1e6)),
    more=st.floats(1, 10),
    beta=st.floats(1e-12, 0.5),
)
def test_margins_shrink_with_rows_and_grow_with_certainty(sizes, more, beta):
    margin = sampling_margin(sizes, failure_probability=beta)
    assert np.all(sampling_margin(sizes * more, failure_probability=beta) <= margin)
    assert np.all(sampling_margin(sizes, failure_probability=beta / 2) >= margin)


@given(
    counts=hnp.arrays(np.float64, (2, 4), elements=st.floats(100, 1e4)),
    scale=st.floats(0.1, 5),
)
def test_noisier_counts_never_have_smaller_bounds_at_the_same_values(counts, scale):
    def upper(noise_scale):
        return noisy_total_variation_upper(
            counts,
            counts.sum(axis=1),
            noise_scale=1.0,
            size_noise_scale=noise_scale,
            failure_probability=0.01,
        ).uppers

    assert np.all(upper(2 * scale) >= upper(scale) - SLACK)


@settings(max_examples=15)
@given(
    sizes=st.lists(st.integers(2, 4), min_size=2, max_size=4),
    epsilon=st.floats(0.05, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_release_is_within_its_share_and_survives_json(sizes, epsilon, seed):
    names = tuple(f"f{index}" for index in range(len(sizes)))
    policy = policy_of(np.zeros(sizes), names, names[:1])
    plan = plan_leakage_release(policy, epsilon=epsilon, delta=1e-6)
    assert plan.fits
    generator = np.random.default_rng(seed)
    rows = np.stack(
        [np.char.add("v", generator.integers(0, n, 40).astype(str)) for n in sizes],
        axis=1,
    )
    leakage = estimate_leakage(rows, policy, epsilon=epsilon, delta=1e-6)
    assert all(f.estimate <= 1 and f.upper <= 1 for f in leakage.features.values())
    assert LeakageTable.from_dict(leakage.to_dict()).to_dict() == leakage.to_dict()
    assert not leakage.replayable_noise
    exact = estimate_leakage(rows, policy, source="public")
    for found in exact.features.values():
        assert found.estimate <= found.upper
    assert dataclasses.replace(leakage, features={}).distances() == {}

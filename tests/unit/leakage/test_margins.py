"""Rows per level that released tables tell: paid once, used for column means too."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from corrdp._random import noise_generator
from corrdp.estimators import LogisticRegression
from corrdp.leakage import (
    LeakageTable,
    LevelSizes,
    declared_table,
    estimate_leakage,
    intersect_leakage,
    known_means,
    planned_margins,
)
from corrdp.leakage._margins import level_columns
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Slot,
    even_knots,
    neighbor_classes,
    policy_blocks,
)
from corrdp.training import plan_spending
from corrdp.training._totals import release_means

N_ROWS = 4000


def example_policy(**changes):
    number = {"missing": Slot(), "bins": 8} | changes
    return Policy(
        (
            Feature("s", "sensitive", CategoryDomain(("a", "b", "c"))),
            Feature("t", "sensitive", BooleanDomain()),
            Feature("u", "insensitive", CategoryDomain(("x", "y"), other=True)),
            Feature("v", "insensitive", NumberDomain(0, 10, **number)),
            Feature("w", "public", NumberDomain(0, 1)),
        ),
        Label("y", BooleanDomain(), 0.0),
    )


def example_rows():
    generator = np.random.default_rng(5)
    v = 10 * generator.beta(1.5, 4, N_ROWS)
    return pd.DataFrame(
        {
            "s": generator.choice(["a", "b", "c"], N_ROWS, p=[0.6, 0.3, 0.1]),
            "t": generator.random(N_ROWS) < 0.2,
            "u": generator.choice(["x", "y", "z"], N_ROWS, p=[0.5, 0.3, 0.2]),
            "v": np.where(generator.random(N_ROWS) < 0.1, np.nan, v),
            "w": generator.random(N_ROWS),
            "y": generator.random(N_ROWS) < 0.4,
        }
    )


def released(epsilon=1.0, policy=None, **options):
    settings = {"delta": 1e-6, "random_state": 3, "join_levels": False} | options
    return estimate_leakage(
        example_rows(), policy or example_policy(), epsilon=epsilon, **settings
    )


def exact_sizes(policy):
    encoder = PolicyEncoder(policy)
    names = ("s", "t", "u", "v")
    codes = encoder.codes(example_rows(), names)
    return {
        name: np.bincount(codes[:, place], minlength=encoder.n_codes[name])
        for place, name in enumerate(names)
    }


def test_margins_are_the_noisy_counts_and_add_up_to_the_rows():
    """Off by what their noise says: neither exact nor something else."""
    tables = [released(0.3, random_state=seed) for seed in range(10)]
    for name, exact in exact_sizes(example_policy()).items():
        margins = [table.margins[name] for table in tables]
        for margin in margins:
            assert sum(margin.sizes) == pytest.approx(N_ROWS)
        errors = [(np.array(m.sizes) - exact) / m.noise_scale for m in margins]
        freedom = 1 - 1 / len(exact)  # sizes add up
        assert 0.6 < np.sqrt(np.mean(np.square(errors)) / freedom) < 1.5
    assert "w" not in tables[0].margins  # nobody counted it


def test_margins_of_a_block_are_sums_over_the_others():
    policy = dataclasses.replace(example_policy(), relation="all_insensitive")
    table = released(2.0, policy)
    for name, exact in exact_sizes(policy).items():
        margin = table.margins[name]
        error = np.abs(np.array(margin.sizes) - exact).max()
        assert 0.05 < error / margin.noise_scale < 4


def test_planned_noise_is_the_noise_of_the_release():
    from corrdp.leakage import count_layout, leakage_targets

    table = released()
    view = example_policy().leakage_view()
    layout = count_layout(view, leakage_targets(view))
    (component,) = table.components
    planned = planned_margins(layout, component.plan, N_ROWS)
    assert planned.keys() == table.margins.keys()
    for name, margin in table.margins.items():
        assert planned[name].noise_scale == pytest.approx(margin.noise_scale, rel=1e-3)


@pytest.mark.parametrize("knots", [None, even_knots(NumberDomain(0, 10), 5)])
def test_means_of_columns_are_near_the_exact_ones(knots):
    policy = example_policy(knots=knots)
    margins = {
        name: LevelSizes(tuple(map(float, sizes)), 0.0)
        for name, sizes in exact_sizes(policy).items()
    }
    found = known_means(policy, margins, N_ROWS)
    codes = PolicyEncoder(policy).transform(example_rows())
    for block in policy_blocks(policy):
        if block.feature == "w":
            assert block.name not in found
            continue
        exact = codes[:, block.columns].mean(axis=0)
        near = 0.03 if block.feature == "v" else 1e-9
        assert found[block.name] == pytest.approx(exact, abs=near)


def test_means_are_left_to_training_where_tables_tell_them_badly():
    policy = example_policy()
    n_codes = PolicyEncoder(policy).n_codes
    sizes = {n: (1.0,) * n_codes[n] for n in ("s", "u", "v")}
    loud = {name: LevelSizes(values, 0.1 * N_ROWS) for name, values in sizes.items()}
    quiet = {name: LevelSizes(values, 0.01 * N_ROWS) for name, values in sizes.items()}
    assert known_means(policy, loud, N_ROWS) == {}
    assert set(known_means(policy, quiet, N_ROWS)) == {"s", "u", "v", "v:missing"}
    assert set(known_means(example_policy(bins=4), quiet, N_ROWS)) == {"s", "u"}
    whole = example_policy(bins=4, joined=((0, 3, 2.5),))
    margin = {"v": LevelSizes((3000.0, 1000.0), 0.0)}
    assert known_means(whole, margin, N_ROWS)["v"] == pytest.approx((-0.25 * 0.75,))
    block = next(b for b in policy_blocks(policy) if b.name == "v:missing")
    columns = level_columns(policy.feature("v"), block, n_codes)
    assert columns.sum() == columns[-1, 0] == 1.0


def test_only_paid_tables_tell_means():
    """Public, declared and exact tables of private rows tell none."""
    policy, rows = example_policy(), example_rows()
    paid = released()
    assert set(paid.margins_as_read(policy)) == {"s", "t", "u", "v"}
    exact = estimate_leakage(rows, policy, source="in_sample", research=True)
    assert exact.margins_as_read(policy) == {}
    claimed = dataclasses.replace(exact, margins=paid.margins)
    assert claimed.margins_as_read(policy) == {}
    declared = policy.with_leakage({"u": 0.4, "v": 0.3})
    both = intersect_leakage(
        estimate_leakage(
            rows, declared, epsilon=1.0, delta=1e-6, join_levels=False, random_state=3
        ),
        declared_table(declared),
    )
    assert both.components
    assert set(both.margins_as_read(declared)) == {"s", "t", "u", "v"}


def test_margins_of_joined_levels_are_told_to_readers_of_joined_levels():
    table = released(0.1, join_levels=True)
    policy = example_policy()
    assert table.joined
    joined = table.policy_for(policy)
    assert set(table.margins_as_read(joined)) == {"s", "t", "u", "v"}
    assert not set(table.margins_as_read(policy)) & set(table.joined)
    n_codes = PolicyEncoder(joined).n_codes
    for name in table.joined:
        assert len(table.margins[name].sizes) == n_codes[name]
        assert sum(table.margins[name].sizes) == pytest.approx(N_ROWS)


def test_a_saved_table_keeps_its_margins():
    table = released()
    read = LeakageTable.from_dict(json.loads(json.dumps(table.to_dict())))
    assert read.margins == table.margins
    assert read.digest == table.digest


def test_what_tables_tell_is_not_paid_again_and_the_rest_is():
    """A block without known means has noise, and its class pays for it."""
    policy = example_policy().with_leakage({"u": 0.5, "v": 0.5})
    classes = neighbor_classes(policy)
    budget = Budget(epsilon=1.0, delta=1e-6)
    means = known_means(policy, released().margins_as_read(example_policy()), N_ROWS)

    def spending(known):
        return plan_spending(policy, classes, budget=budget, known_means=known)

    plain, told = spending({}), spending(means)
    assert told.means_cost == dict.fromkeys(plain.means_cost, 0.0)
    assert [part.name for part in told.components(50)] == ["gradients"]
    assert "column means of s, t, u, v are read" in told.known_text
    partly = spending({name: means[name] for name in ("u", "s")})
    assert partly.means_cost["insensitive:u"] == 0.0
    for name in ("insensitive:v", "sensitive"):
        assert partly.means_cost[name] == pytest.approx(partly.means_mu[name])
    blocks = policy_blocks(policy)
    silent = [
        b.name for b, s in zip(blocks, partly.means_noise[0], strict=True) if not s
    ]
    assert silent == ["s", "u", "w"]  # w is public
    assert "those of t, v are released" in partly.known_text
    for name, mu in told.gradient_mu.items():
        assert mu > 1.02 * plain.gradient_mu[name]
        assert mu <= told.total_mu[name]


def test_known_means_leave_instead_of_exact_sums():
    """Sums of known columns get no noise, so nothing of them may leave."""
    policy = example_policy().with_leakage({"u": 0.5, "v": 0.5})
    blocks = policy_blocks(policy)
    known = {"u": (0.2, 0.3, 0.5), "s": (0.1, 0.1, 0.8)}
    spending = plan_spending(
        policy,
        neighbor_classes(policy),
        budget=Budget(epsilon=1.0, delta=1e-6),
        known_means=known,
    )
    codes = PolicyEncoder(policy).transform(example_rows())
    for rows in (codes, codes[::-1] * 0.5):
        means = release_means(rows, spending, noise_generator(0))
        for block in blocks:
            if block.name in known:
                assert tuple(means[block.columns]) == known[block.name]
            else:
                near = pytest.approx(rows[:, block.columns].mean(axis=0), abs=0.05)
                assert means[block.columns] == near


def test_models_center_at_what_was_released_and_say_so():
    rows, policy, table = example_rows(), example_policy(), released(0.5)
    model = LogisticRegression(
        policy, epsilon=5.0, delta=1e-6, leakage=table, random_state=1
    ).fit(rows)
    certificate = model.certificate_
    assert [part.name for part in certificate.components] == [
        "leakage",
        "where numbers lie",  # of a public column alone, which costs nothing
        "gradients",
    ]
    assert any("s, t, u, v are read" in told for told in certificate.assumptions)
    assert "s, t, u, v are read" in model.plan_.to_text()
    assert certificate.epsilon <= 5.0


def test_a_column_has_the_same_means_in_every_role():
    """Under ``semi`` insensitive columns are public, which a policy cannot be alone."""
    policy = example_policy()
    n_codes = PolicyEncoder(policy).n_codes
    block = next(b for b in policy_blocks(policy) if b.name == "v")
    feature = policy.feature("v")
    public = Feature("v", "public", feature.domain)
    np.testing.assert_array_equal(
        level_columns(public, block, n_codes), level_columns(feature, block, n_codes)
    )

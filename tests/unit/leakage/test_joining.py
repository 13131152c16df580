"""Thin levels are joined by released sizes, in the estimate and in what uses it."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from corrdp.cli._plan import training_plan
from corrdp.estimators import LogisticRegression, sweep
from corrdp.exceptions import GuaranteeVoidError, PolicyError
from corrdp.leakage import (
    LeakageTable,
    TableShape,
    _joining,
    choose_groups,
    estimate_leakage,
    joined_fields,
    joined_policy,
    plan_leakage_release,
    predicted_excess,
)
from corrdp.leakage.release._noise import release_tables
from corrdp.leakage.release._request import (
    JOINED_SHARES,
    WORTH_JOINING,
    JoinedTable,
    shares_of_cells,
)
from corrdp.policy import (
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Replace,
    Slot,
)
from corrdp.queries import plan_queries
from corrdp.synthesis import Synthesizer
from leakage_models import policy_of

LEVELS = ("a", "b", "c", "d", "e")
SHARES = [0.5, 0.44, 0.03, 0.02, 0.01]
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def groups_of(domain, sizes, *, noise_scale=20.0):
    return choose_groups(
        Feature("u", "insensitive", domain),
        np.asarray(sizes, dtype=float),
        n_cells=8,
        noise_scale=noise_scale,
        failure_probability=1e-3,
    )


def test_thin_categories_become_one_level_and_thick_ones_stay():
    sizes = 10_000 * np.array(SHARES)
    assert groups_of(CategoryDomain(LEVELS), sizes) == ((0,), (1,), (2, 3, 4))
    plenty = np.full(5, 40_000.0)
    assert groups_of(CategoryDomain(LEVELS), plenty) == ((0,), (1,), (2,), (3,), (4,))


def test_thin_bins_join_their_neighbors():
    domain = NumberDomain(0, 6, bins=6)
    sizes = [10, 200, 9000, 9000, 150, 20]
    assert groups_of(domain, sizes) == ((0, 1, 2), (3, 4, 5))
    fields = joined_fields(domain, ((0, 1, 2), (3, 4, 5)), np.asarray(sizes, float))
    (low, high) = fields["joined"]
    assert low[:2] == [0, 2]
    assert high[:2] == [3, 5]
    assert 2.4 < low[2] < 2.5  # the middles, weighted by rows


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e307])
def test_bins_near_the_ends_of_floating_point_join_as_others_do(scale):
    domain = NumberDomain(4 * scale, 12 * scale, bins=8)
    sizes = np.array([4e4, 3e4, 900.0, 700.0, 30.0, 20.0, 10.0, 5.0])
    groups = groups_of(domain, sizes)
    assert groups == groups_of(NumberDomain(4, 12, bins=8), sizes)
    joined = joined_fields(domain, groups, sizes)["joined"]
    assert dataclasses.replace(domain, joined=joined).joined


def test_many_bins_are_grouped_without_counting_them_all_again(monkeypatch):
    calls = []
    counted = _joining._variance
    monkeypatch.setattr(
        _joining, "_variance", lambda *a: calls.append(1) or counted(*a)
    )
    sizes = np.random.default_rng(1).poisson(3000, 300)
    groups_of(NumberDomain(0, 1, bins=300), sizes)
    assert len(calls) <= 2 * 300


def test_hopeless_tables_are_left_as_they_are():
    few = 20 * np.array(SHARES)
    assert all(len(group) == 1 for group in groups_of(CategoryDomain(LEVELS), few))


def test_two_levels_always_remain():
    assert groups_of(CategoryDomain(("a", "b")), [9_990, 10]) == ((0,), (1,))
    assert len(groups_of(CategoryDomain(("a", "b", "c")), [9_000, 400, 400])) == 2


def test_a_missing_slot_is_not_joined_and_other_takes_thin_levels_in():
    slot = CategoryDomain(LEVELS[:4], missing=Slot())
    slotted = 10_000 * np.array([0.45, 0.4, 0.04, 0.03, 0.08])
    assert groups_of(slot, slotted) == ((0,), (1,), (2, 3), (4,))
    open_ = CategoryDomain(LEVELS[:4], other=True)
    sizes = 10_000 * np.array(SHARES)
    groups = groups_of(open_, sizes)
    assert groups == ((0,), (1,), (2, 3, 4))
    fields = joined_fields(open_, groups, sizes)
    assert fields == {"joined": ["c", "d"], "joined_with_other": True}
    # a value for missing cells must stay a category: then `other` stays on its own
    kept = CategoryDomain(LEVELS[:4], other=True, missing=Replace("c"))
    assert groups_of(kept, slotted) == ((0,), (1,), (2, 3), (4,))


def test_codes_of_the_joined_policy_are_the_groups():
    """Groups are in the order of the joined encoder's codes, whatever is joined."""
    generator = np.random.default_rng(1)
    for domain in (
        CategoryDomain(LEVELS),
        CategoryDomain(LEVELS[:4], other=True),
        CategoryDomain(LEVELS, groups={"x": ("b", "e")}, missing=Slot()),
        NumberDomain(0, 5, bins=5),
        NumberDomain(0, 5, bins=5, missing=Slot()),
    ):
        policy = Policy(
            (
                Feature("u", "insensitive", domain),
                Feature("s", "sensitive", CategoryDomain(("v0", "v1"))),
            )
        )
        numbers = isinstance(domain, NumberDomain)
        values = generator.integers(0, 5, 300)
        column = values + 0.5 if numbers else np.array(LEVELS)[values]
        frame = pd.DataFrame({"u": column, "s": ["v0", "v1"] * 150})
        if isinstance(domain.missing, Slot):
            frame.loc[frame.index % 7 == 0, "u"] = None
        n_codes = PolicyEncoder(policy).n_codes["u"]
        codes = PolicyEncoder(policy).codes(frame, ["u"])[:, 0]
        seen = 0
        for _ in range(30):
            sizes = generator.exponential(1000, n_codes) ** 1.5
            groups = groups_of(domain, sizes, noise_scale=60.0)
            assert sorted(code for g in groups for code in g) == list(range(n_codes))
            fields = joined_fields(domain, groups, sizes)
            if fields is None:
                continue
            seen += 1
            joined = joined_policy(policy, {"u": fields})
            new = PolicyEncoder(joined).codes(frame, ["u"])[:, 0]
            assert PolicyEncoder(joined).n_codes["u"] == len(groups)
            group_of = {code: i for i, g in enumerate(groups) for code in g}
            assert new.tolist() == [group_of[code] for code in codes]
        assert seen


def test_predictions_fall_with_rows_and_grow_with_noise_and_cells():
    def excess(sizes=(5000.0, 9000.0), n_cells=50, noise_scale=30.0):
        return predicted_excess(
            np.array(sizes),
            n_cells=n_cells,
            noise_scale=noise_scale,
            failure_probability=1e-4,
        )

    assert excess((10_000.0, 18_000.0)) < excess() < excess(noise_scale=60.0)
    assert excess() < excess(n_cells=100)
    assert excess((0.0, 10.0)) == 1.0
    assert excess((5.0,)) == 0.0


def test_which_levels_are_joined_is_decided_by_released_sizes():
    """Exact sizes are the same in all draws; what is released of them is not."""
    shape = TableShape("u", ("u",), 3, 2)
    table = np.array([[400, 400], [30, 20], [10, 40]])
    plan = plan_leakage_release(
        policy_of(np.zeros((2, 3)), ("s", "u"), ("s",)), epsilon=0.05, delta=1e-6
    )
    told = []

    def grouping(shape, sizes, scale):
        told.append(sizes)
        return ((0,), (1, 2))

    for seed in range(3):
        released = release_tables(
            [shape], [table], plan, np.random.default_rng(seed), grouping=grouping
        )
        np.testing.assert_array_equal(told[-1], released["u"].sizes)
        assert released["u"].cells.shape == (2, 2)
        assert released["u"].groups == ((0,), (1, 2))
        assert np.abs(told[-1] - table.sum(axis=1)).min() > 1e-6


# --- what uses a table reads its policy ---


@pytest.fixture(scope="module")
def frame():
    generator = np.random.default_rng(2)
    u = generator.choice(5, 12_000, p=SHARES)
    hours = np.clip(generator.normal(40, 9, 12_000), 0, 100)
    s = generator.random(12_000) < 0.3 + 0.1 * (u == 1)
    y = generator.random(12_000) < 0.3 + 0.2 * s + 0.004 * (hours - 40)
    return pd.DataFrame(
        {
            "s": np.where(s, "v1", "v0"),
            "u": np.array(LEVELS)[u],
            "hours": hours,
            "y": np.where(y, "yes", "no"),
        }
    )


def policy_of_frame():
    return Policy(
        (
            Feature("s", "sensitive", CategoryDomain(("v0", "v1"))),
            Feature("u", "insensitive", CategoryDomain(LEVELS)),
            Feature("hours", "insensitive", NumberDomain(0, 100, bins=10)),
        ),
        Label("y", CategoryDomain(("no", "yes")), 0.0),
    )


@pytest.fixture(scope="module")
def leakage(frame):
    return estimate_leakage(
        frame, policy_of_frame(), epsilon=0.2, delta=1e-6, random_state=1
    )


def test_a_table_joins_thin_levels_and_says_so(leakage):
    assert set(leakage.joined) == {"u", "hours"}
    assert leakage.features["u"].reason.startswith("joined: c, d, e")
    assert "noise" in leakage.features["u"].reason
    assert "with twice the budget it would be about" in leakage.features["u"].reason
    assert "on as many public rows about" in leakage.features["u"].reason
    assert all(f.upper < 0.5 for f in leakage.features.values())
    assert "joined: c, d, e" in leakage.to_text()
    # The bound is about levels as they weigh in these rows: certificates say so.
    assert JOINED_SHARES in leakage.assumptions
    assert all(
        (JOINED_SHARES in found.assumptions) == (found.joined is not None)
        for found in leakage.features.values()
    )


def test_distances_of_joined_levels_are_for_the_joined_policy_alone(leakage):
    declared = policy_of_frame()
    joined = leakage.policy_for(declared)
    assert joined != declared
    assert leakage.policy_for(joined) == joined
    uppers = {name: found.upper for name, found in leakage.features.items()}
    assert leakage.distances(policy=joined) == uppers
    assert leakage.claim(policy=joined).values == uppers
    ones = {"u": 1.0, "hours": 1.0}
    assert leakage.distances() == ones
    assert leakage.distances(policy=declared) == ones
    assert leakage.claim().values == ones
    other = dataclasses.replace(declared, distance_floor=0.5)
    assert leakage.distances(policy=leakage.policy_for(other)) == ones
    for accepted in (declared, joined):
        leakage.require_policy(accepted)
    with pytest.raises(PolicyError, match="computed for policy"):
        leakage.require_policy(other)


def test_a_joined_table_survives_json_and_an_edited_joining_is_found(leakage):
    document = json.loads(json.dumps(leakage.to_dict()))
    assert document["schema"] == "corrdp.leakage/3"
    again = LeakageTable.from_dict(document)
    assert again.to_dict() == leakage.to_dict()
    assert again.policy_for(policy_of_frame()) == leakage.policy_for(policy_of_frame())
    document["features"]["u"]["joined"]["joined"] = ["c", "d"]
    with pytest.raises(GuaranteeVoidError, match="digest"):
        LeakageTable.from_dict(document)


def test_plans_tell_what_is_joined(leakage):
    told = leakage.joined_text(leakage.policy_for(policy_of_frame()))
    assert told["u"] == "c, d, e"
    assert told["hours"].startswith("0 to ")
    policy = leakage.policy_for(policy_of_frame())
    model = LogisticRegression(policy, epsilon=1.0, delta=1e-6, leakage=leakage)
    budget = Budget(epsilon=1.0, delta=1e-6)
    document, text = training_plan(model, budget, 12_000)
    assert document["joined"] == told
    assert "joined levels of u: c, d, e" in text


def test_tables_without_joined_levels_are_written_as_before(frame):
    apart = estimate_leakage(
        frame,
        policy_of_frame(),
        epsilon=0.2,
        delta=1e-6,
        join_levels=False,
        random_state=1,
    )
    assert apart.joined == {}
    assert apart.to_dict()["schema"] == "corrdp.leakage/2"
    assert "declared_fingerprint" not in apart.to_dict()
    assert apart.policy_for(policy_of_frame()) == policy_of_frame()


def test_features_can_keep_their_levels(frame):
    found = estimate_leakage(
        frame,
        policy_of_frame(),
        epsilon=0.2,
        delta=1e-6,
        keep_levels=["u"],
        random_state=1,
    )
    assert set(found.joined) == {"hours"}
    with pytest.raises(PolicyError, match="no feature 'w'"):
        estimate_leakage(
            frame, policy_of_frame(), **BUDGET, keep_levels=["w"], random_state=1
        )


def test_public_rows_join_if_asked(frame):
    options = {"source": "public", "join_levels": True}
    found = estimate_leakage(frame[:800], policy_of_frame(), **options)
    assert "u" in found.joined
    assert found.features["u"].upper < 0.5
    apart = estimate_leakage(frame[:800], policy_of_frame(), source="public")
    assert apart.joined == {}
    assert apart.distances()["u"] == apart.features["u"].upper
    assert apart.features["u"].upper > found.features["u"].upper


def test_models_see_joined_levels_as_one(frame, leakage):
    """A change inside a joined level changes nothing that a model computes."""
    model = LogisticRegression(
        policy_of_frame(), **BUDGET, leakage=leakage, random_state=3
    ).fit(frame)
    joined = leakage.policy_for(policy_of_frame())
    assert model.policy_ == joined
    assert {n for n in model.coef_by_name_ if n.startswith("u=")} == {
        "u=a",
        "u=b",
        "u=3 levels joined",
    }
    assert model.certificate_.leakage.values["u"] == leakage.features["u"].upper
    model.certificate_.verify(joined)
    assert (
        model.plan_.n_steps
        == LogisticRegression(policy_of_frame(), **BUDGET, leakage=leakage)
        .plan(len(frame))
        .n_steps
    )
    moved = frame.assign(
        u=frame.u.replace({"c": "e", "e": "d"}),
        hours=np.where(frame.hours > 75, 99.0, frame.hours),
    )
    first, last, _ = leakage.joined["hours"]["joined"][-1]
    assert first * 10 <= 75
    assert last == 9
    encoder = PolicyEncoder(joined)
    np.testing.assert_array_equal(encoder.transform(frame), encoder.transform(moved))
    apart = PolicyEncoder(policy_of_frame())
    assert (apart.transform(frame) != apart.transform(moved)).any()


def test_synthesizers_and_sweeps_read_the_joined_policy(frame, leakage):
    declared = policy_of_frame()
    joined = leakage.policy_for(declared)
    plan = Synthesizer(declared, **BUDGET, leakage=leakage).plan(len(frame))
    assert plan.policy == joined
    result = sweep(
        frame,
        policy=declared,
        methods=["corr"],
        epsilons=[1.0],
        delta=1e-6,
        seeds=1,
        leakage=leakage,
        research=True,
    )
    assert len(result.rows) == 1


def test_queries_on_levels_apart_are_priced_at_distance_one(leakage):
    plan = plan_queries(
        policy_of_frame(),
        ["mean(hours)"],
        budget=Budget(epsilon=1.0, delta=1e-6),
        n_rows=12_000,
        leakage=leakage,
    )
    assert plan.leakage.values == {"u": 1.0, "hours": 1.0}


def test_a_bound_near_one_leaves_levels_apart():
    """Joined or not it says nothing: a model keeps its levels, at distance 1."""
    generator = np.random.default_rng(5)
    n_rows = 3000
    u = generator.choice(3, n_rows, p=[0.5, 0.49, 0.01])
    s = np.where(u == 0, 0, 1 + generator.integers(0, 2, n_rows))
    frame = pd.DataFrame({"s": [f"v{i}" for i in s], "u": np.array(LEVELS)[u]})
    policy = Policy(
        (
            Feature("s", "sensitive", CategoryDomain(("v0", "v1", "v2"))),
            Feature("u", "insensitive", CategoryDomain(LEVELS[:3])),
        )
    )
    found = estimate_leakage(frame, policy, source="public", join_levels=True)
    assert found.joined == {}
    assert found.features["u"].upper == 1.0
    assert "levels stay apart" in found.features["u"].reason

    near = dataclasses.replace(found.features["u"], upper=0.5 * (1 + WORTH_JOINING))
    assert JoinedTable(None, {}, "v1 and v2").of(near).upper == 1.0


def test_small_cells_are_chosen_from_the_noise_of_other_tables():
    own, other = np.array([[9.0, 1.0], [5.0, 5.0]]), np.array([[4.0, 6.0]])
    shares = [
        shares_of_cells({"own": (cells, 2.0), "other": (other, 3.0)})["own"]
        for cells in (own, own[:, ::-1])
    ]
    np.testing.assert_allclose(shares[0], [0.4, 0.6])
    np.testing.assert_array_equal(*shares)


@pytest.mark.parametrize(
    "fields",
    [
        {"groups": {"3 levels joined": ["c", "d", "e"]}},
        {"categories": ["a", "b"], "groups": {}},
    ],
)
def test_levels_joined_by_another_list_of_categories_are_refused(leakage, fields):
    """To whoever holds the table, with whatever policy."""
    found = dataclasses.replace(leakage.features["u"], joined=fields)
    with pytest.raises(GuaranteeVoidError, match="Estimate the leakage anew"):
        dataclasses.replace(leakage, features={**leakage.features, "u": found})


def test_a_second_estimate_leaves_joined_levels_joined(frame, leakage):
    """A bound on joined levels says nothing of levels that came apart."""
    joined = leakage.policy_for(policy_of_frame())
    again = estimate_leakage(frame, joined, **BUDGET, random_state=1)
    assert again.joined == {}
    assert again.policy_for(joined) == joined
    with pytest.raises(PolicyError, match="joined already"):
        joined_policy(joined, {"u": {"joined": ["a", "b"]}})

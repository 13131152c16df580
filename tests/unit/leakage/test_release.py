"""Sources of leakage: what they cost, what they show, what they refuse."""

import dataclasses
import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from corrdp._json import digest
from corrdp.accounting import GaussianEvent, gaussian_epsilon
from corrdp.certificate import certify
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    MissingBoundError,
    PolicyError,
)
from corrdp.leakage import (
    LeakageTable,
    declared_table,
    estimate_leakage,
    exact_leakage,
    plan_leakage_release,
)
from corrdp.ledger import Ledger, LedgerChoice, pay_for_leakage
from corrdp.policy import (
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Slot,
    neighbor_classes,
)
from leakage_models import (
    exclusive_or,
    halves_of_a_secret,
    joint_of,
    policy_of,
    rare_key,
    table_of,
)

NAMES = ("s", "u", "v")
# u tells .3 about s, v nothing
JOINT = np.einsum(
    "su,v->suv", joint_of([[0.6, 0.4], [0.3, 0.7]], [0.5, 0.5]), [0.25, 0.75]
)
BUDGET = {"epsilon": 0.5, "delta": 1e-6}


@pytest.fixture(scope="module")
def table():
    return table_of(JOINT, NAMES, 20_000, np.random.default_rng(21))


@pytest.fixture
def policy():
    return policy_of(JOINT, NAMES, ("s",))


def private(table, policy, **options):
    return estimate_leakage(table, policy, **(BUDGET | options), random_state=5)


def test_private_bounds_are_useful_and_cover(table, policy):
    leakage = private(table, policy)
    assert leakage.source == "private"
    assert 0.3 < leakage.features["u"].upper < 0.37
    assert 0.0 < leakage.features["v"].upper < 0.08
    assert leakage.distances() == {
        name: value.upper for name, value in leakage.features.items()
    }


def test_private_release_costs_every_promised_class_at_most_the_share(table, policy):
    leakage = private(table, policy)
    epsilons = {
        name: gaussian_epsilon(mu=events[0].mu, delta=BUDGET["delta"])
        for name, events in leakage.spent.items()
    }
    classes = neighbor_classes(policy, {"u": 1.0, "v": 1.0})
    promised = [neighbor.name for neighbor in classes if neighbor.promised]
    assert set(promised) < set(epsilons)
    for name in promised:
        assert epsilons[name] <= BUDGET["epsilon"] * (1 + 1e-9)
    assert epsilons["sensitive"] == pytest.approx(BUDGET["epsilon"], rel=1e-6)
    for events in leakage.spent.values():
        assert [type(event) for event in events] == [GaussianEvent]


def test_certificate_includes_the_leakage_release(table, policy):
    leakage = private(table, policy)
    claim = leakage.claim()
    assert claim.failure_probability == leakage.failure_probability
    certificate = certify(
        policy,
        leakage.components,
        budget=Budget(epsilon=0.5, delta=1e-6),
        leakage=claim,
        assumptions=leakage.assumptions,
        replayable_noise=leakage.replayable_noise,
    )
    certificate.verify(policy)
    assert certificate.classes["sensitive"].epsilon == pytest.approx(0.5, rel=1e-6)
    assert any("independent rows" in text for text in certificate.assumptions)
    without = [part for part in certificate.components if part.name == "leakage"]
    assert len(without) == 1
    with pytest.raises(GuaranteeVoidError):  # the planted bug: a tenth of the budget
        certify(
            policy,
            leakage.components,
            budget=Budget(epsilon=0.05, delta=1e-6),
            leakage=claim,
        )


def test_a_larger_share_buys_less_noise(table, policy):
    small = plan_leakage_release(policy, epsilon=0.1, delta=1e-6)
    large = plan_leakage_release(policy, epsilon=1.0, delta=1e-6)
    assert np.all(large.noise_scale < small.noise_scale)


@pytest.mark.parametrize("source", ["private", "public"])
@pytest.mark.parametrize(("s_bins", "u_bins"), [(1, 4), (4, 1)])
def test_a_number_of_one_bin_is_not_said_to_tell_nothing(source, s_bins, u_bins):
    """Models read the number, which here gives the sensitive one away."""
    policy = Policy(
        (
            Feature("s", "sensitive", NumberDomain(0, 1, s_bins)),
            Feature("u", "insensitive", NumberDomain(0, 1, u_bins)),
        )
    )
    numbers = np.linspace(0, 1, 500)
    budget = BUDGET if source == "private" else {}
    with pytest.raises(PolicyError, match=r"One bin tells no values apart"):
        estimate_leakage(
            pd.DataFrame({"s": numbers, "u": numbers}), policy, source=source, **budget
        )


def test_label_classes_are_priced_too(table, policy):
    from corrdp.policy import Label

    protected = dataclasses.replace(
        policy, label=Label("y", CategoryDomain(("no", "yes")), 0.5)
    )
    plan = plan_leakage_release(protected, epsilon=1.0, delta=1e-6)
    assert plan.event("label").mu == 0.0
    assert plan.epsilon("sensitive") <= 1.0


def test_public_counts_cost_nothing_and_name_the_pair(table, policy):
    leakage = estimate_leakage(table, policy, source="public")
    assert leakage.components == ()
    assert leakage.spent == {}
    assert leakage.features["u"].estimate == pytest.approx(0.3, abs=0.03)
    assert "rows" in leakage.features["u"].reason
    assert "every column has a declared resolution" in leakage.features["u"].method


def test_in_sample_is_asymptotic_and_for_research_only(table, policy):
    with pytest.raises(GuaranteeVoidError, match="research=True"):
        estimate_leakage(table, policy, source="in_sample", delta=1e-6)
    leakage = estimate_leakage(
        table, policy, source="in_sample", delta=1e-6, research=True
    )
    assert leakage.delta_factor == 2
    assert "NOT PRIVATE" in leakage.to_text()
    with pytest.raises(GuaranteeVoidError, match="in_sample"):
        leakage.distances()
    adjusted = leakage.distances("theorem")
    assert adjusted["u"] >= leakage.features["u"].estimate
    assert leakage.claim("theorem").source == "in_sample"
    without_delta = estimate_leakage(table, policy, source="in_sample", research=True)
    with pytest.raises(MissingBoundError, match="pass delta"):
        without_delta.distances("theorem")


def test_papers_adjustment_is_definition_4_3(table, policy):
    leakage = estimate_leakage(table, policy, source="public", delta=1e-6)
    found = leakage.features["u"]
    inputs = found.paper_inputs
    constant = math.sqrt(math.log(2 * 2) / inputs.smallest_probability)
    margin = 2 * constant * math.sqrt(math.log(2 / 1e-6)) / math.sqrt(len(table))
    assert found.paper_upper == pytest.approx(min(1.0, found.estimate + margin))
    assert found.paper_constants.error_constant == pytest.approx(constant)
    assert found.paper_constants.rate_exponent == 0.5
    assert found.paper_constants.stability_constant == pytest.approx(
        1 / inputs.smallest_probability
    )


def test_an_empty_cell_makes_the_papers_constant_infinite(policy):
    frame = pd.DataFrame({"s": ["v0", "v1"], "u": ["v0", "v1"], "v": ["v0", "v1"]})
    leakage = estimate_leakage(frame, policy, source="public", delta=0.1)
    assert leakage.features["u"].paper_upper == 1.0
    assert leakage.features["u"].paper_constants.stability_constant == math.inf
    again = LeakageTable.from_dict(json.loads(json.dumps(leakage.to_dict())))
    assert again.features == leakage.features


def test_declared_leakage_is_passed_on_and_missing_ones_are_named(policy):
    with pytest.raises(MissingBoundError, match="u, v"):
        estimate_leakage(None, policy, source="declared")
    declared = policy.with_leakage({"u": 0.4, "v": 0.1})
    leakage = estimate_leakage(None, declared, source="declared")
    assert leakage.distances() == {"u": 0.4, "v": 0.1}
    assert declared_table(declared).claim().source == "declared"


def test_block_relation_gives_one_number(table, policy):
    block = dataclasses.replace(policy, relation="all_insensitive")
    leakage = estimate_leakage(table, block, source="public")
    assert set(leakage.features) == {"block"}
    assert leakage.distances() == leakage.features["block"].upper
    assert leakage.claim().values == {"block": leakage.distances()}
    noisy = private(table, block)
    assert set(noisy.spent) == {"insensitive", "sensitive", "whole_record"}
    # the thinnest pair has 2,500 rows each: a margin of .06 before any noise
    assert 0.3 < noisy.distances() < 0.3 + 2 * 0.06


def test_exclusive_or_needs_the_block_or_the_definition():
    generator = np.random.default_rng(4)
    frame = table_of(exclusive_or(), NAMES, 8000, generator)
    marginal = policy_of(exclusive_or(), NAMES, ("s",))
    leakage = estimate_leakage(frame, marginal, source="public")
    assert leakage.features["u"].upper < 0.1
    for options in ({"conditioning": "definition"}, {"relation": "all_insensitive"}):
        policy = dataclasses.replace(marginal, **options)
        leakage = estimate_leakage(frame, policy, source="public")
        assert next(iter(leakage.features.values())).estimate == 1.0
        assert leakage.conditioning == policy.conditioning
        assert leakage.relation == policy.relation


def test_sensitive_features_are_counted_jointly_e2():
    frame = table_of(
        halves_of_a_secret(), ("z", "d", "u"), 8000, np.random.default_rng(4)
    )
    policy = policy_of(halves_of_a_secret(), ("z", "d", "u"), ("z", "d"))
    leakage = estimate_leakage(frame, policy, source="public")
    assert leakage.features["u"].estimate == 1.0


def test_definition_sees_what_a_sensitive_key_opens_e9():
    joint = rare_key(0.05)
    names = ("s1", "s2", "u")
    frame = table_of(joint, names, 20_000, np.random.default_rng(6))
    policy = policy_of(joint, names, ("s1", "s2"))
    assert estimate_leakage(frame, policy, source="public").features["u"].upper < 0.2
    policy = dataclasses.replace(policy, conditioning="definition")
    found = estimate_leakage(frame, policy, source="public").features["u"]
    assert found.estimate == 1.0
    assert "s1 is known" in found.reason


def test_round_trip_through_json(table, policy):
    for leakage in (
        private(table, policy),
        estimate_leakage(table, policy, source="public", delta=1e-6),
    ):
        text = json.dumps(leakage.to_dict(), allow_nan=False)
        again = LeakageTable.from_dict(json.loads(text))
        assert again.to_dict() == leakage.to_dict()
        assert again.distances() == leakage.distances()
        assert again.spent == leakage.spent
    with pytest.raises(CorrDPError, match="schema"):
        LeakageTable.from_dict({"schema": "other"})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source": "guess"}, CorrDPError, "source='guess'"),
        ({"source": "private"}, BudgetError, "epsilon is None"),
        ({"source": "private", "epsilon": 1.0}, BudgetError, "delta is None"),
        ({"source": "public", "epsilon": 1.0}, BudgetError, "spends none"),
        ({"source": "public", "failure_probability": 0}, CorrDPError, "failure"),
        ({"source": "public", "metric": "kl"}, CorrDPError, "metric='kl'"),
        ({"source": "public", "max_cells": 3}, PolicyError, "8 joint cells"),
        (
            {"source": "private", "estimator": "logistic", **BUDGET},
            GuaranteeVoidError,
            "no private release",
        ),
    ],
)
def test_bad_requests_are_refused(table, policy, options, error, message):
    with pytest.raises(error, match=message):
        estimate_leakage(table, policy, **options)


def test_definition_has_no_other_metric_and_no_release_for_two_sensitive(table, policy):
    policy = dataclasses.replace(policy, conditioning="definition")
    with pytest.raises(PolicyError, match="total variation"):
        estimate_leakage(table, policy, source="public", metric="hellinger")
    with pytest.raises(PolicyError, match="counts only"):
        estimate_leakage(table, policy, source="public", estimator="critic")
    two = policy_of(JOINT, NAMES, ("s", "u"), conditioning="definition")
    with pytest.raises(PolicyError, match="one sensitive feature, got 2"):
        private(table, two)


def test_a_private_release_finds_exclusive_or_by_the_definition():
    frame = table_of(exclusive_or(), NAMES, 8000, np.random.default_rng(4))
    marginal = policy_of(exclusive_or(), NAMES, ("s",))
    assert private(frame, marginal).features["u"].upper < 0.2
    defined = dataclasses.replace(marginal, conditioning="definition")
    found = private(frame, defined)
    assert found.distances() == {"u": 1.0, "v": 1.0}
    for name, mu in found.spent.items():
        if name != "whole_record":
            epsilon = gaussian_epsilon(mu=mu[0].mu, delta=BUDGET["delta"])
            assert epsilon <= BUDGET["epsilon"] * (1 + 1e-9)


def test_the_definition_from_private_rows_is_bounded_and_useful():
    """Theorem 6, with a public feature that may be known."""
    generator = np.random.default_rng(8)
    joint = generator.dirichlet(np.full(12, 30.0)).reshape(3, 2, 2)
    policy = policy_of(joint, NAMES, ("s",), conditioning="definition")
    features = tuple(
        dataclasses.replace(f, role="public") if f.name == "v" else f
        for f in policy.features
    )
    policy = dataclasses.replace(policy, features=features)
    frame = table_of(joint, NAMES, 30_000, generator)
    found = private(frame, policy)
    truth = exact_leakage(joint, sensitive=[0], changed=[1], conditioning="definition")
    assert set(found.features) == {"u"}
    assert truth <= found.features["u"].upper < truth + 0.3
    (component,) = found.components
    groups = component.plan.table.groups
    assert [group.name for group in groups] == ["block", "block: row sizes"]
    assert groups[0].features == ("u", "v")


def test_by_definition_nothing_is_joined_whatever_a_feature_is_called():
    """The one table is about joint values, not about the feature of its name."""
    generator = np.random.default_rng(9)
    n_rows = 30_000
    thin = generator.choice(3, n_rows, p=[0.01, 0.3, 0.69])
    other = generator.integers(0, 2, n_rows)
    told = np.where(thin == 0, other, generator.integers(0, 2, n_rows))
    codes = np.stack([told, thin, other], axis=1)
    names = ("s", "block", "w")
    frame = pd.DataFrame(np.char.add("v", codes.astype(str)), columns=names)
    levels = tuple(CategoryDomain(tuple(f"v{i}" for i in range(k))) for k in (2, 3, 2))
    roles = ("sensitive", "insensitive", "insensitive")
    features = tuple(map(Feature, names, roles, levels))
    policy = Policy(features, conditioning="definition")
    found = estimate_leakage(frame, policy, epsilon=1.0, delta=1e-6, random_state=0)
    assert not found.joined
    assert found.distances() == {"block": 1.0, "w": 1.0}


def test_transport_over_too_many_cells_is_refused_before_it_is_paid_for():
    levels = CategoryDomain(tuple(f"v{i}" for i in range(12)))
    policy = Policy(
        (
            Feature("s", "sensitive", levels),
            Feature("t", "sensitive", levels),
            Feature("u", "insensitive", levels),
        )
    )
    frame = pd.DataFrame({name: ["v0", "v1"] for name in ("s", "t", "u")})
    charged = []
    with pytest.raises(CorrDPError, match="144 joint sensitive cells"):
        private(frame, policy, metric="wasserstein", charge=charged.append)
    assert not charged
    alone = dataclasses.replace(policy, features=policy.features[1:])
    private(frame, alone, metric="wasserstein", charge=charged.append)
    assert len(charged) == 1


@pytest.mark.parametrize(
    "unreadable",
    [
        lambda table: table.drop(columns="v"),
        lambda table: table.assign(w=0).to_numpy(),
        lambda table: "no_such_file.csv",
        lambda table: None,
    ],
)
def test_what_cannot_be_read_is_not_paid_for(table, policy, unreadable):
    charged = []
    with pytest.raises(CorrDPError):
        private(unreadable(table), policy, charge=charged.append)
    assert not charged


@pytest.mark.parametrize(
    "options",
    [{"n_threads": 0}, {"random_state": -1}, {"metric": 3}, {"estimator": 3}],
)
def test_options_are_checked_before_anything_is_paid_for(table, policy, options):
    charged = []
    with pytest.raises((CorrDPError, ValueError)):
        estimate_leakage(table, policy, **BUDGET, charge=charged.append, **options)
    assert not charged


def test_unconfirmed_policies_are_refused_unless_in_research(table, policy):
    policy = dataclasses.replace(policy, unconfirmed=("features.u.categories",))
    with pytest.raises(PolicyError, match="not confirmed"):
        estimate_leakage(table, policy, source="public")
    estimate_leakage(table, policy, source="public", research=True)


def test_an_estimate_without_bound_is_refused_where_it_is_needed():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"s": generator.choice(["a", "b"], 500), "u": generator.random(500)}
    )
    policy = Policy(
        (
            Feature("s", "sensitive", CategoryDomain(("a", "b"))),
            Feature("u", "insensitive", NumberDomain(0, 1)),
        )
    )
    leakage = estimate_leakage(frame, policy, source="public")
    assert leakage.features["u"].upper is None
    assert "none" in leakage.to_text()
    with pytest.raises(MissingBoundError, match="no upper bound"):
        leakage.distances()


def test_binned_numbers_leave_their_assumption(table):
    frame = table.assign(n=np.linspace(0, 1, len(table)))
    policy = policy_of(JOINT, NAMES, ("s",))
    number = Feature("n", "insensitive", NumberDomain(0, 1, bins=4))
    policy = dataclasses.replace(policy, features=(*policy.features, number))
    leakage = estimate_leakage(frame, policy, source="public")
    assert any("n enters the model binned" in text for text in leakage.assumptions)


def test_strange_columns():
    slot = CategoryDomain(("a", "b"), missing=Slot())
    frame = pd.DataFrame(
        {"s": ["a", "b"] * 50, "empty": [None] * 100, "constant": ["a"] * 100}
    )
    features = (
        Feature("s", "sensitive", CategoryDomain(("a", "b"))),
        Feature("empty", "insensitive", slot),
        Feature("constant", "insensitive", CategoryDomain(("a",))),
    )
    leakage = estimate_leakage(frame, Policy(features), source="public")
    assert leakage.features["empty"].upper == 1.0
    assert leakage.features["constant"].upper == 0.0
    noisy = private(frame, Policy(features))
    assert noisy.features["constant"].upper == 0.0
    assert noisy.features["empty"].upper == 1.0


def test_no_sensitive_feature_and_nothing_but_sensitive_features():
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["x", "y"]})
    domain = CategoryDomain(("x", "y"))
    nothing = Policy((Feature("a", "insensitive", domain),))
    assert estimate_leakage(frame, nothing, source="public").distances() == {"a": 0.0}
    assert private(frame, nothing).components == ()
    everything = Policy(tuple(Feature(name, "sensitive", domain) for name in "ab"))
    assert estimate_leakage(frame, everything, source="public").distances() == {}
    assert private(frame, everything).distances() == {}


def test_private_release_tells_noisy_counts_and_no_exact_one(policy):
    frame = table_of(JOINT, NAMES, 12_345, np.random.default_rng(2))
    exact = {str(n) for name in "uv" for n in frame[name].value_counts()}
    public = json.dumps(estimate_leakage(frame, policy, source="public").to_dict())
    assert all(count in public for count in exact)
    told = [
        json.dumps(
            estimate_leakage(frame, policy, **BUDGET, random_state=seed).to_dict()
        )
        for seed in (1, 2)
    ]
    quoted = [set(re.findall(r"about (\d+) rows", text)) for text in told]
    assert len(quoted[0]) == 4
    assert quoted[0] != quoted[1]
    assert exact not in quoted  # a single count may be hit by chance, not all four


def test_estimators_of_values_read_files_and_have_the_papers_constants(tmp_path):
    generator = np.random.default_rng(3)
    u = generator.random(3000)
    frame = pd.DataFrame(
        {
            "s": 0.2 * u + 0.1 * generator.normal(size=3000),
            "u": u,
            "c": np.where(u > 0.5, "a", "b"),
        }
    )
    frame.to_csv(tmp_path / "rows.csv", index=False)
    policy = Policy(
        (
            Feature("s", "sensitive", NumberDomain(-1, 2)),
            Feature("u", "insensitive", NumberDomain(0, 1)),
            Feature("c", "insensitive", CategoryDomain(("a", "b"))),
        )
    )
    leakage = estimate_leakage(
        tmp_path / "rows.csv", policy, source="public", delta=1e-6
    )
    assert leakage.features["u"].method.startswith("Gaussian posterior")
    assert leakage.features["c"].method.startswith("histogram")
    for found in leakage.features.values():
        assert found.estimate < found.paper_upper <= 1.0
    assert leakage.distances("theorem") == {
        name: found.paper_upper for name, found in leakage.features.items()
    }
    assert any("Gaussian" in text for text in leakage.assumptions)
    again = LeakageTable.from_dict(leakage.to_dict())
    assert again.to_dict() == leakage.to_dict()


def test_methods_without_the_papers_constants_keep_none():
    generator = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"s": generator.choice(["a", "b"], 200), "u": generator.random(200)}
    )
    policy = Policy(
        (
            Feature("s", "sensitive", CategoryDomain(("a", "b"))),
            Feature("u", "insensitive", NumberDomain(0, 1)),
        )
    )
    leakage = estimate_leakage(frame, policy, source="public", delta=1e-6)
    assert leakage.features["u"].paper_upper is None


def test_lower_bounds_survive_json():
    generator = np.random.default_rng(3)
    frame = pd.DataFrame({"s": generator.random(400), "c": ["a", "b"] * 200})
    policy = Policy(
        (
            Feature("s", "sensitive", NumberDomain(0, 1)),
            Feature("c", "insensitive", CategoryDomain(("a", "b"))),
        )
    )
    leakage = estimate_leakage(frame, policy, source="public", estimator="critic")
    assert leakage.features["c"].lower is not None
    assert LeakageTable.from_dict(leakage.to_dict()).to_dict() == leakage.to_dict()


def test_declared_blocks_and_empty_blocks(policy):
    block = dataclasses.replace(policy, relation="all_insensitive", block_leakage=0.2)
    leakage = estimate_leakage(None, block, source="declared")
    assert leakage.distances() == 0.2
    assert leakage.assumptions == ()
    assert "source declared" in leakage.to_text()
    only = Policy(
        (Feature("s", "sensitive", CategoryDomain(("a", "b"))),),
        relation="all_insensitive",
    )
    assert estimate_leakage(None, only, source="declared").distances() == {}
    assert (
        estimate_leakage(pd.DataFrame({"s": ["a"]}), only, source="public").distances()
        == {}
    )


def test_boolean_features_are_named_in_reasons():
    from corrdp.policy import BooleanDomain

    frame = pd.DataFrame({"s": [True, False] * 50, "u": [True] * 30 + [False] * 70})
    policy = Policy(
        (
            Feature("s", "sensitive", BooleanDomain()),
            Feature("u", "insensitive", BooleanDomain()),
        )
    )
    found = estimate_leakage(frame, policy, source="public").features["u"]
    assert "u = false (70 rows)" in found.reason


def test_a_table_feeds_policies_and_classes_directly(table, policy):
    leakage = private(table, policy)
    classes = {c.name: c for c in neighbor_classes(policy, leakage.distances())}
    assert classes["insensitive:u"].distance == leakage.features["u"].upper
    declared = policy.with_leakage(leakage.distances())
    assert declared.feature("v").leakage == leakage.features["v"].upper


@pytest.mark.parametrize(
    "options", [{}, {"conditioning": "definition"}, {"relation": "all_insensitive"}]
)
def test_numbers_without_bins_cannot_be_counted(table, options):
    number = Feature("n", "insensitive", NumberDomain(0, 1))
    policy = policy_of(JOINT, NAMES, ("s",), **options)
    policy = dataclasses.replace(policy, features=(*policy.features, number))
    frame = table.assign(n=0.5)
    with pytest.raises(PolicyError, match=r"bins|no private release"):
        private(frame, policy)
    if "conditioning" in options:
        with pytest.raises(PolicyError, match=r"features\.<name>\.bins"):
            estimate_leakage(frame, policy, source="public")


def test_a_definition_too_large_to_search_is_refused_before_reading():
    sizes = [2] * 13
    names = tuple(f"f{i}" for i in range(13))
    policy = policy_of(np.zeros(sizes), names, names[:1], conditioning="definition")
    with pytest.raises(PolicyError, match="8,192 sets"):
        estimate_leakage(None, policy, source="public")


def test_so_little_noise_that_nothing_is_proved_is_refused(policy):
    plan_leakage_release(policy, epsilon=1e3, delta=1e-6)
    with pytest.raises(BudgetError, match="nothing is proved"):
        plan_leakage_release(policy, epsilon=1e5, delta=1e-6)


def edited(document, *path, to):
    """Return a copy with one field set."""
    copy = json.loads(json.dumps(document))
    place = copy
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return copy


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("features", "u", "upper"), 0.0),
        (("features", "u", "reason"), "because"),
        (("failure_probability",), 0.5),
        (("components",), []),
        (("components", 0, "plan", "noise_scale", 0), 1e9),
        (("spent",), {}),
        (("source",), "public"),
        (("policy_fingerprint",), "0" * 64),
        (("replayable_noise",), False),
        (("digest",), "0" * 64),
        (("notice",), ""),
    ],
)
def test_an_edited_table_is_not_read(table, policy, path, to):
    document = private(table, policy).to_dict()
    assert LeakageTable.from_dict(document).to_dict() == document
    with pytest.raises(GuaranteeVoidError, match="digest does not match"):
        LeakageTable.from_dict(edited(document, *path, to=to))


def test_a_field_that_was_added_or_taken_is_noticed(table, policy):
    document = private(table, policy).to_dict()
    with pytest.raises(GuaranteeVoidError, match="digest"):
        LeakageTable.from_dict(document | {"extra": 1})
    for name in set(document) - {"schema"}:
        rest = {key: value for key, value in document.items() if key != name}
        with pytest.raises(GuaranteeVoidError, match="digest"):
            LeakageTable.from_dict(rest)


def test_tables_of_earlier_versions_have_no_digest_and_are_refused(table, policy):
    document = private(table, policy).to_dict() | {"schema": "corrdp.leakage/1"}
    del document["digest"]
    with pytest.raises(CorrDPError, match="Estimate the leakage again"):
        LeakageTable.from_dict(document)


def test_a_private_table_without_cost_is_refused_although_its_digest_fits(
    table, policy
):
    leakage = private(table, policy)
    with pytest.raises(GuaranteeVoidError, match="states no cost"):
        dataclasses.replace(leakage, components=())
    zero = {
        name: dataclasses.replace(found, upper=0.0)
        for name, found in leakage.features.items()
    }
    forged = dataclasses.replace(leakage, components=(), features=zero)
    again = LeakageTable.from_dict(json.loads(json.dumps(forged.to_dict())))
    with pytest.raises(GuaranteeVoidError, match=r"states no cost.* u, v"):
        again.require_policy(policy)


def test_a_digest_over_something_else_than_a_table_is_a_clear_refusal():
    fields = {"schema": "corrdp.leakage/2", "features": []}
    with pytest.raises(CorrDPError, match="damaged"):
        LeakageTable.from_dict(fields | {"digest": digest(fields)})
    nested: object = 0
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(GuaranteeVoidError, match="digest"):
        LeakageTable.from_dict(fields | {"features": nested, "digest": ""})


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("features", "u", "assumptions"), [["a"]]),
        (("features", "u", "joined"), []),
        (("features", "u", "joined"), {}),
        (("features", "u", "lower"), "0"),
        (("features", "u", "paper_constants"), {"example": "discrete"}),
        (("declared_fingerprint",), 1),
    ],
)
def test_a_damaged_field_is_a_clear_refusal_although_the_digest_fits(
    table, policy, path, to
):
    document = edited(private(table, policy).to_dict(), *path, to=to)
    del document["digest"]
    with pytest.raises(CorrDPError, match=r"damaged|Estimate the leakage anew"):
        LeakageTable.from_dict(document | {"digest": digest(document)})


def test_where_nothing_is_insensitive_there_is_nothing_to_release():
    policy = Policy(
        (Feature("p", "public", NumberDomain(0, 1, bins=2)),),
        Label("y", CategoryDomain(("no", "yes")), score=0.5),
    )
    rows = pd.DataFrame({"p": [0.5] * 20, "y": ["no"] * 20})
    found = estimate_leakage(rows, policy, epsilon=1.0, delta=1e-6)
    assert found.features == {}
    assert found.components == ()


def test_options_that_are_none_are_refused_in_words(table, policy):
    with pytest.raises(CorrDPError, match="join_levels must be True or False"):
        estimate_leakage(table, policy, source="public", join_levels="no")
    with pytest.raises(CorrDPError, match="research must be True or False"):
        estimate_leakage(table, policy, source="in_sample", research="no")
    with pytest.raises(PolicyError, match="policy=None"):
        estimate_leakage(table, None, source="public")
    with pytest.raises(PolicyError, match="policy=DataFrame"):
        estimate_leakage(policy, pd.DataFrame(table), source="public")
    with pytest.raises(PolicyError, match=r"policy=dict\. "):
        estimate_leakage(policy, pd.DataFrame(table).to_dict("list"), source="public")
    assert estimate_leakage(table, policy, source="public", keep_levels=None)


def test_cells_are_checked_before_a_ledger_pays_and_after_a_charge_of_ones_own(
    table, policy, tmp_path
):
    odd = table.assign(u=["nowhere", *table["u"][1:]])
    budget = Budget(epsilon=9, delta=1e-4)
    known = {"u": 1.0, "v": 1.0}
    ledger = Ledger.create(tmp_path / "l", policy, budget=budget, leakage=known)
    choice, charged = LedgerChoice(ledger.path, None, accept_new_data=False), []
    with pytest.raises(PolicyError, match="'u'"):
        private(odd, policy, charge=lambda p: pay_for_leakage(choice, p, policy, odd))
    assert len(ledger.entries()) == 2
    with pytest.raises(PolicyError, match="'u'"):
        private(odd, policy, charge=charged.append)
    assert len(charged) == 1  # as its docstring says


@pytest.mark.parametrize("source", ["public", "private"])
def test_codes_are_counted_once_however_many_features_there_are(source, monkeypatch):
    """Once for every table they took most of the time of a thousand features."""
    counted, original = [], PolicyEncoder.n_codes.fget
    watched = property(lambda encoder: counted.append(1) or original(encoder))
    monkeypatch.setattr(PolicyEncoder, "n_codes", watched)
    rng, times = np.random.default_rng(0), []
    for n_features in (2, 12):
        names = ["s", *(f"u{place}" for place in range(n_features))]
        binary = CategoryDomain(("a", "b"))
        roles = {"s": "sensitive"}
        features = [Feature(n, roles.get(n, "insensitive"), binary) for n in names]
        rows = pd.DataFrame({name: rng.choice(["a", "b"], 400) for name in names})
        budget = BUDGET if source == "private" else {}
        estimate_leakage(rows, Policy(tuple(features)), source=source, **budget)
        times.append(len(counted))
        counted.clear()
    assert times[0] == times[1] > 0

"""Neighbor classes: the table of the design, line by line."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from corrdp.accounting import WHOLE_RECORD
from corrdp.estimators import LogisticRegression
from corrdp.exceptions import BudgetError, CorrDPWarning, PolicyError
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NeighborClass,
    NumberDomain,
    Policy,
    Slot,
    class_epsilon,
    neighbor_classes,
    unmoved_classes,
    with_unmoved_at_least,
)
from corrdp.synthesis import Synthesizer

DOMAIN = BooleanDomain()
FEATURES = (
    Feature("age", "sensitive", DOMAIN),
    Feature("sex", "insensitive", DOMAIN, leakage=0.2),
    Feature("job", "insensitive", DOMAIN, leakage=0.4, score=0.5),
    Feature("town", "public", DOMAIN),
    Feature("debt", "sensitive", DOMAIN),
)


def classes_of(policy, leakage=None):
    return {c.name: c for c in neighbor_classes(policy, leakage)}


def with_label(score):
    return Policy(FEATURES, Label("y", DOMAIN, score))


@pytest.mark.parametrize("policy", [Policy(FEATURES), with_label(0.0)])
def test_one_insensitive_with_a_public_label(policy):
    assert neighbor_classes(policy) == (
        NeighborClass("sensitive", ("age", "debt"), False, 1.0, True),
        NeighborClass("insensitive:sex", ("sex",), False, 0.2, True),
        NeighborClass("insensitive:job", ("job",), False, 0.7, True),
        NeighborClass("whole_record", ("age", "sex", "job", "debt"), False, 1.0, False),
    )


def test_one_insensitive_with_a_protected_label():
    assert neighbor_classes(with_label(0.5)) == (
        NeighborClass("sensitive", ("age", "debt"), True, 1.0, True),
        NeighborClass("insensitive:sex", ("sex",), True, 0.5, True),
        NeighborClass("insensitive:job", ("job",), True, 0.7, True),
        NeighborClass("label", (), True, 0.5, True),
        NeighborClass("whole_record", ("age", "sex", "job", "debt"), True, 1.0, False),
    )


def test_a_label_of_score_1_is_one_more_sensitive_feature():
    assert neighbor_classes(with_label(1.0)) == (
        NeighborClass("sensitive", ("age", "debt"), True, 1.0, True),
        NeighborClass("insensitive:sex", ("sex",), False, 0.2, True),
        NeighborClass("insensitive:job", ("job",), False, 0.7, True),
        NeighborClass("whole_record", ("age", "sex", "job", "debt"), True, 1.0, False),
    )


def test_a_label_of_score_1_may_join_every_class():
    policy = Policy(FEATURES, Label("y", DOMAIN, 1.0, joins="every"))
    classes = classes_of(policy)
    assert all(c.label_changes and c.distance == 1.0 for c in classes.values())
    assert "label" in classes


def test_a_sensitive_label_alone_is_a_class_without_features():
    insensitive = Policy(FEATURES[1:3], Label("y", DOMAIN, 1.0))
    assert neighbor_classes(insensitive)[0] == NeighborClass(
        "sensitive", (), True, 1.0, True
    )
    public = Policy(FEATURES[3:4], Label("y", DOMAIN, 1.0))
    assert [c.name for c in neighbor_classes(public)] == ["label", "whole_record"]


@pytest.mark.parametrize(
    ("score", "joins"), [(0.0, "every"), (0.5, "sensitive"), (1.0, "none")]
)
def test_only_a_label_of_score_1_has_a_choice(score, joins):
    with pytest.raises(PolicyError, match="joins"):
        Label("y", DOMAIN, score, joins=joins)


@pytest.mark.parametrize("joins", [None, "sensitive", "every"])
def test_how_a_label_joins_is_written_and_read_back(joins):
    policy = Policy(FEATURES, Label("y", DOMAIN, 1.0, joins=joins))
    assert Policy.from_toml(policy.to_toml()) == policy
    strict = Policy(FEATURES, Label("y", DOMAIN, 1.0, joins="every"))
    assert (policy.fingerprint() == strict.fingerprint()) is (joins == "every")


def test_leakage_is_about_a_sensitive_label_too():
    view = with_label(1.0).leakage_view()
    assert view.sensitive == ("age", "debt", "y")
    assert with_label(0.5).leakage_view() == with_label(0.5)
    assert with_label(0.0).leakage_view() == with_label(0.0)


def test_all_insensitive_takes_the_leakage_of_the_block_and_its_largest_score():
    policy = Policy(FEATURES, relation="all_insensitive", block_leakage=0.6)
    block = classes_of(policy)["insensitive"]
    assert block.features == ("sex", "job")
    assert block.distance == pytest.approx(0.5 * 0.6 + 0.5, abs=1e-15)
    assert list(classes_of(policy)) == ["sensitive", "insensitive", "whole_record"]


def test_leakage_given_replaces_the_declared_one():
    policy = Policy(FEATURES)
    classes = classes_of(policy, {"sex": 0.3, "job": 0.0})
    assert classes["insensitive:sex"].distance == 0.3
    assert classes["insensitive:job"].distance == 0.5
    block = Policy(FEATURES, relation="all_insensitive")
    assert classes_of(block, 1.0)["insensitive"].distance == 1.0


def test_a_distance_of_zero_hits_the_floor():
    policy = Policy(FEATURES, Label("y", DOMAIN, 1e-9), distance_floor=0.05)
    classes = classes_of(policy, {"sex": 0.0, "job": 0.0})
    assert classes["insensitive:sex"].distance == 0.05
    assert classes["label"].distance == 0.05


ONE = CategoryDomain(("here",))
SLOT = CategoryDomain(("here",), missing=Slot())
OTHER = CategoryDomain(("here",), other=True)
MERGED = CategoryDomain(("here", "there"), groups={"all": ("here", "there")})


@pytest.mark.parametrize("domain", [ONE, MERGED])
def test_a_column_of_one_code_tells_nothing(domain):
    feature = Feature("site", "insensitive", domain)
    policy = Policy((*FEATURES, feature))
    assert policy.unknown_leakages == ()
    assert classes_of(policy)["insensitive:site"].distance == policy.distance_floor
    given = classes_of(policy, {"sex": 0.3, "job": 0.4})
    assert given["insensitive:site"].distance == policy.distance_floor
    declared = Policy((*FEATURES, Feature("site", "insensitive", domain, leakage=0.5)))
    assert classes_of(declared)["insensitive:site"].distance == 0.5


SEX = Feature("sex", "sensitive", CategoryDomain(("f", "m")))
PUBLIC_LABEL = Label("y", CategoryDomain(("0", "1")), 0.0)


def site_rows(n_rows=500):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n_rows), "site": "here"})
    frame["y"] = rng.choice(["0", "1"], n_rows)
    return frame


def fitted(kind, features):
    model = kind(Policy(features, PUBLIC_LABEL), epsilon=1.0, delta=1e-6)
    return model.fit(site_rows()).certificate_.classes


@pytest.mark.parametrize("kind", [LogisticRegression, Synthesizer])
def test_a_column_of_one_value_is_stated_no_more_than_others(kind):
    """Nobody can lose what it may spend, which is much at its distance."""
    own = Feature("site", "insensitive", ONE)
    costs = fitted(kind, (SEX, own))
    assert costs["insensitive:site"].epsilon <= costs["sensitive"].epsilon
    if kind is LogisticRegression:
        alone = fitted(kind, (SEX,))[WHOLE_RECORD].epsilon
        assert costs[WHOLE_RECORD].epsilon == pytest.approx(alone, rel=1e-9)
    slot = Feature("site", "insensitive", SLOT, leakage=0.1)
    assert fitted(kind, (SEX, slot))["insensitive:site"].epsilon > 5.0


def test_which_classes_have_no_neighbors():
    own, slot = (
        Feature(name, "insensitive", domain, leakage=0.1)
        for name, domain in (("own", ONE), ("slot", SLOT))
    )
    public = Policy((SEX, own, slot), PUBLIC_LABEL)
    assert unmoved_classes(public, neighbor_classes(public)) == {"insensitive:own"}
    joined = Policy((SEX, own, slot), replace(PUBLIC_LABEL, score=0.5))
    assert unmoved_classes(joined, neighbor_classes(joined)) == set()
    allowed = {"a": 2.0, "b": 3.0, "c": 9.0}
    assert with_unmoved_at_least(allowed, {"c"}) == {"a": 2.0, "b": 3.0, "c": 2.0}
    assert with_unmoved_at_least({"c": 9.0}, {"c"}) == {"c": 9.0}


@pytest.mark.parametrize(
    "domain", [SLOT, OTHER, NumberDomain(0, 1, bins=1), BooleanDomain()]
)
def test_two_codes_may_tell_all(domain):
    """A slot is a second code, and models read a number, not its bin."""
    policy = Policy((*FEATURES, Feature("site", "insensitive", domain)))
    assert policy.unknown_leakages == ("site",)
    with pytest.raises(PolicyError, match="'site' is not known"):
        neighbor_classes(policy)
    with pytest.raises(PolicyError, match="'site' is not known"):
        neighbor_classes(policy, {"sex": 0.3, "job": 0.4})


def test_a_feature_of_score_one_needs_no_leakage():
    policy = Policy((Feature("u", "insensitive", DOMAIN, score=1.0),))
    assert classes_of(policy)["insensitive:u"].distance == 1.0


def test_public_features_are_in_no_class():
    for policy in (Policy(FEATURES), with_label(1.0)):
        assert not any("town" in c.features for c in neighbor_classes(policy))


def test_without_insensitive_features_there_is_no_insensitive_class():
    for relation in ("one_insensitive", "all_insensitive"):
        policy = Policy(FEATURES[:1], relation=relation)
        assert list(classes_of(policy)) == ["sensitive", "whole_record"]


@pytest.mark.parametrize(
    ("relation", "leakage", "said"),
    [
        ("one_insensitive", {"sex": 0.1}, ["'job'", "features.job.leakage", "None"]),
        ("one_insensitive", 0.5, ["0.5", "one per insensitive feature", "mapping"]),
        ("one_insensitive", {"age": 0.5}, ["'age'", "not an insensitive", "sex, job"]),
        ("one_insensitive", {"sex": math.nan, "job": 0}, ["leakage['sex']", "nan"]),
        ("one_insensitive", {"sex": 1.5, "job": 0}, ["leakage['sex']", "1.5"]),
        ("all_insensitive", {"sex": 0.1}, ["mapping", "together", "block"]),
        ("all_insensitive", None, ["block_leakage", "None", "1 is always valid"]),
        ("all_insensitive", -1.0, ["leakage", "-1.0"]),
    ],
)
def test_leakage_that_does_not_fit_the_relation_is_refused(relation, leakage, said):
    with pytest.raises(PolicyError) as caught:
        neighbor_classes(Policy(FEATURES, relation=relation), leakage)
    for part in said:
        assert part in str(caught.value)


def test_what_columns_leak_one_by_one_is_not_read_for_the_block():
    declared = Policy(FEATURES, relation="all_insensitive")
    assert all(declared.feature(name).leakage for name in declared.insensitive)
    with pytest.raises(PolicyError, match="block_leakage"):
        neighbor_classes(declared)


@pytest.mark.parametrize(
    ("distance", "epsilon", "cap", "promised"),
    [
        (1.0, 1.0, 10.0, 1.0),
        (0.5, 1.0, 10.0, 2.0),
        (0.01, 1.0, 10.0, 10.0),
        (0.5, 20.0, 10.0, 20.0),
        (1.0, 0.1, 0.05, 0.1),
    ],
)
def test_class_epsilon(distance, epsilon, cap, promised):
    assert class_epsilon(distance, epsilon=epsilon, epsilon_cap=cap) == promised


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0.0, 1.0, 10.0), "distance"),
        ((1.1, 1.0, 10.0), "distance"),
        ((math.nan, 1.0, 10.0), "distance"),
        ((0.5, 0.0, 10.0), "epsilon"),
        ((0.5, math.inf, 10.0), "epsilon"),
        ((0.5, 1.0, -1.0), "epsilon_cap"),
    ],
)
def test_class_epsilon_checks_its_arguments(arguments, named):
    distance, epsilon, cap = arguments
    with pytest.raises(BudgetError, match=f"^{named} must"):
        class_epsilon(distance, epsilon=epsilon, epsilon_cap=cap)


@pytest.mark.parametrize(
    ("epsilon", "delta", "named"),
    [
        (None, 1e-6, "epsilon"),
        (0.0, 1e-6, "epsilon"),
        (-1.0, 1e-6, "epsilon"),
        (math.nan, 1e-6, "epsilon"),
        (math.inf, 1e-6, "epsilon"),
        (1.0, None, "delta"),
        (1.0, -1e-6, "delta"),
        (1.0, 1.0, "delta"),
        (1.0, math.nan, "delta"),
    ],
)
def test_a_budget_is_checked(epsilon, delta, named):
    with pytest.raises(BudgetError, match=f"^{named} "):
        Budget(epsilon=epsilon, delta=delta)


def test_a_budget_is_given_by_name():
    assert Budget(epsilon=1, delta=0) == Budget(epsilon=1.0, delta=0.0)
    with pytest.raises(TypeError):
        Budget(1.0, 1e-6)


def test_delta_of_one_row_warns_and_a_smaller_one_does_not():
    Budget(epsilon=1.0, delta=0.0099).warn_if_large_delta(100)
    for delta in (0.01, 0.5):
        with pytest.warns(CorrDPWarning, match="publishes one random row"):
            Budget(epsilon=1.0, delta=delta).warn_if_large_delta(100)
    with pytest.raises(BudgetError, match="n_rows"):
        Budget(epsilon=1.0, delta=0.0).warn_if_large_delta(0)

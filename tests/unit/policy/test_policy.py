"""Features, labels and whole policies: roles, checks, copies."""

import copy
import math
import pickle
from dataclasses import replace

import pytest

from corrdp.exceptions import PolicyError
from corrdp.policy import (
    CategoryDomain,
    ColumnRole,
    Conditioning,
    Feature,
    Label,
    NeighborRelation,
    NumberDomain,
    Policy,
    Replace,
    Slot,
)

AGE = Feature("age", ColumnRole.SENSITIVE, NumberDomain(17, 90))
RACE = Feature("race", "insensitive", CategoryDomain(("a", "b")), leakage=0.2)
TOWN = Feature("town", "public", CategoryDomain(("x", "y")))
INCOME = Label("income", CategoryDomain(("low", "high")), 0.0)


def policy(**changes):
    return Policy(**{"features": (AGE, RACE, TOWN), "label": INCOME, **changes})


def test_names_by_role():
    declared = policy()
    assert declared.sensitive == ("age",)
    assert declared.insensitive == ("race",)
    assert declared.public == ("town",)
    assert declared.feature("race") is RACE


def test_defaults_are_those_of_the_design():
    declared = policy()
    assert declared.relation is NeighborRelation.ONE_INSENSITIVE
    assert declared.conditioning is Conditioning.MARGINAL
    assert (declared.distance_floor, declared.epsilon_cap) == (0.01, 10.0)
    assert not declared.label_is_protected


def test_words_become_members():
    declared = policy(relation="all_insensitive", conditioning="definition")
    assert declared.relation is NeighborRelation.ALL_INSENSITIVE
    assert declared.conditioning is Conditioning.DEFINITION
    assert RACE.role is ColumnRole.INSENSITIVE


def test_policies_are_values():
    declared = policy(features=[AGE, RACE])
    assert hash(declared) == hash(policy(features=(AGE, RACE)))
    assert pickle.loads(pickle.dumps(declared)) == declared
    assert copy.deepcopy(declared) == declared


def test_within_another_are_narrower_bounds_of_numbers_and_nothing_else():
    def numbers(lower=0, upper=10, filled=5.0, role="sensitive", **changes):
        number = NumberDomain(lower, upper, missing=Replace(filled), **changes)
        colors = CategoryDomain(("a", "b"))
        return Policy((Feature("x", role, number), Feature("c", "public", colors)))

    assert numbers().is_within(numbers())
    assert numbers(2, 8, filled=3.0).is_within(numbers())
    for other in (
        numbers(-1, 8),
        numbers(2, 11),
        numbers(2, 8, bins=4),
        numbers(2, 8, role="insensitive"),
        replace(numbers(2, 8), epsilon_cap=20.0),
        Policy(numbers(2, 8).features[:1]),
    ):
        assert not other.is_within(numbers())
    assert not numbers().is_within(numbers(2, 8))


def test_with_leakage_changes_only_what_it_names():
    declared = policy()
    changed = declared.with_leakage({"race": 0.7})
    assert changed.feature("race").leakage == 0.7
    assert declared.feature("race").leakage == 0.2
    assert changed.with_leakage({"race": 0.2}) == declared
    assert declared.with_leakage(0.4).block_leakage == 0.4


@pytest.mark.parametrize("leakage", [{"nobody": 0.1}, {"age": 0.1}, {"race": 2.0}, 2.0])
def test_with_leakage_checks_names_and_values(leakage):
    with pytest.raises(PolicyError):
        policy().with_leakage(leakage)


def test_unknown_feature_names_are_refused_with_the_known_ones():
    refused(lambda: policy().feature("rase"), ["'rase'", "age, race, town"])


def test_unconfirmed_values_stop_a_run_until_confirmed():
    policy().require_confirmed()
    waiting = policy(unconfirmed=["features.age.bounds"])
    refused(waiting.require_confirmed, ["features.age.bounds", "corrdp confirm"])


def test_fingerprint_ignores_the_order_of_features_and_nothing_else():
    declared = policy()
    assert declared.fingerprint() == policy(features=(TOWN, RACE, AGE)).fingerprint()
    for other in (
        policy(epsilon_cap=11.0),
        policy(distance_floor=0.02),
        policy(label=None),
        policy(features=(AGE, RACE)),
        policy(features=(AGE, TOWN, Feature("race", "sensitive", RACE.domain))),
        declared.with_leakage({"race": 0.21}),
    ):
        assert other.fingerprint() != declared.fingerprint()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"features": ()}, ["features", "()", "Declare each feature"]),
        ({"features": "age"}, ["features", "'age'"]),
        ({"features": ("age",)}, ["features", "'age'"]),
        ({"features": (AGE, AGE)}, ["'age'", "more than once", "one role"]),
        ({"label": Label("age", INCOME.domain, 0)}, ["'age'", "more than once"]),
        ({"label": "income"}, ["label", "'income'"]),
        ({"features": (TOWN,)}, ["protects nothing", "Declare a role"]),
        ({"relation": "two"}, ["relation", "'two'", "one_insensitive"]),
        ({"relation": None}, ["relation", "None"]),
        ({"conditioning": "both"}, ["conditioning", "'both'", "marginal"]),
        ({"distance_floor": 0.0}, ["distance_floor", "0.0", "0.01"]),
        ({"distance_floor": 1.5}, ["distance_floor", "1.5"]),
        ({"distance_floor": math.nan}, ["distance_floor", "nan"]),
        ({"epsilon_cap": 0}, ["epsilon_cap", "0", "for example 10"]),
        ({"epsilon_cap": -1}, ["epsilon_cap", "-1"]),
        ({"epsilon_cap": math.inf}, ["epsilon_cap", "inf"]),
        ({"block_leakage": 1.1}, ["block_leakage", "1.1", "total variation"]),
        ({"block_leakage": math.nan}, ["block_leakage", "nan"]),
        ({"unconfirmed": "age"}, ["unconfirmed", "'age'"]),
        ({"unconfirmed": [3]}, ["unconfirmed", "3"]),
    ],
)
def test_fields_of_a_policy_are_checked(changes, said):
    refused(lambda: policy(**changes), said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ""}, ["feature name", "''"]),
        ({"name": "\ud800"}, ["feature name", "control characters"]),
        ({"name": "age\u202eemocni"}, ["feature name", "control characters"]),
        ({"name": "age\u2028income"}, ["feature name", "control characters"]),
        ({"name": 3}, ["feature name", "3"]),
        ({"role": "secret"}, ["features.f.role", "'secret'", "sensitive"]),
        ({"domain": "number"}, ["features.f", "domain", "'number'", "NumberDomain"]),
        ({"leakage": -0.1}, ["features.f.leakage", "-0.1", "total variation"]),
        ({"leakage": math.nan}, ["features.f.leakage", "nan"]),
        ({"leakage": math.inf}, ["features.f.leakage", "inf"]),
        ({"score": 1.5}, ["features.f.score", "1.5", "fully sensitive"]),
        ({"score": None}, ["features.f.score", "None"]),
        ({"role": "sensitive"}, ["leakage=0.5", "sensitive feature", "remove it"]),
        ({"role": "public"}, ["leakage=0.5", "public feature", "remove it"]),
        ({"role": "public", "leakage": None, "score": 1}, ["score=1", "'public'"]),
        ({"role": "sensitive", "leakage": None, "score": 0.5}, ["0.5", "'sensitive'"]),
    ],
)
def test_fields_of_a_feature_are_checked(changes, said):
    declared = {
        "name": "f",
        "role": "insensitive",
        "domain": NumberDomain(0, 1),
        "leakage": 0.5,
    }
    refused(lambda: Feature(**{**declared, **changes}), said)


def test_a_sensitive_feature_may_repeat_its_score():
    assert Feature("f", "sensitive", NumberDomain(0, 1), score=1).score == 1.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ""}, ["target", "''"]),
        ({"domain": None}, ["label", "None", "NumberDomain"]),
        ({"score": None}, ["label.score", "None", "labels are public"]),
        ({"score": 2}, ["label.score", "2"]),
        ({"score": math.nan}, ["label.score", "nan"]),
        ({"domain": NumberDomain(0, 1, missing=Slot())}, ["label.missing", "slot"]),
    ],
)
def test_fields_of_a_label_are_checked(changes, said):
    declared = {"name": "y", "domain": NumberDomain(0, 1), "score": 0.0}
    refused(lambda: Label(**{**declared, **changes}), said)


def test_a_label_has_no_default_score():
    with pytest.raises(TypeError, match="score"):
        Label("y", NumberDomain(0, 1))


def refused(action, said):
    with pytest.raises(PolicyError) as caught:
        action()
    for part in said:
        assert part in str(caught.value)


def test_marks_of_their_own_direction_are_part_of_texts():
    domain = CategoryDomain(("\u05e9\u05dc\u05d5\u05dd\u200f", "no"))
    assert domain.categories[0].endswith("\u200f")

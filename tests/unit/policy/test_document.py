"""Policy files: the file of the design, every key, every refusal."""

import json

import pytest

from corrdp.exceptions import PolicyError
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    Replace,
    Slot,
)

DESIGN = """
target = "income"
relation = "one_insensitive"

[features.age]
role = "sensitive"
type = "number"
bounds = [17, 90]
bins = 8

[features.race]
role = "insensitive"
type = "category"
categories = ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"]
leakage = 0.23

[label]
type = "category"
categories = ["<=50K", ">50K"]
score = 0.0
"""

EVERYTHING = """
target = "cost"
relation = "all_insensitive"
conditioning = "definition"
distance_floor = 0.05
epsilon_cap = 8
block_leakage = 0.5
unconfirmed = ["features.a.bounds"]

[features.a]
role = "sensitive"
type = "number"
bounds = [0, 1]
bins = 4
missing_value = 0.5

[features.b]
role = "insensitive"
type = "category"
categories = [1, 2.0, true, "x"]
groups = {low = [1, 2]}
unknown = "x"
missing = "slot"
leakage = 0.1
score = 0.2

[features.c]
role = "insensitive"
type = "boolean"
missing_value = true

[features.d]
role = "public"
type = "category"
categories = ["x"]
other = true
missing = "refuse"

[label]
type = "number"
bounds = [0, 1e5]
score = 1
"""


def test_the_file_of_the_design():
    races = ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other")
    assert Policy.from_toml(DESIGN) == Policy(
        (
            Feature("age", "sensitive", NumberDomain(17, 90, 8)),
            Feature("race", "insensitive", CategoryDomain(races), leakage=0.23),
        ),
        Label("income", CategoryDomain(("<=50K", ">50K")), 0.0),
    )


def test_every_key_is_read():
    policy = Policy.from_toml(EVERYTHING)
    assert policy == Policy(
        (
            Feature("a", "sensitive", NumberDomain(0, 1, 4, Replace(0.5))),
            Feature(
                "b",
                "insensitive",
                CategoryDomain(
                    ("1", "2", "true", "x"),
                    unknown=Replace("x"),
                    missing=Slot(),
                    groups={"low": ["1", "2"]},
                ),
                leakage=0.1,
                score=0.2,
            ),
            Feature("c", "insensitive", BooleanDomain(Replace(True))),
            Feature("d", "public", CategoryDomain(("x",), other=True)),
        ),
        Label("cost", NumberDomain(0, 1e5), 1.0),
        relation="all_insensitive",
        conditioning="definition",
        distance_floor=0.05,
        epsilon_cap=8,
        block_leakage=0.5,
        unconfirmed=("features.a.bounds",),
    )


@pytest.mark.parametrize("text", [DESIGN, EVERYTHING])
def test_round_trips(text, tmp_path):
    policy = Policy.from_toml(text)
    path = tmp_path / "policy.toml"
    policy.to_file(path)
    assert Policy.from_file(path) == policy
    assert Policy.from_file(str(path)) == policy
    assert Policy.from_dict(json.loads(json.dumps(policy.to_dict()))) == policy
    assert Policy.from_toml(policy.to_toml()).fingerprint() == policy.fingerprint()
    path.write_text(text, encoding="utf-8-sig")  # as editors of Windows save it
    assert Policy.from_file(path) == policy


def test_a_policy_without_a_label():
    text = DESIGN.replace('target = "income"', "").split("[label]")[0]
    policy = Policy.from_toml(text)
    assert policy.label is None
    assert Policy.from_toml(policy.to_toml()) == policy


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('target = "income"', "", ["[label]", "no target", "Declare both"]),
        ('target = "income"', "target = 3", ["target", "3"]),
        ('target = "income"', "targets = 3", ["'targets'", "Known fields", "target"]),
        ('"one_insensitive"', '"one"', ["relation", "'one'", "one_insensitive"]),
        ('relation = "one_insensitive"', "epsilon_cap = nan", ["epsilon_cap", "nan"]),
        (
            'role = "sensitive"',
            "",
            ["features.age.role", "not declared", "docs/policy"],
        ),
        ('role = "sensitive"', "role = 1", ["features.age.role", "1"]),
        ('type = "number"', "", ["features.age.type", "not declared"]),
        ('type = "number"', 'type = "text"', ["features.age.type", "'text'", "number"]),
        ('type = "number"', "type = [1]", ["features.age.type", "[1]"]),
        ('type = "number"', 'type = "boolean"', ["features.age (boolean)", "'bounds'"]),
        ("bounds = [17, 90]", "", ["features.age.bounds", "not declared"]),
        ("[17, 90]", "[90, 17]", ["features.age", "bounds", "[90, 17]", "smaller"]),
        ("[17, 90]", "[17]", ["features.age", "bounds", "[17]", "[lower, upper]"]),
        ("[17, 90]", "17", ["features.age", "bounds=17"]),
        ("[17, 90]", "[nan, 90]", ["features.age", "bounds[0]", "nan"]),
        ("[17, 90]", "[17, inf]", ["features.age", "bounds[1]", "inf"]),
        ("[17, 90]", "[17, 1979-05-27]", ["features.age", "bounds[1]", "1979"]),
        ("bins = 8", "bins = 0", ["features.age", "bins", "0", "equal-width"]),
        ("bins = 8", "bin = 8", ["features.age (number)", "'bin'", "bins"]),
        ("bins = 8", 'missing = "drop"', ["features.age", "missing", "'drop'", "slot"]),
        ("bins = 8", "missing_value = 99", ["features.age", "missing_value", "99"]),
        (
            "bins = 8",
            'missing = "slot"\nmissing_value = 20',
            ["features.age", "'slot'", "20", "Keep one"],
        ),
        ("bins = 8", "leakage = 0.1", ["features.age", "leakage=0.1", "sensitive"]),
        ("leakage = 0.23", "leakage = 23", ["features.race.leakage", "23"]),
        ("leakage = 0.23", 'score = "high"', ["features.race.score", "'high'"]),
        ("leakage = 0.23", "groups = 3", ["features.race", "groups", "3"]),
        ("leakage = 0.23", 'groups = {w = ["Wite"]}', ["groups.w", "'Wite'"]),
        ("leakage = 0.23", 'other = "yes"', ["features.race", "other", "'yes'"]),
        ("leakage = 0.23", 'unknown = "Wite"', ["features.race", "unknown", "'Wite'"]),
        ('"Black"', '"White"', ["features.race", "categories", "'White' twice"]),
        ('"Black"', "{a = 1}", ["features.race", "category", "{'a': 1}"]),
        ("score = 0.0", "", ["label.score", "not declared"]),
        ("score = 0.0", "score = -1", ["label.score", "-1"]),
        ("score = 0.0", 'score = 0\nmissing = "slot"', ["label.missing", "slot"]),
        ("score = 0.0", "score = 0\nrole = 1", ["label (category)", "'role'"]),
        ("[features.race]", "[features.age]", ["not TOML", "docs/policy.md"]),
        ("[label]", "[labels]", ["'labels'", "Known fields"]),
    ],
)
def test_fields_of_a_file_are_checked(old, new, said):
    assert old in DESIGN
    with pytest.raises(PolicyError) as caught:
        Policy.from_toml(DESIGN.replace(old, new, 1))
    for part in said:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["features", "Declare each feature"]),
        ('{"target": 1}', ["not TOML", "line 1"]),
        ("features = 3", ["features", "3", "table"]),
        ("[features]\nage = 3", ["features.age", "3", "table"]),
        ('target = "y"\n' + DESIGN.split("[label]")[0][19:], ["target", "no [label]"]),
        ("a = " + "[" * 100_000, ["not TOML", "nested too deeply"]),
        ("a = " + "1" * 10_000, ["not TOML"]),
        (b"a = 1", ["text", "bytes", "Pass a str"]),
    ],
)
def test_texts_that_are_no_policy(text, said):
    with pytest.raises(PolicyError) as caught:
        Policy.from_toml(text)
    for part in said:
        assert part in str(caught.value)


@pytest.mark.parametrize("document", [None, [], {1: 2}, {"features": {"": {}}}])
def test_documents_that_are_no_policy(document):
    with pytest.raises(PolicyError):
        Policy.from_dict(document)


def test_files_that_cannot_be_read(tmp_path):
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, said in [
        (tmp_path / "absent.toml", "No such file"),
        (tmp_path, "directory"),
        (binary, "not UTF-8"),
    ]:
        with pytest.raises(PolicyError, match=said) as caught:
            Policy.from_file(path)
        assert "corrdp init" in str(caught.value)
        assert path.name in str(caught.value)

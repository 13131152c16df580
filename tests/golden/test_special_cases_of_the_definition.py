"""Known definitions of privacy as policies, checked pair by pair of records.

Each definition says which epsilon a pair of records must satisfy (infinite: none). The
twin says what the classes of a policy promise for that pair: the smallest epsilon of
the promised classes in which the pair lies.
"""

import itertools
import math

import pytest

from corrdp.policy import (
    BooleanDomain,
    Feature,
    Label,
    Policy,
    class_epsilon,
    neighbor_classes,
)

EPSILON = 0.7
COLUMNS = ("s1", "s2", "u1", "u2", "y")
RECORDS = tuple(itertools.product((0, 1), repeat=len(COLUMNS)))


def policy_of(*, sensitive, label_score, insensitive=(), **settings):
    def role(name):
        if name in sensitive:
            return "sensitive"
        return "insensitive" if name in insensitive else "public"

    features = tuple(Feature(n, role(n), BooleanDomain()) for n in COLUMNS[:-1])
    return Policy(features, Label("y", BooleanDomain(), label_score), **settings)


def changed_columns(record, other):
    pairs = zip(COLUMNS, record, other, strict=True)
    return {name for name, value, new in pairs if value != new}


def promised_epsilon(policy, classes, changed):
    fitting = [
        class_epsilon(c.distance, epsilon=EPSILON, epsilon_cap=policy.epsilon_cap)
        for c in classes
        if c.promised and changed <= {*c.features, *(["y"] if c.label_changes else [])}
    ]
    return min(fitting, default=math.inf)


def disagreements(policy, classes, asked_epsilon):
    """Return the sets of changed columns on which promise and definition differ."""
    return {
        frozenset(changed)
        for record, other in itertools.permutations(RECORDS, 2)
        for changed in [changed_columns(record, other)]
        if promised_epsilon(policy, classes, changed)
        != pytest.approx(asked_epsilon(changed), rel=1e-12)
    }


def ordinary(changed):
    return EPSILON


def semi_sensitive(changed):
    return EPSILON if changed <= {"s1", "s2"} else math.inf


def label_only(changed):
    return EPSILON if changed == {"y"} else math.inf


def two_level_metric(changed):
    """Epsilon times 1 if S changes, times kappa = 4 if U alone (paper, appendix B.1).

    Pairs that change S and U together are no neighbors in the paper (Definition 2.1).
    """
    if changed <= {"s1", "s2"}:
        return EPSILON
    return 4.0 * EPSILON if changed <= {"u1", "u2"} else math.inf


CASES = {
    "ordinary replace-one": (
        policy_of(sensitive=COLUMNS[:-1], label_score=1.0),
        ordinary,
    ),
    "semi-sensitive": (
        policy_of(sensitive=("s1", "s2"), label_score=0.0),
        semi_sensitive,
    ),
    "label": (policy_of(sensitive=(), label_score=1.0), label_only),
    "metric of two levels": (
        policy_of(
            sensitive=("s1", "s2"),
            insensitive=("u1", "u2"),
            label_score=0.0,
            relation="all_insensitive",
            block_leakage=1 / 4,
        ),
        two_level_metric,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_policy_promises_exactly_what_the_definition_asks(case):
    policy, asked_epsilon = CASES[case]
    assert disagreements(policy, neighbor_classes(policy), asked_epsilon) == set()


@pytest.mark.parametrize("case", CASES)
def test_a_class_left_out_is_caught(case):
    policy, asked_epsilon = CASES[case]
    classes = neighbor_classes(policy)
    assert disagreements(policy, classes[1:], asked_epsilon)


@pytest.mark.parametrize("case", CASES)
def test_no_case_passes_for_another(case):
    policy, _ = CASES[case]
    for other, (_, asked_epsilon) in CASES.items():
        if other != case:
            assert disagreements(policy, neighbor_classes(policy), asked_epsilon)


def test_ordinary_privacy_promises_the_whole_record():
    policy, _ = CASES["ordinary replace-one"]
    sensitive, *_, whole = neighbor_classes(policy)
    assert (sensitive.features, sensitive.label_changes) == (
        whole.features,
        whole.label_changes,
    )
    assert {c.distance for c in neighbor_classes(policy)} == {1.0}


def test_a_metric_wider_than_floor_or_cap_is_promised_more_tightly():
    policy = policy_of(
        sensitive=("s1",),
        insensitive=("u1",),
        label_score=0.0,
        relation="all_insensitive",
        block_leakage=1 / 500,
        epsilon_cap=1000.0,
    )
    classes = neighbor_classes(policy)
    assert promised_epsilon(policy, classes, {"u1"}) == pytest.approx(100 * EPSILON)


def test_example_2_6_of_the_paper():
    sensitive = Feature("x1", "sensitive", BooleanDomain())
    leaking = Feature("x2", "insensitive", BooleanDomain(), leakage=1 / 3)
    distance = {
        c.name: c.distance for c in neighbor_classes(Policy((sensitive, leaking)))
    }
    assert distance["sensitive"] == 1.0
    assert distance["insensitive:x2"] == pytest.approx(1 / 3, abs=1e-15)


def test_example_2_7_of_the_paper_where_geography_decides_income():
    income = Feature("income", "sensitive", BooleanDomain())
    geography = Feature("geography", "insensitive", BooleanDomain(), leakage=0.4)
    policy = Policy((income, geography))

    def epsilon_of_geography(declared):
        classes = {c.name: c for c in neighbor_classes(declared)}
        distance = classes["insensitive:geography"].distance
        return class_epsilon(distance, epsilon=1.0, epsilon_cap=10.0)

    assert epsilon_of_geography(policy) == pytest.approx(2.5, rel=1e-15)
    assert epsilon_of_geography(policy.with_leakage({"geography": 1.0})) == 1.0
    assert epsilon_of_geography(policy.with_leakage({"geography": 0.0})) == 10.0


LABEL_DISTANCES = [
    (("s1", "s2"), {"y"}, 1.0),  # a change of the label alone is one of S and label
    (("s1", "s2"), {"s1", "y"}, 1.0),
    (("s1", "s2"), {"u1", "y"}, 0.5),
    (("s1", "s2"), {"u2", "y"}, 0.8),
    (("s1", "s2"), {"u1"}, 0.5),
    ((), {"y"}, 0.8),
    ((), {"u1", "y"}, 0.5),
]


@pytest.mark.parametrize(("sensitive", "changed", "distance"), LABEL_DISTANCES)
def test_a_label_joins_every_class_at_the_larger_distance(sensitive, changed, distance):
    """Paper, appendix C.2: the maximum of the label's score and the distance.

    A pair lies in every class that may change at least what it changes, so what is
    promised is the largest of these distances, never a smaller one than the paper's.
    """
    policy = policy_of(
        sensitive=sensitive, insensitive=("u1", "u2"), label_score=0.5
    ).with_leakage({"u1": 0.1, "u2": 0.8})
    promised = promised_epsilon(policy, neighbor_classes(policy), changed)
    assert promised == pytest.approx(EPSILON / distance, rel=1e-12)
    of_paper = {"s1": 1.0, "u1": 0.1, "u2": 0.8, "y": 0.5}
    assert promised <= EPSILON / max(of_paper[name] for name in changed)


def test_features_that_change_together_are_no_neighbors_one_at_a_time():
    policy = policy_of(
        sensitive=("s1",), insensitive=("u1", "u2"), label_score=0.5
    ).with_leakage({"u1": 0.1, "u2": 0.8})
    classes = neighbor_classes(policy)
    for changed in ({"u1", "u2"}, {"s1", "u1"}):
        assert promised_epsilon(policy, classes, changed) == math.inf


def test_a_label_alone_is_promised_its_score_where_nothing_else_changes():
    policy = policy_of(sensitive=(), label_score=0.5)
    promised = promised_epsilon(policy, neighbor_classes(policy), {"y"})
    assert promised == pytest.approx(EPSILON / 0.5, rel=1e-12)

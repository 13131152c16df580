"""Properties of policies: round trips, a parser that only refuses, geometry."""

import json

import numpy as np
import pandas as pd
import pytest
import tomlkit
from hypothesis import assume, example, given
from hypothesis import strategies as st

from corrdp.exceptions import PolicyError
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    ColumnRole,
    Conditioning,
    Feature,
    Label,
    NeighborRelation,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Refuse,
    Replace,
    Slot,
    class_epsilon,
    neighbor_classes,
)
from corrdp.tables._cells import MISSING_TEXTS

# A busy machine is no counterexample.
NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)
UNIT = st.floats(0.0, 1.0)
BOUNDS = st.floats(-1e150, 1e150)


@st.composite
def number_domains(draw):
    lower, upper = sorted(draw(st.tuples(BOUNDS, BOUNDS)))
    assume(lower < upper)
    missing = st.one_of(
        st.just(Refuse()), st.just(Slot()), st.builds(Replace, st.floats(lower, upper))
    )
    bins = draw(st.none() | st.integers(1, 50))
    return NumberDomain(lower, upper, bins, draw(missing))


@st.composite
def category_domains(draw):
    categories = tuple(draw(st.lists(NAMES, min_size=1, max_size=5, unique=True)))
    replacement = st.builds(Replace, st.sampled_from(categories))
    other = draw(st.booleans())
    groups = ()
    if draw(st.booleans()):
        members = draw(st.lists(st.sampled_from(categories), min_size=1, unique=True))
        groups = ((members[0], tuple(members)),)
    return CategoryDomain(
        categories,
        other=other,
        missing=draw(st.just(Refuse()) | st.just(Slot()) | replacement),
        unknown=Refuse() if other else draw(st.just(Refuse()) | replacement),
        groups=groups,
    )


def boolean_domains():
    replacement = st.builds(Replace, st.booleans())
    return st.builds(BooleanDomain, st.just(Refuse()) | st.just(Slot()) | replacement)


DOMAINS = st.one_of(number_domains(), category_domains(), boolean_domains())


@st.composite
def features(draw, name):
    role = draw(st.sampled_from(ColumnRole))
    domain = draw(DOMAINS)
    if role is not ColumnRole.INSENSITIVE:
        return Feature(name, role, domain)
    return Feature(name, role, domain, draw(st.none() | UNIT), draw(UNIT))


@st.composite
def policies(draw):
    names = draw(st.lists(NAMES, min_size=2, max_size=5, unique=True))
    columns = tuple(draw(features(name)) for name in names[1:])
    label = None
    if draw(st.booleans()):
        domain = draw(DOMAINS.filter(lambda d: d.missing != Slot()))
        label = Label(names[0], domain, draw(UNIT))
    protects = any(f.role is not ColumnRole.PUBLIC for f in columns)
    assume(protects or (label is not None and label.is_protected))
    return Policy(
        columns,
        label,
        relation=draw(st.sampled_from(NeighborRelation)),
        conditioning=draw(st.sampled_from(Conditioning)),
        distance_floor=draw(st.floats(1e-6, 1.0)),
        epsilon_cap=draw(st.floats(1e-3, 1e3)),
        block_leakage=draw(st.none() | UNIT),
        unconfirmed=tuple(draw(st.lists(NAMES, max_size=2))),
    )


@given(policies())
def test_saved_policies_load_equal(policy):
    assert Policy.from_toml(policy.to_toml()) == policy
    assert Policy.from_dict(json.loads(json.dumps(policy.to_dict()))) == policy
    assert Policy.from_toml(policy.to_toml()).fingerprint() == policy.fingerprint()


@given(policies(), st.randoms(use_true_random=False))
def test_the_order_of_features_changes_neither_fingerprint_nor_distances(
    policy, random
):
    shuffled = list(policy.features)
    random.shuffle(shuffled)
    other = Policy.from_dict(
        {**policy.to_dict(), "features": _tables_in_order(policy, shuffled)}
    )
    assert other.fingerprint() == policy.fingerprint()
    full = with_every_leakage(policy)
    other_full = with_every_leakage(other)
    assert {(c.name, c.distance) for c in neighbor_classes(full)} == {
        (c.name, c.distance) for c in neighbor_classes(other_full)
    }


def _tables_in_order(policy, shuffled):
    tables = policy.to_dict()["features"]
    return {feature.name: tables[feature.name] for feature in shuffled}


def with_every_leakage(policy):
    declared = {
        f.name: 0.3 if f.leakage is None else f.leakage
        for f in policy.features
        if f.role is ColumnRole.INSENSITIVE
    }
    block = 0.3 if policy.block_leakage is None else policy.block_leakage
    return policy.with_leakage(declared).with_leakage(block)


@given(st.text(max_size=200))
@example("[features.a]\nrole = 1")
@example("features.a.b.c = 1")
def test_arbitrary_text_is_a_policy_or_a_policy_error(text):
    parsed_or_refused(lambda: Policy.from_toml(text))


KEYS = st.sampled_from(
    [
        "target",
        "relation",
        "conditioning",
        "distance_floor",
        "epsilon_cap",
        "block_leakage",
        "unconfirmed",
        "features",
        "label",
        "role",
        "type",
        "bounds",
        "bins",
        "categories",
        "groups",
        "other",
        "unknown",
        "missing",
        "missing_value",
        "leakage",
        "score",
        "age",
    ]
)
WORDS = st.sampled_from(
    [
        "number",
        "category",
        "boolean",
        "sensitive",
        "insensitive",
        "public",
        "slot",
        "refuse",
        "marginal",
        "definition",
        "one_insensitive",
        "all_insensitive",
    ]
)
TOML_SCALARS = st.one_of(
    WORDS,
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=5),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.dates(),
    st.datetimes(),
    st.times(),
)
TOML_VALUES = st.recursive(
    TOML_SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=12,
)
FEATURE_TABLES = st.fixed_dictionaries(
    {},
    optional={
        "role": WORDS | TOML_VALUES,
        "type": WORDS | TOML_VALUES,
        "bounds": st.lists(TOML_SCALARS, max_size=3) | TOML_VALUES,
        "bins": TOML_VALUES,
        "categories": st.lists(TOML_SCALARS, max_size=4) | TOML_VALUES,
        "groups": st.dictionaries(st.text(max_size=3), TOML_VALUES, max_size=2),
        "other": TOML_VALUES,
        "unknown": TOML_VALUES,
        "missing": WORDS | TOML_VALUES,
        "missing_value": TOML_VALUES,
        "leakage": TOML_VALUES,
        "score": TOML_VALUES,
    },
)
DOCUMENTS = st.one_of(
    TOML_VALUES,
    st.fixed_dictionaries(
        {"features": st.dictionaries(st.text(max_size=5), FEATURE_TABLES, max_size=3)},
        optional={
            "target": TOML_VALUES,
            "label": FEATURE_TABLES | TOML_VALUES,
            "relation": WORDS | TOML_VALUES,
            "distance_floor": TOML_VALUES,
            "epsilon_cap": TOML_VALUES,
            "block_leakage": TOML_VALUES,
            "unconfirmed": TOML_VALUES,
        },
    ),
)


@given(DOCUMENTS)
def test_arbitrary_documents_are_policies_or_policy_errors(document):
    parsed_or_refused(lambda: Policy.from_dict(document))


@given(DOCUMENTS.filter(lambda document: isinstance(document, dict)))
def test_arbitrary_toml_structures_are_policies_or_policy_errors(document):
    parsed_or_refused(lambda: Policy.from_toml(tomlkit.dumps(document)))


@given(policies(), st.data())
def test_a_file_with_a_few_characters_changed_is_a_policy_or_a_policy_error(
    policy, data
):
    text = policy.to_toml()
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(start + 5, len(text))))
    changed = text[:start] + data.draw(st.text(max_size=5)) + text[stop:]
    parsed_or_refused(lambda: Policy.from_toml(changed))


def parsed_or_refused(read):
    try:
        policy = read()
    except PolicyError:
        return
    assert Policy.from_toml(policy.to_toml()) == policy


def test_another_exception_of_the_parser_would_be_caught():
    with pytest.raises(KeyError):
        parsed_or_refused(lambda: {}["role"])


@given(policies(), UNIT, UNIT)
def test_more_leakage_never_means_a_smaller_distance(policy, one, another):
    low, high = sorted((one, another))

    def distances(leakage):
        given_leakage = dict.fromkeys(policy.insensitive, leakage)
        if policy.relation is NeighborRelation.ALL_INSENSITIVE:
            given_leakage = leakage
        return [c.distance for c in neighbor_classes(policy, given_leakage)]

    for below, above in zip(distances(low), distances(high), strict=True):
        assert policy.distance_floor <= below <= above <= 1.0


@given(policies())
def test_every_protected_column_is_in_a_promised_class_and_public_ones_in_none(policy):
    classes = neighbor_classes(with_every_leakage(policy))
    promised = {name for c in classes if c.promised for name in c.features}
    assert promised == set(policy.sensitive) | set(policy.insensitive)
    assert any(c.label_changes for c in classes if c.promised) == (
        policy.label_is_protected
    )
    assert [c.name for c in classes if not c.promised] == ["whole_record"]
    assert all(c.label_changes == policy.label_is_protected for c in classes)


@given(st.floats(1e-3, 1.0), st.floats(1e-3, 100.0), st.floats(1e-3, 100.0))
def test_class_epsilon_never_exceeds_the_definition_nor_falls_below_the_budget(
    distance, epsilon, cap
):
    promised = class_epsilon(distance, epsilon=epsilon, epsilon_cap=cap)
    assert epsilon <= promised <= epsilon / distance
    assert promised <= max(epsilon, cap)


def raw_values(domain):
    """Values of a column that the encoder must take, odd ones where declared."""
    missing = st.nothing() if domain.missing == Refuse() else st.none()
    if isinstance(domain, NumberDomain):
        numbers = st.floats(allow_nan=domain.missing != Refuse())
        return numbers | st.integers(-(2**70), 2**70) | st.booleans() | missing
    if isinstance(domain, BooleanDomain):
        return st.sampled_from([True, False, 1, 0.0, "true", "FALSE"]) | missing
    odd = st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
    if domain.missing == Refuse():
        odd = odd.filter(lambda value: value not in MISSING_TEXTS)
    takes_odd = domain.other or domain.unknown != Refuse()
    known = st.sampled_from(domain.categories)
    return known | missing | (odd if takes_odd else st.nothing())


@st.composite
def policies_and_tables(draw):
    policy = draw(policies())
    rows = draw(
        st.lists(
            st.tuples(*(raw_values(f.domain) for f in policy.features)),
            min_size=2,
            max_size=6,
        )
    )
    table = np.empty((len(rows), len(policy.features)), dtype=object)
    for index, row in enumerate(rows):
        table[index] = row
    return policy, table


@given(policies_and_tables())
def test_blocks_keep_their_radius_and_diameter_whatever_the_table(pair):
    policy, table = pair
    encoder = PolicyEncoder(policy)
    matrix = encoder.transform(table)
    for block in encoder.blocks_:
        assert within_block(matrix[:, block.columns], block)


def within_block(codes, block):
    norms = np.linalg.norm(codes, axis=1)
    gaps = np.linalg.norm(codes[:, None] - codes[None], axis=2)
    zero_is_declared = block.includes_zero or (norms > 0).all()
    rounding = 1e-12
    return bool(
        (norms <= block.radius + rounding).all()
        and (gaps <= block.diameter + rounding).all()
        and zero_is_declared
    )


def test_an_encoder_that_does_not_clip_is_caught():
    policy = Policy((Feature("f", "sensitive", NumberDomain(0, 1)),))
    block = PolicyEncoder(policy).blocks_[0]
    assert within_block(np.array([[-0.5], [0.5]]), block)
    assert not within_block(np.array([[0.51], [0.0]]), block)
    assert not within_block(np.array([[-0.5], [0.6]]), block)


@given(policies_and_tables(), st.data())
def test_a_row_is_encoded_alone_and_a_feature_moves_its_own_blocks_only(pair, data):
    policy, table = pair
    encoder = PolicyEncoder(policy)
    feature = data.draw(st.sampled_from(range(len(policy.features))))
    changed = table.copy()
    changed[0, feature] = table[1, feature]
    before, after = encoder.transform(table), encoder.transform(changed)
    np.testing.assert_array_equal(before[1:], after[1:])
    name = policy.features[feature].name
    for block in encoder.blocks_:
        if block.feature != name:
            np.testing.assert_array_equal(
                before[0, block.columns], after[0, block.columns]
            )


@given(policies_and_tables())
def test_codes_count_what_they_say_and_pandas_agrees_with_numpy(pair):
    policy, table = pair
    encoder = PolicyEncoder(policy)
    names = list(encoder.n_codes)
    assume(names)
    frame = pd.DataFrame(table, columns=[f.name for f in policy.features])
    codes = encoder.codes(table, names)
    assert codes.min() >= 0
    assert (codes < np.array(list(encoder.n_codes.values()))).all()
    np.testing.assert_array_equal(encoder.codes(frame.astype(object), names), codes)

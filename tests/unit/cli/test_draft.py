"""Drafts: every domain that was read from rows awaits confirmation."""

import pyarrow as pa
import pytest

from corrdp.cli._draft import MOST_CATEGORIES, Wishes, draft_policy
from corrdp.exceptions import PolicyError
from corrdp.policy import BooleanDomain, CategoryDomain, NumberDomain, Policy, Slot

N_ROWS = 40


def wishes(**changes):
    given = {
        "target": "label",
        "sensitive": ("age",),
        "public": (),
        "left_out": (),
        "category": (),
        "label_protected": False,
    }
    return Wishes(**(given | changes))


def table(**columns):
    given = {
        "age": [20.5 + row for row in range(N_ROWS)],
        "label": ["yes", "no"] * (N_ROWS // 2),
    }
    return pa.table(given | columns)


def drafted(columns=None, **changes):
    text, draft = draft_policy(table(**(columns or {})), wishes(**changes))
    return Policy.from_toml(text), draft


def test_bounds_are_rounded_outwards_and_marked():
    policy, draft = drafted()
    domain = policy.feature("age").domain
    assert (domain.lower, domain.upper) == (20.0, 60.0)  # 20.5 to 59.5 in steps of 2
    assert "features.age.bounds" in draft.unconfirmed
    assert "label.categories" in draft.unconfirmed
    assert policy.unconfirmed == tuple(draft.unconfirmed)


@pytest.mark.parametrize(
    ("values", "kind", "field"),
    [
        ([True, False] * 20, BooleanDomain, "type"),
        ([0, 1] * 20, BooleanDomain, "type"),
        ([1, 2] * 20, NumberDomain, "bounds"),
        ([7] * 40, NumberDomain, "bounds"),
        ([float("inf"), 1.5] * 20, NumberDomain, "bounds"),
        (["a", "b"] * 20, CategoryDomain, "categories"),
        (pa.array(["a", "b"] * 20).dictionary_encode(), CategoryDomain, "categories"),
    ],
)
def test_types_are_guessed_and_every_domain_is_marked(values, kind, field):
    policy, draft = drafted({"x": values})
    assert isinstance(policy.feature("x").domain, kind)
    assert f"features.x.{field}" in draft.unconfirmed


def test_missing_values_get_a_slot_that_awaits_confirmation():
    policy, draft = drafted({"x": [None, 3.0] * 20})
    assert isinstance(policy.feature("x").domain.missing, Slot)
    assert "features.x.missing" in draft.unconfirmed


def test_numbers_can_be_declared_categories():
    policy, _ = drafted({"x": [1, 2] * 20}, category=("x",))
    assert policy.feature("x").domain.categories == ("1", "2")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([None] * N_ROWS, "no values"),
        ([f"id-{row}" for row in range(N_ROWS)], str(MOST_CATEGORIES)),
        (pa.array([0] * N_ROWS, pa.date32()), "date32"),
    ],
)
def test_what_cannot_be_drafted_is_left_out_or_refused(values, reason):
    policy, draft = drafted({"x": values})
    assert reason in draft.left_out["x"]
    assert [feature.name for feature in policy.features] == ["age"]
    for role in ({"sensitive": ("age", "x")}, {"target": "x"}):
        with pytest.raises(PolicyError, match="'x'"):
            drafted({"x": values}, **role)


def test_a_refusal_quotes_no_value():
    values = [f"secret-{row}" for row in range(N_ROWS)]
    with pytest.raises(PolicyError) as refusal:
        drafted({"x": values}, sensitive=("x",))
    assert "secret" not in str(refusal.value)


def test_labels_with_missing_values_are_refused():
    with pytest.raises(PolicyError, match="missing"):
        drafted({"label": [None, "yes"] * 20})


@pytest.mark.parametrize("protected", [False, True])
def test_the_label_is_what_the_user_chose(protected):
    policy, _ = drafted(label_protected=protected)
    assert policy.label_is_protected is protected
    assert not isinstance(policy.label.domain, NumberDomain)


def test_a_number_label_has_bounds_and_no_bins():
    policy, draft = drafted({"label": [0.1 * row for row in range(N_ROWS)]})
    assert policy.label.domain.bins is None
    assert "label.bounds" in draft.unconfirmed

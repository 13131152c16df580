"""Declared domains: what they accept, and what they say when they refuse."""

import math

import numpy as np
import pytest

from corrdp.exceptions import PolicyError
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    NumberDomain,
    Refuse,
    Replace,
    Slot,
)


def test_bounds_are_stored_as_floats_without_a_negative_zero():
    domain = NumberDomain(-0.0, 90)
    assert (domain.lower, domain.upper) == (0.0, 90.0)
    assert math.copysign(1.0, domain.lower) == 1.0


def test_missing_and_unknown_values_are_refused_unless_declared():
    assert NumberDomain(0, 1).missing == Refuse()
    assert BooleanDomain().missing == Refuse()
    assert CategoryDomain(("a",)).missing == Refuse()
    assert CategoryDomain(("a",)).unknown == Refuse()


def test_categories_are_compared_by_canonical_text():
    domain = CategoryDomain((1, 2.0, True, "01"), missing=Replace(1.0))
    assert domain.categories == ("1", "2", "true", "01")
    assert domain.missing == Replace("1")


def test_the_empty_text_is_a_category_if_declared():
    domain = CategoryDomain(("", "NA"), missing=Replace(""))
    assert domain.categories == ("", "NA")
    assert domain.missing == Replace("")


def test_groups_merge_categories_at_the_place_of_the_first():
    domain = CategoryDomain(
        ("single", "civil", "church"), groups={"married": ["civil", "church"]}
    )
    assert domain.levels == ("single", "married")
    assert domain.merged == {
        "single": "single",
        "civil": "married",
        "church": "married",
    }
    assert domain.groups == (("married", ("civil", "church")),)


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [
        (90, 17, ["bounds", "[90, 17]", "smaller bound first"]),
        (1, 1, ["bounds", "[1, 1]", "smaller bound first"]),
        (-1.7e308, 1.7e308, ["bounds", "finite width"]),
        (math.nan, 1, ["bounds[0]", "nan"]),
        (0, math.inf, ["bounds[1]", "inf"]),
        ("17", 90, ["bounds[0]", "'17'"]),
        (True, 90, ["bounds[0]", "True"]),
        pytest.param(0, 10**5000, ["bounds[1]", "bits", "smaller"], id="huge"),
    ],
)
def test_bounds_are_checked(lower, upper, said):
    refused(lambda: NumberDomain(lower, upper), said)


@pytest.mark.parametrize(
    "bins",
    [0, -1, 2.5, "8", True, math.nan, 10**7, pytest.param(-(10**5000), id="huge")],
)
def test_bins_are_checked(bins):
    refused(lambda: NumberDomain(0, 1, bins), ["bins"])


def test_bins_may_be_a_numpy_integer():
    assert type(NumberDomain(0, 1, np.int64(8)).bins) is int


@pytest.mark.parametrize("value", [-1, 2, math.nan, "0.5"])
def test_replacement_of_a_missing_number_lies_in_the_bounds(value):
    refused(
        lambda: NumberDomain(0, 1, missing=Replace(value)),
        ["missing_value", repr(value), "inside the bounds"],
    )


@pytest.mark.parametrize("domain", [NumberDomain, BooleanDomain, CategoryDomain])
def test_missing_is_one_of_three_treatments(domain):
    arguments = {NumberDomain: (0, 1), CategoryDomain: (("a",),)}.get(domain, ())
    refused(lambda: domain(*arguments, missing="slot"), ["missing", "'slot'", "Slot()"])


def test_replacement_of_a_missing_boolean_is_a_boolean():
    assert BooleanDomain(Replace(True)).missing == Replace(True)
    refused(lambda: BooleanDomain(Replace("x")), ["missing_value", "'x'", "true or"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"categories": ()}, ["categories", "()", "List every value"]),
        ({"categories": "abc"}, ["categories", "'abc'"]),
        ({"categories": ("a", "a")}, ["categories", "'a' twice", "Remove one"]),
        ({"categories": (1, 1.0)}, ["categories", "'1' twice", "canonical text"]),
        ({"categories": ("a\n",)}, ["category", "control characters"]),
        ({"categories": (math.nan,)}, ["category", "nan"]),
        ({"categories": (math.inf,)}, ["category", "inf"]),
        ({"categories": (10**5000,)}, ["category", "bits"]),
        ({"categories": (None,)}, ["category", "None"]),
        ({"other": 1}, ["other", "1", "true or false"]),
        ({"missing": Replace("z")}, ["missing_value", "'z'", "declared category"]),
        ({"unknown": Replace("z")}, ["unknown", "'z'", "declared category"]),
        ({"unknown": Slot()}, ["unknown", "Slot()", "Replace(category)"]),
        ({"other": True, "unknown": Replace("a")}, ["other", "'a'", "Keep one"]),
        ({"groups": {"g": []}}, ["groups.g", "[]", "List the categories"]),
        ({"groups": {"g": "a"}}, ["groups.g", "'a'"]),
        ({"groups": {"g": ["z"]}}, ["groups.g", "'z'", "Add it to categories"]),
        ({"groups": {"g": ["a"], "h": ["a"]}}, ["members of groups", "'a' twice"]),
        ({"groups": (("g", ["a"]), ("g", ["b"]))}, ["group names", "'g' twice"]),
        ({"groups": {"b": ["a"]}}, ["groups.b", "Rename the group"]),
        ({"groups": {"": ["a"]}}, ["group name", "''"]),
    ],
)
def test_fields_of_a_category_domain_are_checked(arguments, said):
    refused(lambda: CategoryDomain(**{"categories": ("a", "b"), **arguments}), said)


def refused(action, said):
    with pytest.raises(PolicyError) as caught:
        action()
    for part in said:
        assert part in str(caught.value)

"""Leakage about a label that is one more sensitive feature."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from corrdp import estimate_leakage
from corrdp.exceptions import GuaranteeVoidError, PolicyError
from corrdp.leakage import plan_leakage_release
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
)

FEATURES = (
    Feature("ill", "sensitive", BooleanDomain()),
    Feature("town", "insensitive", CategoryDomain(("a", "b"))),
)


def policy(score, domain=None):
    return Policy(FEATURES, Label("paid", domain or BooleanDomain(), score))


def table(n_rows=4000):
    """The town tells nothing about the illness and everything about the label."""
    rng = np.random.default_rng(0)
    town = rng.choice(["a", "b"], n_rows)
    ill = np.arange(n_rows) % 2 == 0
    return pd.DataFrame({"ill": ill, "town": town, "paid": town == "a"})


def upper(score):
    found = estimate_leakage(table(), policy(score), source="public")
    return found.distances()["town"]


def test_what_a_feature_tells_about_a_sensitive_label_counts():
    assert upper(0.0) < 0.2
    assert upper(0.5) < 0.2  # joins every class: its score is in the distance
    assert upper(1.0) > 0.9


def test_a_private_release_prices_a_change_of_the_label():
    plan = plan_leakage_release(policy(1.0), epsilon=1.0, delta=1e-6)
    rows = dict(zip(plan.table.classes, plan.table.bounds.tolist(), strict=True))
    assert rows["sensitive"][0] == pytest.approx(2**0.5)  # cells move
    assert rows["sensitive"][1] == 0.0  # row sizes do not
    cells = [group.size for group in plan.table.groups if group.name == "town"]
    assert cells == [2 * 4]  # towns times illness times label
    found = estimate_leakage(
        table(), policy(1.0), epsilon=5.0, delta=1e-6, random_state=0
    )
    assert found.distances()["town"] > 0.9


def test_a_private_release_about_a_number_needs_its_bins():
    with pytest.raises(PolicyError, match="paid"):
        plan_leakage_release(policy(1.0, NumberDomain(0, 2)), epsilon=1.0, delta=1e-6)


def test_what_is_told_of_the_label_alone_must_be_paid_for_as_well():
    label = Label("paid", BooleanDomain(), 1.0)
    alone = Policy(FEATURES[1:], label)  # nothing else is sensitive
    found = estimate_leakage(table(), alone, epsilon=5.0, delta=1e-6, random_state=0)
    nothing = {n: replace(f, upper=0.0) for n, f in found.features.items()}
    forged = replace(found, components=(), features=nothing)
    with pytest.raises(GuaranteeVoidError, match=r"states no cost.* town"):
        forged.require_policy(alone)

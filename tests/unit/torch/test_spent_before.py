"""Networks after a leakage table that cost whole records more than the budget."""

import numpy as np
import pandas as pd
import pytest

from corrdp import estimate_leakage
from corrdp.accounting import WHOLE_RECORD
from corrdp.estimators import MLPClassifier
from corrdp.exceptions import BudgetError
from corrdp.policy import BooleanDomain, CategoryDomain, Feature, Label, Policy

NAMES = [f"u{index}" for index in range(12)]
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def policy_of():
    two = CategoryDomain(("a", "b"))
    features = [Feature("s", "sensitive", two)]
    features += [Feature(name, "insensitive", two) for name in NAMES]
    return Policy(tuple(features), Label("y", BooleanDomain(), 0.0))


@pytest.fixture(scope="module")
def leakage():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({n: rng.choice(["a", "b"], 300) for n in ["s", *NAMES]})
    return estimate_leakage(
        frame, policy_of(), source="private", epsilon=0.9, delta=1e-6, random_state=1
    )


def test_noise_by_groups_is_planned_where_whole_records_have_no_budget_left(leakage):
    """Few rows bound no leakage below 1, so that ordinary noise would be as good."""
    model = MLPClassifier(policy_of(), **BUDGET, leakage=leakage)
    module = model.planned_training(9_000).module
    assert module.plan.method == "corr"
    certificate = module.certificate()
    certificate.verify(policy_of())
    assert certificate.epsilon <= 1.0
    assert certificate.classes[WHOLE_RECORD].epsilon > 1.0


def test_ordinary_noise_is_refused_there(leakage):
    """With leakage that costs more than epsilon, nothing hides whole records."""
    model = MLPClassifier(policy_of(), **BUDGET, leakage=leakage, method="standard")
    with pytest.raises(BudgetError, match="spent all"):
        model.planned_training(9_000)

"""Networks after a leakage table that cost whole records more than the budget."""

import math

import numpy as np
import pandas as pd
import pytest

from corrdp import estimate_leakage
from corrdp.accounting import WHOLE_RECORD, gaussian_epsilon
from corrdp.estimators import MLPClassifier
from corrdp.exceptions import BudgetError
from corrdp.policy import BooleanDomain, CategoryDomain, Feature, Label, Policy
from unit.torch.networks import rows, small_network, small_policy, train

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


GIVEN = {"method": "standard", "epsilon": None, "noise_multiplier": 20.0}


def test_given_noise_is_priced_with_what_was_spent():
    """All of it is on the certificate, which was refused after training before."""
    spent = train(small_network(), rows(), epsilon=0.5).module.plan.components
    alone = train(small_network(), rows(), **GIVEN).module.certificate()
    both = train(small_network(), rows(), **GIVEN, spent=spent).module.certificate()
    assert [part.name for part in both.components] == ["training"] * 2
    assert alone.epsilon < both.epsilon
    squares = [
        event.count * event.mu**2
        for part in both.components
        for event in part.events_of("sensitive")
    ]
    together = gaussian_epsilon(mu=math.sqrt(sum(squares)), delta=1e-5)
    assert both.epsilon == pytest.approx(together)


def test_no_epsilon_follows_from_given_noise_after_a_release_without_noise():
    spent = train(
        small_network(),
        rows(),
        calibration="theorem",
        policy=small_policy(n_insensitive=2, n_public=1),
    )
    with pytest.raises(BudgetError, match="no epsilon follows"):
        train(small_network(), rows(), **GIVEN, spent=spent.module.plan.components)


def test_given_noise_keeps_the_bound_on_residuals():
    module = train(small_network(), rows(), **GIVEN, residual_bound=0.5).module
    assert module.plan.layout.residual_bound == 0.5

"""Simulated attacks on real releases stay within the risk that is stated."""

import math

import numpy as np
import pandas as pd
import pytest

from corrdp.accounting import GaussianEvent, attack_risk
from corrdp.mechanisms import answer_plan, plan_queries
from corrdp.policy import Budget, Policy

POLICY = Policy.from_toml(
    """
relation = "one_insensitive"

[features.age]
role = "sensitive"
type = "number"
bounds = [0, 100]

[features.sex]
role = "insensitive"
type = "boolean"
leakage = 0.5
"""
)
N_RUNS = 1_500
FALSE_ALARM = 1e-9


def released_means(first_age, first_seed):
    """Return released means of two tables that differ in one age, run by run."""
    table = pd.DataFrame({"age": [first_age] + [50.0] * 19, "sex": [True] * 20})
    plan = plan_queries(
        POLICY,
        ["mean(age)"],
        budget=Budget(epsilon=6.0, delta=1e-3),
        n_rows=20,
        kind="gaussian",
    )
    values = [
        answer_plan(table, plan, random_state=first_seed + run).answers[0].values[0]
        for run in range(N_RUNS)
    ]
    return np.array(values), plan


@pytest.mark.statistical
def test_no_attack_on_released_means_beats_the_stated_advantage():
    low, plan = released_means(0.0, 0)
    high, _ = released_means(100.0, N_RUNS)
    threshold = 0.5 * (low.mean() + high.mean())
    advantage = (high > threshold).mean() - (low > threshold).mean()
    # Hoeffding for the difference of two means of N_RUNS each.
    slack = math.sqrt(math.log(1 / FALSE_ALARM) / N_RUNS)
    risk = attack_risk(plan.noise.charged_events()["sensitive"])
    assert advantage <= risk.advantage + slack
    # Power: twice the noise would have been claimed in vain.
    assert advantage > attack_risk([GaussianEvent(risk.mu / 2)]).advantage + slack

"""Simulated attacks on noise as it is released stay within the risk that is stated."""

import math

import numpy as np
import pytest

from corrdp.accounting import ApproximateEvent, attack_risk
from corrdp.policy import Budget, Policy
from corrdp.queries import plan_queries

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
N_RUNS = 40_000
FALSE_ALARM = 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_no_attack_on_released_noise_beats_the_stated_risk(kind):
    delta = 0.0 if kind == "laplace" else 1e-3
    plan = plan_queries(
        POLICY,
        ["sum(age)"],
        budget=Budget(epsilon=1.5, delta=delta),
        n_rows=20,
        kind=kind,
    )
    noise = plan.noise
    row = noise.movement.classes.index("sensitive")
    moved = int(noise.movement.absolute[row, 0])
    drawn = noise.draw_runs(2 * N_RUNS, np.random.default_rng(5))
    here, there = drawn[:N_RUNS, 0], drawn[N_RUNS:, 0] + moved
    events = noise.claimed_events()["sensitive"]
    # Hoeffding for each of two rates.
    slack = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * N_RUNS))
    threshold = 0.5 * moved
    advantage = (there > threshold).mean() - (here > threshold).mean()
    assert advantage <= attack_risk(events).advantage + 2 * slack
    # Power: a fifth of this epsilon would be found out.
    epsilon = noise.epsilon("sensitive")
    weak = attack_risk([ApproximateEvent(epsilon / 5, delta)])
    assert advantage > weak.advantage + 2 * slack

"""Theorem 2.10: all coordinates are within their radius with probability 1 - beta."""

import math

import numpy as np
import pytest

from corrdp._random import noise_generator
from corrdp.accounting import WHOLE_RECORD
from corrdp.mechanisms.noise import (
    Movement,
    discrete_gaussian,
    discrete_laplace,
    plan_vector,
)
from corrdp.policy import Budget, Feature, NumberDomain, Policy

pytestmark = pytest.mark.statistical

POLICY = Policy(
    (
        Feature("income", "sensitive", NumberDomain(0, 1)),
        Feature("zip", "insensitive", NumberDomain(0, 1), leakage=0.2),
    )
)
SENSITIVITY = {
    "sensitive": [1.0, 0.0],
    "insensitive:zip": [0.0, 1.0],
    WHOLE_RECORD: [1.0, 1.0],
}
TRIALS = 20_000
BETA = 0.1


def miss_rate(plan, radius):
    """Return how often some coordinate of many releases is beyond its radius."""
    draw = discrete_laplace if plan.kind == "laplace" else discrete_gaussian
    generator = noise_generator(11)
    noise = [draw(scale, size=TRIALS, generator=generator) for scale in plan.scales]
    return float(np.mean(np.any(radius < np.abs(noise).T, axis=1)))


def false_alarm_radius():
    """Hoeffding: exceeded with probability 1e-9."""
    return math.sqrt(math.log(1e9) / (2 * TRIALS))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("variant", ["tight", "optimal"])
def test_radius_fails_no_more_often_than_stated(kind, variant):
    plan = plan_vector(
        Movement.of_coordinates(SENSITIVITY, grid=2.0**-6),
        policy=POLICY,
        budget=Budget(epsilon=0.5, delta=1e-5),
        kind=kind,
        variant=variant,
    )
    rate = miss_rate(plan, plan.radius(BETA))
    assert rate <= BETA + false_alarm_radius()
    # The power half: half the radius is caught.
    assert miss_rate(plan, 0.5 * plan.radius(BETA)) > BETA + false_alarm_radius()


def test_rate_of_one_laplace_coordinate_is_the_stated_one():
    """For one coordinate the bound is sharp, so the rate is also not far below."""
    plan = plan_vector(
        Movement.of_coordinates(
            {"sensitive": [1.0], WHOLE_RECORD: [1.0]}, grid=2.0**-6
        ),
        policy=Policy(POLICY.features[:1]),
        budget=Budget(epsilon=0.5, delta=0.0),
    )
    assert plan.radius(BETA)[0] == math.ceil(float(plan.scales[0]) * math.log(1 / BETA))
    rate = miss_rate(plan, plan.radius(BETA))
    assert abs(rate - BETA) <= false_alarm_radius() + 0.005

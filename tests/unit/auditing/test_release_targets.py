"""Audits of one-shot releases go through the code that draws the noise."""

import numpy as np
import pytest

from corrdp.auditing import audit, leakage_challenges, vector_challenges
from corrdp.leakage import plan_leakage_release
from corrdp.leakage.release import _noise
from corrdp.mechanisms.noise import Movement, _vector, plan_vector
from corrdp.policy import (
    Budget,
    CategoryDomain,
    Feature,
    NumberDomain,
    Policy,
    neighbor_classes,
)

N_RUNS = 4000
CONFIDENCE = 1 - 1e-9


def category(name, role, n):
    return Feature(name, role, CategoryDomain(tuple(f"c{i}" for i in range(n))))


POLICY = Policy(
    (
        category("s", "sensitive", 2),
        category("u", "insensitive", 3),
        category("v", "insensitive", 2),
    )
)


def leakage_report(epsilon=6.0):
    plan = plan_leakage_release(POLICY, epsilon=epsilon, delta=1e-3)
    classes = neighbor_classes(POLICY, {"u": 1.0, "v": 1.0})
    return audit(
        leakage_challenges(POLICY, plan, classes),
        n_runs=N_RUNS,
        confidence=CONFIDENCE,
        random_state=1,
    )


def too_small(draw, factor=2):
    def drawn(scale, *, size, generator):
        return draw(scale, size=size, generator=generator) // factor

    return drawn


def broken(report):
    return [result.class_name for result in report.violations]


def test_a_leakage_release_is_within_its_claim_and_at_half_scale_it_is_not(
    monkeypatch,
):
    assert broken(leakage_report()) == []
    draw = too_small(_noise.discrete_gaussian)
    monkeypatch.setattr(_noise, "discrete_gaussian", draw)
    assert "sensitive" in broken(leakage_report())


def vector_report(kind):
    policy = Policy(
        (
            Feature("a", "sensitive", NumberDomain(0, 1)),
            Feature("b", "insensitive", NumberDomain(0, 1), leakage=0.5),
        )
    )
    grid = 2.0**-6
    ends = {
        "sensitive": (np.array([0.0, 0.5]), np.array([1.0, 0.5])),
        "insensitive:b": (np.array([0.5, 0.0]), np.array([0.5, 1.0])),
        "whole_record": (np.zeros(2), np.ones(2)),
    }
    moves = {name: np.abs(np.subtract(*pair)) for name, pair in ends.items()}
    plan = plan_vector(
        Movement.of_coordinates(moves, grid=grid),
        policy=policy,
        budget=Budget(epsilon=3.0, delta=1e-3),
        kind=kind,
    )
    return audit(
        vector_challenges(plan, ends, grid=grid),
        n_runs=5 * N_RUNS,
        confidence=CONFIDENCE,
        random_state=2,
    )


# The claim for Gaussian vectors is a conversion with a margin: half the noise may hide.
@pytest.mark.parametrize(("kind", "factor"), [("laplace", 2), ("gaussian", 4)])
def test_a_vector_is_within_its_claim_and_with_less_noise_it_is_not(
    kind, factor, monkeypatch
):
    assert broken(vector_report(kind)) == []
    name = f"discrete_{kind}"
    monkeypatch.setattr(_vector, name, too_small(getattr(_vector, name), factor))
    assert "sensitive" in broken(vector_report(kind))

"""Audits of one-shot releases go through the code that draws the noise."""

import numpy as np
import pytest

from corrdp.auditing import (
    Claim,
    audit,
    estimator_challenges,
    leakage_challenges,
    number_count_challenges,
    vector_challenges,
)
from corrdp.estimators import LogisticRegression
from corrdp.leakage import plan_leakage_release
from corrdp.leakage.release import _noise
from corrdp.mechanisms.noise import Movement, _vector, plan_vector
from corrdp.policy import (
    Budget,
    CategoryDomain,
    Feature,
    Label,
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


@pytest.mark.parametrize("conditioning", ["marginal", "definition"])
@pytest.mark.parametrize("relation", ["one_insensitive", "all_insensitive"])
def test_the_tables_that_are_released_are_attacked(conditioning, relation):
    """With a label that is the one sensitive feature, and with all that is known."""
    one = relation == "one_insensitive"
    policy = Policy(
        (*POLICY.features[1:], category("p", "public", 2)),
        Label("y", CategoryDomain(("0", "1")), 1.0),
        conditioning=conditioning,
        relation=relation,
    )
    plan = plan_leakage_release(policy, epsilon=6.0, delta=1e-3)
    classes = neighbor_classes(policy, {"u": 1.0, "v": 1.0} if one else 1.0)
    challenges = leakage_challenges(policy, plan, classes)
    report = audit(challenges, n_runs=N_RUNS, random_state=1)
    assert report.passed
    assert all(result.tightness > 0.5 for result in report.results)


NUMBERS = Policy(
    (
        Feature("s", "sensitive", NumberDomain(0, 100)),
        Feature("t", "sensitive", NumberDomain(-1, 1)),
        Feature("u", "insensitive", NumberDomain(0, 100), leakage=0.2),
        category("v", "insensitive", 2),
        Feature("w", "public", NumberDomain(0, 1)),
    ),
    Label("y", CategoryDomain(("0", "1")), 0.0),
)


def counts_report():
    """Audit counts of bins whose noise costs a sensitive change mu = 2."""
    claims = {"sensitive": 2.0, "insensitive:u": np.sqrt(2.0), "whole_record": 6**0.5}
    challenges = number_count_challenges(
        NUMBERS,
        noise_scale={"s": 1.0, "t": 1.0, "u": 1.0, "w": 0.0},
        n_bins={"s": 16, "t": 32, "u": 16, "w": 16},
        claims={name: Claim.gaussian(mu, delta=1e-3) for name, mu in claims.items()},
        classes=neighbor_classes(NUMBERS, {"u": 0.2, "v": 1.0}),
    )
    assert [each.class_name for each in challenges] == list(claims)
    return audit(challenges, n_runs=N_RUNS, confidence=CONFIDENCE, random_state=1)


def test_counts_of_numbers_are_within_their_claim_and_at_half_scale_they_are_not(
    monkeypatch,
):
    report = counts_report()
    assert broken(report) == []
    assert all(result.tightness > 0.5 for result in report.results)
    draw = too_small(_noise.discrete_gaussian)
    monkeypatch.setattr(_noise, "discrete_gaussian", draw)
    assert broken(counts_report()) == ["sensitive", "insensitive:u", "whole_record"]


@pytest.mark.parametrize(("bounds", "counted"), [("auto", True), ("declared", False)])
def test_a_model_that_counts_numbers_is_challenged_for_it(bounds, counted):
    model = LogisticRegression(
        NUMBERS, epsilon=2.0, delta=1e-5, leakage={"u": 0.2, "v": 1.0}, bounds=bounds
    )
    targets = estimator_challenges(model, n_rows=20_000)
    found = {each.class_name for each in targets if each.target == "counts of numbers"}
    expected = {"sensitive", "insensitive:u", "whole_record"} if counted else set()
    assert found == expected


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

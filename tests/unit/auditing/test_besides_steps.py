"""What training releases besides gradients is attacked, and bugs in it are found."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from audit_mutants import audited_policy, training_plan
from corrdp.auditing import audit, estimator_challenges
from corrdp.auditing._challenge import Deadline
from corrdp.auditing.targets import (
    constant_challenges,
    count_challenges,
    descent_challenges,
    mean_challenges,
)
from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.leakage import estimate_leakage, release
from corrdp.policy import CategoryDomain, Feature, Label, Policy
from corrdp.training import Descent, _gradient_descent, _totals
from corrdp.training._step_sizes import Steps

DELTA = 1e-5
N_RUNS = 600
CONFIDENCE = 1 - 1e-6


def broken(challenges):
    report = audit(challenges, n_runs=N_RUNS, confidence=CONFIDENCE, random_state=0)
    return [result.class_name for result in report.violations]


def means():
    return mean_challenges(training_plan(audited_policy(), epsilon=4.0), delta=DELTA)


def counts():
    plan = training_plan(audited_policy(label="number"), epsilon=4.0)
    return count_challenges(plan, delta=DELTA)


def constants(kind=LogisticRegression, label="category"):
    policy = audited_policy(label=label, score=1.0)
    return estimator_challenges(kind(policy, epsilon=0.01, delta=DELTA), n_rows=40)


class OnlyFirstStep(Descent):
    """Training whose later steps have no noise."""

    def noisy_gradient(self, gradient):
        noisy, scale = super().noisy_gradient(gradient)
        return (gradient if self.n_done else noisy), scale


def steps(descent=Descent):
    plan = training_plan(audited_policy(), epsilon=4.0)
    return descent_challenges(plan, delta=DELTA, descent=descent)


def test_noise_that_ends_after_the_first_step_is_found():
    assert broken(steps()) == []
    assert len(broken(steps(OnlyFirstStep))) == 4


def scaled(draw, factor):
    return lambda sums, noise, *rest: draw(sums, factor * noise, *rest)


def test_means_are_within_their_claim_and_with_a_tenth_of_the_noise_not(monkeypatch):
    challenges = means()
    assert {one.target for one in challenges} == {"column means"}
    assert broken(challenges) == []
    less = scaled(_totals.noisy_column_sums, 0.1)
    monkeypatch.setattr(_totals, "noisy_column_sums", less)
    assert "whole_record" in broken(means())


def test_counts_are_within_their_claim_and_with_a_tenth_of_the_noise_not(monkeypatch):
    challenges = counts()
    assert len(challenges) == 4
    assert all((one.first - one.second == one.n_records).all() for one in challenges)
    assert broken(challenges) == []
    planned = Steps.count_noise.fget
    less = property(lambda steps: 0.01 * planned(steps))
    monkeypatch.setattr(Steps, "count_noise", less)
    assert len(broken(counts())) == 4


@pytest.mark.parametrize(
    ("kind", "label"),
    [(LogisticRegression, "category"), (LinearRegression, "number")],
)
def test_a_model_that_knows_labels_alone_is_attacked(monkeypatch, kind, label):
    challenges = constants(kind, label)
    assert {one.target for one in challenges} == {"constant model"}
    assert broken(challenges) == []
    released = _gradient_descent.release_constant
    monkeypatch.setattr(
        _gradient_descent,
        "release_constant",
        lambda y, loss, noise, rng: released(y, loss, 1e-3 * noise, rng),
    )
    assert "sensitive" in broken(constants(kind, label))


def test_labels_that_no_class_changes_do_not_differ():
    plan = training_plan(audited_policy(), epsilon=4.0)
    for one in constant_challenges(plan, delta=DELTA):
        assert (one.first == one.second).all()


def bought():
    """Return a model that paid for its leakage, and its challenges of that."""
    names = [f"u{i}" for i in range(3)]
    two = CategoryDomain(("x", "y"))
    policy = Policy(
        (
            Feature("s", "sensitive", two),
            *(Feature(name, "insensitive", two) for name in names),
        ),
        Label("label", two, score=0.0),
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {name: rng.choice(two.levels, 4000) for name in ("s", *names, "label")}
    )
    table = estimate_leakage(
        frame, policy, source="private", epsilon=2.5, delta=DELTA, random_state=0
    )
    model = LogisticRegression(
        policy, epsilon=3.0, delta=DELTA, leakage=table, random_state=0
    ).fit(frame)
    found = estimator_challenges(model, n_rows=500)
    return [one for one in found if one.target == "leakage"]


def test_leakage_that_a_model_paid_for_is_attacked(monkeypatch):
    challenges = bought()
    assert len(challenges) == 5
    assert all(one.claim.events for one in challenges)
    assert broken(challenges) == []
    noise = release._noise
    draw = noise.discrete_gaussian

    def less(scale, *, size, generator):
        return draw(scale, size=size, generator=generator) // 8

    monkeypatch.setattr(noise, "discrete_gaussian", less)
    assert "whole_record" in broken(challenges)


@pytest.mark.torch
def test_the_reference_of_a_network_is_attacked(monkeypatch):
    from corrdp.estimators import MLPRegressor
    from corrdp.torch.networks import ReferencePlan

    policy = audited_policy(label="number")
    model = MLPRegressor(policy, epsilon=4.0, delta=DELTA, fall_back=False)

    def found():
        challenges = estimator_challenges(
            model, n_rows=500, deadline=Deadline(0.0)
        )  # no time to search for parameters
        return [one for one in challenges if one.target == "reference"]

    challenges = found()
    assert len(challenges) == 4
    assert broken(challenges) == []
    planned = ReferencePlan.release_total

    def less(plan, total, n_rows, generator):
        quiet = replace(plan, deviation=plan.deviation * 0.01)
        return planned(quiet, total, n_rows, generator)

    monkeypatch.setattr(ReferencePlan, "release_total", less)
    assert broken(challenges) == ["sensitive", "whole_record"]


@pytest.mark.torch
def test_an_audit_of_a_network_is_replayable():
    from corrdp.estimators import MLPClassifier

    model = MLPClassifier(audited_policy(), epsilon=4.0, delta=DELTA, fall_back=False)
    outputs = []
    for seed in (3, 3, 4):
        one = estimator_challenges(
            model, n_rows=200, random_state=seed, deadline=Deadline(0.0)
        )[-1]
        outputs.append(one.sample(one.first, 5, np.random.default_rng(0)))
    assert (outputs[0] == outputs[1]).all()
    assert (outputs[0] != outputs[2]).any()

"""Linear models on samples and in epochs: what trains is sound, planted bugs are not.

An audit of all classes is in the benchmark (`benchmarks/bench_audit_loop.py`).
"""

import numpy as np
import pytest

from audit_mutants import DELTA, audited_policy
from corrdp.auditing import _challenges_from, audit, estimator_challenges
from corrdp.auditing.targets._descent import DescentSteps
from corrdp.estimators import LogisticRegression
from corrdp.exceptions import CorrDPError
from corrdp.training import SampledBudget, TheoremPlan
from linear_bugs import (
    LINEAR_BUGS,
    LittleNoiseOnSamples,
    NoiseOfAnotherGroup,
    epoch_steps,
    group_steps,
    sampled_steps,
    theorem_steps,
)

N_COMPARISONS = 100  # the error of one per cent is shared among all audits here
LONG = ("samples: noise x 0.8",)  # by the benchmark


def audited(challenges, **settings):
    return audit(challenges, n_comparisons=N_COMPARISONS, random_state=7, **settings)


def broken(report):
    return {result.class_name for result in report.violations}


@pytest.mark.statistical
def test_sampled_sums_are_sound():
    results = audited(sampled_steps(n_runs=400)).results
    assert [result.verdict for result in results] == ["consistent"] * 2
    assert min(r.audited_epsilon for r in results) > 0.5  # the attack sees something


@pytest.mark.statistical
def test_sampled_sums_at_a_small_rate_are_sound():
    assert audited(sampled_steps(rate=0.2, cost=4.0, n_runs=600)).passed


@pytest.mark.statistical
@pytest.mark.parametrize("label", ["category", "number"])
def test_epochs_are_sound(label):
    report = audited(epoch_steps(label=label))
    assert report.passed
    assert min(result.tightness for result in report.results) > 0.6


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in LINEAR_BUGS if name not in LONG])
def test_bugs_of_linear_training_are_caught(name):
    assert not audited(LINEAR_BUGS[name]()).passed


@pytest.mark.statistical
def test_noise_of_another_group_is_found_where_it_is_too_small():
    """The search goes by noise as drawn, to records that move what has too little."""
    assert audited(group_steps(), n_runs=2000).passed
    found = broken(audited(group_steps(NoiseOfAnotherGroup), n_runs=2000))
    assert {"sensitive", "whole_record"} <= found


@pytest.mark.statistical
def test_all_steps_of_the_papers_noise_are_attacked(monkeypatch):
    report = audited(theorem_steps())
    assert report.passed
    assert max(result.tightness for result in report.results) > 0.7
    honest = TheoremPlan.noisy

    def less(plan, gradient, rng):
        return gradient + 0.6 * (honest(plan, gradient, rng) - gradient)

    monkeypatch.setattr(TheoremPlan, "noisy", less)
    assert {"sensitive", "whole_record"} <= broken(audited(theorem_steps()))


@pytest.mark.statistical
def test_noise_of_the_papers_steps_that_is_used_twice_is_found(monkeypatch):
    honest, drawn = TheoremPlan.noisy, []

    def twice(plan, gradient, rng):
        if drawn and drawn[0].shape == gradient.shape:
            return gradient + drawn.pop()
        noisy = honest(plan, gradient, rng)
        drawn[:] = [noisy - gradient]
        return noisy

    monkeypatch.setattr(TheoremPlan, "noisy", twice)
    assert not audited(theorem_steps(n_steps=20)).passed


@pytest.mark.statistical
def test_noise_of_sampled_steps_is_seen_where_all_rows_are_drawn(monkeypatch):
    """At small rates a sample hides half the noise: it is attacked without, too."""
    settings = {"rate": 0.2, "cost": 12.0, "change": 2.0, "n_runs": 1000}
    assert audited(sampled_steps(**settings)).passed
    found = audited(sampled_steps(LittleNoiseOnSamples, **settings)).violations
    assert [one.target for one in found] == ["sampled steps, white box, all rows drawn"]


def test_estimators_on_samples_are_challenged_through_what_they_run(monkeypatch):
    def short(plan, policy, *, budget, rate, n_steps):
        assert (budget.epsilon, budget.delta) == (4.0, DELTA)
        promised = [c.name for c in plan.spending.classes if c.promised]
        return SampledBudget(rate, n_steps, 1.0, dict.fromkeys(promised, 1.0))

    monkeypatch.setattr(
        _challenges_from, "sampled_budget", short
    )  # planning takes long
    model = LogisticRegression(
        audited_policy(), epsilon=4.0, delta=DELTA, sampling_rate=0.5
    )
    challenges = estimator_challenges(model, n_rows=100)
    name = "sampled steps, white box"
    assert [c.target for c in challenges] == [name] * 4 + [
        f"{name}, all rows drawn"
    ] * 4
    classes = ["sensitive", "insensitive:hours", "insensitive:race", "whole_record"]
    assert [c.class_name for c in challenges] == classes * 2
    for challenge in challenges:
        assert (challenge.first.codes != challenge.second.codes).any(1).sum() == 1
    for challenge in challenges[:4]:
        (event,) = challenge.claim.events
        assert (event.rate, event.n_steps) == (0.5, 2)
    assert [c.claim.mu for c in challenges[4:]] == [2**0.5] * 3 + [2 * 2**0.5]


def test_a_path_that_ends_within_an_epoch_is_refused():
    model = LogisticRegression(
        audited_policy(), epsilon=4.0, delta=DELTA, solver="svrg"
    )
    plan = model.plan(100)
    with pytest.raises(CorrDPError, match="whole epochs of 10 steps"):
        DescentSteps(plan, np.zeros((4, plan.layout.n_columns)), None)

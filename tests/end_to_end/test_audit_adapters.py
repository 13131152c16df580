"""Audits of the code that trains: what is right passes, planted bugs do not."""

import numpy as np
import pandas as pd
import pytest

import corrdp
import corrdp.auditing.targets._descent as descent_targets
import corrdp.training._step_sizes as step_sizes
from audit_adapters import (
    experiments_constant,
    linear_steps,
    network,
    network_steps,
    theorem_model,
    with_less_noise,
    without_clipping,
)
from audit_mutants import DELTA, HalfTheNoise, audited_policy
from corrdp.auditing import (
    Claim,
    Verdict,
    audit,
    audit_whole_network,
    descent_challenges,
)
from corrdp.auditing.targets._descent import DescentSteps
from corrdp.datasets import hospital_policy
from corrdp.estimators import LogisticRegression, MLPClassifier, MLPRegressor
from corrdp.exceptions import CorrDPError
from loop_bugs import backward_unclipped

N_COMPARISONS = 100  # the error is shared among all audits of this file


def audited(subject, **settings):
    return audit(
        subject,
        confidence=0.99,
        n_comparisons=N_COMPARISONS,
        random_state=7,
        **settings,
    )


def verdicts(report, kind):
    return {
        result.class_name: result.verdict
        for result in report.results
        if result.target.endswith(kind)
    }


@pytest.mark.statistical
@pytest.mark.parametrize("label", ["category", "number"])
def test_the_descent_that_trains_is_sound_and_half_its_noise_is_caught(label):
    report = audited(linear_steps(label))
    assert report.passed
    assert all(result.tightness > 0.5 for result in report.results)
    planted = audited(linear_steps(label, HalfTheNoise))
    assert "sensitive" in {result.class_name for result in planted.violations}


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
def test_network_steps_are_sound(kind):
    report = audited(network_steps(kind), n_runs=400)
    assert report.passed
    assert {result.class_name for result in report.results} == {
        "sensitive",
        "insensitive:hours",
        "insensitive:race",
        "whole_record",
    }


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
def test_half_the_noise_of_a_network_is_caught(kind, monkeypatch):
    with_less_noise(monkeypatch, 2)
    assert not audited(network_steps(kind)).passed


@pytest.mark.statistical
def test_samples_of_a_network_are_sound_and_a_quarter_of_their_noise_is_caught(
    monkeypatch,
):
    report = audited(network_steps(batch_size=100), n_runs=1000)
    assert report.passed
    assert {result.target for result in report.results} == {"training loop, white box"}
    with_less_noise(monkeypatch, 4)
    assert not audited(network_steps(batch_size=100), n_runs=1000).passed


@pytest.mark.statistical
@pytest.mark.parametrize("batch_size", [None, 100])
def test_a_step_that_clips_nothing_beside_a_sum_that_does_is_caught(
    batch_size, monkeypatch
):
    """The bug is in `backward` alone, as no audit beside the loop would see it."""
    backward_unclipped(monkeypatch)
    assert not audited(network_steps(batch_size=batch_size), n_runs=400).passed


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
def test_a_network_that_does_not_clip_is_caught(kind, monkeypatch):
    without_clipping(monkeypatch)
    report = audited(network_steps(kind), n_runs=400)
    assert "sensitive" in {result.class_name for result in report.violations}


@pytest.mark.statistical
def test_one_run_of_a_network_is_sound_and_finds_missing_noise(monkeypatch):
    model = network(hidden_units=(40,))
    honest = audit_whole_network(model, n_rows=100, random_state=1)
    assert honest.verdict is Verdict.CONSISTENT
    with_less_noise(monkeypatch, 1000)
    planted = audit_whole_network(model, n_rows=100, random_state=1)
    assert planted.verdict is Verdict.VIOLATED


@pytest.mark.statistical
@pytest.mark.parametrize("dropped", ["noise", "floor"])
def test_the_papers_noise_is_flagged_where_it_drops_something(dropped):
    model = theorem_model(method="semi")
    if dropped == "floor":
        model = theorem_model(theorem_constant=experiments_constant())
    report = audited(model, n_rows=500)
    assert verdicts(report, "nominal")["sensitive"] is Verdict.VIOLATED
    provable = set(verdicts(report, "provable").values())
    assert provable <= {Verdict.CONSISTENT, Verdict.NO_CLAIM}


@pytest.mark.statistical
def test_the_papers_noise_is_not_flagged_where_its_floor_is_kept():
    report = audited(theorem_model(), n_rows=500)
    assert report.passed
    assert set(verdicts(report, "provable").values()) == {Verdict.CONSISTENT}


@pytest.mark.statistical
def test_a_network_by_the_paper_is_flagged_under_semi_alone():
    settings = {"calibration": "theorem", "clip_norm": 1.0}
    semi = audited(network(method="semi", **settings), n_rows=200, n_runs=600)
    assert verdicts(semi, "nominal")["sensitive"] is Verdict.VIOLATED
    assert verdicts(semi, "provable")["sensitive"] is Verdict.NO_CLAIM
    equal = audited(network(method="standard", **settings), n_rows=200, n_runs=600)
    assert set(verdicts(equal, "provable").values()) == {Verdict.CONSISTENT}


@pytest.mark.statistical
def test_rounding_of_a_sum_without_noise_is_caught_and_does_not_happen(monkeypatch):
    """Public features do not move at parameters 0, but their sums are rounded.

    How depends on the machine, so rounding that depends on private rows is planted.
    """
    true_total = DescentSteps.given

    def rounded(self, codes, y):
        private = codes[:, : codes.shape[1] // 2].sum()
        return true_total(self, codes, y) + 1e-6 * np.sin(1e4 * private)

    monkeypatch.setattr(DescentSteps, "given", rounded)
    every_path = descent_targets.candidate_paths
    monkeypatch.setattr(  # the path that stays at 0
        descent_targets, "candidate_paths", lambda *given: every_path(*given)[:1]
    )
    plan = LogisticRegression(hospital_policy(), epsilon=2.0, delta=1e-6).plan(1000)

    def report():
        return audited(descent_challenges(plan, delta=1e-6)[:1], n_runs=2000)

    assert report().passed
    monkeypatch.setattr(step_sizes, "_without_gaps", lambda scale, _: scale)
    assert not report().passed


# --- one door for everything


def fitted_model():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.random(300),
            "job": rng.choice(["a", "b", "c"], 300),
            "hours": rng.random(300),
            "race": rng.choice(["p", "q"], 300),
        }
    )
    y = np.where(frame["age"] > 0.5, "y", "n")
    model = LogisticRegression(audited_policy(), epsilon=8.0, delta=DELTA)
    return model.fit(frame, y)


def test_a_fitted_estimator_is_audited_with_its_certificate():
    model = fitted_model()
    report = corrdp.audit(model, n_runs=200, random_state=0)
    assert report.passed
    assert report.certificate_digest == model.certificate_.to_dict()["digest"]
    assert {result.target for result in report.results} == {
        "counts of numbers",
        "column means",
        "training steps, white box",
        "training, black box",
    }


def test_a_callable_is_audited_with_neighbors_and_claims():
    def release(data, n_runs, rng):
        return data + rng.normal(0.0, 1.0, (n_runs, 1))

    pair = {"sensitive": (0.0, 1.0)}
    claims = {"sensitive": Claim.gaussian(1.0, delta=DELTA)}
    assert corrdp.audit(release, neighbors=pair, claims=claims, random_state=0).passed
    wrong = {"sensitive": Claim.gaussian(0.5, delta=DELTA)}
    report = corrdp.audit(release, neighbors=pair, claims=wrong, random_state=0)
    assert report.violations[0].target == "release"


@pytest.mark.parametrize(
    ("subject", "settings", "message"),
    [
        (3.0, {}, "got float"),
        (len, {}, "needs a pair of neighbors"),
        (len, {"neighbors": {"sensitive": (0, 1)}}, "sensitive"),
    ],
)
def test_what_cannot_be_audited_is_refused(subject, settings, message):
    with pytest.raises(CorrDPError, match=message):
        corrdp.audit(subject, **settings)


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"batch_size": 10}, {}, "batch_size=10"),
        ({}, {"n_rows": 59}, "n_rows must be a whole number of at least 60"),
        ({}, {"class_name": "nobody"}, "class_name must be one of"),
    ],
)
def test_one_run_that_would_test_something_else_is_refused(changes, settings, message):
    """Its scores presume that all rows take part, and as many as are planned for."""
    with pytest.raises(CorrDPError, match=message):
        audit_whole_network(network(**changes), **{"n_rows": 100} | settings)


def test_a_time_limit_ends_the_search_and_leaves_valid_verdicts(
    monkeypatch, stepping_clock
):
    report = audited(network(fall_back=False), n_rows=100, time_limit=0.2)
    assert report.cut == ("search", "runs")
    assert report.passed
    assert "search for neighbors" in report.to_text()
    with_less_noise(monkeypatch, 100)
    assert not audited(network(fall_back=False), n_rows=100, time_limit=0.2).passed

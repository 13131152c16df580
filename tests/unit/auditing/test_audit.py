"""The audit: halves kept apart, time limits, refusals, reports."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from corrdp.auditing import (
    AuditReport,
    Challenge,
    Claim,
    LikelihoodAttack,
    LinearAttack,
    Verdict,
    audit,
)
from corrdp.exceptions import CorrDPError


def number(data, n_runs, rng):
    return data + rng.standard_normal((n_runs, 1))


def challenge(**changes):
    settings = {
        "target": "number",
        "class_name": "sensitive",
        "claim": Claim.gaussian(1.0, delta=1e-5),
        "first": 0.0,
        "second": 1.0,
        "sample": number,
        "n_runs": 2000,
    }
    return Challenge(**settings | changes)


def test_a_true_claim_is_consistent_and_nearly_reached():
    result = audit([challenge(n_runs=20_000)], random_state=0).results[0]
    assert result.verdict is Verdict.CONSISTENT
    assert 0.85 < result.tightness <= 1.0
    assert result.audited_epsilon < result.certified_epsilon


def test_a_false_claim_is_violated():
    report = audit([challenge(claim=Claim.gaussian(0.5, delta=1e-5))], random_state=0)
    assert not report.passed
    assert report.violations[0].tightness > 1.0


def test_a_claim_of_one_epsilon_is_tested_by_its_own_point():
    claim = Claim.approximate(epsilon=0.2, delta=1e-5)
    result = audit([challenge(claim=claim)], random_state=0).results[0]
    assert result.verdict is Verdict.VIOLATED
    assert result.audited_mu is None


def test_no_claim_is_reported_as_such():
    report = audit([challenge(claim=Claim(None, 1e-5))], random_state=0)
    assert report.results[0].verdict is Verdict.NO_CLAIM
    assert report.results[0].certified_epsilon == math.inf
    assert report.results[0].tightness == 0.0
    assert report.passed


def test_a_score_that_learned_the_runs_by_heart_proves_nothing():
    """Were test and bounds to share runs, this attack would look perfect."""

    class Memory:
        name = "memory"

        def fit(self, first, second):
            known = {row.tobytes() for row in second}
            return lambda outputs: np.array(
                [float(row.tobytes() in known) for row in outputs]
            )

    same = challenge(second=0.0, attacks=(Memory(),))
    result = audit([same], random_state=0).results[0]
    assert result.audited_epsilon == 0.0
    everything = number(0.0, 100, np.random.default_rng(0))
    assert Memory().fit(everything, everything)(everything).all()


def test_the_better_attack_is_used():
    blind = LikelihoodAttack(lambda outputs: np.zeros(len(outputs)), name="blind")
    result = audit([challenge(attacks=(blind, LinearAttack()))], random_state=0)
    assert result.results[0].attack == "linear"


def test_more_comparisons_prove_less():
    one = audit([challenge()], random_state=0).results[0]
    many = audit([challenge()], n_comparisons=1000, random_state=0).results[0]
    assert many.audited_epsilon < one.audited_epsilon


def test_a_seed_replays_the_audit():
    first, second = (audit([challenge()], random_state=3).results for _ in range(2))
    assert first == second


def test_time_limit_stops_early_and_says_so(stepping_clock):
    report = audit(
        [challenge(n_runs=10**6, batch=50)] * 2,
        time_limit=0.2,
        random_state=0,
    )
    assert not report.is_complete
    assert all(40 <= result.n_runs < 10**6 for result in report.results)
    assert "time limit" in report.to_text()


def test_no_call_is_much_longer_than_the_limit(monkeypatch):
    """Runs may take long: how many are made at once follows from how long some took."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("corrdp.auditing._challenge.time", clock)

    def slow(data, n_runs, rng):
        now[0] += 0.001 * n_runs
        return number(data, n_runs, rng)

    many = [challenge(sample=slow, n_runs=20_000) for _ in range(4)]
    report = audit(many, time_limit=8.0, random_state=0)
    assert report.cut == ("runs",)
    assert 6.0 < now[0] < 10.0
    assert min(result.n_runs for result in report.results) >= 600


def of_ten(mu, *, claimed):
    """Return a challenge of tables that differ in ten records, which cost mu each."""
    claim = Claim.gaussian(claimed, delta=1e-5)
    return challenge(claim=claim, second=10 * mu, n_records=10, n_runs=20_000)


def test_several_records_prove_what_follows_for_one():
    result = audit([of_ten(0.1, claimed=0.1)], random_state=0).results[0]
    assert result.verdict is Verdict.CONSISTENT
    assert 0.8 < result.tightness <= 1.0
    assert result.n_records == 10
    assert result.audited_epsilon <= result.certified_epsilon
    (found,) = audit([of_ten(0.14, claimed=0.1)], random_state=0).violations
    assert 0.1 < found.audited_mu < 0.14
    assert found.certified_epsilon < found.audited_epsilon < 1.4


def test_several_records_need_a_gaussian_claim():
    for claim in (Claim(None, 1e-5), Claim.approximate(epsilon=1.0, delta=1e-5)):
        assert claim.n_records(100) == 1
        with pytest.raises(CorrDPError, match="n_records=2 needs a Gaussian claim"):
            challenge(claim=claim, n_records=2)


@pytest.mark.parametrize(
    ("mu", "most", "expected"), [(0.1, 100, 15), (0.1, 4, 4), (2.0, 100, 1), (0, 9, 1)]
)
def test_records_are_as_many_as_their_claim_leaves_something_to_see(mu, most, expected):
    assert Claim.gaussian(mu, delta=1e-5).n_records(most) == expected


def test_classes_without_time_are_left_out_and_named(stepping_clock):
    """Every class takes 40 runs at least, which may be longer than there is time."""
    settings = {"n_runs": 400, "batch": 20}
    quick = [challenge(class_name=f"c{i}", **settings) for i in range(30)]
    assert audit(quick, time_limit=0.3, random_state=0).not_attacked == ()
    slow = [replace(one, is_slow=True) for one in quick]
    report = audit(slow, time_limit=0.3, random_state=0)
    assert report.cut[-1] == "classes"
    assert 1 <= len(report.results) < 30
    left = [f"c{i}" for i in range(len(report.results), 30)]
    assert list(report.not_attacked) == left
    assert f"Not attacked: {', '.join(left)}." in report.to_text()
    assert report.wanted_seconds is not None
    assert AuditReport.from_json(report.to_json()) == report


def test_progress_is_told():
    told = []
    audit(
        [challenge()] * 2,
        n_runs=100,
        progress=lambda *step: told.append(step),
        random_state=0,
    )
    assert told == [
        ("number, sensitive", 0.0),
        ("number, sensitive", 0.5),
        ("done", 1.0),
    ]


def test_report_survives_json():
    report = audit(
        [challenge(), challenge(claim=Claim(None, 1e-5))], random_state=0, n_runs=200
    )
    text = json.dumps(report.to_json(), allow_nan=False)
    assert AuditReport.from_json(json.loads(text)) == report


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_runs": 3}, "n_runs"),
        ({"confidence": 1.0}, "confidence"),
        ({"n_comparisons": 1}, "n_comparisons=1"),
        ({"n_comparisons": 0}, "n_comparisons=0"),
        ({"time_limit": math.nan}, "time_limit"),
    ],
)
def test_settings_out_of_range_are_refused(changes, message):
    with pytest.raises(CorrDPError, match=message):
        audit([challenge()] * 2, **changes)


def test_nothing_to_audit_is_refused():
    with pytest.raises(CorrDPError, match="challenges is empty"):
        audit([])
    with pytest.raises(CorrDPError, match="no attacks"):
        audit([challenge(attacks=())])


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("part", [1, 2])
def test_outputs_that_cannot_be_compared_are_not_called_consistent(value, part):
    """Every score would be NaN, although who looks tells the neighbors apart."""

    def gives_away(data, n_runs, rng):
        outputs = number(data, n_runs, rng)
        outputs[: n_runs // part] = value if data else 0.0
        return outputs

    with pytest.raises(CorrDPError, match="not finite"):
        audit([challenge(sample=gives_away)])


def test_scores_that_say_nothing_are_not_called_consistent():
    attack = LikelihoodAttack(lambda outputs: np.full(len(outputs), math.nan))
    with pytest.raises(CorrDPError, match="'likelihood' must give"):
        audit([challenge(attacks=(attack,))])


def test_coordinates_of_one_run_are_not_taken_for_runs():
    """They share their noise: as runs they would contradict a true claim."""

    def one_run(data, n_runs, rng):
        return np.full(200, data + 2.0 * rng.standard_normal())

    with pytest.raises(CorrDPError, match="one row per run"):
        audit([challenge(sample=one_run)])


def test_claims_beyond_what_fits_are_not_contradicted():
    claim = Claim.approximate(epsilon=800.0, delta=1e-5)
    assert audit([challenge(claim=claim)], random_state=0).passed

"""Correct mechanisms are not contradicted; the error stays within what is stated."""

import numpy as np
import pytest
from scipy.stats import binom

from audit_correct import correct_mechanisms, one_run_audits
from corrdp.auditing import Challenge, Claim, LikelihoodAttack, Verdict, audit
from corrdp.auditing.statistics import clopper_pearson

pytestmark = pytest.mark.statistical


def gaussian_challenge(mu, *, claimed_mu, n_records=1):
    def sample(data, n_runs, rng):
        return data + rng.standard_normal((n_runs, 1))

    return Challenge(
        target="number",
        class_name="sensitive",
        claim=Claim.gaussian(claimed_mu, delta=1e-5),
        first=0.0,
        second=n_records * mu,
        sample=sample,
        n_records=n_records,
        attacks=(LikelihoodAttack(lambda outputs: outputs[:, 0]),),
    )


def test_no_false_alarm_on_fifty_correct_mechanisms():
    mechanisms = correct_mechanisms()
    challenges = [challenge for own in mechanisms for challenge in own]
    total = len(challenges) + 4
    report = audit(challenges, confidence=0.99, n_comparisons=total, random_state=11)
    in_one_run = one_run_audits(confidence=1 - 0.01 / total)
    assert len(mechanisms) + len(in_one_run) == 50
    assert report.violations == ()
    assert all(result.verdict is Verdict.CONSISTENT for result in in_one_run)


def false_alarms(n_audits, *, mu, claimed_mu, confidence, n_records=1):
    return sum(
        not audit(
            [gaussian_challenge(mu, claimed_mu=claimed_mu, n_records=n_records)],
            n_runs=400,
            confidence=confidence,
            random_state=seed,
        ).passed
        for seed in range(n_audits)
    )


def test_false_alarms_are_as_rare_as_stated_where_the_claim_is_tight():
    n_audits, confidence = 300, 0.8
    allowed = int(binom.isf(1e-9, n_audits, 1 - confidence))
    found = false_alarms(n_audits, mu=1.0, claimed_mu=1.0, confidence=confidence)
    assert found <= allowed
    assert (
        false_alarms(n_audits, mu=2.0, claimed_mu=1.0, confidence=confidence) > allowed
    )


def test_false_alarms_of_several_records_are_as_rare_as_stated():
    n_audits, tight = 300, {"claimed_mu": 0.1, "confidence": 0.8, "n_records": 15}
    allowed = int(binom.isf(1e-9, n_audits, 0.2))
    assert false_alarms(n_audits, mu=0.1, **tight) <= allowed
    assert false_alarms(n_audits, mu=0.2, **tight) > allowed


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.97])
def test_exact_bounds_cover(probability):
    n_trials, failure = 60, 0.05
    counts = np.arange(n_trials + 1)
    lower, upper = clopper_pearson(counts, n_trials, failure_probability=failure)
    weights = binom.pmf(counts, n_trials, probability)
    assert weights[lower > probability].sum() <= failure
    assert weights[upper < probability].sum() <= failure
    # the share itself, taken for a lower bound, is caught
    assert weights[counts / n_trials > probability].sum() > failure

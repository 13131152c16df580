"""Every planted bug is caught by the audit, and its repaired twin is not."""

import pytest

from audit_correct import one_run_audits
from audit_mutants import (
    DELTA,
    MUTANTS,
    audited_policy,
    logistic_plan,
    mean_challenges,
    training_plan,
    understated_leakage,
)
from corrdp.auditing import Verdict, audit, audit_leakage, descent_challenges

N_COMPARISONS = 100  # the error is shared among all audits of this file


def audited(challenges):
    return audit(
        challenges, confidence=0.99, n_comparisons=N_COMPARISONS, random_state=7
    )


@pytest.mark.statistical
@pytest.mark.parametrize("name", MUTANTS)
def test_planted_bug_is_caught(name):
    report = audited(MUTANTS[name]())
    assert not report.passed


@pytest.mark.statistical
@pytest.mark.parametrize("label", ["category", "number"])
def test_training_without_the_bugs_is_not_contradicted(label):
    plan = (
        logistic_plan()
        if label == "category"
        else training_plan(audited_policy(label=label))
    )
    assert audited(descent_challenges(plan, delta=DELTA)).passed


@pytest.mark.statistical
def test_means_without_the_bugs_are_not_contradicted():
    assert audited(mean_challenges(audited_policy())).passed


@pytest.mark.statistical
def test_understated_leakage_is_caught_and_true_leakage_is_not():
    sensitive, column, declared = understated_leakage()
    confidence = 1 - 0.01 / N_COMPARISONS
    wrong = audit_leakage(
        sensitive, column, feature="u", declared=declared, confidence=confidence
    )
    right = audit_leakage(
        sensitive, column, feature="u", declared=0.5, confidence=confidence
    )
    assert wrong.is_understated
    assert not right.is_understated


@pytest.mark.statistical
def test_one_run_catches_a_tenth_of_the_noise():
    confidence = 1 - 0.01 / N_COMPARISONS
    wrong = one_run_audits(noise_factor=0.1, confidence=confidence)
    right = one_run_audits(confidence=confidence)
    assert wrong[0].verdict is Verdict.VIOLATED
    assert all(result.verdict is Verdict.CONSISTENT for result in right)

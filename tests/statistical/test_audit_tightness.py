"""The white-box audit comes close to what is certified, so it can fail."""

import pytest

from audit_mutants import DELTA, audited_policy, training_plan
from corrdp.auditing import Verdict, audit, descent_challenges

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_full_batch_audit_of_a_logistic_model_reaches_most_of_the_certified_mu(epsilon):
    plan = training_plan(audited_policy(), epsilon=epsilon, n_rows=2000)
    challenges = descent_challenges(plan, delta=DELTA)
    report = audit(challenges, n_runs=100_000, confidence=0.99, random_state=5)
    sensitive = report.results[0]
    assert sensitive.class_name == "sensitive"
    assert sensitive.verdict is Verdict.CONSISTENT
    assert sensitive.tightness >= 0.8

"""An audit plans for the rows of the fit: others can have another plan."""

import numpy as np
import pandas as pd
import pytest

from corrdp.auditing import audit, estimator_challenges
from corrdp.auditing._challenge import Deadline
from corrdp.auditing._challenges_from import planned_estimator, planned_rows
from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy
from corrdp.synthesis import Synthesizer

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
YES_OR_NO = CategoryDomain(("no", "yes"))


def policy_of(label):
    features = [
        Feature("s", "sensitive", NumberDomain(0, 1)),
        *(Feature(f"u{i}", "insensitive", NumberDomain(0, 1), 0.05) for i in range(4)),
    ]
    return Policy(tuple(features), Label("y", label, 0.0))


def frame_of(n_rows, label):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {name: rng.random(n_rows) for name in ("s", "u0", "u1", "u2", "u3")}
    )
    score = frame["u0"] + rng.normal(0.0, 0.2, n_rows)
    return frame, np.where(score > 0.5, "yes", "no") if label is YES_OR_NO else score


def challenges_of(model, **options):
    return estimator_challenges(model, deadline=Deadline(0.0), **options)


def in_two_walks(model, **options):
    return any("head start" in c.target for c in challenges_of(model, **options))


def saved(model, path):
    model.save(path)
    return type(model).load(path)


def test_a_saved_model_of_two_walks_is_attacked_in_both(tmp_path):
    """A thousand rows, at which one walk is planned, would attack another release."""
    policy = policy_of(YES_OR_NO)
    model = LogisticRegression(policy, **BUDGET, random_state=0)
    model.fit(*frame_of(3000, YES_OR_NO))
    again = saved(model, tmp_path / "model")
    assert [in_two_walks(one) for one in (model, again)] == [True, True]
    assert not in_two_walks(again, n_rows=1000)
    assert not in_two_walks(LogisticRegression(policy, **BUDGET))


def test_what_labels_told_a_plan_is_saved_with_the_model(tmp_path):
    model = LinearRegression(policy_of(NumberDomain(0, 1000)), **BUDGET, random_state=0)
    model.fit(*frame_of(3000, None))
    again = saved(model, tmp_path / "model")
    assert again.planned_ == model.planned_
    assert again.planned_["label_deviation"] < 0.01
    plans = [one.plan(**again.planned_) for one in (model, again)]
    for plan in plans:
        assert np.array_equal(plan.column_noise, model.plan_.column_noise)


def test_a_fit_that_shares_its_budget_is_planned_with_its_share(tmp_path):
    model = LogisticRegression(policy_of(YES_OR_NO), **BUDGET, fits=4, random_state=0)
    model.fit(*frame_of(500, YES_OR_NO))
    plan = planned_estimator(model).plan(**model.planned_)
    assert plan.spending.total_mu == pytest.approx(model.plan_.spending.total_mu)


def test_tables_stay_small_and_keep_the_noise():
    model = LogisticRegression(policy_of(YES_OR_NO), **BUDGET)
    model.fit(*frame_of(200, YES_OR_NO))
    model.planned_ = {"n_rows": 500_000, "label_deviation": 0.2}
    assert planned_rows(model, None) == 500_000
    whole = [c for c in challenges_of(model) if c.target == "training, black box"]
    assert {len(c.first.y) for c in whole} == {10_000}


def test_an_audit_for_other_rows_is_none_of_the_certificate():
    model = LogisticRegression(policy_of(YES_OR_NO), **BUDGET, random_state=0)
    model.fit(*frame_of(200, YES_OR_NO))
    found = [
        audit(model, n_rows=n, n_runs=40, time_limit=0.0).certificate_digest
        for n in (None, 200, 1000)
    ]
    own = model.certificate_.to_dict()["digest"]
    assert found == [own, own, None]


def test_a_model_of_a_version_that_did_not_say_is_planned_for_what_is_usual():
    assert planned_rows(LogisticRegression(), None) == 1000
    assert planned_rows(Synthesizer(policy_of(YES_OR_NO), **BUDGET), None) == 1000
    assert planned_rows(LogisticRegression(), 70) == 70

"""Worker processes cannot share the record of what a family of estimators spent."""

import os

import joblib
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from corrdp.exceptions import BudgetError
from corrdp.ledger import Ledger
from corrdp.policy import Budget
from linear_model_examples import example_frame, example_policy, model_of

FRAME = example_frame(600)


def family(**options):
    return model_of(**{"n_steps": 5, "epsilon": 8.0, "delta": 1e-3} | options)


def outcome(model):
    try:
        model.fit(FRAME)
    except BudgetError as error:
        return str(error)
    return "fitted"


def fitted_there():
    return family().fit(FRAME)


def in_workers(*models):
    return joblib.Parallel(n_jobs=2, backend="loky")(
        joblib.delayed(outcome)(clone(model)) for model in models
    )


def test_workers_refuse_without_a_ledger():
    outcomes = in_workers(family(), family(fits=10), family(disjoint=True))
    assert all("another process" in said for said in outcomes)


def test_workers_refuse_what_was_never_cloned():
    outcomes = joblib.Parallel(n_jobs=2, backend="loky")(
        joblib.delayed(outcome)(model) for model in (family(), family())
    )
    assert all("another process" in said for said in outcomes)


def test_workers_fit_with_a_ledger_or_for_research(tmp_path):
    path = tmp_path / "rows.ledger"
    Ledger.create(path, example_policy(), budget=Budget(epsilon=30.0, delta=1e-2))
    paying = family(ledger=path)
    assert in_workers(paying, paying, family(research=True)) == ["fitted"] * 3
    entries = Ledger.open(path).entries()
    assert [entry["kind"] for entry in entries].count("charge") == 2


def test_grid_search_in_workers_is_refused():
    search = GridSearchCV(
        family(fits=100), {"n_steps": [4]}, cv=2, n_jobs=2, error_score="raise"
    )
    with pytest.raises(BudgetError, match="another process"):
        search.fit(FRAME, FRAME.rich)


def test_a_model_of_another_process_predicts_and_does_not_fit():
    (model,) = joblib.Parallel(n_jobs=2, backend="loky")(
        [joblib.delayed(fitted_there)()]
    )
    assert set(model.predict(FRAME)) <= {"no", "yes"}
    with pytest.raises(BudgetError, match="another process"):
        model.fit(FRAME)


def test_a_forked_process_refuses_what_was_built_before():
    model, spent = family(), family()
    spent.fit(FRAME)

    def told(estimator):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, outcome(estimator).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            said = answer.read().decode()
        os.waitpid(child, 0)
        return said

    assert "another process" in told(model)
    assert "another process" in told(spent)
    assert told(family(research=True)) == "fitted"
    assert outcome(model) == "fitted"

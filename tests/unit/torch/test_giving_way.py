"""Where noise leaves a network less than a line, a linear model is trained instead."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from corrdp.auditing import estimator_challenges
from corrdp.cli._models import describe
from corrdp.estimators import (
    LinearRegression,
    LogisticRegression,
    MLPClassifier,
    MLPRegressor,
)
from corrdp.exceptions import BudgetError, UtilityWarning
from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy
from corrdp.report import render_html
from corrdp.torch.mlp import LARGEST_DEVIATION
from corrdp.training import TrainingPlan

pytestmark = pytest.mark.torch

BUDGET = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
LABELS = {
    "two": CategoryDomain(("no", "yes")),
    "three": CategoryDomain(("low", "middle", "high")),
    "number": NumberDomain(-2.0, 2.0),
}


def policy_of(label):
    return Policy(
        (
            Feature("a", "sensitive", NumberDomain(-1, 1)),
            Feature("b", "insensitive", NumberDomain(0, 5), leakage=0.2),
            Feature("c", "insensitive", CategoryDomain(("u", "v", "w")), leakage=0.1),
        ),
        Label("y", LABELS[label], score=0.0),
    )


def table(label, n_rows=300, seed=0):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.uniform(-1, 1, n_rows),
            "b": rng.uniform(0, 5, n_rows),
            "c": rng.choice(["u", "v", "w"], n_rows),
        }
    )
    signal = frame["a"] + frame["b"] / 2.5 - 1.0
    if label == "number":
        return frame.assign(y=signal)
    levels = LABELS[label].levels
    place = np.digitize(signal, np.linspace(-0.5, 0.5, len(levels) - 1))
    return frame.assign(y=np.asarray(levels)[place])


def kinds(label):
    if label == "number":
        return MLPRegressor, LinearRegression
    return MLPClassifier, LogisticRegression


def gave_way(label="two", rows=None, **settings):
    model = kinds(label)[0](policy_of(label), **(BUDGET | settings))
    with pytest.warns(UtilityWarning, match="trained instead"):
        return model.fit(table(label) if rows is None else rows)


@pytest.mark.parametrize("method", ["corr", "standard"])
@pytest.mark.parametrize("label", LABELS)
def test_it_is_the_linear_model(label, method, tmp_path):
    model = gave_way(label, method=method)
    line = kinds(label)[1](policy_of(label), method=method, bounds="declared", **BUDGET)
    line.fit(table(label))
    new = table(label, seed=1).drop(columns="y")
    guess = "predict" if label == "number" else "predict_proba"
    expected = getattr(line, guess)(new)
    assert getattr(model, guess)(new) == pytest.approx(expected, abs=1e-12)
    assert np.std(expected[..., 0] if expected.ndim > 1 else expected) > 0.01
    assert model.certificate_ == line.certificate_
    assert model.is_linear
    assert isinstance(model.plan_, TrainingPlan)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert np.array_equal(getattr(loaded, guess)(new), getattr(model, guess)(new))
    assert loaded.certificate_ == model.certificate_
    assert loaded.is_linear


@pytest.mark.parametrize(
    "settings",
    [
        {"fall_back": False},
        {"batch_size": 50},
        {"learning_rate": 0.1},
        {"clip_norm": 2.0},
        {"checkpoint": "run.pt"},
        {"hidden_units": ()},
        {"calibration": "theorem"},
    ],
    ids=lambda settings: next(iter(settings)),
)
@pytest.mark.filterwarnings("ignore::corrdp.exceptions.UtilityWarning")
def test_what_only_a_network_has_keeps_it(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = MLPClassifier(policy_of("two"), n_steps=2, **BUDGET, **settings)
    model.fit(table("two"))
    assert not model.is_linear
    assert model.linear_ is None
    assert len(model._weights) == 1 + len(model.hidden_units)


@pytest.mark.parametrize("label", ["two", "number"])
def test_the_limit_is_on_the_planned_noise(label):
    network = kinds(label)[0](policy_of(label), **BUDGET)
    for factor, expected in ((0.999, False), (1.001, True), (math.nan, False)):
        plan = SimpleNamespace(deviation=factor * LARGEST_DEVIATION)
        assert network.gives_way(plan) is expected


def test_rows_have_no_say():
    # Labels of one kind, of both, and features at a bound: the decision is the plan's.
    plain = table("two", 200)
    for rows in (plain, plain.assign(y="yes"), plain.assign(y="no", a=1.0, b=0.0)):
        model = gave_way(rows=rows)
        assert model.plan_.n_rows == 200
        assert model.is_linear
    kept = {"epsilon": 900.0, "n_steps": 2}
    for rows in (plain, plain.assign(y="yes"), plain.assign(y="no", a=1.0, b=0.0)):
        model = MLPClassifier(policy_of("two"), **(BUDGET | kept))
        assert not model.fit(rows).is_linear


def test_it_is_paid_for_once_and_before_rows_are_used():
    told = []
    with pytest.warns(UtilityWarning, match="trained instead"):
        model = MLPClassifier(policy_of("two"), **BUDGET).fit(
            table("two"), charge=told.append
        )
    assert told == [model.certificate_]

    def refusing(certificate):
        raise BudgetError(f"no more than {certificate.epsilon}")

    other = MLPClassifier(policy_of("two"), **BUDGET)
    with (
        pytest.warns(UtilityWarning, match="trained instead"),
        pytest.raises(BudgetError, match="no more than"),
    ):
        other.fit(table("two"), charge=refusing)
    assert not hasattr(other, "linear_")


def test_the_line_shares_what_its_network_has_spent():
    model = gave_way()
    for spent in (model, model.linear_, clone(model.linear_), model.linear_model()):
        with pytest.raises(BudgetError, match="Spent: 1 fit"):
            spent.fit(table("two"))


def test_the_budget_is_shared_by_as_many_fits():
    alone, shared = gave_way(), gave_way(fits=4)
    assert shared.certificate_.target_epsilon == alone.certificate_.target_epsilon / 4
    assert shared.certificate_.epsilon <= 0.25


def test_the_report_says_so():
    model = gave_way()
    summary = describe(model, title="Model", n_rows=300, leakage=None, measured=())
    assert summary["coefficients"]
    assert "trained instead of the network" in render_html(summary)
    line = LogisticRegression(policy_of("two"), **BUDGET).fit(table("two"))
    summary = describe(line, title="Model", n_rows=300, leakage=None, measured=())
    assert "instead of the network" not in render_html(summary)


def challenged(estimator):
    return {c.target for c in estimator_challenges(estimator, n_rows=300)}


@pytest.mark.filterwarnings("ignore::corrdp.exceptions.UtilityWarning")
def test_an_audit_attacks_what_is_trained():
    network = "training loop, white box"
    planned = MLPClassifier(policy_of("two"), **BUDGET)
    kept = MLPClassifier(policy_of("two"), fall_back=False, **BUDGET)
    assert network not in challenged(planned)
    assert network in challenged(kept)
    assert network not in challenged(gave_way())
    # Fitted with so much budget that it stayed, whatever fewer rows would be planned.
    large = {"epsilon": 200.0, "n_steps": 2}
    stayed = MLPClassifier(policy_of("two"), **(BUDGET | large)).fit(table("two", 3000))
    assert not stayed.is_linear
    assert network in challenged(stayed)

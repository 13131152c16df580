"""The network estimators."""

import json

import numpy as np
import pytest
import torch

from corrdp.estimators import AllSensitive
from corrdp.estimators._mlp import MLPClassifier, MLPRegressor
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    PolicyError,
    UtilityWarning,
)
from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy
from corrdp.torch import mlp as _mlp

pytestmark = pytest.mark.torch

BUDGET = {"epsilon": 4.0, "delta": 1e-5, "random_state": 0}
KEPT = {"fall_back": False}  # few rows, and a network all the same


def policy_of(label):
    return Policy(
        (
            Feature("a", "sensitive", NumberDomain(-1, 1)),
            Feature("b", "insensitive", NumberDomain(-1, 1), leakage=0.2),
            Feature("c", "insensitive", CategoryDomain(("u", "v")), leakage=0.1),
        ),
        label,
    )


REGRESSION = policy_of(Label("y", NumberDomain(-2, 2), score=0.0))
CLASSES = policy_of(Label("y", CategoryDomain(("no", "yes", "so")), score=0.0))


def table(n_rows=1500, seed=0):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.uniform(-1, 1, n_rows),
            "b": rng.uniform(-1, 1, n_rows),
            "c": rng.choice(["u", "v"], n_rows),
        }
    )
    signal = frame["a"] + frame["b"] * np.where(frame["c"] == "u", 1, -1)
    labels = np.where(signal > 0.4, "yes", np.where(signal < -0.4, "no", "so"))
    return frame, signal, labels


def test_an_interaction_is_learned(monkeypatch):
    # Neither column says anything by itself: a start that is nearly linear stays there.
    X = np.random.default_rng(0).uniform(-1, 1, size=(2000, 2))
    y = X[:, 0] * X[:, 1] > 0
    budget = BUDGET | KEPT | {"epsilon": 8.0}

    def score():
        return MLPClassifier(AllSensitive(-1, 1), **budget).fit(X, y).score(X, y)

    assert score() > 0.9
    monkeypatch.setattr(_mlp, "_start_scale", lambda first: 0.1)  # planted
    assert score() < 0.88


def test_wide_networks_start_nearly_linear():
    for width, scale in ((2, 1.0), (4, 1.0), (100, 0.2)):
        usual = _mlp.build_network(width, (6,), 1, 0)
        calm = _mlp.build_network(width, (6,), 1, 0)
        _mlp.shrink_first_layer(calm)
        assert torch.allclose(calm[0].weight, scale * usual[0].weight)
        assert torch.equal(calm[2].weight.sign(), usual[2].weight.sign())
        assert calm[2].weight.abs().detach().numpy() == pytest.approx(18**-0.5)
        output = calm(torch.zeros(1, width)).item()
        assert output == pytest.approx(0.0, abs=1e-6)
        _mlp.restore_first_layer(calm)
        assert torch.allclose(calm[0].weight, usual[0].weight)


def test_a_regressor_learns_what_a_line_cannot():
    frame, signal, _ = table()
    model = MLPRegressor(REGRESSION, **BUDGET, **KEPT).fit(frame, signal)
    assert model.score(frame, signal) > 0.3
    model.certificate_.verify(REGRESSION)
    assert model.certificate_.epsilon <= 4.0
    plain = MLPRegressor(
        REGRESSION, method="nonprivate", research=True, random_state=0
    ).fit(frame, signal)
    assert plain.score(frame, signal) > 0.95
    assert plain.certificate_ is None


def test_a_classifier_has_all_declared_classes():
    frame, _, labels = table()
    model = MLPClassifier(CLASSES, hidden_units=(8, 4), **BUDGET, **KEPT)
    model.fit(frame, labels)
    assert list(model.classes_) == ["no", "yes", "so"]
    probability = model.predict_proba(frame)
    assert probability.shape == (len(frame), 3)
    assert probability.sum(axis=1) == pytest.approx(1.0)
    assert model.score(frame, labels) > 0.35
    assert set(model.predict(frame)) <= set(model.classes_)


@pytest.mark.parametrize("calibration", ["certified", "theorem"])
@pytest.mark.parametrize("method", ["corr", "standard", "semi"])
def test_every_method_says_what_it_proves(method, calibration):
    frame, signal, _ = table(400)
    model = MLPRegressor(
        REGRESSION,
        method=method,
        calibration=calibration,
        n_steps=5,
        fall_back=False,
        **BUDGET,
    ).fit(frame, signal)
    certificate = model.certificate_
    certificate.verify(model.policy_)
    assert str(certificate.calibration) == calibration
    if calibration == "certified":
        assert certificate.epsilon <= 4.0
    else:
        assert any("asymptotic" in text for text in certificate.assumptions)
        assert np.isinf(certificate.epsilon) == (method == "semi")


def test_the_target_may_be_in_the_table():
    frame, signal, _ = table(300)
    whole = frame.assign(y=signal)
    one = MLPRegressor(REGRESSION, n_steps=3, **BUDGET, **KEPT).fit(whole)
    other = MLPRegressor(REGRESSION, n_steps=3, **BUDGET, **KEPT).fit(frame, signal)
    assert np.array_equal(one.predict(frame), other.predict(frame))
    with pytest.raises(PolicyError, match="no column 'y'"):
        MLPRegressor(REGRESSION, **BUDGET).fit(frame)


@pytest.mark.parametrize("kind", [MLPRegressor, MLPClassifier])
def test_a_saved_model_predicts_the_same(kind, tmp_path):
    frame, signal, labels = table(300)
    policy, y = (REGRESSION, signal) if kind is MLPRegressor else (CLASSES, labels)
    model = kind(policy, n_steps=5, **BUDGET, **KEPT).fit(frame, y)
    model.save(tmp_path / "model")
    loaded = kind.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(frame), model.predict(frame))
    assert loaded.certificate_ == model.certificate_
    other = MLPClassifier if kind is MLPRegressor else MLPRegressor
    with pytest.raises(CorrDPError, match=f"not a '{other.__name__}'"):
        other.load(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    document = json.loads(path.read_text())
    document["content"]["weights"][0][1][0] += 1.0
    path.write_text(json.dumps(document))
    with pytest.raises(GuaranteeVoidError, match="changed after"):
        kind.load(tmp_path / "model")


def test_a_broken_off_training_resumes(tmp_path, monkeypatch):
    from corrdp.torch import PrivateModule

    frame, signal, _ = table(200)
    arguments = {"n_steps": 20, "checkpoint_every": 5, **BUDGET, **KEPT}
    whole = MLPRegressor(REGRESSION, **arguments).fit(frame, signal)
    path = tmp_path / "run.pt"
    taken = []
    backward = PrivateModule.backward

    def breaking(self, *batch):
        if len(taken) == 7:
            raise KeyboardInterrupt
        taken.append(self.steps_charged)
        backward(self, *batch)

    monkeypatch.setattr(PrivateModule, "backward", breaking)
    with pytest.raises(KeyboardInterrupt):
        MLPRegressor(REGRESSION, checkpoint=path, **arguments).fit(frame, signal)
    taken.clear()
    taken.extend([None] * 8)  # never break again
    resumed = MLPRegressor(REGRESSION, checkpoint=path, **arguments).fit(frame, signal)
    assert taken[8:] == list(range(5, 20))  # five steps were charged before
    assert resumed.predict(frame) == pytest.approx(whole.predict(frame))


def test_poisson_batches_and_all_sensitive_tables():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(500, 3))
    model = MLPClassifier(
        AllSensitive(-1, 1), n_steps=10, batch_size=100, **BUDGET
    ).fit(X, X[:, 0] > 0)
    assert model.plan_.noise.rate == pytest.approx(0.2)
    assert model.plan_.noise.n_steps == 10
    assert model.certificate_.epsilon <= 4.0


def test_hopeless_noise_is_said():
    frame, signal, _ = table(50)
    model = MLPRegressor(
        REGRESSION, epsilon=0.05, delta=1e-5, n_steps=2, random_state=0, **KEPT
    )
    with pytest.warns(UtilityWarning, match="Expect little"):
        model.fit(frame, signal)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": None}, BudgetError, "a budget is chosen"),
        ({"method": "partial"}, CorrDPError, "method must be one of"),
        ({"method": "nonprivate"}, GuaranteeVoidError, "research=False"),
        ({"calibration": "best"}, CorrDPError, "calibration must be one of"),
        ({"policy": None}, PolicyError, "policy must be a Policy"),
        ({"policy": CLASSES}, PolicyError, "label.type is not a number"),
        ({"hidden_units": (0,)}, CorrDPError, "hidden_units must be"),
        ({"n_steps": 0}, CorrDPError, "n_steps must be"),
    ],
)
def test_arguments_out_of_range_are_named(change, error, message):
    frame, signal, _ = table(50)
    model = MLPRegressor(REGRESSION, **BUDGET).set_params(**change)
    with pytest.raises(error, match=message):
        model.fit(frame, signal)


def test_a_classifier_needs_categories():
    frame, signal, _ = table(50)
    with pytest.raises(PolicyError, match="a classifier needs categories"):
        MLPClassifier(REGRESSION, **BUDGET).fit(frame, signal)

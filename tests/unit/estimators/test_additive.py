"""Additive models: curves where they are legible, the linear model elsewhere."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from corrdp.estimators import (
    AdditiveClassifier,
    AdditiveRegressor,
    LinearRegression,
    LogisticRegression,
    MLPClassifier,
    sweep,
)
from corrdp.exceptions import CorrDPError
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    Slot,
    without_knots,
)
from linear_model_examples import example_frame, example_policy

BUDGET = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}
N_ROWS = 6000


def bent_policy(label=None, **options):
    return Policy(
        (
            Feature("age", "sensitive", NumberDomain(0, 100)),
            Feature("hours", "insensitive", NumberDomain(0, 60), leakage=0.3),
            Feature("sex", "insensitive", CategoryDomain(("f", "m")), leakage=0.2),
        ),
        label or Label("rich", CategoryDomain(("no", "yes")), score=0.0),
        **options,
    )


def bent_frame(n_rows=N_ROWS, seed=0):
    """Return rows whose label depends on how far age is from 50."""
    rng = np.random.default_rng(seed)
    age, hours = rng.uniform(0, 100, n_rows), rng.uniform(0, 60, n_rows)
    sex = rng.choice(["f", "m"], n_rows)
    score = np.abs(age - 50) / 8 - 3 + (sex == "m")
    rich = np.where(score + rng.logistic(size=n_rows) > 0, "yes", "no")
    return pd.DataFrame({"age": age, "hours": hours, "sex": sex, "rich": rich})


def number_policy():
    return bent_policy(Label("rich", NumberDomain(0, 10), score=0.0))


def number_frame(n_rows=N_ROWS):
    frame = bent_frame(n_rows)
    far = np.abs(frame.age - 50) / 8
    return frame.assign(rich=np.clip(2 + far, 0, 10))


@pytest.fixture(scope="module")
def fitted():
    return AdditiveClassifier(bent_policy(), **BUDGET).fit(bent_frame())


def test_curves_learn_what_no_line_can(fitted):
    test = bent_frame(seed=1)
    line = LogisticRegression(bent_policy(), **BUDGET).fit(bent_frame())
    assert fitted.score(test, test.rich) > line.score(test, test.rich) + 0.1
    shape = fitted.shape("age")
    middle = np.argmin(np.abs(np.array(shape.values) - 50))
    assert shape.effect[0] > shape.effect[middle] + 1
    assert shape.effect[-1] > shape.effect[middle] + 1


def test_the_certificate_is_that_of_the_budget_and_verifies(fitted):
    assert fitted.certificate_.epsilon == pytest.approx(2.0, rel=1e-6)
    assert fitted.certificate_.verify(fitted.policy_)
    assert fitted.policy_.feature("age").domain.knots is not None


def test_regressors_bend_too():
    model = AdditiveRegressor(number_policy(), **BUDGET).fit(number_frame())
    line = LinearRegression(number_policy(), **BUDGET).fit(number_frame())
    test = number_frame()
    assert model.score(test, test.rich) > line.score(test, test.rich) + 0.3
    effect = model.shape("age").effect
    assert effect.max() - effect.min() == pytest.approx(50 / 8, rel=0.4)  # label units


def test_several_labels_have_a_curve_each():
    label = Label("rich", CategoryDomain(("low", "middle", "high")), score=0.0)
    frame = number_frame()
    bands = np.array(["low", "middle", "high"])[np.digitize(frame.rich, [4.0, 6.0])]
    model = AdditiveClassifier(bent_policy(label), n_knots=4, **BUDGET)
    model.fit(frame.assign(rich=bands))
    assert model.shape("age").effect.shape == (4, 3)
    assert model.shape("age").low.shape == (4, 3)


@pytest.mark.parametrize("method", ["corr", "standard", "semi"])
def test_where_noise_drowns_curves_the_model_is_the_linear_one(method):
    frame = bent_frame(400)
    options = BUDGET | {"epsilon": 0.3, "method": method}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # little signal
        model = AdditiveClassifier(bent_policy(), **options).fit(frame)
        line = LogisticRegression(bent_policy(), **options).fit(frame)
    np.testing.assert_array_equal(model.coef_, line.coef_)
    np.testing.assert_array_equal(model.intercept_, line.intercept_)
    assert model.policy_ == line.policy_


def test_more_budget_never_means_fewer_knots():
    counts = []
    for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0):
        options = BUDGET | {"epsilon": epsilon}
        policy = AdditiveClassifier(bent_policy(), **options).coded_policy(N_ROWS)
        counts.append(len(policy.feature("age").domain.knots or ()))
    assert counts == sorted(counts)
    assert counts[-1] > 0


def test_declared_knots_are_kept_where_curves_are_drawn():
    knots = (0.0, 30.0, 50.0, 100.0)
    features = list(bent_policy().features)
    features[0] = Feature("age", "sensitive", NumberDomain(0, 100, knots=knots))
    policy = Policy(tuple(features), bent_policy().label)
    coded = AdditiveClassifier(policy, **BUDGET).coded_policy(N_ROWS)
    assert coded.feature("age").domain.knots == knots
    coded = AdditiveClassifier(policy, n_knots=0, **BUDGET).coded_policy(N_ROWS)
    assert coded == without_knots(policy)


def test_linear_models_and_networks_leave_knots_alone():
    features = list(example_policy().features)
    domain = NumberDomain(0, 100, knots=(0, 50, 100))
    features[0] = Feature("age", "sensitive", domain)
    policy = Policy(tuple(features), example_policy().label)
    frame = example_frame(1000)
    for model in (
        LogisticRegression(policy, **BUDGET),
        MLPClassifier(policy, n_steps=2, **BUDGET),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tiny
            model.fit(frame)
        assert model.policy_.feature("age").domain.knots is None
        assert len(model.predict(frame)) == 1000


def test_a_saved_model_predicts_and_draws_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = AdditiveClassifier.load(tmp_path / "model")
    frame = bent_frame(50, seed=2)
    np.testing.assert_array_equal(
        again.decision_function(frame), fitted.decision_function(frame)
    )
    for feature in ("age", "sex"):
        one, other = again.shape(feature), fitted.shape(feature)
        np.testing.assert_array_equal(one.effect, other.effect)
        np.testing.assert_array_equal(one.low, other.low)
    document = json.loads((tmp_path / "model" / "model.json").read_text())
    assert document["content"]["kind"] == "AdditiveClassifier"


def test_bands_are_as_wide_as_noise_makes_them():
    """Over seeds, nine in ten curves at knots lie in bands of twice their size.

    The bands come from a nominal, uncoupled model, so the test asks for their order
    of magnitude: the deviation over 12 seeds is within a factor of 2.5 in the mean.
    """
    frame = bent_frame(3000)
    shapes = [
        AdditiveClassifier(bent_policy(), n_knots=4, **BUDGET | {"random_state": seed})
        .fit(frame)
        .shape("age")
        for seed in range(12)
    ]
    measured = np.std([shape.effect for shape in shapes], axis=0).mean()
    planned = np.mean([shape.deviation for shape in shapes])
    assert 0.4 < planned / measured < 2.5


def test_levels_and_flags_have_effects():
    features = (
        Feature("age", "sensitive", NumberDomain(0, 100, missing=Slot())),
        Feature("city", "insensitive", CategoryDomain(tuple("xyz")), leakage=0.1),
        Feature("old", "insensitive", BooleanDomain(missing=Slot()), leakage=0.1),
    )
    label = Label("rich", CategoryDomain(("no", "yes")), score=0.0)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(0, 100, 3000),
            "city": rng.choice(list("xyz"), 3000),
            "old": rng.choice([True, False, None], 3000),
            "rich": rng.choice(["no", "yes"], 3000),
        }
    )
    frame.loc[::7, "age"] = np.nan
    model = AdditiveClassifier(Policy(features, label), n_knots=3, **BUDGET).fit(frame)
    assert model.shape("age").values == (0.0, 50.0, 100.0)
    assert model.shape("city").values == ("x", "y", "z")
    assert model.shape("old").values == ("false", "true", "(missing)")
    assert model.shape("old").role == "insensitive"
    with pytest.raises(CorrDPError, match="no feature 'wage'"):
        model.shape("wage")


def test_without_privacy_hats_that_no_row_uses_do_no_harm():
    frame = number_frame(300)
    crowd = frame.assign(hours=frame.hours / 20)
    model = AdditiveRegressor(number_policy(), method="nonprivate", research=True)
    model.fit(crowd)
    assert model.score(frame, frame.rich) > 0.5  # hours of others, far beyond


def test_sweeps_train_additive_models():
    frame = bent_frame(3000)
    result = sweep(
        frame,
        policy=bent_policy(),
        methods=["corr", "standard", "nonprivate"],
        epsilons=[0.3, 2.0],
        delta=1e-6,
        seeds=1,
        model="additive",
        research=True,
    )
    for row in result.rows:
        if row["method"] != "nonprivate":
            model = AdditiveClassifier(
                bent_policy(),
                epsilon=row["epsilon"],
                delta=1e-6,
                method=row["method"],
                random_state=row["seed"],
            ).fit(frame)
            own = model.score(frame, frame.rich)
            assert row["score"] == pytest.approx(own, abs=2e-3)
        else:
            assert row["score"] > 0.75


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_knots": 2}, "makes no curve"),
        ({"n_knots": 65}, "makes no curve"),
        ({"n_knots": -1}, "n_knots must be a whole number"),
        ({"calibration": "theorem"}, "paper's linear model"),
        ({"sampling_rate": 0.1}, "full batches"),
    ],
)
def test_what_no_curve_is_made_of_is_refused(options, message):
    with pytest.raises(CorrDPError, match=message):
        AdditiveClassifier(bent_policy(), **BUDGET, **options).fit(bent_frame(50))


def test_audits_attack_the_curves_that_were_fitted(fitted):
    from corrdp.auditing._challenges_from import planned_estimator

    again = planned_estimator(fitted)
    knots = fitted.policy_.feature("age").domain.knots
    assert again.coded_policy(1000).feature("age").domain.knots == knots
    assert again.plan(1000).column_steps is not None


@pytest.mark.parametrize("n_rows", [600, N_ROWS])
@pytest.mark.parametrize("kind", [AdditiveClassifier, LogisticRegression])
def test_ordinary_noise_is_that_of_a_model_with_the_standard_method(kind, n_rows):
    policy = bent_policy()
    ordinary = kind(policy, **BUDGET).ordinary_plan(policy, n_rows)
    standard = kind(policy, method="standard", **BUDGET).plan(n_rows)
    np.testing.assert_array_equal(ordinary.column_noise, standard.column_noise)
    assert ordinary.predicted_error == standard.predicted_error


def test_what_protects_nothing_has_no_plan():
    model = LogisticRegression(bent_policy(), method="nonprivate", research=True)
    with pytest.raises(CorrDPError, match="no noise can be planned"):
        model.plan(N_ROWS)

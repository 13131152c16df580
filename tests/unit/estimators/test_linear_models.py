"""Estimators keep scikit-learn's conventions and refuse what no budget covers."""

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

from corrdp._json import digest
from corrdp.accounting import GaussianEvent
from corrdp.certificate import Component
from corrdp.certificate import LeakageClaim as Claim
from corrdp.estimators import AllSensitive, LinearRegression, LogisticRegression
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    PolicyError,
    UtilityWarning,
)
from corrdp.leakage import estimate_leakage
from corrdp.policy import Conditioning, Policy
from linear_model_examples import (
    N_ROWS,
    example_frame,
    example_policy,
    model_of,
    regression_frame,
    regression_policy,
)

GENEROUS = {
    "epsilon": 1000.0,
    "delta": 1e-2,
    "n_steps": 60,
    "random_state": 0,
    "research": True,  # the checks fit dozens of clones of one estimator
}
CONFIGURED = [
    LinearRegression(
        AllSensitive(-10, 10), loss="huber", huber_threshold=1.0, **GENEROUS
    ),
    LogisticRegression(AllSensitive(-10, 10), **GENEROUS),
    LinearRegression(AllSensitive(-10, 10), **GENEROUS),
]


def conventions():
    """Yield every check of scikit-learn but that of other array libraries."""
    for model in CONFIGURED:
        for estimator, check in estimator_checks_generator(model):
            if "array_api" not in check.func.__name__:
                yield pytest.param(estimator, check, id=check.func.__name__)


@pytest.mark.parametrize(("estimator", "check"), list(conventions()))
def test_scikit_learn_conventions(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny tables: large delta, little signal
        check(estimator)


def test_fit_issues_a_certificate_that_verifies():
    frame = example_frame()
    model = model_of().fit(frame)
    assert model.certificate_.epsilon <= 1.0
    assert model.certificate_.epsilon == pytest.approx(1.0, rel=1e-6)
    assert model.certificate_.verify(model.policy_)
    assert model.certificate_.replayable_noise
    assert model.score(frame, frame.rich) > 0.85


def test_target_in_the_frame_or_beside_it_is_the_same_fit():
    frame = example_frame()
    inside = model_of().fit(frame)
    beside = model_of().fit(frame.drop(columns="rich"), frame.rich)
    np.testing.assert_array_equal(inside.coef_, beside.coef_)


def test_any_table_that_the_policy_fits():
    frame = example_frame()
    expected = model_of().fit(frame).predict(frame)
    table = pl.from_pandas(frame)
    model = model_of().fit(table)
    np.testing.assert_array_equal(model.predict(table), expected)


def test_probabilities_and_classes():
    frame = example_frame()
    model = model_of().fit(frame)
    chances = model.predict_proba(frame)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert list(model.classes_) == ["no", "yes"]
    wanted = np.where(model.decision_function(frame) > 0, "yes", "no")
    np.testing.assert_array_equal(model.predict(frame), wanted)
    assert set(model.coef_by_name_) == {
        "age", "sex=f", "sex=m", "city=x", "city=y", "city=z",
    }  # fmt: skip
    assert model.coef_by_name_["age"] > 0


def test_regression_predicts_in_units_of_the_label():
    frame = regression_frame()
    model = LinearRegression(
        regression_policy(), epsilon=1.0, delta=1e-6, random_state=0
    ).fit(frame)
    assert model.score(frame, frame.rich) > 0.9
    assert model.coef_by_name_.keys() >= {"age", "city=x"}
    codes_at_center = pd.DataFrame({"age": [50.0], "sex": ["f"], "city": ["x"]})
    direct = model.intercept_ + model.coef_[1] + model.coef_[3]
    assert model.predict(codes_at_center)[0] == pytest.approx(direct)


@pytest.mark.parametrize("missing", ["epsilon", "delta"])
def test_a_budget_is_never_inherited(missing):
    with pytest.raises(BudgetError, match="never inherited"):
        model_of(**{missing: None}).fit(example_frame())


def test_standard_protects_every_feature_alike():
    model = model_of(method="standard").fit(example_frame())
    claims = model.certificate_.classes
    assert set(claims) == {"sensitive", "whole_record"}
    assert claims["whole_record"].epsilon <= 1.0
    assert model.plan_.noise == "standard"


def test_semi_promises_nothing_about_insensitive_features():
    model = model_of(method="semi").fit(example_frame())
    assert set(model.certificate_.classes) == {"sensitive", "whole_record"}
    assert model.certificate_.classes["whole_record"].features == ("age",)


@pytest.mark.parametrize("method", ["partial", "nonprivate"])
def test_methods_that_protect_nothing_need_research(method):
    frame = example_frame()
    with pytest.raises(GuaranteeVoidError, match="research"):
        model_of(method=method).fit(frame)
    model = model_of(method=method, research=True).fit(frame)
    assert model.certificate_ is None
    assert ("age" in model.coef_by_name_) == (method == "nonprivate")


def test_theorem_shows_what_its_noise_proves():
    frame = example_frame()
    proved = {
        method: model_of(method=method, calibration="theorem")
        .fit(frame)
        .certificate_.epsilon
        for method in ("corr", "standard", "semi")
    }
    assert proved["corr"] > 1.0  # the nominal epsilon is not what is proved
    assert math.isfinite(proved["standard"])
    assert math.isinf(proved["semi"])


def test_the_plan_is_known_before_any_row():
    plan = model_of().plan(N_ROWS)
    fitted = model_of().fit(example_frame()).plan_
    assert plan.to_text() == fitted.to_text()
    other = model_of().fit(example_frame(seed=9)).plan_
    assert other.to_text() == fitted.to_text()


@pytest.mark.parametrize("bounds", ["auto", "declared"])
def test_too_few_rows_for_any_signal_warn_with_the_ratio_where_fit_is_called(bounds):
    frame = example_frame(60)
    with pytest.warns(UtilityWarning, match="n_rows=60") as told:
        model_of(epsilon=0.05, delta=1e-3, bounds=bounds).fit(frame)
    assert [Path(warning.filename).name for warning in told] == [Path(__file__).name]


class Table:
    """A leakage table as the leakage layer gives it."""

    relation = "one_insensitive"
    assumptions = ("rows are independent draws",)
    replayable_noise = True

    def __init__(self, epsilon_mu=0.05):
        self.components = (
            Component(
                "leakage", events={"whole_record": (GaussianEvent(mu=epsilon_mu),)}
            ),
        )

    def distances(self, calibration, policy=None):
        return {"sex": 0.1, "city": 0.3}

    def claim(self, calibration, policy=None):
        return Claim("private", self.distances(calibration), failure_probability=0.01)

    def require_policy(self, policy):
        assert policy.insensitive == ("sex", "city")


def countable_policy():
    """Return the example with a resolution at which its number can be counted."""
    document = example_policy().to_dict()
    document["features"]["age"]["bins"] = 4
    return Policy.from_dict(document)


def private_table(policy, epsilon=0.3):
    return estimate_leakage(
        example_frame(), policy, epsilon=epsilon, delta=5e-7, random_state=1
    )


def test_ordinary_dp_pays_in_full_for_an_earlier_release():
    """Sensitive means more columns under `standard` than when leakage was released."""
    policy = countable_policy()
    model = model_of(
        policy=policy, method="standard", leakage=private_table(policy)
    ).fit(example_frame())
    classes = model.certificate_.classes
    assert set(classes["sensitive"].features) == set(classes["whole_record"].features)
    assert classes["sensitive"].epsilon == classes["whole_record"].epsilon <= 1.0
    costly = private_table(policy, epsilon=0.8)  # for the whole record: above 1
    with pytest.raises(BudgetError, match="earlier releases"):
        model_of(policy=policy, method="standard", leakage=costly).fit(example_frame())


def test_a_table_of_another_policy_is_refused():
    policy = countable_policy()
    other = replace(policy, conditioning=Conditioning.DEFINITION)
    with pytest.raises(PolicyError, match="Estimate it again"):
        model_of(policy=other, leakage=private_table(policy)).fit(example_frame())


def test_a_leakage_table_is_used_and_charged():
    model = model_of(leakage=Table()).fit(example_frame())
    certificate = model.certificate_
    assert certificate.leakage.source == "private"
    assert certificate.classes["insensitive:sex"].distance == 0.1
    assert certificate.components[0].name == "leakage"
    assert "rows are independent draws" in certificate.assumptions
    assert certificate.replayable_noise
    assert certificate.epsilon <= 1.0


def test_a_leakage_table_that_costs_the_whole_budget_is_refused():
    with pytest.raises(BudgetError, match="earlier releases"):
        model_of(leakage=Table(epsilon_mu=5.0)).fit(example_frame())


def test_a_leakage_table_of_another_relation_is_refused():
    table = Table()
    table.relation = "all_insensitive"
    with pytest.raises(PolicyError, match="relation"):
        model_of(leakage=table).fit(example_frame())


def test_declared_leakage_can_be_replaced_by_a_mapping():
    model = model_of(leakage={"sex": 0.9, "city": 1.0}).fit(example_frame())
    assert model.certificate_.classes["insensitive:city"].distance == 1.0
    with pytest.raises(PolicyError, match="one number"):
        model_of(leakage=0.5).fit(example_frame())
    with pytest.raises(CorrDPError, match="leakage must be"):
        model_of(leakage="low").fit(example_frame())


def test_a_protected_label_is_on_the_certificate():
    model = model_of(example_policy(label_score=1.0)).fit(example_frame())
    certificate = model.certificate_
    assert certificate.label_protected
    assert certificate.classes["sensitive"].label_changes
    assert certificate.classes["sensitive"].epsilon <= 1.0
    assert not certificate.classes["insensitive:sex"].label_changes


def test_bad_tables_are_refused_without_their_values():
    frame = example_frame()
    missing = frame.assign(age=frame.age.where(frame.index > 3))
    with pytest.raises(PolicyError, match="'age' has missing values"):
        model_of().fit(missing)
    with pytest.raises(PolicyError, match="lacks the columns 'sex'"):
        model_of().fit(frame.drop(columns="sex"))
    with pytest.raises(PolicyError, match="Pass y"):
        model_of().fit(frame.drop(columns="rich"))
    with pytest.raises(CorrDPError, match="equally many rows"):
        model_of().fit(frame, frame.rich[:-1])
    with pytest.raises(PolicyError, match="needs categories"):
        model_of(regression_policy()).fit(regression_frame())
    with pytest.raises(PolicyError, match="needs bounds"):
        LinearRegression(example_policy(), epsilon=1.0, delta=1e-6).fit(frame)
    with pytest.raises(PolicyError, match="policy must be a Policy"):
        LogisticRegression(epsilon=1.0, delta=1e-6).fit(frame)


@pytest.mark.parametrize(
    "wrong", [{"method": "dp"}, {"solver": "newton"}, {"calibration": "none"}]
)
def test_unknown_words_are_refused(wrong):
    with pytest.raises(CorrDPError, match="must be"):
        model_of(**wrong).fit(example_frame())


def test_values_outside_the_domain_are_clipped():
    frame = example_frame()
    far = frame.assign(age=frame.age.where(frame.age < 90, 1e6))
    near = frame.assign(age=frame.age.where(frame.age < 90, 100.0))
    np.testing.assert_array_equal(model_of().fit(far).coef_, model_of().fit(near).coef_)


def test_clone_and_pipeline():
    frame = example_frame()
    model = model_of()
    again = clone(model.fit(frame)).set_params(research=True).fit(frame)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    pipeline = make_pipeline(FunctionTransformer(), model_of())
    assert pipeline.fit(frame, frame.rich).score(frame, frame.rich) > 0.85


def test_a_saved_model_is_the_same_model(tmp_path):
    frame = example_frame()
    model = model_of().fit(frame)
    model.save(tmp_path / "model")
    loaded = LogisticRegression.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    assert loaded.certificate_ == model.certificate_
    assert loaded.policy_.fingerprint() == model.policy_.fingerprint()
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
        "certificate.json", "model.json", "policy.toml",
    ]  # fmt: skip
    with pytest.raises(CorrDPError, match="already holds a model"):
        model.save(tmp_path / "model")
    with pytest.raises(CorrDPError, match="Load it with LogisticRegression"):
        LinearRegression.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("model.json", '"intercept": ', '"intercept": 1'),
        ("policy.toml", "leakage = 0.2", "leakage = 0.1"),
        ("certificate.json", '"delta": 1e-06', '"delta": 1e-07'),
        ("model.json", '"private": true', '"private": false'),
    ],
)
def test_loading_refuses_what_was_changed(tmp_path, name, old, new):
    model_of().fit(example_frame()).save(tmp_path / "model")
    path = tmp_path / "model" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(GuaranteeVoidError, match="was changed"):
        LogisticRegression.load(tmp_path / "model")


def test_loading_refuses_a_certificate_of_another_model(tmp_path):
    model_of().fit(example_frame()).save(tmp_path / "one")
    model_of(epsilon=0.5).fit(example_frame()).save(tmp_path / "two")
    other = (tmp_path / "two" / "certificate.json").read_text()
    (tmp_path / "one" / "certificate.json").write_text(other)
    with pytest.raises(GuaranteeVoidError, match=r"certificate\.json"):
        LogisticRegression.load(tmp_path / "one")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.5),
        ("delta", 1e-9),
        ("fits", 2),
        ("calibration", "theorem"),
        ("random_state", 3),
        ("research", True),
    ],
)
def test_loading_refuses_a_model_of_other_parameters(tmp_path, name, value):
    """Also where somebody wrote all digests anew."""
    model_of(random_state=None).fit(example_frame()).save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    document = json.loads(path.read_text())
    document["content"]["parameters"][name] = value
    del document["digest"]
    path.write_text(json.dumps(document | {"digest": digest(document)}))
    with pytest.raises(GuaranteeVoidError, match="other parameters"):
        LogisticRegression.load(tmp_path / "model")


def test_saving_refuses_parameters_that_were_set_after_the_fit(tmp_path):
    model = model_of(random_state=None).fit(example_frame())
    with pytest.raises(GuaranteeVoidError, match="other parameters"):
        model.set_params(epsilon=0.01).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_loading_refuses_a_certificate_beside_a_model_that_protects_nothing(tmp_path):
    plain = model_of(method="nonprivate", research=True).fit(example_frame())
    plain.save(tmp_path / "plain")
    model_of().fit(example_frame()).save(tmp_path / "private")
    other = (tmp_path / "private" / "certificate.json").read_text()
    (tmp_path / "plain" / "certificate.json").write_text(other)
    with pytest.raises(GuaranteeVoidError, match="protects nothing"):
        LogisticRegression.load(tmp_path / "plain")


def test_loading_refuses_what_is_no_model(tmp_path):
    with pytest.raises(CorrDPError, match="cannot read the model"):
        LogisticRegression.load(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"schema": "other"}))
    with pytest.raises(CorrDPError, match="schema"):
        LogisticRegression.load(tmp_path)


def test_clipped_rows_are_counted_in_research_only():
    frame = example_frame()
    far = frame.assign(age=frame.age.where(frame.age < 90, 1e6))
    model = model_of(research=True).fit(far)
    assert model.n_clipped_rows_ == np.count_nonzero(frame.age >= 90)
    assert not hasattr(model_of().fit(far), "n_clipped_rows_")


def test_a_text_that_is_no_number_is_not_quoted():
    X = np.array([["1", "SECRETVALUE"], ["2", "3"]], dtype=object)
    model = LogisticRegression(AllSensitive(-1, 1), epsilon=1.0, delta=1e-6)
    with pytest.raises(CorrDPError) as caught:
        model.fit(X, [0, 1])
    assert "SECRETVALUE" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_parameters_of_numpy_are_saved_as_numbers(tmp_path):
    numbers = {
        "epsilon": np.float32(0.5),
        "n_steps": np.int64(5),
        "fits": np.int64(1),
        "random_state": np.int64(3),
        "disjoint": np.bool_(False),
    }
    model = model_of(**numbers).fit(example_frame(300))
    model.save(tmp_path / "model")
    loaded = LogisticRegression.load(tmp_path / "model")
    assert {name: getattr(loaded, name) for name in numbers} == numbers
    assert type(loaded.n_steps) is int

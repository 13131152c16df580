"""Public rows: never charged, named in the certificate, blind to private rows."""

import warnings

import numpy as np
import pandas as pd
import pytest

from corrdp.estimators import (
    AdditiveClassifier,
    AllSensitive,
    LinearRegression,
    LogisticRegression,
)
from corrdp.estimators._public_rows import PublicRows
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import CategoryDomain, Feature, Policy, PolicyEncoder
from corrdp.training import LogisticLoss
from linear_model_examples import (
    example_frame,
    example_policy,
    regression_frame,
    regression_policy,
)

BUDGET = {"epsilon": 0.5, "delta": 1e-6, "random_state": 0}


def private(seed=0):
    return example_frame(600, seed=seed)


def public():
    return example_frame(200, seed=9)


def noisy_frame():
    """Return numbers that no model of few rows hits exactly."""
    frame = regression_frame()
    noise = np.random.default_rng(2).normal(0.0, 1.5, len(frame))
    return frame.assign(rich=np.clip(frame.rich + noise, 0, 10))


def test_the_certificate_names_them_and_costs_the_same():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # little signal
        alone = LogisticRegression(example_policy(), **BUDGET, n_steps=200)
        alone.fit(private())
    model = LogisticRegression(example_policy(), **BUDGET, n_steps=200)
    model.fit(private(), public_rows=public())
    assert model.certificate_.verify(model.policy_)
    named = [t for t in model.certificate_.assumptions if "public rows" in t]
    assert named == ["public rows: declared by the user, n = 200"]
    assert not any("public rows" in t for t in alone.certificate_.assumptions)
    assert model.certificate_.epsilon == pytest.approx(0.5, rel=1e-6)
    assert model.n_public_rows_ == 200
    assert model.public_score_ > 0.8


def test_nothing_of_the_public_model_depends_on_private_rows():
    models = [
        LogisticRegression(example_policy(), **BUDGET).fit(
            private(seed), public_rows=public()
        )
        for seed in (0, 1)
    ]
    one, other = models
    assert one.public_score_ == other.public_score_
    np.testing.assert_array_equal(one.public_coef_, other.public_coef_)
    assert one.public_intercept_ == other.public_intercept_


@pytest.mark.parametrize(
    ("estimator", "policy", "frame"),
    [
        (LogisticRegression, example_policy(), example_frame(3000)),
        (LinearRegression, regression_policy(), noisy_frame()),
    ],
)
def test_what_is_released_is_an_average_with_the_fit_without_them(
    estimator, policy, frame
):
    rows, known = frame[200:], frame[:200]
    alone = estimator(policy, **BUDGET).fit(rows)
    both = estimator(policy, **BUDGET).fit(rows, public_rows=known)
    share = PublicRows.read(known, policy).model(policy, alone.loss_of(policy))
    share = share.share(alone.plan_.prediction.compared)
    assert 0.02 < share < 0.98
    mixed = share * alone._coef + (1 - share) * both.public_coef_
    np.testing.assert_allclose(both._coef, mixed, rtol=1e-12)
    constant = share * alone._intercept + (1 - share) * both.public_intercept_
    assert both._intercept == pytest.approx(constant)
    last = both.score_path(frame, frame.rich)[-1][1]
    assert last == pytest.approx(both.score(frame, frame.rich), abs=0.05)


def test_a_fit_without_them_after_one_with_them_knows_nothing_of_them():
    model = LogisticRegression(example_policy(), **BUDGET | {"fits": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # little signal
        model.fit(private(), public_rows=public())
        model.fit(private())
    assert not hasattr(model, "public_score_")
    assert "_public" not in vars(model)
    assert not any("public rows" in t for t in model.certificate_.assumptions)


def test_cross_validation_scores_what_was_left_out():
    """Thirty levels of two rows each fit random labels, and left-out rows not at all.

    Levels that were left out have seen one other row, or none.
    """
    levels = tuple(f"l{i}" for i in range(30))
    policy = Policy(
        (Feature("level", "sensitive", CategoryDomain(levels)),),
        example_policy().label,
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "level": rng.permutation(np.repeat(levels, 2)),
            "rich": rng.choice(["no", "yes"], 60),
        }
    )
    model = PublicRows.read(frame, policy).model(policy, LogisticLoss())
    assert model.score < 0.6
    fitted = PolicyEncoder(policy).transform(frame) @ model.coef + model.intercept
    assert np.mean((fitted > 0) == (frame.rich == "yes")) > 0.7  # what memory gives


def test_they_help_where_noise_is_strong():
    test = example_frame(4000, seed=5)
    gains = []
    for seed in range(4):
        options = BUDGET | {"epsilon": 0.1, "random_state": seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # little signal
            alone = LogisticRegression(example_policy(), **options).fit(private())
        both = LogisticRegression(example_policy(), **options)
        both.fit(private(), public_rows=public())
        gains.append(both.score(test, test.rich) - alone.score(test, test.rich))
    assert np.mean(gains) > 0.02


def test_undeclared_leakage_is_read_from_them():
    features = tuple(
        Feature(f.name, f.role, f.domain) if f.role == "insensitive" else f
        for f in example_policy().features
    )
    features = (
        Feature("age", "sensitive", type(features[0].domain)(0, 100, bins=2)),
        *features[1:],
    )
    policy = Policy(features, example_policy().label)
    with pytest.raises(CorrDPError):
        LogisticRegression(policy, **BUDGET).fit(private())
    model = LogisticRegression(policy, **BUDGET)
    model.fit(private(), public_rows=example_frame(2000, seed=9))
    assert model.certificate_.leakage.source == "public"
    assert 0 < model.certificate_.leakage.values["sex"] < 1


def test_knots_lie_where_public_rows_are():
    frame = example_frame(4000)
    crowd = frame.assign(age=np.where(frame.age > 50, frame.age / 10, frame.age))
    model = AdditiveClassifier(
        example_policy(), epsilon=3.0, delta=1e-6, random_state=0, n_knots=6
    )
    model.fit(crowd[1000:], public_rows=crowd[:1000])
    knots = np.array(model.policy_.feature("age").domain.knots)
    assert (knots < 20).sum() >= 4
    assert knots[0] == 0.0
    assert knots[-1] == 100.0


@pytest.mark.parametrize(
    ("make", "rows", "message"),
    [
        ({}, lambda: public()[:5], "5 rows"),
        ({}, lambda: public().drop(columns="rich"), "no column 'rich'"),
        ({"method": "nonprivate", "research": True}, public, "Leave them out"),
        ({"sampling_rate": 0.1}, public, "full-batch"),
        ({"calibration": "theorem"}, public, "full-batch"),
        ({"policy": AllSensitive(0, 1)}, public, "needs a Policy"),
    ],
)
def test_rows_that_cannot_help_are_refused(make, rows, message):
    options = {"policy": example_policy(), **BUDGET, **make}
    with pytest.raises((CorrDPError, PolicyError), match=message):
        LogisticRegression(**options).fit(private(), public_rows=rows())


def test_the_command_reads_them_and_says_what_they_reach(tmp_path):
    from command_runner import run

    private().to_csv(tmp_path / "data.csv", index=False)
    public().to_csv(tmp_path / "public.csv", index=False)
    example_policy().to_file(tmp_path / "policy.toml")
    result = run(
        *("train", "data.csv", "--policy", "policy.toml", "--model", "logistic"),
        *("--epsilon", 0.5, "--delta", 1e-6, "--public-rows", "public.csv"),
        *("--out", "model"),
        cwd=tmp_path,
    )
    assert result.code == 0, result.stderr
    assert "your 200 public rows alone reach 0." in result.stdout
    words = (tmp_path / "model" / "certificate.txt").read_text()
    named = "public rows: declared by the user, n = 200"
    assert named in " ".join(words.split())
    refused = run(
        *("train", "data.csv", "--policy", "policy.toml", "--model", "mlp"),
        *("--epsilon", 0.5, "--delta", 1e-6, "--public-rows", "public.csv"),
        *("--out", "network"),
        cwd=tmp_path,
    )
    assert refused.code == 3
    assert "--public-rows" in refused.stderr


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda frame: frame.assign(city=["nowhere", *frame.city[1:]]),
        lambda frame: frame.assign(age=[None, *frame.age[1:]]),
        lambda frame: frame.drop(columns="sex"),
    ],
    ids=["undeclared", "missing", "column"],
)
def test_rows_that_cannot_be_read_are_refused_before_a_fit_is_paid_for(spoiled):
    charged = []
    model = LogisticRegression(example_policy(), **BUDGET, n_steps=20)
    with pytest.raises(CorrDPError):
        model.fit(private(), public_rows=spoiled(public()), charge=charged.append)
    assert charged == []
    model.fit(private(), public_rows=public(), charge=charged.append)
    assert charged

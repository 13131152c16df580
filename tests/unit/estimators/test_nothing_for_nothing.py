"""Whatever will be refused is refused before it is paid for."""

import numpy as np
import pandas as pd
import pytest

from command_runner import run
from corrdp.estimators import (
    AdditiveClassifier,
    AllSensitive,
    LinearRegression,
    LogisticRegression,
    MLPClassifier,
    PrivateSearchCV,
)
from corrdp.estimators import _buying as buying
from corrdp.exceptions import CorrDPError, GuaranteeVoidError, UnsupportedEventError
from corrdp.ledger import Ledger
from corrdp.policy import (
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
)
from linear_model_examples import example_frame, example_policy

FRAME = example_frame(600)
LABEL = example_policy().label.name
FEATURE = example_policy().features[0].name
BUDGET = {"epsilon": 4.0, "delta": 1e-5}


def with_cell(frame, column):
    """Return the table with one cell that no policy here admits."""
    column_with = frame[column].astype(object)
    column_with.iloc[7] = "unheard of"
    return frame.assign(**{column: column_with})


REFUSED = {
    "a cell": (with_cell(FRAME, FEATURE),),
    "a label": (with_cell(FRAME, LABEL),),
    "a frame of labels": (FRAME, FRAME[[LABEL]]),
    "too few labels": (FRAME, FRAME[LABEL][:5]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_search_of_rows_that_are_refused_costs_nothing(what):
    made = PrivateSearchCV(
        LogisticRegression(example_policy()), {"n_steps": [2, 3]}, **BUDGET
    )
    with pytest.raises(CorrDPError):
        made.fit(*REFUSED[what])
    assert made.estimator.family.n_fits == 0
    made.fit(FRAME)


@pytest.mark.parametrize("options", [{"n_jobs": 0}, {"cache_dir": "/proc/none/such"}])
def test_a_search_that_cannot_run_costs_nothing(options):
    model = LogisticRegression(example_policy(), **options)
    made = PrivateSearchCV(model, {"n_steps": [2, 3]}, **BUDGET)
    with pytest.raises(CorrDPError):
        made.fit(FRAME)
    assert model.family.n_fits == 0


WIDE = Policy(
    (
        Feature("s", "sensitive", CategoryDomain(("v0", "v1"))),
        *(
            Feature(f"u{i}", "insensitive", NumberDomain(0, 1, bins=4))
            for i in range(12)
        ),
    ),
    Label("y", NumberDomain(0, 1), 0.0),
)


def wide_frame(n_rows=10_000):
    generator = np.random.default_rng(4)
    columns = {f"u{i}": generator.random(n_rows) for i in range(12)}
    s = np.where(generator.random(n_rows) < 0.5, "v1", "v0")
    return pd.DataFrame({"s": s, **columns, "y": generator.random(n_rows)})


@pytest.mark.parametrize("what", ["s", "y", "labels", "sampled", "cache"])
def test_leakage_is_not_bought_for_a_fit_that_is_refused(what, monkeypatch):
    monkeypatch.setattr(buying, "WORTH_BUYING", 0.9)
    frame = wide_frame()
    options = {"sampled": {"sampling_rate": 0.1}, "cache": {"cache_dir": "/proc/none"}}
    model = LinearRegression(
        WIDE, epsilon=1.0, delta=1e-6, leakage="auto", **options.get(what, {})
    )
    assert model.plan_leakage(len(frame)).buys
    rows = (with_cell(frame, what),) if what in frame else (frame,)
    if what == "labels":
        rows = (frame, frame["y"][:5])
    with pytest.raises(UnsupportedEventError if what == "sampled" else CorrDPError):
        model.fit(*rows)
    assert model.family.n_fits == 0


def test_samples_train_where_leakage_is_not_bought():
    model = LogisticRegression(
        example_policy(), **BUDGET, leakage="auto", sampling_rate=0.2, n_steps=3
    )
    assert not model.plan_leakage(len(FRAME)).buys
    assert model.fit(FRAME).certificate_ is not None


@pytest.mark.parametrize("what", REFUSED)
def test_an_evaluation_of_rows_that_are_refused_costs_nothing(what, tmp_path):
    policy = example_policy()
    ledger = Ledger.create(
        tmp_path / "l", policy, budget=Budget(epsilon=4.0, delta=1e-6)
    )
    model = LogisticRegression(policy, **BUDGET, n_steps=2).fit(FRAME)
    with pytest.raises(CorrDPError):
        model.evaluate(*REFUSED[what], epsilon=0.5, ledger=ledger)
    assert ledger.remaining().share_left == 1.0


@pytest.mark.parametrize("column", [FEATURE, LABEL])
def test_the_command_charges_nothing_for_rows_that_are_refused(column, tmp_path):
    policy = example_policy()
    ledger = Ledger.create(
        tmp_path / "l", policy, budget=Budget(epsilon=4.0, delta=1e-6)
    )
    LogisticRegression(policy, **BUDGET, n_steps=2).fit(FRAME).save(tmp_path / "m")
    with_cell(FRAME, column).to_csv(tmp_path / "rows.csv", index=False)
    result = run(
        *("evaluate", "m", "rows.csv", "--epsilon", 0.5, "--ledger", "l"), cwd=tmp_path
    )
    assert result.code == 3
    assert repr(column) in result.stderr
    assert ledger.remaining().share_left == 1.0


def test_a_file_is_measured_as_the_table_in_it(tmp_path):
    model = LogisticRegression(example_policy(), **BUDGET, n_steps=2).fit(FRAME)
    path = tmp_path / "rows.csv"
    FRAME.to_csv(path, index=False)
    results = [
        model.evaluate(rows, epsilon=1.0, random_state=3)
        for rows in (FRAME, path, str(path))
    ]
    assert results[0].answers == results[1].answers == results[2].answers


@pytest.mark.parametrize(
    "options",
    [
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"learning_rate": "fast"},
        {"batch_size": 0},
        {"checkpoint": "/proc/none/such"},
        {"checkpoint": "/proc"},
    ],
)
def test_a_network_that_cannot_be_trained_costs_nothing(options):
    model = MLPClassifier(
        example_policy(), **BUDGET, hidden_units=(2,), n_steps=2, **options
    )
    with pytest.raises(CorrDPError, match=next(iter(options))):
        model.fit(FRAME)
    assert model.family.n_fits == 0


@pytest.mark.parametrize("units", [None, "20", 20, [(3,), 4], [[3, 2]], {3}])
def test_widths_that_are_no_sequence_of_numbers_cost_nothing(units):
    model = MLPClassifier(example_policy(), **BUDGET, hidden_units=units, n_steps=2)
    with pytest.raises(CorrDPError, match="hidden_units"):
        model.fit(FRAME)
    assert model.family.n_fits == 0


def test_widths_may_be_an_array():
    options = {**BUDGET, "n_steps": 2, "random_state": 0, "fall_back": False}
    models = [
        MLPClassifier(example_policy(), hidden_units=units, **options).fit(FRAME)
        for units in ((2, 3), np.array([2, 3]))
    ]
    assert models[0].certificate_ == models[1].certificate_


def test_a_checkpoint_of_another_training_costs_nothing(tmp_path):
    options = {
        **BUDGET,
        "hidden_units": (2,),
        "checkpoint": tmp_path / "c",
        "checkpoint_every": 1,
    }
    MLPClassifier(example_policy(), n_steps=2, **options).fit(FRAME)
    other = MLPClassifier(example_policy(), n_steps=3, **options)
    with pytest.raises(GuaranteeVoidError, match="another plan"):
        other.fit(FRAME)
    assert other.family.n_fits == 0


def test_the_private_table_is_no_public_one():
    model = LogisticRegression(example_policy(), **BUDGET)
    with pytest.raises(GuaranteeVoidError, match="private table itself"):
        model.fit(FRAME, public_rows=FRAME)
    assert model.family.n_fits == 0


@pytest.mark.parametrize(
    "rows",
    [
        np.array([77.125, 2.0, 3.0]),
        np.array(77.125),
        np.array([[77.125 + 1j], [2.0], [3.0]]),
        np.array([["77.125 a"], [2.0], [3.0]], dtype=object),
        np.array([["argument must be 77.125"], [2.0], [3.0]], dtype=object),
    ],
    ids=["one dimension", "none", "complex", "text", "text of a message"],
)
@pytest.mark.parametrize("fitted", [False, True])
def test_no_value_of_a_refused_array_is_quoted(rows, fitted):
    model = LogisticRegression(AllSensitive(0, 1), **BUDGET, random_state=0)
    if fitted:
        generator = np.random.default_rng(0)
        model.fit(generator.random((200, 1)), generator.random(200) < 0.5)
    with pytest.raises(CorrDPError) as caught:
        model.predict(rows) if fitted else model.fit(rows, [0, 1, 0])
    assert "77.125" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("model", [LogisticRegression, LinearRegression])
@pytest.mark.parametrize(
    "labels",
    [
        [None] + [77.125] * 9,
        ["77.125 a", 77.125] * 5,
        np.array([b"77.125", b"b"] * 5),
        pd.Series(pd.date_range("2077-01-25", periods=10)),
        [10**400] * 5 + [77] * 5,
    ],
    ids=["none", "mixed", "bytes", "days", "huge"],
)
def test_no_label_of_a_refused_column_is_quoted(model, labels):
    if model is LogisticRegression and isinstance(labels[0], str):
        pytest.skip("texts and numbers are classes of text")
    with pytest.raises(CorrDPError) as caught:
        model(AllSensitive(0, 1), **BUDGET).fit(np.zeros((10, 1)), labels)
    assert "77" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("model", [LogisticRegression, AdditiveClassifier])
def test_what_is_no_column_of_labels_is_refused_in_words(model):
    for labels in ((v for v in FRAME[LABEL]), 3, np.array(3)):
        with pytest.raises(CorrDPError, match="y must be a series"):
            model(example_policy(), **BUDGET).fit(FRAME, labels)
    with pytest.raises(CorrDPError, match="no rows"):
        model(example_policy(), **BUDGET).fit(FRAME[:0], FRAME[LABEL][:0])


def test_what_is_no_table_is_not_evaluated():
    model = LogisticRegression(example_policy(), **BUDGET).fit(FRAME, FRAME[LABEL])
    for table in (None, 3, {"a": 1}):
        with pytest.raises(CorrDPError, match="The table is a"):
            model.evaluate(table, FRAME[LABEL], epsilon=1.0)
    with pytest.raises(CorrDPError, match="y must be a series"):
        model.evaluate(FRAME, (v for v in FRAME[LABEL]), epsilon=1.0)


@pytest.mark.parametrize("rate", [5e-324, 1e-320, 1e-300])
def test_a_step_of_no_rows_is_refused_before_it_is_paid(rate):
    model = LogisticRegression(
        example_policy(), **BUDGET, sampling_rate=rate, n_steps=3
    )
    with pytest.raises(CorrDPError, match="share of rows in a step"):
        model.fit(FRAME)
    assert model.family.n_fits == 0

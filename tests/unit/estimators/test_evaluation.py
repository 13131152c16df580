"""Evaluation on private rows: right figures, priced by what a class can move."""

import copy
import gc
import itertools
import json
import pickle
import weakref

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    log_loss,
    r2_score,
    roc_auc_score,
    roc_curve,
)

from corrdp import estimate_leakage
from corrdp.estimators import (
    AllSensitive,
    LinearRegression,
    LogisticRegression,
    plan_evaluation,
)
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.ledger import Ledger
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
)
from corrdp.queries import DerivedColumns, metric_query, plan_queries
from corrdp.queries._metrics import PairMoment

N_ROWS = 4_000
CLASSIFIER_METRICS = ("accuracy", "log_loss", "confusion", "auc", "roc", "calibration")


def policy_of(label_score=1.0, label=None):
    return Policy(
        (
            Feature("income", "sensitive", NumberDomain(0, 100, bins=4)),
            Feature("age", "insensitive", NumberDomain(0, 100, bins=4), leakage=0.2),
            Feature("sex", "public", CategoryDomain(("f", "m"))),
        ),
        Label("ill", label or BooleanDomain(), label_score),
    )


def table_of(n_rows=N_ROWS, seed=0):
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": generator.uniform(0, 100, n_rows),
            "age": generator.uniform(0, 100, n_rows),
            "sex": generator.choice(["f", "m"], n_rows),
        }
    )
    odds = 0.06 * (frame.age - frame.income)
    frame["ill"] = generator.random(n_rows) < 1 / (1 + np.exp(-odds))
    return frame


def fitted(policy, kind=LogisticRegression, frame=None):
    frame = table_of() if frame is None else frame
    return kind(policy, epsilon=4.0, delta=1e-6, random_state=0).fit(frame)


@pytest.fixture(scope="module")
def model():
    return fitted(policy_of())


@pytest.fixture(scope="module")
def table():
    return table_of()


def by_name(result):
    return {answer.name: answer for answer in result.answers}


def test_metrics_are_those_of_scikit_learn_within_their_radii(model, table):
    """All at once except with probability 1e-9, and the radii say something."""
    result = model.evaluate(
        table, epsilon=100.0, metrics=CLASSIFIER_METRICS, failure_probability=1e-9
    )
    chances, truth = model.predict_proba(table)[:, 1], table.ill.to_numpy()
    own = np.where(truth, chances, 1 - chances)
    edges = np.linspace(0, 1, 11)
    bins = np.minimum((chances * 10).astype(int), 9)
    exact = {
        "accuracy": [accuracy_score(truth, model.predict(table))],
        "log_loss": [np.mean(-np.log(np.maximum(own, 0.01)))],
        "confusion": confusion_matrix(truth, model.predict(table)).ravel(),
        "auc": [roc_auc_score(truth, chances)],
        "roc": [
            np.mean(chances[truth == side] >= edge)
            for edge in edges[:-1]
            for side in (True, False)
        ],
        "calibration": [truth[bins == b].mean() for b in range(10)],
    }
    answers = by_name(result)
    assert list(answers) == list(CLASSIFIER_METRICS)
    for name, values in exact.items():
        gap = np.abs(np.array(answers[name].values) - np.array(values))
        assert np.all(gap <= np.array(answers[name].radii) + 1e-9), name
    assert max(answers["accuracy"].radii) < 0.01
    assert max(answers["auc"].radii) < 0.01
    assert max(answers["roc"].radii) < 0.1
    assert result.certificate.epsilon <= 100.0
    assert any("released before" in text for text in result.certificate.assumptions)
    # The same curve and loss that scikit-learn draws, where nothing is clipped.
    false_rates, true_rates, _ = roc_curve(truth, chances >= 0.5)
    assert answers["roc"].value["0.5 / true positive"] == pytest.approx(
        true_rates[1], abs=0.05
    )
    assert false_rates[1] >= 0
    assert log_loss(truth, chances) == pytest.approx(exact["log_loss"][0], abs=0.01)


def test_regressors_have_r_squared(table):
    domain = NumberDomain(0, 10)
    frame = table.assign(ill=0.05 * table.age + 0.03 * table.income)
    model = fitted(policy_of(label=domain), LinearRegression, frame)
    result = model.evaluate(
        frame,
        epsilon=100.0,
        metrics=["r_squared", "mean_squared_error"],
        failure_probability=1e-9,
    )
    guess = model.predict(frame).clip(0, 10)
    answers = by_name(result)
    exact = {
        "r_squared": r2_score(frame.ill, guess),
        "mean_squared_error": np.mean((guess - frame.ill) ** 2) / 100,
    }
    for name, value in exact.items():
        assert abs(answers[name].value - value) <= answers[name].radius, name
    assert answers["r_squared"].radius < 0.1


def test_metrics_by_group_show_whom_a_model_serves(model, table):
    result = model.evaluate(
        table,
        epsilon=100.0,
        metrics=["accuracy", "auc"],
        by="sex",
        failure_probability=1e-9,
    )
    chances = model.predict_proba(table)[:, 1]
    for place, sex in enumerate("fm"):
        inside = (table.sex == sex).to_numpy()
        right = accuracy_score(table.ill[inside], model.predict(table)[inside])
        area = roc_auc_score(table.ill[inside], chances[inside])
        accuracy, auc = result.answers
        assert abs(accuracy.values[place] - right) <= accuracy.radii[place]
        assert abs(auc.values[place] - area) <= auc.radii[place]
    assert result.answers[0].keys == ("sex",)


@pytest.mark.parametrize(
    ("label_score", "metric", "limit"),
    [(1.0, "accuracy", 0.01), (1.0, "auc", 0.02), (0.0, "auc", 0.02)],
)
def test_radii_at_ten_thousand_rows_are_useful(label_score, metric, limit):
    """At epsilon 0.1, 95 percent, every feature sensitive, labels in balance."""
    policy = Policy(
        tuple(
            Feature(f.name, "sensitive", f.domain) if f.name != "sex" else f
            for f in policy_of().features
        ),
        Label("ill", BooleanDomain(), label_score),
    )
    frame = table_of(10_000)
    model = fitted(policy, frame=frame)
    result = model.evaluate(frame, epsilon=0.1, metrics=[metric], random_state=1)
    assert result.answers[0].radii[0] <= limit


def test_the_area_moves_as_far_as_stated_and_no_farther():
    """All neighbors of small tables, over scores, labels and cells."""
    policy = Policy(
        (
            Feature("score", "sensitive", NumberDomain(0, 1)),
            Feature("cell", "sensitive", BooleanDomain()),
        ),
        Label("label", BooleanDomain(), 1.0),
    )
    values = list(itertools.product((0.0, 0.5, 1.0), (False, True), (False, True)))
    names = ["score", "cell", "label"]
    n_rows = 3
    reached = {}
    for by, changed in itertools.product(
        ((), ("cell",)), ({"score"}, {"label"}, {"cell"}, {"score", "label"})
    ):
        moment = PairMoment(
            (), by, score="score", label="label", positive="true", n_rows=n_rows
        )
        bound, squared = moment.movement(policy, frozenset(changed))
        largest = 0
        others = [(0.5, False, False), (0.5, False, True), (0.0, True, False)]
        for rest in itertools.combinations_with_replacement(others, 2):
            groups = {}
            for row in values:
                frame = pd.DataFrame([row, *rest], columns=names)
                key = tuple(
                    v for v, c in zip(row, names, strict=True) if c not in changed
                )
                groups.setdefault(key, []).append(moment.evaluate(policy, frame))
            for found in groups.values():
                for one, two in itertools.combinations(found, 2):
                    gap = np.abs(one - two)
                    largest = max(largest, int(gap.sum()))
                    assert gap.sum() <= bound
                    assert np.sum(gap**2) <= squared
        reached[by, frozenset(changed)] = (largest, bound)
    for place in (((), frozenset({"score"})), ((), frozenset({"label"}))):
        assert reached[place][0] == reached[place][1]


def test_pairs_of_another_number_of_rows_are_refused():
    """A question that names fewer rows than there are would get too little noise."""
    derived = DerivedColumns(
        {"(probability)": NumberDomain(0.0, 1.0)},
        {"(probability)": frozenset({"income"})},
        lambda table: {"(probability)": np.zeros(len(table))},
    )

    def planned(n_rows):
        return plan_queries(
            policy_of(),
            [metric_query("auc", "ill", n_rows, None)],
            budget=Budget(epsilon=1.0, delta=0.0),
            n_rows=100,
            derived=derived,
        )

    enough = planned(100).noise.movement
    assert enough.absolute[enough.row("sensitive")][0] == 2 * 99
    with pytest.raises(GuaranteeVoidError, match="n_rows=100"):
        planned(99)


def test_a_model_that_bought_its_leakage_is_evaluated_with_it(monkeypatch):
    monkeypatch.setattr("corrdp.estimators._leakage_purchase.WORTH_BUYING", 1.0)
    policy = policy_of(label_score=0.0).with_leakage({"age": None})
    model = LogisticRegression(
        policy, epsilon=4.0, delta=1e-6, leakage="auto", random_state=0
    ).fit(table_of())
    assert model.leakage_plan_.buys
    bought = model.leakage_.distances(policy=policy)["age"]
    assert bought < 1.0
    result = model.evaluate(table_of(), epsilon=1.0, random_state=0)
    assert result.plan.leakage.source == "private"
    assert result.certificate.classes["insensitive:age"].distance == bought


def moved(model, metric, table):
    plan = plan_evaluation(
        model,
        metrics=[metric],
        by=None,
        n_rows=len(table),
        budget=Budget(epsilon=1.0, delta=0.0),
    )
    movement = plan.noise.movement
    return plan, {
        name: movement.absolute[movement.row(name)] for name in movement.classes
    }


@pytest.mark.parametrize("metric", CLASSIFIER_METRICS)
def test_no_row_moves_a_metric_farther_than_planned(model, metric):
    """Every class, every corner of a row: predictions follow what they read."""
    corners = {
        "income": (0.0, 100.0),
        "age": (0.0, 100.0),
        "sex": ("f", "m"),
        "ill": (False, True),
    }
    rows = [
        dict(zip(corners, row, strict=True))
        for row in itertools.product(*corners.values())
    ]
    rest = table_of(5, seed=3)
    tables = [pd.concat([pd.DataFrame([r]), rest], ignore_index=True) for r in rows]
    plan, bounds = moved(model, metric, tables[0])
    sums = [
        [m.evaluate(plan.view, plan.derived.extend(t)) for m in plan.moments]
        for t in tables
    ]
    classes = {
        "sensitive": {"income", "ill"},
        "insensitive:age": {"age"},
        "whole_record": {"income", "age", "ill"},
    }
    assert set(classes) == set(bounds)
    for name, changed in classes.items():
        for one, two in itertools.combinations(range(len(rows)), 2):
            if any(rows[one][c] != rows[two][c] for c in corners if c not in changed):
                continue
            for place in range(len(plan.moments)):
                gap = np.abs(sums[one][place] - sums[two][place]).sum()
                assert gap <= bounds[name][place]
    assert bounds["insensitive:age"][0] > 0  # the model reads it


def test_public_labels_and_roles_lower_the_price(table):
    protected = fitted(policy_of(1.0))
    public = fitted(policy_of(0.0))
    scales = [
        moved(model, "auc", table)[0].noise.scales[0] for model in (protected, public)
    ]
    assert scales[1] < scales[0]
    assert moved(public, "auc", table)[0].noise.scales[1] == 0  # counts are public


def test_evaluation_and_queries_share_one_account(table, tmp_path):
    from corrdp.queries import answer_queries

    policy = policy_of()
    budget = Budget(epsilon=1.0, delta=0.0)
    ledger = Ledger.create(tmp_path / "l.ledger", policy, budget=budget)
    model = fitted(policy)
    result = model.evaluate(table, epsilon=0.4, ledger=ledger)
    assert result.receipt is not None
    answer_queries(table, policy, ["mean(income)"], epsilon=0.4, ledger=ledger)
    spent = Ledger.open(ledger.path).remaining()["sensitive"].spent
    with pytest.raises(BudgetError):
        model.evaluate(table, epsilon=0.4, ledger=ledger.path)
    assert Ledger.open(ledger.path).remaining()["sensitive"].spent == spent > 0
    model.evaluate(table, epsilon=0.19, ledger=ledger.path)


def test_a_ledger_wants_to_see_the_release_of_private_leakage(table, tmp_path):
    """The table itself, recorded; a claim in the certificate is not enough."""
    policy = policy_of()
    released = estimate_leakage(
        table, policy, source="private", epsilon=1.0, delta=1e-6, random_state=0
    )
    budget = Budget(epsilon=20.0, delta=1e-5)
    ledger = Ledger.create(
        tmp_path / "l.ledger", policy, budget=budget, leakage={"age": 1.0}
    )
    model = fitted(policy)
    with pytest.raises(GuaranteeVoidError, match="has not paid"):
        model.evaluate(table, epsilon=0.1, leakage=released, ledger=ledger)
    claim = released.claim()
    with pytest.raises(GuaranteeVoidError, match="leakage table itself"):
        model.evaluate(table, epsilon=0.1, leakage=claim, ledger=ledger)
    assert Ledger.open(ledger.path).remaining()["sensitive"].spent == 0
    assert model.evaluate(table, epsilon=0.1, leakage=claim).receipt is None


def test_labels_may_stand_beside_the_table(model, table):
    pair = [
        model.evaluate(*rows, epsilon=1.0, metrics=["confusion"], random_state=3)
        for rows in ((table,), (table.drop(columns="ill"), table.ill))
    ]
    assert pair[0].answers == pair[1].answers


@pytest.mark.parametrize("n_labels", [1, N_ROWS - 1, 2 * N_ROWS])
def test_one_label_per_row_or_nothing_is_paid(model, table, tmp_path, n_labels):
    """One label would be that of all rows, and move a metric by all of them."""
    policy = model.policy
    budget = Budget(epsilon=4.0, delta=1e-6)
    ledger = Ledger.create(tmp_path / "l", policy, budget=budget)
    labels = np.resize(table["ill"].to_numpy(), n_labels)
    with pytest.raises(CorrDPError, match="one label per row"):
        model.evaluate(table, labels, epsilon=0.1, ledger=ledger)
    assert ledger.remaining().share_left == 1.0


def test_arrays_are_measured_as_they_are_fitted(table):
    codes = table[["income", "age"]].to_numpy() / 50 - 1
    model = LogisticRegression(
        AllSensitive(-1, 1), epsilon=4.0, delta=1e-6, random_state=0
    ).fit(codes, table.ill.to_numpy())
    result = model.evaluate(codes, table.ill.to_numpy(), epsilon=10.0, random_state=0)
    exact = model.score(codes, table.ill.to_numpy())
    assert result.answers[0].value == pytest.approx(exact, abs=0.01)


def test_what_cannot_be_measured_is_refused(model, table):
    with pytest.raises(CorrDPError, match="got 'r_squared'"):
        model.evaluate(table, epsilon=1.0, metrics=["r_squared"])
    with pytest.raises(BudgetError, match="epsilon is None"):
        model.evaluate(table)
    with pytest.raises(CorrDPError, match="Pass y"):
        model.evaluate(table.drop(columns="ill"), epsilon=1.0)
    plain = LogisticRegression(policy_of(), method="nonprivate", research=True)
    with pytest.raises(GuaranteeVoidError, match="protects nothing"):
        plain.fit(table).evaluate(table, epsilon=1.0)
    three = policy_of(label=CategoryDomain(("a", "b", "c")))
    frame = table.assign(ill=np.array(list("abc"))[np.arange(len(table)) % 3])
    with pytest.raises(CorrDPError, match="declares 3"):
        fitted(three, frame=frame).evaluate(frame, epsilon=1.0, metrics=["auc"])


def test_the_command_says_what_python_says(tmp_path, table):
    from command_runner import run

    model = fitted(policy_of())
    model.save(tmp_path / "model")
    table.to_csv(tmp_path / "data.csv", index=False)
    options = ("--epsilon", 1, "--metric", "accuracy", "--metric", "auc", "--by", "sex")
    result = run("evaluate", "model", "data.csv", *options, "--seed", 5, "--json",
                 "--ledger", "l.ledger", "--ledger-epsilon", 2,
                 cwd=tmp_path)  # fmt: skip
    assert result.code == 0, result.stderr
    document = json.loads(result.stdout)
    ours = model.evaluate(
        table, epsilon=1.0, metrics=["accuracy", "auc"], by="sex", random_state=5
    )
    assert document["answers"] == json.loads(json.dumps(ours.to_json()))["answers"]
    assert document["charge"] is not None
    refused = run(
        *("evaluate", "model", "data.csv", "--epsilon", 1, "--metric", "f1"),
        cwd=tmp_path,
    )
    assert refused.code == 3
    assert "got 'f1'" in refused.stderr


def test_a_result_does_not_keep_the_labels(model, table):
    labels = table.ill.to_numpy().copy()
    kept = weakref.ref(labels)
    result = model.evaluate(table.drop(columns="ill"), labels, epsilon=1.0)
    del labels
    gc.collect()
    assert result.answers
    assert kept() is None


def test_rows_are_predicted_once(model, table, monkeypatch):
    seen = []
    predict = type(model).predict_proba
    monkeypatch.setattr(
        type(model), "predict_proba", lambda self, X: seen.append(1) or predict(self, X)
    )
    model.evaluate(table, epsilon=1.0, metrics=["accuracy", "log_loss"])
    assert seen == [1]


def test_a_result_goes_to_other_processes(model, table):
    """It is paid for once; what cannot be kept would be asked for again."""
    result = model.evaluate(table, epsilon=1.0)
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert again.to_json() == result.to_json()

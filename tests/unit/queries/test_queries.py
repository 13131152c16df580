"""Queries: right answers, honest radii, refusals that say what to do."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from corrdp.certificate import LeakageClaim
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    MissingBoundError,
    PolicyError,
)
from corrdp.leakage import declared_table
from corrdp.ledger import Ledger
from corrdp.mechanisms import (
    Mean,
    Quantiles,
    Query,
    answer_queries,
    parse_ask,
    plan_queries,
)
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    Replace,
    Slot,
)
from corrdp.queries import ask_text
from corrdp.queries._estimates import Estimate

N_ROWS = 4_000
ASKS = [
    "count()",
    "count(ward = b)",
    "count() by ward",
    "sum(age)",
    "mean(age)",
    "mean(age) by ward (a, c)",
    "mean(smoker)",
    "sum(dose)",
    "mean(dose)",
    "variance(age)",
    "variance(dose)",
    "histogram(age)",
    "histogram(dose)",
    "quantiles(age, 0, 0.25, 0.5, 1)",
    "covariance(age, height)",
    "correlation(age, height)",
    "mean(cost)",
]


@pytest.fixture(scope="module")
def policy():
    return Policy(
        (
            Feature("age", "sensitive", NumberDomain(0, 100, bins=10)),
            Feature("dose", "sensitive", NumberDomain(0, 8, bins=2, missing=Slot())),
            Feature(
                "ward", "insensitive", CategoryDomain(("a", "b", "c")), leakage=0.3
            ),
            Feature("height", "insensitive", NumberDomain(100, 220), leakage=0.2),
            Feature("smoker", "public", BooleanDomain()),
        ),
        Label("cost", NumberDomain(0, 10), 0.5),
    )


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    age = generator.uniform(0, 100, N_ROWS)
    dose = generator.uniform(0, 8, N_ROWS)
    dose[generator.random(N_ROWS) < 0.2] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "dose": dose,
            "ward": generator.choice(list("abc"), N_ROWS),
            "height": 120 + 0.8 * age + generator.uniform(0, 10, N_ROWS),
            "smoker": generator.random(N_ROWS) < 0.25,
            "cost": generator.uniform(0, 10, N_ROWS),
        }
    )


def truth(table):
    by_ward = table.groupby("ward")
    return {
        "count()": [N_ROWS],
        "count(ward = b)": [(table.ward == "b").sum()],
        "count() by ward": by_ward.size().tolist(),
        "sum(age)": [table.age.sum()],
        "mean(age)": [table.age.mean()],
        "mean(age) by ward (a, c)": by_ward.age.mean()[["a", "c"]].tolist(),
        "mean(smoker)": [table.smoker.mean()],
        "sum(dose)": [table.dose.sum()],
        "mean(dose)": [table.dose.mean()],
        "variance(age)": [table.age.var(ddof=0)],
        "variance(dose)": [table.dose.var(ddof=0)],
        "histogram(age)": np.histogram(table.age, 10, (0, 100))[0].tolist(),
        "histogram(dose)": [
            (table.dose < 4).sum(),
            (table.dose >= 4).sum(),
            table.dose.isna().sum(),
        ],
        "quantiles(age, 0, 0.25, 0.5, 1)": table.age.quantile(
            [0, 0.25, 0.5, 1], interpolation="lower"
        ).tolist(),
        "covariance(age, height)": [table.age.cov(table.height, ddof=0)],
        "correlation(age, height)": [table.age.corr(table.height)],
        "mean(cost)": [table.cost.mean()],
    }


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("convert", [lambda t: t, pl.from_pandas, pa.Table.from_pandas])
def test_answers_are_within_their_radii(policy, table, delta, convert):
    """All at once with probability 1 - 1e-9, and the radii say something."""
    result = answer_queries(
        convert(table),
        policy,
        ASKS,
        epsilon=20.0,
        delta=delta,
        failure_probability=1e-9,
    )
    for ask, answer in zip(ASKS, result.answers, strict=True):
        exact = np.array(truth(table)[ask], dtype=float)
        assert np.all(np.abs(np.array(answer.values) - exact) <= answer.radii), ask
        assert np.all(np.array(answer.radii) <= 0.6 * np.abs(exact).max()), ask
    assert result.certificate.epsilon <= 20.0
    result.certificate.verify(policy)
    assert result.receipt is None
    assert "mean(age)" in result.to_text()
    assert result.to_json()["answers"][0]["value"] == N_ROWS


def test_public_columns_and_the_row_count_cost_nothing(policy, table):
    result = answer_queries(table, policy, ["mean(smoker)", "count()"], epsilon=1.0)
    assert result.answers[0].value == pytest.approx(table.smoker.mean(), abs=1e-12)
    assert result.answers[1].radius == 0.0
    assert result.certificate.epsilon == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_question_without_noise_needs_no_plan(policy, table, delta):
    result = answer_queries(table, policy, ["count()"], epsilon=1.0, delta=delta)
    assert result.answers[0].value == N_ROWS
    assert result.certificate.epsilon == 0.0


def test_queries_that_need_the_same_sum_share_it(policy):
    budget = Budget(epsilon=1.0, delta=0.0)
    asks = ["mean(age)", "sum(age)", "variance(age)"]
    plan = plan_queries(policy, asks, budget=budget, n_rows=N_ROWS)
    assert [m.name for m in plan.moments] == ["age", "age * age"]
    alone = plan_queries(policy, asks[:1], budget=budget, n_rows=N_ROWS)
    assert alone.noise.scales[0] < plan.noise.scales[0]
    assert plan.to_json()["moments"][0]["noise_scale"] > 0


def test_values_outside_the_bounds_are_clipped(policy, table):
    wild = table.assign(age=[1e9] * N_ROWS)
    result = answer_queries(wild, policy, ["mean(age)"], epsilon=1.0)
    assert 99.0 <= result.answers[0].value <= 100.0


def test_a_seed_is_replayable_and_the_certificate_says_so(policy, table):
    pair = [
        answer_queries(table, policy, ["mean(age)"], epsilon=1.0, random_state=5)
        for _ in range(2)
    ]
    assert pair[0].answers == pair[1].answers
    assert pair[0].certificate.replayable_noise


def test_numpy_tables_are_read_in_the_order_of_the_policy(table):
    policy = Policy(
        (
            Feature("age", "sensitive", NumberDomain(0, 100)),
            Feature("height", "sensitive", NumberDomain(100, 220)),
        )
    )
    array = table[["age", "height"]].to_numpy()
    result = answer_queries(array, policy, ["mean(height)"], epsilon=10.0)
    assert result.answers[0].value == pytest.approx(table.height.mean(), abs=1.0)
    with pytest.raises(PolicyError, match="cannot be found in a numpy array"):
        answer_queries(array[:, :1], policy, ["mean(height)"], epsilon=10.0)


def test_missing_values_are_refused_unless_a_treatment_is_declared(table):
    def policy(**missing):
        return Policy((Feature("dose", "sensitive", NumberDomain(0, 8, **missing)),))

    with pytest.raises(PolicyError, match="'dose' has missing values"):
        answer_queries(table, policy(), ["mean(dose)"], epsilon=10.0)
    replaced = answer_queries(
        table, policy(missing=Replace(0.0)), ["mean(dose)"], epsilon=10.0
    )
    exact = table.dose.fillna(0.0).mean()
    assert replaced.answers[0].value == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        ("mean(ward)", MissingBoundError, "category and has no bounds"),
        ("histogram(height)", MissingBoundError, "features.height.bins"),
        ("quantiles(ward, 0.5)", MissingBoundError, "category and has no bounds"),
        ("quantiles(age)", CorrDPError, "at least one probability"),
        ("quantiles(age, 1.5)", CorrDPError, "quantile probability must be"),
        ("quantiles(age, half)", CorrDPError, "not a probability"),
        ("mean(weight)", PolicyError, "no feature 'weight'"),
        ("count() by weight", PolicyError, "no feature 'weight'"),
        ("count(ward = d)", PolicyError, "group 'd' of column 'ward' is not in"),
        ("mean(age) by ward (a, a)", PolicyError, "must differ"),
        ("covariance(age, age)", CorrDPError, "Ask for the variance"),
        ("covariance(age, dose)", PolicyError, "missing slot"),
        ("mode(age)", CorrDPError, "expected one of count, sum"),
        ("mean(age, height)", CorrDPError, "takes 1 column"),
        (
            "count(ward)",
            CorrDPError,
            r"count\(ward\) names no group: count\(ward = group",
        ),
        ("covariance(age, height) by ward", CorrDPError, "cannot be split"),
        ("mean(age = 3)", CorrDPError, "only count"),
        ("mean age", CorrDPError, r"expected '\(' at 5, found 'age'"),
        ('mean("age)', CorrDPError, "double quote at 5 is not closed"),
        ("mean(age) by", CorrDPError, "a column after 'by' at 12, found the end"),
        ("mean(age) height", CorrDPError, "the end of the question"),
        ('mean("")', CorrDPError, "a column or a number"),
        ("", CorrDPError, "expected one of"),
        ("(" * 2000 + "count()" + ")" * 2000, CorrDPError, "too many parts within"),
        ("count() where " + "not " * 700 + "smoker", CorrDPError, "too many parts"),
        (" + ".join(["mean(age)"] * 700), CorrDPError, "too many parts within"),
    ],
)
def test_questions_that_have_no_answer_are_refused(policy, ask, error, message):
    with pytest.raises(error, match=message):
        plan_queries(policy, [ask], budget=Budget(epsilon=1, delta=0), n_rows=10)


def test_budgets_and_tables_that_are_wrong_are_refused(policy, table):
    with pytest.raises(BudgetError, match="epsilon is None"):
        answer_queries(table, policy, ["mean(age)"])
    with pytest.raises(BudgetError, match="epsilon must be"):
        answer_queries(table, policy, ["mean(age)"], epsilon=-1.0)
    with pytest.raises(CorrDPError, match="no query was asked"):
        answer_queries(table, policy, [], epsilon=1.0)
    with pytest.raises(CorrDPError, match="the table is a int"):
        answer_queries(3, policy, ["mean(age)"], epsilon=1.0)
    with pytest.raises(PolicyError, match="lacks the columns 'age'"):
        answer_queries(table[["ward"]], policy, ["mean(age)"], epsilon=1.0)


def test_no_message_contains_a_value_from_the_table(policy, table):
    secret = table.assign(ward=["s3cr3t"] * N_ROWS)
    with pytest.raises(PolicyError) as caught:
        answer_queries(secret, policy, ["count() by ward"], epsilon=1.0)
    assert "s3cr3t" not in str(caught.value)


def test_leakage_can_be_given_beside_the_policy(policy):
    plans = [
        plan_queries(
            policy,
            ["mean(height)"],
            budget=Budget(epsilon=0.1, delta=0.0),
            n_rows=10,
            leakage={"ward": 1.0, "height": value},
        )
        for value in (0.6, 1.0)
    ]
    assert plans[0].noise.scales[0] < plans[1].noise.scales[0]


@pytest.mark.parametrize(
    "give",
    [
        lambda policy: None,
        declared_table,
        LeakageClaim.declared,
        lambda policy: {"ward": 0.3, "height": 0.2},
    ],
)
def test_leakage_in_every_form_plans_the_same_noise(policy, give):
    plan = plan_queries(
        policy,
        ["mean(height)", "count() by ward"],
        budget=Budget(epsilon=0.1, delta=0.0),
        n_rows=10,
        leakage=give(policy),
    )
    expected = plan_queries(
        policy,
        ["mean(height)", "count() by ward"],
        budget=Budget(epsilon=0.1, delta=0.0),
        n_rows=10,
    )
    assert plan.noise.scales == expected.noise.scales
    assert plan.certificate().leakage.source == "declared"


def test_leakage_of_the_block_is_one_number(policy):
    block = Policy(
        policy.features, policy.label, relation="all_insensitive", block_leakage=1.0
    )
    ask, budget = ["mean(height)"], Budget(epsilon=0.1, delta=0.0)
    given = plan_queries(block, ask, budget=budget, n_rows=10, leakage=0.6)
    declared = plan_queries(block, ask, budget=budget, n_rows=10)
    assert given.noise.scales[0] < declared.noise.scales[0]


def test_bins_narrower_than_any_text_are_still_counted():
    policy = Policy((Feature("x", "sensitive", NumberDomain(1e16, 1e16 + 2, bins=3)),))
    frame = pd.DataFrame({"x": [1e16, 1e16 + 2]})
    result = answer_queries(frame, policy, ["histogram(x)"], epsilon=50.0)
    assert len(result.answers[0].values) == 3
    with pytest.raises(PolicyError, match="or not once"):
        answer_queries(frame, policy, ['count(x = "1e+16 to 1e+16")'], epsilon=1.0)


def test_a_query_of_another_kind_has_no_text():
    class Mode(Query):
        def moments(self, policy):
            return ()

        def answer(self, policy, n_rows, estimates):
            return []

    with pytest.raises(CorrDPError, match="a Mode has no text"):
        ask_text(Mode())


def test_estimates_follow_the_rules_of_intervals():
    one, two = Estimate(1.0, 0.5, 1.5), Estimate(2.0, 1.0, 4.0)
    assert one + two == Estimate(3.0, 1.5, 5.5)
    assert one - two == Estimate(-1.0, -3.5, 0.5)
    assert one * two == Estimate(2.0, 0.5, 6.0)
    assert one / two == Estimate(0.5, 0.125, 1.5)
    assert Estimate(0.0, -1.0, 2.0).squared() == Estimate(0.0, 0.0, 4.0)
    assert Estimate(-1.0, -2.0, -1.0).squared() == Estimate(1.0, 1.0, 4.0)
    assert Estimate(-1.0, -2.0, 4.0).root() == Estimate(0.0, 0.0, 2.0)
    unknown = one / Estimate(1.0, -1.0, 2.0)
    assert (unknown.lower, unknown.upper) == (-math.inf, math.inf)
    assert unknown.scaled(0.0) == Estimate(0.0, 0.0, 0.0)
    assert unknown.clipped(0.0, 3.0) == Estimate(1.0, 0.0, 3.0)
    assert (one / Estimate(0.0, 0.0, 0.0)).value == 0.0


def test_one_group_is_answered_by_one_number(policy, table):
    result = answer_queries(table, policy, ["count(ward = b)"], epsilon=10.0)
    assert result.answers[0].ask == "count(ward = b)"
    assert isinstance(result.answers[0].value, float)


def test_questions_are_read_as_written():
    assert parse_ask("mean(age)") == Mean("age")
    assert parse_ask(' mean( "hours per week" ) ') == Mean("hours per week")
    assert parse_ask("quantiles(age, .5)") == Quantiles("age", (0.5,))


@pytest.mark.parametrize("ask", ["sum(x)", "mean(x)", "variance(x)", "median(x)"])
def test_numbers_whose_squares_are_none_are_refused_before_a_ledger_pays(ask, tmp_path):
    policy = Policy((Feature("x", "sensitive", NumberDomain(0, 1e200)),))
    budget = Budget(epsilon=1.0, delta=1e-6)
    ledger = Ledger.create(tmp_path / "l.ledger", policy, budget=budget)
    table = pd.DataFrame({"x": [1e200] * 50})
    with pytest.raises(PolicyError, match="beyond 1e\\+150"):
        answer_queries(table, policy, [ask], epsilon=0.5, delta=1e-7, ledger=ledger)
    assert len(ledger.entries()) == 2


@pytest.mark.parametrize("ask", ["mean(x)", "median(x)"])
def test_numbers_too_close_to_be_told_apart_are_refused_before_a_ledger_pays(
    ask, tmp_path
):
    policy = Policy((Feature("x", "sensitive", NumberDomain(0, 5e-324)),))
    budget = Budget(epsilon=1.0, delta=1e-6)
    ledger = Ledger.create(tmp_path / "l.ledger", policy, budget=budget)
    table = pd.DataFrame({"x": [0.0] * 50})
    with pytest.raises(PolicyError, match="less than 1e-150 apart"):
        answer_queries(table, policy, [ask], epsilon=0.5, delta=1e-7, ledger=ledger)
    assert len(ledger.entries()) == 2


@pytest.mark.parametrize(("width", "n_missing"), [(1e200, 3), (1e-200, 0)])
def test_conditions_need_no_squares(width, n_missing):
    domain = NumberDomain(-width, width, missing=Slot())
    policy = Policy(
        (
            Feature("smoker", "sensitive", BooleanDomain()),
            Feature("x", "public", domain),
        )
    )
    cells = [width, -width, 0.0, *[None] * n_missing]
    table = pd.DataFrame({"smoker": [True] * len(cells), "x": cells})
    asks = ["count() where x >= 0", "count() where x is missing"]
    answers = answer_queries(table, policy, asks, epsilon=1.0).answers
    assert [answer.value for answer in answers] == [2, n_missing]


@pytest.mark.parametrize("ask", ["sum(x)", "mean(x)", "variance(x)", "median(x)"])
def test_the_largest_bounds_have_finite_answers(ask):
    policy = Policy((Feature("x", "sensitive", NumberDomain(-1e150, 1e150)),))
    table = pd.DataFrame({"x": [1e150, -1e150] * 25})
    (answer,) = answer_queries(table, policy, [ask], epsilon=1.0).answers
    assert np.isfinite([answer.value, answer.radius]).all()


def test_bins_of_a_label_are_asked_for_where_the_policy_declares_them(policy):
    label = Label("cost", NumberDomain(0, 9), score=0.0)
    budget = Budget(epsilon=1, delta=0)
    with pytest.raises(MissingBoundError, match=r"Declare label\.bins"):
        plan_queries(
            Policy(policy.features, label), ["count() by cost"], budget=budget, n_rows=9
        )


@pytest.mark.parametrize(
    "ask",
    ["mean(age) * 1_0", "quantiles(age, 0.2_5)", "count() where age > 1_0", "1_0"],
)
def test_digits_with_marks_are_no_numbers(policy, ask):
    with pytest.raises(CorrDPError):
        plan_queries(policy, [ask], budget=Budget(epsilon=1, delta=0), n_rows=10)

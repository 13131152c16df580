"""Conditions: the logic of SQL on declared cells, and refusals."""

import numpy as np
import pandas as pd
import pytest

from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    NumberDomain,
    Policy,
    Refuse,
    Slot,
)
from corrdp.queries import (
    Count,
    answer_queries,
    ask_text,
    col,
    parse_ask,
    parse_sql,
    plan_queries,
)
from corrdp.queries._conditions import Verdict

POLICY = Policy(
    (
        Feature("age", "sensitive", NumberDomain(0, 100, bins=4)),
        Feature("dose", "sensitive", NumberDomain(0, 8, missing=Slot())),
        Feature("ward", "public", CategoryDomain(("a", "b", "c"), missing=Slot())),
        Feature(
            "job",
            "public",
            CategoryDomain(("x", "y", "z"), other=True, groups={"yz": ["y", "z"]}),
        ),
        Feature("smoker", "public", BooleanDomain(missing=Slot())),
    )
)
TABLE = pd.DataFrame(
    {
        "age": [10.0, 40.0, 40.0, 99.0, 150.0],
        "dose": [1.0, None, 8.0, 0.0, None],
        "ward": ["a", "b", None, "c", "a"],
        "job": ["x", "y", "z", "strange", "x"],
        "smoker": [True, False, None, True, False],
    }
)
CASES = [
    (col("age") >= 40, "01111"),
    (col("age") > 40, "00011"),
    (col("age") < 40, "10000"),
    (col("age") <= 40, "11100"),
    (col("age") == 40, "01100"),
    (col("age") != 40, "10011"),
    (col("age") == "25 to 50", "01100"),
    (col("age").is_in(10, 99), "10010"),
    (col("age") >= 100, "00001"),
    (col("dose") >= 1, "10100"),
    (~(col("dose") >= 1), "00010"),
    (col("dose").is_missing(), "01001"),
    (~col("dose").is_missing(), "10110"),
    (col("ward") == "a", "10001"),
    (col("ward") != "a", "01010"),
    (~col("ward").is_in("a", "b"), "00010"),
    (col("ward").is_missing(), "00100"),
    (col("job") == "yz", "01100"),
    (col("job") == "(other)", "00010"),
    (col("smoker") & (col("age") < 50), "10000"),
    (~col("smoker"), "01001"),
    (col("smoker") == False, "01001"),  # noqa: E712
    (col("smoker").is_missing(), "00100"),
    (Verdict("smoker", "true"), "10010"),
    (~Verdict("smoker", "true"), "01101"),
    (Verdict("smoker", "false"), "01001"),
    (~Verdict("smoker", "false"), "10110"),
    ((col("smoker") == 1) | (col("dose") > 7), "10110"),
    ((col("ward") == "b") | col("smoker"), "11010"),
    (~((col("ward") == "b") & col("smoker")), "11011"),
]


@pytest.mark.parametrize(("condition", "rows"), CASES, ids=lambda c: str(c)[:40])
def test_a_condition_holds_for_the_rows_that_sql_would_choose(condition, rows):
    truth = condition.evaluate(POLICY, TABLE)
    assert "".join(map(str, truth.true.astype(int))) == rows
    assert not np.any(truth.true & truth.false)


@pytest.mark.parametrize(("condition", "rows"), CASES, ids=lambda c: str(c)[:40])
def test_conditions_read_back_as_written(condition, rows):
    query = Count(by="ward", where=condition)
    assert parse_ask(ask_text(query)) == query


@pytest.mark.parametrize(("condition", "rows"), CASES, ids=lambda c: str(c)[:40])
def test_a_row_is_chosen_by_its_own_cells(condition, rows):
    """Alone, in another order, and beside other rows: the choice is the same."""
    for place in range(len(TABLE)):
        alone = condition.evaluate(POLICY, TABLE.iloc[[place]].reset_index(drop=True))
        assert str(int(alone.true[0])) == rows[place]
    backwards = condition.evaluate(POLICY, TABLE.iloc[::-1].reset_index(drop=True))
    assert "".join(map(str, backwards.true.astype(int)))[::-1] == rows


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("age > 200", "outside its declared bounds 0 to 100"),
        ("age > old", "Its values are: 0 to 25"),
        ("ward = d", "Its values are: a, b, c"),
        ("ward > a", "needs a number on both sides"),
        ("job = y", "merged into 'yz'"),
        ("smoker = maybe", "Its values are: true, false"),
        ("weight > 3", "no feature 'weight'"),
        ("age is missing", "has no slot for missing values"),
        ("age in (1, 300)", "outside its declared bounds"),
        ("age >", "expected a value at 19, found the end"),
        ("age>=40", "write blanks around the sign after 'age'"),
        ("age > by", "in double quotes if that is its name"),
        ("age between 3 or 4", "expected 'and'"),
        ("dose is 3", "expected 'missing', 'true' or 'false'"),
        ("dose not 3", "expected 'in'"),
        ("(smoker", r"expected '\)'"),
        ("", "expected a column"),
    ],
)
def test_conditions_that_cannot_be_priced_are_refused(where, message):
    with pytest.raises(CorrDPError, match=message):
        plan_queries(
            POLICY,
            [f"count() where {where}"],
            budget=Budget(epsilon=1, delta=0),
            n_rows=10,
        )


def test_python_expressions_refuse_what_has_no_meaning():
    with pytest.raises(CorrDPError, match="Combine conditions with"):
        bool(col("age") > 3)
    with pytest.raises(CorrDPError, match="Combine conditions with"):
        bool(col("age"))
    with pytest.raises(CorrDPError, match="a text, a number, true or false"):
        _ = col("age") == None  # noqa: E711
    with pytest.raises(CorrDPError, match="made of columns, got a bool"):
        Count(where=True)
    with pytest.raises(CorrDPError, match="is empty"):
        col("age").is_in()
    with pytest.raises(CorrDPError, match="without a column"):
        Count(groups=("a",))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ("count() by ward, ward", "must differ"),
        ("count() by ward, age, job, weight", "no feature 'weight'"),
        ("count(ward = a) by job", "names a group already"),
        ("count() by ward + 1", "expected"),
        ("mean(age) + ", "expected one of count"),
    ],
)
def test_tables_that_cannot_be_priced_are_refused(ask, message):
    with pytest.raises((CorrDPError, PolicyError), match=message):
        plan_queries(POLICY, [ask], budget=Budget(epsilon=1, delta=0), n_rows=10)


def test_cells_beyond_the_limit_are_refused():
    wide = Policy(
        tuple(
            Feature(name, "sensitive", NumberDomain(0, 1, bins=1000)) for name in "abc"
        )
    )
    with pytest.raises(PolicyError, match="1000000000 cells"):
        plan_queries(
            wide, ["count() by a, b, c"], budget=Budget(epsilon=1, delta=0), n_rows=10
        )


def test_answers_with_different_cells_are_refused_before_they_are_paid():
    left = Count(by="ward", groups=("a", "b"))
    for right, message in [
        (Count(by="ward", groups=("a", "c")), "different groups"),
        (Count(by="job"), "by ward and by job"),
    ]:
        with pytest.raises(CorrDPError, match=message):
            plan_queries(
                POLICY, [left + right], budget=Budget(epsilon=1, delta=0), n_rows=10
            )


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ((Count() + 1) * 2, "(count() + 1.0) * 2.0"),
        (1 + Count(), "1.0 + count()"),
        (1 - Count() * (Count() / 2), "1.0 - (count() * (count() / 2.0))"),
        (2 * Count() - 1, "2.0 * count() - 1.0"),
        (1 / Count("ward"), "1.0 / count() by ward"),
    ],
)
def test_arithmetic_is_written_as_it_is_calculated(query, text):
    assert ask_text(query) == text
    assert parse_ask(text) == query


def test_columns_alone_are_conditions():
    assert (col("smoker") | (col("age") > 3)) == (
        (col("smoker") == "true") | (col("age") > 3)
    )


def test_a_category_may_be_called_as_the_slot_for_missing_cells_is():
    for missing, n_missing in ((Slot(), 1), (Refuse(), 0)):
        levels = CategoryDomain(("(missing)", "a", "b"), missing=missing)
        policy = Policy(
            (
                Feature("age", "sensitive", BooleanDomain()),
                Feature("ward", "public", levels),
            )
        )
        cells = ["(missing)"] * 4 + ["a"] * 2 + ["b"] + [None] * n_missing
        table = pd.DataFrame({"age": [True] * len(cells), "ward": cells})
        asks = [f'count() where ward = "{name}"' for name in levels.categories]
        answers = answer_queries(table, policy, asks, epsilon=1.0).answers
        assert [answer.value for answer in answers] == [4, 2, 1]


def test_a_number_with_knots_is_missing_where_it_is():
    """Its hats stood where the flag of a plain number stands."""
    dose = NumberDomain(0, 8, missing=Slot(), knots=(0, 4, 8))
    policy = Policy(
        (Feature("age", "sensitive", BooleanDomain()), Feature("dose", "public", dose))
    )
    doses = [2.0] * 3 + [8.0] + [None] * 4
    table = pd.DataFrame({"age": [True] * 8, "dose": doses})
    asks = ["mean(dose)", "count() where dose >= 4", "count() where dose is missing"]
    answers = answer_queries(table, policy, asks, epsilon=1.0).answers
    assert [answer.value for answer in answers] == [3.5, 1, 4]


def test_whole_numbers_in_sql_are_compared_to_the_last_digit():
    near = ("9007199254740992", "9007199254740993")
    policy = Policy(
        (
            Feature("age", "sensitive", BooleanDomain()),
            Feature("key", "public", CategoryDomain(near)),
        )
    )
    table = pd.DataFrame({"age": [True] * 5, "key": [near[0]] * 4 + [near[1]]})
    asked = parse_sql(f"select count(*) from t where key = {near[1]}")
    (answer,) = answer_queries(table, policy, asked, epsilon=1.0).answers
    assert answer.value == 1

"""SQL: what is read, and that everything else is refused with its place."""

import re

import pytest

from corrdp.exceptions import CorrDPError
from corrdp.queries import Count, Mean, Quantiles, col, parse_ask, parse_sql


@pytest.mark.parametrize(
    ("sql", "ask"),
    [
        ("select count(*) from t", "count()"),
        ("SELECT COUNT(*) FROM t WHERE 40 <= age", "count() where age >= 40"),
        ("select avg(t.age) from t", "mean(age)"),
        ('select avg("hours per week") from t', 'mean("hours per week")'),
        ("select sum(x) from t where y = -2.50", "sum(x) where y = -2.5"),
        ("select quantile(age, 0.5) from t", "median(age)"),
        ("select count(*) from t where b is true", "count() where b is true"),
        ("select count(*) from t where b is not false", "count() where b is not false"),
        ("select avg(u.age) from t as u", "mean(age)"),
        ("select avg(T.age) from t", "mean(age)"),
        (
            "select count(*) from t where k in (9007199254740993, -9007199254740993)",
            "count() where k in (9007199254740993, -9007199254740993)",
        ),
        (
            "select ward, count(*) filter (where smoker) from t group by ward",
            "count() by ward where smoker",
        ),
        ("select (sum(x) - 3) * 2 from t", "(sum(x) - 3) * 2"),
        ("select -avg(x) from t", "0.0 - mean(x)"),
        (
            "select count(*) from t where not a in (1, 'b') and (c < 3 or d is null)",
            "count() where not a in (1, b) and (c < 3 or d is missing)",
        ),
    ],
)
def test_a_select_is_the_question_in_words(sql, ask):
    (query,) = parse_sql(sql).queries
    assert query == parse_ask(ask)


def test_several_aggregates_share_groups_and_condition():
    asked = parse_sql(
        "select region, count(*) as n, avg(age), median(age) "
        "from t where smoker group by region"
    )
    where = col("smoker") == "true"
    assert asked.queries == (
        Count("region", where=where),
        Mean("age", "region", where=where),
        Quantiles("age", (0.5,), "region", where=where),
    )
    assert asked.names == ("n", "avg(age)", "median(age)")


@pytest.mark.parametrize(
    ("sql", "place", "why"),
    [
        ("select age from t", "age", "not in group by"),
        ("select max(age) from t", "max", "can be priced"),
        ("select stddev(age) from t", "stddev", "can be priced"),
        ("select var_samp(age) from t", "var_samp", "can be priced"),
        ("select count(distinct age) from t", "count", "count(*)"),
        ("select count(age) from t", "count", "is not null"),
        ("select sum(age + 1) from t", "age", "a column was expected"),
        ("select sum(case when a then 1 end) from t", "a then", "a column was"),
        ("select count(*) from t group by age + 1", "age", "a column was expected"),
        ("select count(*) from t group by rollup (a)", "a)", "a column was expected"),
        ("select count(*) from t having count(*) > 3", "count(*) > 3", "having"),
        ("select a, count(*) from t group by a order by a", "a", "order"),
        ("select count(*) from t limit 5", "5", "limit"),
        ("select distinct count(*) from t", None, "distinct"),
        ("select count(*) from t join u on t.a = u.a", "u", "joins"),
        ("select count(*) from (select 1) as s", "1) as", "one plain table"),
        ("select count(*) from t where a like 'x%'", "a like", "can be priced"),
        ("select count(*) from t where a = b", "b", "a constant was expected"),
        ("select count(*) from t where a + 1 > 3", "3", "a column was expected"),
        ("select count(*) from t where a in (select 1)", "a in", "can be priced"),
        ("select count(*) over (partition by a) from t", "count", "can be priced"),
        ("select percentile_cont(2) within group (order by a) from t", "2", "must be"),
        ("select quantile(a, 'x') from t", "'x'", "a probability"),
        (
            "select percentile_cont(0.5) within group (order by a desc) from t",
            "percentile_cont",
            "can be priced",
        ),
        ("select count(*) from t where a is b", "a is", "can be priced"),
        ("select count(*) from t group by all", None, "cannot be answered"),
        ("select corr(a, b) from t group by c", "corr", "cannot be split"),
        ("select 1 from t", "1", "needs no table"),
        ("select avg(a) from t as u(b, a)", "u(", "names of the policy"),
        ("select a as b, avg(c) from t group by a", "a as b", "names of the policy"),
        ("select avg(u.a) from t", "u.a", "of another table"),
        ("select avg(t.a) from t as u", "t.a", "of another table"),
        ("select avg(s.t.a) from t", "s.t.a", "of another table"),
        ("select as struct count(*) from t", None, "kind"),
        ("with u as (select 1) select count(*) from u", "u as", "cannot be answered"),
    ],
)
def test_what_cannot_be_priced_is_refused_with_its_place(sql, place, why):
    with pytest.raises(CorrDPError) as caught:
        parse_sql(sql)
    message = str(caught.value)
    assert why in message
    if place is not None:
        position = int(re.search(r"at character (\d+)", message)[1]) - 1
        assert sql[position:].startswith(place), message


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("select count(* from t", "line 1, column 19"),
        ("select 'a", "a quote or a comment is not closed"),
        ("select sum(a) // 2 from t", "line 1, column 16, at '/'. Correct"),
        ("drop table t", "got drop"),
        ("", "got nothing"),
        ("select count(*) from t; select count(*) from t", "got select and select"),
        ("select count(*) from t union select count(*) from u", "got union"),
        ("select count(*)", "names no table"),
        ("select a from t group by a", "no aggregate"),
    ],
)
def test_statements_that_are_not_one_select_are_refused(sql, why):
    with pytest.raises(CorrDPError, match=re.escape(why)):
        parse_sql(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select avg(a) from t where " + "not " * 2000 + "b",
        "select " + "(" * 2000 + "avg(a)" + ")" * 2000 + " from t",
        "select " + " + ".join(["avg(a)"] * 2000) + " from t",
    ],
)
def test_selects_deeper_than_python_follows_are_refused_in_words(sql):
    with pytest.raises(CorrDPError, match="too many parts within each other"):
        parse_sql(sql)


def test_what_sqlglot_cannot_write_back_is_refused_without_its_words(capfd):
    with pytest.raises(CorrDPError, match="locks cannot be answered"):
        parse_sql("select count(*) from t for update")
    assert capfd.readouterr().err == ""

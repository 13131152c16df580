"""Tables of answers: rows, consistency, pictures, sampling errors."""

import copy
import json
import math
import pickle
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest

from command_runner import run
from corrdp.exceptions import CorrDPError
from corrdp.ledger import Ledger
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    Slot,
)
from corrdp.queries import (
    answer_plan,
    answer_queries,
    consistent_counts,
    parse_sql,
    plan_queries,
)
from corrdp.queries._release import answers_of
from queries_people import N_ROWS, POLICY_TEXT, people_table

SQL = (
    "select sex, sector, count(*) as people, avg(income) from people "
    "where age >= 30 group by sex, sector"
)


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    path = tmp_path_factory.mktemp("people") / "policy.toml"
    path.write_text(POLICY_TEXT, encoding="utf-8")
    return Policy.from_file(path)


def answered(policy, asks, epsilon=1.0, **options):
    options.setdefault("random_state", 4)
    return answer_queries(people_table(), policy, asks, epsilon=epsilon, **options)


def test_aggregates_of_one_select_stand_in_one_row(policy):
    result = answered(policy, parse_sql(SQL))
    rows = result.rows()
    assert len(rows) == 6
    assert list(rows[0]) == [
        *("sex", "sector", "people", "people radius"),
        *("avg(income)", "avg(income) radius"),
    ]
    assert {(row["sex"], row["sector"]) for row in rows} == {
        (sex, sector) for sex in "fm" for sector in ("industry", "trade", "office")
    }
    assert rows[0]["people"] == result.answers[0].values[0]
    assert result.answers[0].to_json()["by"] == ["sex", "sector"]
    assert "people: f / industry" in result.to_text()
    assert "replayable noise" in result.to_text()


@pytest.mark.parametrize("unit", [None, "who"])
def test_answers_and_their_plan_go_to_other_processes(unit):
    """Answers are paid for once; what cannot be kept would be asked for again."""
    rows = {} if unit is None else {"unit": unit, "max_rows": 2}
    policy = Policy((Feature("age", "sensitive", NumberDomain(0, 100)),), **rows)
    table = pd.DataFrame({"age": [30.0, 40.0, 50.0], "who": ["a", "a", "b"]})
    asks = ["mean(age)", "median(age) where age > 20"]
    for delta in (0.0, 1e-6):
        result = answer_queries(table, policy, asks, epsilon=1.0, delta=delta)
        for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
            assert again.to_json() == result.to_json()
            assert again.plan.noise.allowed_epsilon == result.plan.noise.allowed_epsilon
            with pytest.raises(TypeError):
                again.plan.noise.allowed_epsilon["sensitive"] = math.inf
            answered = answer_plan(table, again.plan, random_state=3).answers
            assert answered == answer_plan(table, result.plan, random_state=3).answers


def test_no_answer_is_written_over_another():
    """What was paid for is there, whatever groups and answers are called."""
    policy = Policy(
        (
            Feature("age", "sensitive", NumberDomain(0, 100)),
            Feature("a", "public", CategoryDomain(("x / y", "x"))),
            Feature("b", "public", CategoryDomain(("z", "y / z"))),
            Feature(
                "c",
                "public",
                CategoryDomain(("(missing)", "(other)"), other=True, missing=Slot()),
            ),
        )
    )
    table = pd.DataFrame(
        {
            "age": [50.0] * 10,
            "a": ["x / y"] * 4 + ["x"] * 6,
            "b": ["z"] * 4 + ["y / z"] * 6,
            "c": ["(missing)"] + [None] * 2 + ["(other)"] * 3 + ["q"] * 4,
        }
    )
    asks = ["count() by a, b", "histogram(c)", "histogram(c) / count()"]
    crossed, slots, shares = answer_queries(table, policy, asks, epsilon=1.0).answers
    assert crossed.value == {
        '"x / y" / z': 4,
        '"x / y" / "y / z"': 0,
        "x / z": 0,
        'x / "y / z"': 6,
    }
    assert slots.to_json()["value"] == {
        "(missing)": 1,
        "(other)": 3,
        "((other))": 4,
        "((missing))": 2,
    }
    assert shares.values == (0.1, 0.3, 0.4, 0.2)
    sql = "select a, count(*) as a, avg(age) as n, sum(age) as n from t group by a"
    rows = answer_queries(table, policy, parse_sql(sql), epsilon=1.0).rows()
    assert [row["a"] for row in rows] == ["x / y", "x"]
    assert [row["a 2"] for row in rows] == [4, 6]
    assert all({"n", "n radius", "n 2", "n 2 radius"} <= set(row) for row in rows)


def test_consistent_counts_agree_and_are_not_negative(policy):
    asks = ["count() by sex", "count() by sector, sex", "histogram(sector)"]
    asks += ["mean(age)", "count() where smoker", "count() by sex where smoker"]
    before = answered(policy, asks, epsilon=0.0003)
    assert min(before.answers[1].values) == 0.0  # noise of this size was clipped
    after = consistent_counts(before)
    sex, both, sector = (np.array(answer.values) for answer in after.answers[:3])
    assert min(sex.min(), both.min(), sector.min()) >= 0.0
    both = both.reshape(3, 2)
    assert both.sum(axis=0) == pytest.approx(sex, abs=1e-6)
    assert both.sum(axis=1) == pytest.approx(sector, abs=1e-6)
    assert sex.sum() == pytest.approx(N_ROWS, abs=1e-6)
    smokers, by_sex = after.answers[4:]
    assert sum(by_sex.values) == pytest.approx(smokers.values[0], abs=1e-6)
    assert after.answers[3] == before.answers[3]
    assert all(after.answers[place].consistent for place in (0, 1, 2, 4, 5))
    assert after.answers[0].to_json()["consistent"] is True
    assert "consistent" in after.to_text()
    for old, new in zip(before.answers, after.answers, strict=True):
        moved = np.abs(np.array(new.values) - np.array(old.values))
        assert np.array(new.radii) == pytest.approx(np.array(old.radii) + moved)


def test_consistency_keeps_public_counts_and_leaves_listed_groups(policy):
    asks = ["count() by region", "count() by region, sex", "count() by sex (f)"]
    before = answered(policy, asks, epsilon=0.01)
    after = consistent_counts(before)
    exact = people_table().region.value_counts()[["north", "south", "east"]]
    assert np.array(after.answers[0].values) == pytest.approx(exact, rel=1e-6)
    assert after.answers[2] == before.answers[2]


def test_tables_that_meet_in_too_many_cells_are_refused(policy):
    asks = ["count() by income, age", "count() by sector, region, sex"]
    with pytest.raises(CorrDPError, match="3600 cells") as caught:
        consistent_counts(answered(policy, [*asks, "count() by smoker"]))
    assert "Ask for fewer" in str(caught.value)


def test_what_public_facts_refuse_costs_nothing(tmp_path):
    """A column that is not there, an array of another shape, a seed that is none."""
    policy = Policy(
        (
            Feature("age", "sensitive", NumberDomain(0, 100)),
            Feature("ward", "sensitive", CategoryDomain(("a", "b"))),
        ),
        Label("sick", BooleanDomain(), 1.0),
    )
    budget = Budget(epsilon=1.0, delta=0.0)
    ledger = Ledger.create(tmp_path / "l", policy, budget=budget)
    frame = pd.DataFrame({"age": [1.0, 2.0], "ward": ["a", "b"]})
    for table, ask, seed in [
        (frame, "count() by sick", None),
        (frame.drop(columns="ward"), "mean(age) where ward = a", None),
        (frame.to_numpy(), "count() by sick", None),
        (frame[["age"]].to_numpy(), "mean(age)", None),
        (np.zeros(2), "mean(age)", None),
        ([1.0, 2.0], "mean(age)", None),
        (frame, "mean(age)", -1),
        (frame, "mean(age)", "today"),
    ]:
        with pytest.raises(CorrDPError):
            answer_queries(
                table, policy, [ask], epsilon=0.5, ledger=ledger, random_state=seed
            )
    assert ledger.remaining().share_left == 1.0
    assert answer_queries(frame, policy, ["mean(age)"], epsilon=0.5, ledger=ledger)


def test_counts_that_cannot_be_made_consistent_are_refused_unpaid(tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY_TEXT, encoding="utf-8")
    people_table().to_csv(tmp_path / "people.csv", index=False)
    asks = ["count() by income, age", "count() by sector, region, sex"]
    refused = run(
        *("query", "people.csv", "--policy", "policy.toml", "--epsilon", 1),
        *("--ask", asks[0], "--ask", asks[1], "--ask", "count() by smoker"),
        *("--consistent", "--ledger", "l", "--ledger-epsilon", 3),
        cwd=tmp_path,
    )
    assert refused.code == 3
    assert "3600 cells" in refused.stderr
    assert not (tmp_path / "l").exists()


def test_sampling_errors_stand_beside_noise(policy):
    """Of a share: the spread of a binomial count; of a mean: no more than bounds."""
    result = answered(policy, ["count() by sex", "mean(income)", "count()"])
    count, mean, total = result.answers
    share = count.values[0] / N_ROWS
    expected = 1.96 * math.sqrt(N_ROWS * share * (1 - share))
    assert count.sampling_radii[0] == pytest.approx(expected)
    table = people_table()
    assert mean.sampling_radii[0] >= 1.96 * table.income.std() / math.sqrt(N_ROWS)
    assert mean.sampling_radii[0] <= 1.96 * 50 / math.sqrt(N_ROWS) + 1e-9
    assert total.sampling_radii == (0.0,)
    document = json.loads(json.dumps(result.to_json()))
    assert "noise alone" in document["errors"]
    assert document["answers"][1]["sampling_radius"] == mean.sampling_radii[0]


def test_pictures_are_drawn_from_released_numbers(policy):
    result = answered(policy, ["count() by sex", "count() by sex, sector", "mean(age)"])
    bars, heat, single = (answer.to_svg() for answer in result.answers)
    for picture, n_rectangles in ((bars, 2), (heat, 6)):
        tree = ElementTree.fromstring(picture)
        rectangles = tree.findall("{http://www.w3.org/2000/svg}rect")
        assert len(rectangles) == n_rectangles
    assert "± " in heat
    assert "M" in ElementTree.fromstring(bars).find(
        "{http://www.w3.org/2000/svg}path"
    ).get("d")
    assert single == ""
    assert "<svg" in result._repr_html_()
    assert "radius (noise)" in result.to_page()


def test_names_in_pages_are_escaped():
    policy = Policy((Feature("w", "sensitive", CategoryDomain(("<b>", "a&b"))),))
    table = pd.DataFrame({"w": ["<b>", "a&b"]})
    page = answer_queries(table, policy, ["count() by w"], epsilon=1.0).to_page()
    assert "<b>" not in page
    assert "a&b" not in page


def test_a_ratio_that_may_be_anything_has_no_radius(policy):
    result = answered(policy, ["mean(age) / (mean(income) - 50)"], epsilon=0.001)
    assert result.answers[0].radii == (math.inf,)
    assert result.answers[0].to_json()["radius"] is None


@pytest.mark.parametrize(
    "ask",
    [
        "mean(age) / (count() - count())",
        "count() / (mean(smoker) - mean(smoker)) by sector",
        "count() / (count(sex = f) - count(sex = f))",
        "1 / (mean(age) - mean(age))",
        "1 / (median(age) - median(age))",
        "count() / (0 * count(sex = f))",
        "mean(age) / median(hours)",  # drawn, and its bounds enclose 0
        "sum(age) * 1e308 * 1e308",
        "sum(age) / 1e-320",
    ],
)
def test_what_no_table_gives_a_radius_is_refused_before_it_is_paid(policy, ask):
    with pytest.raises(CorrDPError, match="infinite radius whatever the rows are"):
        plan_queries(
            policy, [ask], budget=Budget(epsilon=1.0, delta=0.0), n_rows=N_ROWS
        )


@pytest.mark.parametrize(
    "ask",
    [
        "count() / (count(sex = f) - count(sex = m))",
        "mean(age) / (mean(income) - 50)",
        "1 / mean(age) by sector",
        "1 / variance(hours) by sex, sector where age >= 40",
        "1 / quantiles(age, 0, 0.5, 1) by sex",  # counted in bins
        "1 / covariance(age, income) + 1 / correlation(age, income)",
        "sum(income) / sum(hours) by sector",
        "1 / (count() - count(sex = f))",
        "(count() - count()) / count(sex = f)",
    ],
)
def test_what_some_table_gives_a_radius_is_planned(policy, ask):
    for n_rows in (2, N_ROWS):
        budget = Budget(epsilon=1.0, delta=0.0)
        assert plan_queries(policy, [ask], budget=budget, n_rows=n_rows).moments


def test_a_negative_divisor_is_divided_by():
    from corrdp.queries._estimates import Estimate

    ratio = Estimate(6.0, 4.0, 8.0).over(Estimate(-2.0, -4.0, -1.0))
    assert ratio == Estimate(-3.0, -8.0, -1.0)


def test_the_command_takes_one_language(policy, tmp_path):
    people_table().to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "policy.toml").write_text(POLICY_TEXT, encoding="utf-8")
    start = ("query", "people.csv", "--policy", "policy.toml", "--epsilon", 1)
    neither = run(*start, cwd=tmp_path)
    both = run(*start, "--ask", "count()", "--sql", "select 1", cwd=tmp_path)
    for result, word in ((neither, "neither"), (both, "both")):
        assert result.code == 3
        assert f"got {word}" in result.stderr
    made = run(
        *(*start, "--sql", SQL, "--consistent", "--seed", 1, "--out", "page.html"),
        cwd=tmp_path,
    )
    assert made.code == 0, made.stderr
    assert "made consistent" in made.stdout
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")
    before = sorted(path.name for path in tmp_path.iterdir())
    refused = run(
        *(*start, "--sql", "select max(age) from t", "--ledger", "l"),
        *("--ledger-epsilon", 3),
        cwd=tmp_path,
    )
    assert refused.code == 3
    assert "at character 8" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("ask", ["median(x)", "median(x) where g", "median(x) by g"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_quantile_stays_enclosed_whatever_the_noise_within_its_reach(ask, sign):
    """All noise as far as it reaches, and against the median: the worst case."""
    features = (
        Feature("x", "sensitive", NumberDomain(0, 10, bins=10)),
        Feature("g", "sensitive", BooleanDomain()),
    )
    policy = Policy(features)
    values = np.arange(1_000) / 100
    table = pd.DataFrame({"x": values, "g": [True] * 1_000})
    plan = plan_queries(
        policy,
        [ask],
        budget=Budget(epsilon=0.05, delta=0.0),
        n_rows=1_000,
        quantiles="counts",
    )
    (moment,) = plan.moments
    (reach,) = plan.noise.radius(0.05).tolist()
    noise = np.where(np.arange(10) < 5, sign * reach, -sign * reach)
    exact = moment.evaluate(policy, table)
    noisy = exact + np.tile(noise, exact.size // 10)
    (answer,) = answers_of(plan, noisy, plan.noise.radius(0.05), 0.05)
    assert abs(answer.values[-1] - 4.99) <= answer.radii[-1]

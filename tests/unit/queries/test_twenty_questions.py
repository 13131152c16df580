"""Twenty questions of a statistics office: Python, command line and SQL agree."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from command_runner import run
from corrdp import queries
from corrdp.policy import Policy
from queries_people import N_ROWS, POLICY_TEXT, people_table

QUESTIONS = tomllib.loads(
    (Path(__file__).parent / "twenty_questions.toml").read_text(encoding="utf-8")
)["question"]
NAMES = {name: getattr(queries, name) for name in queries.__all__}
SEED, EPSILON = 11, 2.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    people_table().to_csv(folder / "people.csv", index=False)
    (folder / "policy.toml").write_text(POLICY_TEXT, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def policy(folder):
    return Policy.from_file(folder / "policy.toml")


def test_there_are_twenty():
    assert len(QUESTIONS) == 20


def command(folder, *question):
    result = run(
        *("query", "people.csv", "--policy", "policy.toml", *question),
        *("--epsilon", EPSILON, "--seed", SEED, "--json"),
        cwd=folder,
    )
    assert result.code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["certificate"]["replayable_noise"] is True
    (answer,) = document["answers"]
    return answer["value"], answer["radius"], document["certificate"]["classes"]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q["title"])
def test_three_languages_give_one_answer(folder, policy, question):
    asked = eval(question["python"], dict(NAMES))
    if question["title"].startswith("Percentage"):
        # The row count is public, so the constant and the count are one number.
        assert asked.right == queries.Count()
    result = queries.answer_queries(
        people_table(), policy, [asked], epsilon=EPSILON, random_state=SEED
    )
    document = json.loads(json.dumps(result.to_json()))
    python = document["answers"][0]
    wanted = python["value"], python["radius"], document["certificate"]["classes"]
    assert command(folder, "--ask", question["ask"]) == wanted
    assert command(folder, "--sql", question["sql"]) == wanted


def exact(table):
    working = table[table.age.between(20, 64)]
    return {
        "How many smokers live in each region?": table[table.smoker]
        .groupby("region").size()[["north", "south", "east"]],
        "How many people are 65 or older?": [(table.age >= 65).sum()],
        "How many people by region and sex?": table.groupby(["region", "sex"])
        .size().loc[["north", "south", "east"]],
        "Mean income by region": table.groupby("region").income.mean()[
            ["north", "south", "east"]
        ],
        "Mean income of working age by region and sex": working.groupby(
            ["region", "sex"]
        ).income.mean().loc[["north", "south", "east"]],
        "Total hours worked outside the north": [
            table.hours[table.region != "north"].sum()
        ],
        "Spread of income by sex": table.groupby("sex").income.var(ddof=0),
        "Share of smokers by region": table.groupby("region").smoker.mean()[
            ["north", "south", "east"]
        ],
        "How many do not say how many hours they work?": table[table.hours.isna()]
        .groupby("sex").size(),
        "Mean hours of those who say": table.groupby("sector").hours.mean()[
            ["industry", "trade", "office"]
        ],
        "Income per hour worked, by sector": (
            table.groupby("sector").income.sum() / table.groupby("sector").hours.sum()
        )[["industry", "trade", "office"]],
        "How many are neither young nor smoking?": [
            (~((table.age < 30) | table.smoker)).sum()
        ],
        "Percentage of men and women who smoke and work in trade": 100
        * table[table.smoker & (table.sector == "trade")].groupby("sex").size()
        / N_ROWS,
        "Median age by region": table.groupby("region").age.quantile(
            0.5, interpolation="lower"
        )[["north", "south", "east"]],
        "Mean age above the retirement age, less that age": table[table.age > 65]
        .groupby("sex").age.mean() - 65,
    }  # fmt: skip


def test_answers_are_those_of_pandas_within_their_radii(policy):
    """All at once except with probability 1e-9."""
    table = people_table()
    truth = exact(table)
    chosen = [question for question in QUESTIONS if question["title"] in truth]
    assert len(chosen) == len(truth)
    result = queries.answer_queries(
        table,
        policy,
        [question["ask"] for question in chosen],
        epsilon=400.0,
        failure_probability=1e-9,
    )
    for question, answer in zip(chosen, result.answers, strict=True):
        values = np.asarray(truth[question["title"]], dtype=float)
        gap = np.abs(np.array(answer.values) - values)
        assert np.all(gap <= np.array(answer.radii) + 1e-9), question["title"]
        if answer.rank_radii:  # drawn: a few ranks of some thousand rows
            assert max(answer.rank_radii) < 100, question["title"]
            assert np.all(gap <= 3.0), question["title"]
        else:
            largest = np.abs(values).max()
            assert np.all(np.array(answer.radii) < largest), question["title"]

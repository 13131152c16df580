"""`corrdp query` and `corrdp ledger show` as one runs them."""

import json

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from corrdp.cli import _ledger, _query
from corrdp.exceptions import BudgetError, CorrDPError

POLICY = """
relation = "one_insensitive"

[features.age]
role = "sensitive"
type = "number"
bounds = [0, 100]
bins = 4

[features.race]
role = "insensitive"
type = "category"
categories = ["a", "b"]
leakage = 0.2
"""

app = typer.Typer()
app.command("query")(_query.query)
app.add_typer(_ledger.app, name="ledger")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY)
    table = pd.DataFrame({"age": [30.0, 50.0] * 500, "race": ["a", "b"] * 500})
    table.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path


def run(files, *options):
    arguments = [str(files / "data.csv"), "--policy", str(files / "policy.toml")]
    return CliRunner().invoke(app, ["query", *arguments, *options])


def test_questions_share_a_budget_and_a_ledger(files):
    ledger = str(files / "data.ledger")
    asks = ["--ask", "mean(age)", "--ask", "count() by race", "--epsilon", "0.5"]
    first = run(files, *asks, "--ledger", ledger, "--ledger-epsilon", "1.0", "--json")
    document = json.loads(first.stdout)
    assert [a["ask"] for a in document["answers"]] == ["mean(age)", "count() by race"]
    mean, counts = document["answers"]
    assert abs(mean["value"] - 40.0) <= 100.0
    assert mean["radius"] > 0
    assert set(counts["value"]) == {"a", "b"}
    assert document["certificate"]["epsilon"] <= 0.5
    assert document["charge"] == 3
    assert run(files, *asks, "--ledger", ledger).exit_code == 0
    refused = run(files, *asks, "--ledger", ledger)
    assert isinstance(refused.exception, BudgetError)

    shown = CliRunner().invoke(app, ["ledger", "show", ledger, "--json"])
    state = json.loads(shown.stdout)
    purposes = [e["purpose"] for e in state["entries"] if e["kind"] == "charge"]
    assert purposes == ["mean(age); count() by race"] * 2
    assert state["remaining"]["overall"]["share_left"] == pytest.approx(0, abs=1e-6)
    text = CliRunner().invoke(app, ["ledger", "show", ledger]).stdout
    assert "sensitive" in text
    assert "mean(age)" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ask", "mean(race)", "--epsilon", "1"], "category and has no bounds"),
        (["--ask", "mean(pay)", "--epsilon", "1"], "no feature 'pay'"),
        (["--ask", "mean(age", "--epsilon", "1"], "expected '\\)' at 8"),
        (["--ask", "mean(age)", "--epsilon", "0"], "epsilon must be"),
        (["--ask", "count(race = c)", "--epsilon", "1"], "'c' of column 'race'"),
    ],
)
def test_refusals_say_what_is_wrong(files, options, message):
    error = run(files, *options).exception
    with pytest.raises(CorrDPError, match=message):
        raise error


def test_a_new_ledger_needs_its_total_budget(files):
    options = ["--ask", "mean(age)", "--epsilon", "1", "--ledger", str(files / "l")]
    with pytest.raises(BudgetError, match="--ledger-epsilon"):
        raise run(files, *options).exception
    assert not (files / "l").exists()
    assert run(files, *options, "--ledger-epsilon", "2").exit_code == 0
    with pytest.raises(BudgetError, match="has its budget"):
        raise run(files, *options, "--ledger-epsilon", "2").exception

"""``--model additive`` in train, plan, sweep, predict, report and audit."""

import json

import numpy as np
import pandas as pd
import pytest

from command_runner import run

POLICY = """
target = "rich"

[features.age]
role = "sensitive"
type = "number"
bounds = [0, 100]

[features.sex]
role = "insensitive"
type = "category"
categories = ["f", "m"]
leakage = 0.2

[label]
type = "category"
categories = ["no", "yes"]
score = 0.0
"""
BUDGET = ("--epsilon", 3, "--delta", 1e-6, "--model", "additive")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("additive")
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, 3000)
    rich = np.where(np.abs(age - 50) > 25, "yes", "no")
    frame = pd.DataFrame(
        {"age": age, "sex": rng.choice(["f", "m"], age.size), "rich": rich}
    )
    frame.to_csv(place / "data.csv", index=False)
    (place / "policy.toml").write_text(POLICY)
    result = run(
        *("train", "data.csv", "--policy", "policy.toml", *BUDGET),
        *("--out", "model", "--seed", 0, "--json"),
        cwd=place,
    )
    assert result.code == 0, result.stderr
    return place


def test_the_report_draws_curves(folder):
    summary = json.loads((folder / "model" / "summary.json").read_text())
    ages = [row["value"] for row in summary["shapes"] if row["feature"] == "age"]
    assert ages[0] == 0.0
    assert ages[-1] == 100.0
    assert {row["feature"] for row in summary["shapes"]} == {"age"}
    page = (folder / "model" / "report.html").read_text()
    assert 'id="chart-shapes"' in page
    result = run("report", "model", "--format", "markdown", cwd=folder)
    assert "## Curves" in (result.stdout + _written(folder))


def _written(folder):
    return "".join(path.read_text() for path in folder.glob("**/*.md"))


def test_predictions_follow_the_curve(folder):
    result = run("predict", "model", "data.csv", "--out", "predicted.csv", cwd=folder)
    assert result.code == 0, result.stderr
    predicted = pd.read_csv(folder / "predicted.csv")
    truth = pd.read_csv(folder / "data.csv")
    assert (predicted.iloc[:, 0] == truth.rich).mean() > 0.85


def test_plans_price_additive_models(folder):
    result = run(
        *("plan", "--policy", "policy.toml", "--rows", 3000, *BUDGET, "--json"),
        cwd=folder,
    )
    assert result.code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["model"] == "additive"
    assert document["certificate"]["epsilon"] <= 3.0


def test_sweeps_and_audits_take_additive_models(folder):
    result = run(
        *("sweep", "data.csv", "--policy", "policy.toml", "--epsilons", "3"),
        *("--seeds", 1, "--methods", "corr,nonprivate", "--model", "additive"),
        *("--research", "--out", "sweep", "--json"),
        cwd=folder,
    )
    assert result.code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["metric"] == "accuracy"
    assert min(point["mean"] for point in document["points"]) > 0.85
    result = run("audit", "model", "--time-limit", 10, "--json", cwd=folder)
    assert result.code == 0, result.stderr
    assert json.loads(result.stdout)["passed"]

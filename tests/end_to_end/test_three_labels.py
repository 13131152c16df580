"""A label of three categories, through every command that meets a linear model."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from command_runner import run

POLICY = """
target = "wealth"

[features.age]
role = "sensitive"
type = "number"
bounds = [0, 100]

[features.city]
role = "insensitive"
type = "category"
categories = ["x", "y", "z"]
leakage = 0.3

[label]
type = "category"
categories = ["low", "middle", "high"]
score = 0.0
"""
BUDGET = ("--epsilon", "2", "--delta", "1e-5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("three")
    rng = np.random.default_rng(0)
    age, city = rng.uniform(0, 100, 1500), rng.choice(list("xyz"), 1500)
    cuts = np.digitize(age + 20 * (city == "x") + rng.normal(0, 10, 1500), [40, 80])
    wealth = np.array(["low", "middle", "high"])[cuts]
    frame = pd.DataFrame({"age": age, "city": city, "wealth": wealth})
    frame.to_csv(place / "data.csv", index=False)
    (place / "policy.toml").write_text(POLICY)
    trained = run(
        "train", place / "data.csv", "--policy", place / "policy.toml", *BUDGET,
        "--model", "logistic", "--seed", "1", "--research",
        "--out", place / "model", "--json",
    )  # fmt: skip
    assert trained.code == 0, trained.stderr
    (place / "trained.json").write_text(trained.stdout)
    return place


def test_training_scores_above_the_majority(folder):
    document = json.loads((folder / "trained.json").read_text())
    assert document["certificate"]["epsilon"] <= 2.0
    assert document["train_score"] > 0.6


def test_predictions_have_a_probability_per_label(folder):
    out = folder / "predictions.csv"
    result = run("predict", folder / "model", folder / "data.csv", "--out", out)
    assert result.code == 0, result.stderr
    with out.open() as file:
        first = next(csv.DictReader(file))
    chances = [float(first[f"probability of {n}"]) for n in ("low", "middle", "high")]
    assert sum(chances) == pytest.approx(1.0)
    assert first["prediction"] in ("low", "middle", "high")


def test_the_report_names_every_weight_by_its_label(folder):
    summary = json.loads((folder / "model" / "summary.json").read_text())
    columns = [row["column"] for row in summary["coefficients"]]
    assert "city = x, label low" in columns
    assert len(columns) == 3 * 4
    assert all(row["deviation"] > 0 for row in summary["coefficients"])
    assert "label middle" in (folder / "model" / "report.html").read_text()


def test_plans_and_certificates_can_be_shown(folder):
    planned = run(
        "plan", "--policy", folder / "policy.toml", "--rows", "1500", *BUDGET,
        "--model", "logistic", "--json",
    )  # fmt: skip
    assert planned.code == 0, planned.stderr
    assert json.loads(planned.stdout)["noise_to_signal"] > 0
    assert run("certificate", "verify", folder / "model").code == 0

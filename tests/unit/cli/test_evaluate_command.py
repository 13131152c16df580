"""``corrdp evaluate`` with the leakage table that the model was trained with."""

import numpy as np
import pandas as pd
import pytest

from command_runner import run

POLICY = """
target = "ill"

[features.age]
role = "sensitive"
type = "number"
bounds = [0, 100]
bins = 2

[features.weight]
role = "insensitive"
type = "number"
bounds = [0, 100]
bins = 4

[features.town]
role = "insensitive"
type = "category"
categories = ["a", "b", "c", "d", "e", "f"]

[label]
type = "category"
categories = ["no", "yes"]
score = 0.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with thin levels, of which a private release makes one."""
    place = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(0)
    n_rows = 3_000
    pd.DataFrame(
        {
            "age": rng.uniform(0, 100, n_rows),
            "weight": rng.uniform(0, 100, n_rows),
            "town": rng.choice(list("abcdef"), n_rows, p=[0.6, 0.36] + [0.01] * 4),
            "ill": rng.choice(["no", "yes"], n_rows),
        }
    ).to_csv(place / "data.csv", index=False)
    (place / "policy.toml").write_text(POLICY)
    released = run(
        *("leakage", "data.csv", "--policy", "policy.toml", "--out", "leakage.json"),
        *("--epsilon", 1, "--delta", 1e-6, "--seed", 1),
        *("--ledger", "b.ledger", "--ledger-epsilon", 30, "--ledger-delta", 1e-4),
        cwd=place,
    )
    assert released.code == 0, released.stderr
    assert "joined" in released.stdout
    return place


@pytest.mark.parametrize("model", ["logistic", "additive"])
def test_levels_joined_by_the_table_and_knots_of_the_model_are_its_own(folder, model):
    budget = ("--leakage", "leakage.json", "--delta", 1e-6, "--ledger", "b.ledger")
    trained = run(
        *("train", "data.csv", "--policy", "policy.toml", "--model", model),
        *("--epsilon", 3, "--out", model, *budget),
        cwd=folder,
    )
    assert trained.code == 0, trained.stderr
    measured = run("evaluate", model, "data.csv", "--epsilon", 1, *budget, cwd=folder)
    assert measured.code == 0, measured.stderr
    assert "accuracy" in measured.stdout


def test_the_table_of_another_policy_is_refused(folder):
    other = POLICY.replace("bins = 4", "bins = 5")
    (folder / "other.toml").write_text(other)
    trained = run(
        *("train", "data.csv", "--policy", "other.toml", "--model", "logistic"),
        *("--epsilon", 3, "--delta", 1e-6, "--method", "standard", "--out", "other"),
        cwd=folder,
    )
    assert trained.code == 0, trained.stderr
    refused = run(
        *("evaluate", "other", "data.csv", "--epsilon", 1, "--delta", 1e-6),
        *("--leakage", "leakage.json"),
        cwd=folder,
    )
    assert refused.code == 3
    assert "was estimated for policy" in refused.stderr

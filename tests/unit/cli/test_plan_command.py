"""``corrdp plan``: networks too, columns without noise, labels that fit the model."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from command_runner import run
from corrdp.estimators import MLPClassifier, MLPRegressor
from corrdp.exceptions import UtilityWarning
from corrdp.policy import Policy

POLICY = """
target = "ill"

[features.sex]
role = "sensitive"
type = "category"
categories = ["f", "m"]

[features.country]
role = "insensitive"
type = "category"
categories = ["Italy"]

[features.age]
role = "insensitive"
type = "number"
bounds = [0, 100]
leakage = 0.2

[features.year]
role = "public"
type = "number"
bounds = [1990, 2000]

[label]
"""
CATEGORIES = 'type = "category"\ncategories = [0, 1]\nscore = 0.0\n'
NUMBER = 'type = "number"\nbounds = [0, 9]\nscore = 0.0\n'
BUDGET = ("--epsilon", 1, "--delta", 1e-6)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY + CATEGORIES)
    (tmp_path / "number.toml").write_text(POLICY + NUMBER)
    return tmp_path


def planned(folder, model, n_rows, policy="policy.toml", *more):
    words = ("--policy", policy, "--rows", n_rows, *BUDGET, "--model", model)
    result = run("plan", *words, *more, cwd=folder)
    assert result.code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("model", ["means", "logistic", "additive", "mlp"])
def test_a_column_without_noise_says_why(folder, model):
    text = planned(folder, model, 2000)
    line = next(x for x in text.splitlines() if x.startswith("country"))
    assert "none needed" in line
    assert line.endswith("(one value)")
    document = json.loads(planned(folder, model, 2000, "policy.toml", "--json"))
    silent = [group for group in document["groups"] if group["noise_scale"] == 0]
    reasons = {group["name"]: group["reason"] for group in silent}
    public = {"year": "public"} if model == "means" else {}
    assert reasons == {"country": "one value"} | public
    assert all("reason" not in g for g in document["groups"] if g not in silent)


@pytest.mark.parametrize(
    ("policy", "kind"),
    [("policy.toml", MLPClassifier), ("number.toml", MLPRegressor)],
)
@pytest.mark.parametrize("n_rows", [900, 90_000])
def test_a_network_is_planned_as_it_is_fitted(folder, policy, kind, n_rows):
    """Of few rows the line in its place is; no plan has a row to read."""
    document = json.loads(planned(folder, "mlp", n_rows, policy, "--json"))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n_rows),
            "country": "Italy",
            "age": rng.uniform(0, 100, n_rows),
            "year": rng.uniform(1990, 2000, n_rows),
            "ill": rng.integers(0, 2, n_rows),
        }
    )
    rules = Policy.from_file(folder / policy)
    model = kind(rules, epsilon=1.0, delta=1e-6, random_state=0)
    paid = []

    def stop(certificate):
        paid.append(certificate)
        raise RuntimeError("paid, and nothing is trained")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)  # of the line
        with pytest.raises(RuntimeError, match="paid"):
            model.fit(frame, charge=stop)
    fitted = json.loads(paid[0].to_json())
    assert document["model"] == "mlp"
    assert (document.get("in_place_of") == "network") == (n_rows == 900)
    for part in ("classes", "components", "epsilon"):
        assert document["certificate"][part] == fitted[part]


@pytest.mark.parametrize("command", ["plan", "train", "sweep"])
@pytest.mark.parametrize(
    ("policy", "model", "other"),
    [("number.toml", "logistic", "linear"), ("policy.toml", "linear", "logistic")],
)
def test_a_model_of_other_labels_is_refused_by_its_name(
    folder, command, policy, model, other
):
    """Before the table is looked for, and in no words of Python."""
    words = {
        "plan": ("plan", "--rows", 900, *BUDGET),
        "train": ("train", "absent.csv", *BUDGET, "--out", "out"),
        "sweep": ("sweep", "absent.csv", "--epsilons", 1, "--research", "--out", "out"),
    }
    found = run(*words[command], "--policy", policy, "--model", model, cwd=folder)
    assert found.code == 3
    assert f"--model {model} predicts" in found.stderr
    assert f"--model {other} or additive" in found.stderr
    assert "'ill'" in found.stderr
    assert "Regress" not in found.stderr

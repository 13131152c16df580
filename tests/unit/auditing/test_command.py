"""``corrdp audit``: policies, runs, refusals, exit codes."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from audit_mutants import audited_policy
from corrdp.auditing import Claim
from corrdp.cli import _audit
from corrdp.estimators import LogisticRegression
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.leakage import declared_table

app = typer.Typer()
app.command()(_audit.audit)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def policy_file(tmp_path):
    path = tmp_path / "policy.toml"
    audited_policy().to_file(path)
    return path


@pytest.fixture
def fit(tmp_path):
    """Return a function that trains, saves and returns the directory."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.random(300),
            "job": rng.choice(["a", "b", "c"], 300),
            "hours": rng.random(300),
            "race": rng.choice(["p", "q"], 300),
        }
    )
    y = np.where(frame["age"] > 0.5, "y", "n")

    def fit(**settings):
        model = LogisticRegression(
            audited_policy(), epsilon=8.0, delta=1e-5, **settings
        )
        model.fit(frame, y).save(tmp_path / "run")
        return tmp_path / "run"

    return fit


def test_policy_is_audited_without_data(policy_file):
    result = run(policy_file, "--epsilon", 1, "--delta", 1e-6, "--seed", 0, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["passed"]
    assert [row["class"] for row in document["results"]] == [
        "sensitive",
        "insensitive:hours",
        "insensitive:race",
        "whole_record",
    ]
    assert all(0 <= row["tightness"] <= 1 for row in document["results"])


@pytest.mark.parametrize("method", ["corr", "standard", "semi"])
def test_run_is_audited_white_box_and_black_box(fit, method, stepping_clock):
    result = run(fit(method=method), "--time-limit", 4, "--seed", 0, "--json")
    assert result.exit_code == 0, result.output
    targets = {row["target"] for row in json.loads(result.stdout)["results"]}
    assert targets == {
        "column means",
        "counts of numbers",
        "training steps, white box",
        "training, black box",
    }


def test_contradicted_claim_is_void(policy_file, monkeypatch):
    challenges = [
        replace(challenge, claim=Claim.gaussian(0.01, delta=1e-6))
        for challenge in _audit._subject(policy_file, 1.0, 1e-6, None, 1000, None)
    ]
    monkeypatch.setattr(_audit, "_subject", lambda *_: challenges)
    result = run(policy_file, "--epsilon", 1, "--delta", 1e-6, "--seed", 0)
    assert isinstance(result.exception, GuaranteeVoidError)
    assert "violated" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], BudgetError, "has no budget"),
        (["--epsilon", 1], BudgetError, "--delta is None"),
    ],
)
def test_a_policy_needs_a_budget(policy_file, arguments, error, message):
    result = run(policy_file, *arguments)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)


def test_a_run_without_claims_is_refused(fit):
    result = run(fit(method="nonprivate", research=True))
    assert isinstance(result.exception, GuaranteeVoidError)
    assert "There is no claim" in str(result.exception)


def test_theorem_runs_are_void_at_their_nominal_epsilon(fit, tmp_path):
    directory = fit(calibration="theorem", method="semi", n_steps=20)
    saved = tmp_path / "audit.json"
    result = run(directory, "--rows", 300, "--seed", 0, "--out", saved, "--json")
    assert isinstance(result.exception, GuaranteeVoidError)
    assert "nominal claims" in str(result.exception)
    document = json.loads(saved.read_text())
    assert document == json.loads(result.stdout)
    certificate = json.loads((directory / "certificate.json").read_text())
    assert document["certificate_digest"] == certificate["digest"]


def test_a_time_limit_covers_the_search_and_is_told(fit, stepping_clock):
    result = run(fit(), "--time-limit", 0.01, "--seed", 0, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["cut"] == ["search", "runs", "classes"]
    steps = [r["class"] for r in document["results"] if "steps" in r["target"]]
    assert steps  # the fewest runs that tell something are made of quick attacks
    assert document["not_attacked"] == [f"{n} (training, black box)" for n in steps]
    assert document["passed"]
    assert document["wanted_seconds"] > document["seconds"]


def test_distances_of_a_table_are_taken_for_a_policy_that_declares_none(tmp_path):
    policy = audited_policy()
    known = tmp_path / "known.toml"
    policy.to_file(known)
    bare = replace(
        policy, features=tuple(replace(f, leakage=None) for f in policy.features)
    )
    path = tmp_path / "policy.toml"
    bare.to_file(path)
    table = replace(declared_table(policy), policy_fingerprint=bare.fingerprint())
    (tmp_path / "leakage.json").write_text(json.dumps(table.to_dict()))
    options = ("--epsilon", 1, "--delta", 1e-6, "--seed", 0, "--json")
    result = run(path, *options)
    assert "not known" in str(result.exception)
    told = run(path, "--leakage", tmp_path / "leakage.json", *options)
    assert told.exit_code == 0, told.exception
    rows = [json.loads(one.stdout)["results"] for one in (told, run(known, *options))]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("option", [("--epsilon", 1), ("--leakage", "leakage.json")])
def test_a_run_has_its_own_budget(fit, option):
    result = run(fit(), *option)
    assert isinstance(result.exception, CorrDPError)
    assert "Leave --model" in str(result.exception)

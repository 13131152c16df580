"""``corrdp leakage``: one JSON object on standard output."""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from corrdp.cli._leakage import leakage
from leakage_models import joint_of, policy_of, table_of

JOINT = joint_of([[0.6, 0.4], [0.3, 0.7]], [0.5, 0.5])


@pytest.fixture
def files(tmp_path):
    frame = table_of(JOINT, ("s", "u"), 4000, np.random.default_rng(1))
    frame.to_csv(tmp_path / "data.csv", index=False)
    policy_of(JOINT, ("s", "u"), ("s",)).to_file(tmp_path / "policy.toml")
    return tmp_path


def run(files, *options):
    app = typer.Typer()
    app.command()(leakage)
    arguments = [f"{files}/data.csv", "--policy", f"{files}/policy.toml", *options]
    return CliRunner().invoke(app, arguments)


def test_private_release_prints_one_json_object(files):
    result = run(files, "--epsilon", "1", "--delta", "1e-6", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["source"] == "private"
    assert document["relation"] == "one_insensitive"
    found = document["features"]["u"]
    assert set(found) >= {"estimate", "upper", "method", "reason"}
    assert document["spent"]["sensitive"][0]["kind"] == "gaussian"


def test_public_source_prints_a_table_and_saves_it(files):
    result = run(files, "--source", "public", "--out", str(files / "leakage.json"))
    assert result.exit_code == 0
    assert "source public" in result.stdout
    saved = json.loads((files / "leakage.json").read_text())
    assert saved["source"] == "public"


def test_a_private_release_without_budget_is_refused(files):
    result = run(files, "--json")
    assert result.exit_code != 0
    assert "epsilon is None" in str(result.exception)

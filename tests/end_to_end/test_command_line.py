"""The installed command, run as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from corrdp.datasets import hospital_policy_text

COMMAND = Path(sys.executable).with_name("corrdp")


def run(*arguments, cwd=None):
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=cwd
    )


@pytest.fixture
def policy_file(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(hospital_policy_text())
    return path


def test_account_prints_one_json_object():
    result = run("account", "gaussian", "--mu", 0.5, "--delta", 1e-6, "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["epsilon"] == pytest.approx(2.2540846, rel=1e-6)


def test_account_sampled_matches_the_reference_value():
    options = {"rate": 0.01, "contribution": 1, "change": 0.1, "steps": 1000}
    pairs = [word for name, value in options.items() for word in (f"--{name}", value)]
    result = run("account", "sampled", *pairs, "--delta", 1e-5, "--json")
    epsilon = json.loads(result.stdout)["epsilon"]
    assert 0.33347 <= epsilon <= 0.33347 * 1.003


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("account gaussian --mu -1 --delta 1e-6", 3, "mu"),
        ("account gaussian --mu 1 --delta 2", 3, "delta=2.0"),
        ("account gaussian --mu one --delta 2", 2, "--mu"),
        (
            "account sampled --rate 2 --contribution 1 --change 1 --steps 1 --delta .1",
            3,
            "rate",
        ),
        ("plan --policy none.toml --rows 9 --epsilon 1 --delta 1e-6", 3, "none.toml"),
        ("certificate show nowhere", 3, "nowhere"),
        ("certificate verify nowhere", 3, "nowhere"),
        ("unknown", 2, "No such command"),
    ],
)
def test_bad_input_is_one_line_and_an_exit_code(arguments, code, message, tmp_path):
    result = run(*arguments.split(), cwd=tmp_path)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_plan_reads_no_data_and_prints_json(policy_file):
    arguments = f"plan --policy {policy_file} --rows 20000 --epsilon 0.5 --delta 1e-6"
    result = run(*arguments.split(), "--json")
    planned = json.loads(result.stdout)
    assert planned["certificate"]["epsilon"] == pytest.approx(0.5)
    assert 0 < planned["variance_ratio"] < 0.5
    text = run(*arguments.split()).stdout
    assert "total variance against ordinary DP" in text


def test_demo_saves_a_certificate_that_verifies(tmp_path):
    result = run("demo", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert "Saved" in result.stdout
    shown = run("certificate", "show", tmp_path / "out")
    assert "Certified" in shown.stdout
    verified = run("certificate", "verify", tmp_path / "out", "--json")
    assert json.loads(verified.stdout)["verified"] is True


def test_changed_certificate_is_void(tmp_path):
    run("demo", "--out", tmp_path)
    path = tmp_path / "certificate.json"
    path.write_text(path.read_text().replace('"delta": 1e-06', '"delta": 1e-09', 1))
    result = run("certificate", "verify", tmp_path)
    assert result.returncode == 4
    assert "digest" in result.stderr


def test_output_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("demo", "--out", tmp_path / "file")
    assert result.returncode == 3
    assert "cannot write" in result.stderr

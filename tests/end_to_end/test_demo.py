"""The demo ends with a report, can be repeated, and its certificate verifies."""

import json

import pytest

from command_runner import run
from corrdp.cli import _demo
from corrdp.datasets import hospital_columns


@pytest.fixture(scope="module")
def small_demo(tmp_path_factory):
    """The demo on a tenth of its rows; the command itself is run by ``make demo``."""
    patch = pytest.MonkeyPatch()
    patch.setattr(
        "corrdp.datasets.hospital_columns",
        lambda random_state: hospital_columns(2_000, random_state=random_state),
    )
    patch.setattr(
        _demo,
        "STEPS",
        tuple(
            step.replace("0.05,0.2,1 --seeds 3", "0.5 --seeds 1")
            for step in _demo.STEPS
        ),
    )
    out = tmp_path_factory.mktemp("demo") / "out"
    yield out, [run("demo", "--out", out) for _ in range(2)]
    patch.undo()


def test_demo_runs_twice_and_says_where_the_report_is(small_demo):
    out, runs = small_demo
    for result in runs:
        assert result.code == 0, result.stderr
        assert result.stdout.rstrip().endswith("open it in a browser.")
        assert str(out / "report.html") in result.stdout
    assert "<svg" in (out / "report.html").read_text()


def test_demo_goes_through_every_step(small_demo):
    _, (result, _) = small_demo
    shown = [line.split()[2] for line in result.stdout.splitlines() if line[:2] == "$ "]
    assert shown == ["init", "leakage", "plan", "train", "sweep", "report"]


def test_certificate_of_the_demo_verifies(small_demo):
    out, _ = small_demo
    verified = run("certificate", "verify", out / "model", "--json")
    assert json.loads(verified.stdout)["verified"] is True


def test_report_of_the_demo_measures_on_public_rows_and_stamps_the_sweep(small_demo):
    out, _ = small_demo
    summary = json.loads((out / "model" / "summary.json").read_text())
    assert summary["stamps"] == []
    assert summary["quality"][0]["basis"] == "public"
    assert "sweep: research: not private" in (out / "report.html").read_text()

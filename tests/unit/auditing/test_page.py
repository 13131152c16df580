"""The audit page shows the saved run, and the saved run keeps what is demanded."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs" / "results"


def saved(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def test_tables_are_made_from_the_saved_run():
    tables = runpy.run_path(str(ROOT / "benchmarks" / "bench_audit.py"))["tables"]()
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    for name, text in tables.items():
        assert (RESULTS / f"{name}.inc").read_text() == text
        assert f"results/{name}.inc" in page


@pytest.mark.parametrize("row", saved("audit_mutants"), ids=lambda row: row["bug"])
def test_saved_long_form_caught_the_planted_bug_in_time(row):
    assert row["is_caught"]
    assert row["seconds"] < 300


def test_saved_long_form_is_sound_and_tight():
    sound = saved("audit_soundness")
    assert (sound["n_mechanisms"], sound["n_violated"]) == (50, 0)
    for row in saved("audit_claims"):
        assert row["verdict"] == "consistent"
        if row["class"] == "sensitive" and row["target"].startswith("gradients"):
            assert row["tightness"] >= 0.8


def test_saved_long_form_refutes_nominal_claims_alone():
    rows = saved("audit_training")
    refuted = {row["model"] for row in rows if row["verdict"] == "violated"}
    assert {"logistic, semi", "logistic, floor dropped", "regressor, semi"} <= refuted
    for row in rows:
        assert row["target"].endswith("nominal") or row["verdict"] != "violated"


def test_bugs_of_the_code_that_trains_were_caught_in_time_without_false_alarms():
    run = saved("audit_loop")
    assert len(run["bugs"]) >= 13
    assert all(row["caught"] and row["seconds"] < 120 for row in run["bugs"].values())
    assert len(run["sound"]) == 100
    assert not any(run["sound"].values())


def test_saved_attacks_stay_within_what_is_certified():
    assert all(not row["exceeds_certificate"] for row in saved("audit_membership"))
    assert all(row["caught"]["1"] <= 0.05 for row in saved("audit_one_run"))


@pytest.mark.parametrize(
    ("name", "bench", "made"),
    [
        ("audit_loop", "audit_loop", "table"),
        ("audit_one_run", "audit_one_run", "table"),
        ("audit_membership", "membership", "table_of"),
        ("audit_observational", "audit_observational", "table"),
    ],
)
def test_other_tables_are_made_from_their_saved_runs(name, bench, made):
    module = runpy.run_path(str(ROOT / "benchmarks" / f"bench_{bench}.py"))
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    assert (RESULTS / f"{name}.inc").read_text() == module[made](saved(name))
    assert f"results/{name}.inc" in page

"""``corrdp reproduce``: every experiment in small, whole results or none."""

import csv
import json
import os
import sys
from pathlib import Path

import pytest

from command_runner import run
from corrdp.exceptions import CorrDPError
from corrdp.reproduction import _data, sepsis_balanced
from corrdp.reproduction._runner import CellCache


@pytest.fixture(scope="module")
def data():
    root = Path(__file__).parents[2]
    place = Path(os.environ.get("CORRDP_DATA_DIR", root / ".." / "shared" / "data"))
    if not (place / "adult.csv.gz").is_file():
        reason = "the paper's tables are not there; set CORRDP_DATA_DIR to their folder"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CORRDP_DATA_DIR", str(place.resolve()))
        yield place


@pytest.fixture(scope="module")
def rehearsal(data, tmp_path_factory):
    """Return the directory of a quick run of everything, and what it printed."""
    out = tmp_path_factory.mktemp("rehearsal") / "results"
    result = run("reproduce", "all", "--quick", "--jobs", 1, "--out", out, "--json")
    assert result.code == 0, result.stderr
    return out, json.loads(result.stdout)


def test_all_experiments_run_and_leave_results_figures_and_findings(rehearsal):
    out, printed = rehearsal
    names = {path.name for path in out.iterdir()} - {"cache"}
    assert names == set(printed["files"])
    assert {"results.csv", "results.json", "findings.md", "tables.md"} <= names
    assert len([name for name in names if name.endswith(".svg")]) == 10
    assert len([name for name in names if name.endswith(".png")]) == 10
    with (out / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["calibration"] for row in rows} == {"theorem", "certified"}
    private = [row for row in rows if row["provable_epsilon"]]
    assert {row["method"] for row in private} == {"corr", "semi", "standard"}
    by_theorem = [row for row in private if row["calibration"] == "theorem"]
    assert all(row["constant"] and row["lipschitz"] for row in by_theorem)
    assert {r["provable_epsilon"] for r in by_theorem if r["method"] == "semi"} == {
        "inf"
    }
    assert "**A rehearsal**" in (out / "findings.md").read_text(encoding="utf-8")


def test_a_second_run_trains_nothing(rehearsal, monkeypatch):
    out, _ = rehearsal
    stored = {path: path.stat().st_mtime_ns for path in (out / "cache").iterdir()}

    def refuse(_, cell, result):
        raise AssertionError(f"trained {cell} again")

    monkeypatch.setattr(CellCache, "put", refuse)
    arguments = ("reproduce", "medical-linear", "--quick", "--jobs", 1, "--out", out)
    assert run(*arguments).code == 0
    assert stored == {p: p.stat().st_mtime_ns for p in (out / "cache").iterdir()}


def test_another_number_of_seeds_trains_again(rehearsal):
    out, _ = rehearsal
    before = len(list((out / "cache").iterdir()))
    arguments = ("reproduce", "medical-linear", "--quick", "--jobs", 1, "--out", out)
    assert run(*arguments, "--seeds", 1).code == 0
    assert len(list((out / "cache").iterdir())) > before


def test_missing_tables_are_refused_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRDP_DATA_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for loaded in (_data.load_table, _data.paper_rows):
        loaded.cache_clear()
    out = tmp_path / "out"
    result = run("reproduce", "credit", "--quick", "--workers", 1, "--out", out)
    assert result.code == 3
    assert "By hand: download" in result.stderr
    assert not out.exists()


def test_a_missing_extra_is_refused_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out = tmp_path / "out"
    result = run("reproduce", "synthetic", "--quick", "--jobs", 1, "--out", out)
    assert result.code == 3
    assert "Install corrdp[reproduce]" in result.stderr
    assert not out.exists()


def test_sepsis_without_its_extra_is_refused(data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imblearn.over_sampling", None)
    _data._balanced.cache_clear()
    with pytest.raises(CorrDPError, match="imbalanced-learn"):
        sepsis_balanced(n_rows=10, n_source=100)


def test_sepsis_is_balanced_with_whole_years_and_known_categories(data):
    frame, alive = sepsis_balanced(3, n_rows=1500, n_source=8000)
    again, _ = sepsis_balanced(3, n_rows=1500, n_source=8000)
    assert frame.equals(again)
    assert 0.4 < alive.mean() < 0.6
    assert set(frame["sex_0male_1female"]) == {0, 1}
    assert set(frame["episode_number"]) <= {1, 2, 3, 4, 5}
    assert frame["age_years"].between(0, 100).all()
    other, _ = sepsis_balanced(4, n_rows=1500, n_source=8000)
    assert not frame.equals(other)

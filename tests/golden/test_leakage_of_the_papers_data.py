"""The saved comparison with the paper's printed leakages can be made again."""

import json
import os
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "bench_leakage_paper.py"
SAVED = ROOT / "docs" / "results" / "leakage_paper.json"


@pytest.fixture(scope="module")
def tools():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def saved():
    return json.loads(SAVED.read_text(encoding="utf-8"))


def test_page_is_made_from_the_saved_run(tools, saved):
    page = SAVED.with_suffix(".md").read_text(encoding="utf-8")
    assert page == tools["page"](saved), "run bench_leakage_paper.py --render"


def test_every_printed_value_has_a_row(tools, saved):
    found = {(row["data"], row["feature"]) for row in saved["rows"]}
    printed = {(data, name) for data, of in tools["PRINTED"].items() for name in of}
    assert found == printed


@pytest.mark.parametrize("data", ["sepsis", "medical"])
def test_saved_rows_are_what_the_data_give(tools, saved, data):
    if not Path(os.environ["CORRDP_DATA_DIR"]).is_dir():
        message = "the paper's data sets are not here: set CORRDP_DATA_DIR"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    rows = tools[f"{data}_rows"]()
    expected = [row for row in saved["rows"] if row["data"].startswith(data)]
    assert [row["method"] for row in rows] == [row["method"] for row in expected]
    for found, stored in zip(rows, expected, strict=True):
        assert found["estimate"] == pytest.approx(stored["estimate"], abs=1e-9)
        assert found["upper"] == pytest.approx(stored["upper"], abs=1e-9)

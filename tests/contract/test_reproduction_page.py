"""The page of the reproduction is what the saved results say."""

import json
import re
import runpy
from pathlib import Path

import pytest

from corrdp.reproduction import Results
from corrdp.reproduction._findings import available
from corrdp.reproduction._page import findings_page
from corrdp.reproduction._sentences import EQUAL_PROOF, FINDINGS

ROOT = Path(__file__).parents[2]
SAVED = ROOT / "docs" / "results" / "reproduction"


@pytest.fixture(scope="module")
def tools():
    return runpy.run_path(str(ROOT / "docs" / "tools" / "write_reproduction_page.py"))


@pytest.fixture(scope="module")
def saved():
    return json.loads((SAVED / "results.json").read_text(encoding="utf-8"))


def verdicts(results):
    return [
        finding.check(results, calibration).verdict
        for finding in available(results, (*FINDINGS, *EQUAL_PROOF))
        for calibration in finding.calibrations
    ]


def test_the_page_is_made_from_the_saved_run(tools):
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert page == tools["reproduction_page"](), (
        "run python docs/tools/write_reproduction_page.py"
    )


def test_verdicts_on_the_page_are_those_of_the_saved_results(saved):
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    printed = re.findall(r"^- (?:theorem|certified): \*\*([a-z ]+)\*\*", page, re.M)
    assert printed == [found.value for found in verdicts(Results.from_json(saved))]


def test_other_results_give_other_verdicts(saved):
    """Planted: the curves of corr and standard exchanged must change the page."""
    swapped = {"corr": "standard", "standard": "corr"}
    cells = [
        entry | {"method": swapped.get(entry["method"], entry["method"])}
        for entry in saved["cells"]
    ]
    planted, honest = Results.from_json({"cells": cells}), Results.from_json(saved)
    assert verdicts(planted) != verdicts(honest)
    assert findings_page(planted) != findings_page(honest)


def test_every_point_has_twenty_seeds_and_every_figure_its_file(saved):
    assert {
        len(cell["scores"]) for cell in saved["cells"] if cell["epsilon"] != "inf"
    } == {20}
    names = {cell["experiment"] for cell in saved["cells"]}
    assert names == {path.stem for path in SAVED.glob("*.svg")}
    assert sum(path.stat().st_size for path in SAVED.iterdir()) < 1_500_000

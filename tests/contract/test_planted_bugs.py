"""Every planted bug still fits the source: its text is there, its tests exist."""

import json
import runpy

from mutants.planted_bugs import ROOT, PlantedBugError, load_bugs


def test_planted_bugs_fit_the_source():
    problems = []
    for bug in load_bugs():
        try:
            bug.check(ROOT)
        except PlantedBugError as problem:
            problems.append(str(problem))
    assert problems == []


def test_page_is_made_from_the_saved_run():
    tools = runpy.run_path(str(ROOT / "docs" / "tools" / "write_mutants_page.py"))
    saved = json.loads((ROOT / "docs" / "results" / "mutants.json").read_text())
    page = (ROOT / "docs" / "mutants.md").read_text(encoding="utf-8")
    assert page == tools["mutants_page"](saved), "run make mutants"

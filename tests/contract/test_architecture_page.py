"""The architecture page draws and names what is there."""

import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "src" / "corrdp"
TOOLS = runpy.run_path(str(ROOT / "docs" / "tools" / "write_architecture.py"))
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WALKS = json.loads((ROOT / "docs" / "results" / "walks.json").read_text())
REMEDY = "run python docs/tools/write_architecture.py"


def test_picture_shows_the_imports_of_the_source():
    picture = (ROOT / "docs" / "figures" / "rooms.svg").read_text(encoding="utf-8")
    assert picture == TOOLS["picture"](), REMEDY


def test_page_is_made_from_the_saved_trace():
    assert TOOLS["architecture_page"](PAGE, WALKS) == PAGE, REMEDY


def test_the_trace_is_of_files_that_exist():
    files = {file for walk in WALKS.values() for file in walk["files"]}
    gone = sorted(file for file in files if not (HOUSE / file).is_file())
    assert gone == [], "run python docs/tools/trace_walks.py, then the page"


def test_files_that_the_page_names_exist():
    named = set(re.findall(r"`((?:\w+/)+\w*(?:\.\w+)?)`", PAGE))
    places = (HOUSE, ROOT)
    gone = [n for n in sorted(named) if not any((p / n).exists() for p in places)]
    assert len(named) > 30
    assert gone == []


def test_a_new_import_changes_the_picture(monkeypatch):
    draw, enter = TOOLS["picture"], TOOLS["entries"]
    before, found = draw(), enter()
    assert "cli" not in found["policy"]
    found["accounting"].add("tables")
    monkeypatch.setitem(draw.__globals__, "entries", lambda: found)
    assert draw() != before


@pytest.mark.parametrize("room", TOOLS["rooms"]())
def test_every_room_says_what_it_is(room):
    assert len(TOOLS["about"](room)) > 10

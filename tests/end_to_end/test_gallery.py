"""Examples run, and the gallery shows them as they are."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = runpy.run_path(str(ROOT / "docs" / "tools" / "write_gallery.py"))
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")


def test_every_example_is_in_the_gallery():
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert names == set(TOOLS["ORDER"])


@pytest.mark.parametrize("name", TOOLS["ORDER"])
def test_an_example_runs_and_stands_in_the_gallery_as_it_is(name):
    source, printed, variables = TOOLS["executed"](name)
    assert source.split('"""\n\n', 1)[1].rstrip() in PAGE
    assert printed
    assert ("picture" in variables) == (name in TOOLS["PICTURES"])

"""Tables of pages on additive models, public rows and search are of saved runs."""

from importlib import import_module
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize("name", ["additive", "public_rows", "search"])
def test_tables_are_rendered_from_the_saved_runs(name):
    tools = import_module(f"bench_{name}")  # benchmarks are on the path of tests
    shown = (RESULTS / f"{name}.inc").read_text(encoding="utf-8")
    text = tools.page(tools.read_figures(name))
    assert shown == text, f"run benchmarks/bench_{name}.py --render"

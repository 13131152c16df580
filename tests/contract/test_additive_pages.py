"""Tables of the pages on additive models and public rows are those of saved runs."""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["bench_additive", "bench_public_rows"])
def test_tables_are_rendered_from_the_saved_runs(name, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    tools = import_module(name)
    saved = json.loads(tools.SAVED.read_text())
    shown = tools.PAGE.read_text(encoding="utf-8")
    assert shown == tools.page(saved), f"run benchmarks/{name}.py --render"

"""The tables of the page on defaults are those of the saved runs."""

import json
import math
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tables_are_rendered_from_the_saved_runs():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "render_foreign.py"))
    before, now = (json.loads(tools[name].read_text()) for name in ("BEFORE", "NOW"))
    saved = tools["PAGE"].read_text(encoding="utf-8")
    assert saved == tools["page"](before, now), "run benchmarks/render_foreign.py"


def test_seeds_are_paired_with_the_runs_before():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "render_foreign.py"))
    before, now = (json.loads(tools[name].read_text()) for name in ("BEFORE", "NOW"))
    for name, run in now.items():
        former = {(r["method"], r["epsilon"], r["seed"]) for r in before[name]["rows"]}
        own = {(r["method"], r["epsilon"], r["seed"]) for r in run["rows"]}
        assert own <= former, name
        # The same rows: least risks agree but for the rounding of a solver.
        assert math.isclose(run["floor"], before[name]["floor"], rel_tol=1e-6), name

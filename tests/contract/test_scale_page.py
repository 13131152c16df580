"""The figures of large tables are those of the saved run."""

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_table_is_made_from_the_saved_run(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    bench = runpy.run_path(str(ROOT / "benchmarks" / "bench_scale.py"))
    results = ROOT / "docs" / "results"
    saved = json.loads((results / "scale.json").read_text(encoding="utf-8"))
    table = (results / "scale.inc").read_text(encoding="utf-8")
    assert table == bench["render"](saved), "run bench_scale.py --render"

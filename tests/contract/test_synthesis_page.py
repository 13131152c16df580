"""The tables of the page on wide synthesis are those of the saved run."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_of_wide_synthesis_are_those_of_the_saved_run(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import bench_synthesis_wide as bench
    import saved_tables

    saved = saved_tables.read_figures(bench.NAME)
    shown = (saved_tables.RESULTS / f"{bench.NAME}.inc").read_text(encoding="utf-8")
    assert bench.page(saved) == shown
    assert bench.page({}) != shown

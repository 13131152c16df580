"""The tables of the page on defaults are those of the saved runs."""

import json
import math
import runpy
from pathlib import Path

import pytest

from corrdp.training._expectations import LABELS_BEND, NUMBERS_BEND
from corrdp.training._hindsight import BAND

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
        # The same rows: least risks agree to the six digits that were saved before.
        assert math.isclose(run["floor"], before[name]["floor"], abs_tol=1e-6), name


def test_the_page_names_every_cell_that_is_out_of_order():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "render_foreign.py"))
    now = json.loads(tools["NOW"].read_text())
    found = set()
    for name, run in now.items():
        means = tools["cells"](run)
        for (method, epsilon), (mean, error, _) in means.items():
            weaker = {"semi": "corr", "corr": "standard"}.get(method)
            larger = [e for m, e in means if m == method and e > epsilon]
            for other, lower in (
                (means.get((weaker, epsilon)), False),
                ((run["constant_excess"], 0.0, None), False),
                *((means[method, e], True) for e in larger),
            ):
                if other is None:
                    continue
                gap = other[0] - mean if lower else mean - other[0]
                if gap > 2 * math.hypot(error, other[1]) + 1e-12:
                    found.add((name, method, epsilon))
    # docs/defaults.md: semi on student, where it is at 3 that less is learned, in one
    # walk.
    assert found == {("student", "semi", epsilon) for epsilon in (0.1, 0.3, 1.0)}


def test_the_tables_of_rivals_are_those_of_the_saved_runs():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "render_foreign_rivals.py"))
    names = ("foreign", tools["NAME"], tools["LIMITS"])
    text = tools["page"](*map(tools["read_figures"], names))
    saved = ROOT / "docs" / "results" / f"{tools['NAME']}.inc"
    assert saved.read_text(encoding="utf-8") == text


def test_the_table_of_tables_that_nobody_chose_is_that_of_the_saved_run():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "bench_strangers.py"))
    saved = ROOT / "docs" / "results" / f"{tools['NAME']}.inc"
    text = tools["page"](tools["read_figures"](tools["NAME"]))
    assert saved.read_text(encoding="utf-8") == text


def test_what_is_lost_by_size_is_that_of_the_saved_runs():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "bench_strangers.py"))
    saved = tools["both_runs"]()
    shown = ROOT / "docs" / "results" / f"{tools['NAME']}_sizes.inc"
    text = tools["sizes_page"](saved)
    assert shown.read_text(encoding="utf-8") == text
    sizes = tools["SIZES"]
    assert all(sizes[0] <= run["n_rows"] < sizes[-1] for run in saved.values())
    first, next_ = (tools["read_figures"](f"strangers{end}") for end in ("", "_next"))
    assert not first.keys() & next_.keys()


def test_the_tables_of_packages_are_those_of_the_saved_run():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "bench_package_tables.py"))
    saved = tools["read_figures"](tools["NAME"])
    before = tools["read_figures"](f"{tools['NAME']}_before")
    results = ROOT / "docs" / "results"
    page = (results / f"{tools['NAME']}.inc").read_text(encoding="utf-8")
    assert page == tools["rendered"](saved), "run bench_package_tables.py --render"
    assert saved.keys() == before.keys()
    # The same rows, and a rival that is no weaker than it was.
    for name, run in saved.items():
        assert run["n_rows"] == before[name]["n_rows"]
    labels = [name for name, run in saved.items() if run["kind"] == "logistic"]
    for epsilon in ("0.1", "0.3", "1", "3"):
        cell = f"standard {epsilon}"
        parts = [
            sum(saved[name]["cells"][cell]) / sum(before[name]["cells"][cell])
            for name in labels
        ]
        assert math.exp(sum(map(math.log, parts)) / len(parts)) < 1.02


def test_regressions_that_are_a_constant_now_were_worse_than_one():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "bench_package_tables.py"))
    saved = tools["read_figures"](tools["NAME"])
    before = tools["read_figures"](f"{tools['NAME']}_before")
    given_up = [
        (name, cell)
        for name, run in saved.items()
        if run["kind"] == "linear"
        for cell, values in run["cells"].items()
        if cell in before[name]["cells"]
        and all(v == pytest.approx(run["constant"], rel=1e-3) for v in values)
    ]
    assert given_up
    for name, cell in given_up:
        former = before[name]["cells"][cell]
        assert sum(former) / len(former) > before[name]["constant"], (name, cell)


def test_the_fresh_tables_are_those_of_their_saved_run():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "bench_package_tables.py"))
    saved = tools["read_figures"](tools["FRESH_NAME"])
    fresh, known = tools["FRESH"], tools["LOOKED_AT"] | tools["HELD_OUT"]
    results = ROOT / "docs" / "results"
    page = (results / f"{tools['FRESH_NAME']}.inc").read_text(encoding="utf-8")
    assert page == tools["judged"](saved), "run bench_package_tables.py --fresh"
    assert saved.keys() == fresh.keys()
    assert not fresh.keys() & known.keys()
    assert not {t.source for t in fresh.values()} & {t.source for t in known.values()}
    kinds = [run["kind"] for run in saved.values()]
    assert kinds.count("logistic") == kinds.count("linear") == 12
    for run in saved.values():
        assert all(len(cell) == len(tools["SEEDS"]) for cell in run["cells"].values())


def test_predictions_are_those_of_their_saved_run():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "bench_predictions.py"))
    saved = tools["read_figures"](tools["NAME"])
    page = (ROOT / "docs" / "results" / f"{tools['NAME']}.inc").read_text("utf-8")
    assert page == tools["page"](saved), "run benchmarks/bench_predictions.py --render"
    for name in tools["SETS"]:
        assert saved[name].keys() == tools["read_figures"](name).keys()
    bands = {"logistic": LABELS_BEND.band, "linear": NUMBERS_BEND.band}
    assert bands == tools["PLAN_BAND"]
    assert tools["HINDSIGHT_BAND"] == BAND


def test_what_fit_does_is_rendered_from_its_saved_run():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "bench_defaults.py"))
    saved = tools["read_figures"](tools["NAME"])
    before = tools["read_figures"]("foreign_before")
    page = ROOT / "docs" / "results" / f"{tools['NAME']}.inc"
    assert page.read_text(encoding="utf-8") == tools["page"](saved, before)
    assert saved.keys() == {n for names in tools["GROUPS"].values() for n in names}
    for name, run in saved.items():
        seeds = "N_SEEDS_UNSEEN" if name in tools["UNSEEN"] else "N_SEEDS"
        assert all(len(cell) == tools[seeds] for cell in run["cells"].values())
        # Bounds are released where labels are categories, and nowhere else.
        assert run["kind"] == "logistic" or run["narrowed"] == []


def test_tables_never_seen_before_are_in_no_other_list():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "package_tables.py"))
    known = tools["LOOKED_AT"] | tools["HELD_OUT"] | tools["FRESH"]
    unseen = tools["UNSEEN"]
    assert not unseen.keys() & known.keys()
    assert not {t.source for t in unseen.values()} & {t.source for t in known.values()}

"""What the page on synthetic tables says is what the saved runs show."""

import itertools
import json
from pathlib import Path

import bench_synthesis  # benchmarks are on the path of tests
import bench_synthesis_models
import numpy as np
import pytest
from bench_synthesis import EPSILONS, PROBLEMS, Cell, scatter

RESULTS = Path(__file__).parents[2] / "docs" / "results"
NAMED = {problem.name: problem for problem in PROBLEMS}
ADULT, RACE, CREDIT = list(NAMED)[:3]


def saved(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("bench", [bench_synthesis, bench_synthesis_models])
def test_tables_are_rendered_from_the_saved_runs(bench):
    name = bench.__name__.removeprefix("bench_")
    shown = (RESULTS / f"{name}.inc").read_text(encoding="utf-8")
    assert shown == bench.page(saved(name)), f"run benchmarks/{bench.__name__}.py"


@pytest.mark.parametrize(
    ("name", "epsilon", "most"),
    [
        (ADULT, 0.1, 0.6),
        (ADULT, 0.3, 0.6),
        (RACE, 0.1, 0.6),
        (RACE, 0.3, 0.6),
        (CREDIT, 0.1, 0.6),
        (CREDIT, 0.3, 0.7),
    ],
)
def test_declared_leakage_is_worth_as_much_as_the_page_says(name, epsilon, most):
    """Against the best of what was run: ordinary DP, either selection, and AIM."""
    cell = Cell(saved("synthesis"), NAMED[name], epsilon)
    own, rival = cell.by_default("corr"), cell.best("standard", "aim")
    assert len(own) >= 10
    assert own.mean() <= most * rival.mean()


def test_a_policy_is_never_worse_than_ordinary_noise():
    """Beyond two standard errors, against the better selection of ordinary noise."""
    runs = saved("synthesis")
    compared, worse = 0, []
    for problem, epsilon in itertools.product(PROBLEMS, EPSILONS):
        cell = Cell(runs, problem, epsilon)
        for corr, ordinary in (
            ("corr", "standard"),
            ("corr, public fifth", "standard, four fifths"),
        ):
            own, rival = cell.by_default(corr), cell.best(ordinary)
            if own is None or rival is None:
                continue
            compared += 1
            errors = 2 * np.hypot(scatter(own), scatter(rival))
            if own.mean() - rival.mean() > errors:
                worse.append((problem.name, epsilon, corr))
    assert compared >= 50
    assert worse == []

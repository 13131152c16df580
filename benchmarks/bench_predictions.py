"""Predicted and measured excess risk, before and after training.

``python benchmarks/bench_predictions.py --measure SET [--tables ...]`` plans every cell
of a set of saved runs (``package_tables``, ``package_tables_fresh``, ``foreign``) and
trains three models of each, which say what they expect of themselves. What was measured
is read from the saved runs, whose predictions are brought up to date; ``--plans`` keeps
the models that were trained before. ``--render`` writes the table of
``docs/defaults.md``.
"""

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from bench_foreign import Measured, trained
from package_tables import FRESH, HELD_OUT, LOOKED_AT
from render_foreign import cells, geometric_mean
from rule_tables import RuleTable, load_table
from saved_tables import (
    RESULTS,
    markdown_table,
    read_figures,
    save_figures,
    save_table,
)

from corrdp.training import CONSTANT

NAME = "predictions"
SEEDS = range(3)
METHODS = ("corr", "standard", "semi")
SETS = {
    "package_tables": "packages (constants were chosen on these)",
    "package_tables_fresh": "packages, never seen before",
    "foreign": "foreign and the paper's",
}
KINDS = {"logistic": "labels", "linear": "numbers"}
PLAN_BAND = {"logistic": 3.0, "linear": 3.5}  # what plans print
HINDSIGHT_BAND = 3.0


def loaded(name: str, table: str) -> RuleTable:
    """Return a table of a set."""
    if name == "foreign":
        return load_table(table)
    return (LOOKED_AT | HELD_OUT | FRESH)[table].load()


def measured_cells(name: str, run: dict[str, Any]) -> dict[tuple[str, float], float]:
    """Return the mean excess of every cell of a saved run."""
    if name == "foreign":
        return {cell: found[0] for cell, found in cells(run).items()}
    means = {}
    for cell, values in run["cells"].items():
        method, _, epsilon = cell.rpartition(" ")
        if method in METHODS:
            means[method, float(epsilon)] = float(np.mean(values))
    return means


def measure(
    name: str, table: str, former: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what is predicted of the cells of one table.

    Models are those of a former run, if there is one, or trained.
    """
    saved = measured_cells(name, read_figures(name)[table])
    epsilons = sorted({epsilon for _, epsilon in saved})
    facts = Measured(loaded(name, table))
    plans = {(m, e): facts.plan(m, e) for m in METHODS for e in epsilons}
    found = {
        cell: {
            "noise": plan.noise,
            "bound": _short(plan.prediction.compared),
            "planned": _short(plan.predicted_error),
            "fits": [],
        }
        for cell, plan in plans.items()
    }
    walking = {cell: p for cell, p in plans.items() if p.noise != CONSTANT}
    if former is not None:
        for (method, epsilon), entry in found.items():
            entry["fits"] = former["cells"][f"{method} {epsilon:g}"]["fits"]
        walking = {}
    for row in trained(facts, walking, list(SEEDS)):
        hindsight = row["hindsight"]  # two walks say nothing of themselves
        fit = [_short(row["excess"]), None if hindsight is None else _short(hindsight)]
        found[row["key"]]["fits"].append(fit)
    for cell, entry in found.items():
        own = [excess for excess, _ in entry["fits"]]
        mean = saved[cell] if cell in saved else float(np.mean(own or 0))
        entry["measured"] = _short(mean)
    return {
        "kind": facts.table.model,
        "cells": {f"{m} {e:g}": entry for (m, e), entry in found.items()},
    }


def _short(number: float) -> float:
    """Return a number in six digits, which is all that a table of shares asks for."""
    return float(f"{number:.6g}")


def with_predictions(name: str, run: dict[str, Any], told: dict[str, Any]) -> Any:
    """Return a saved run with what today's plans predict of its cells."""
    planned = {cell: entry["planned"] for cell, entry in told["cells"].items()}
    if name != "foreign":
        return run | {"predicted": planned}
    rows = [
        row | {"predicted": planned[f"{row['method']} {row['epsilon']:g}"]}
        for row in run["rows"]
    ]
    return run | {"rows": rows}


def page(saved: dict[str, Any]) -> str:
    """Return the shares of cells whose excess was predicted, as Markdown."""
    header = ["tables", "", "cells", "best fixed guess", "bound", "plan"]
    header += ["after training", "after training, of that model"]
    header += ["plan, in its range", "after training, in its range"]
    rows = []
    for name, title in SETS.items():
        for kind, words in KINDS.items():
            entries = [
                entry
                for run in saved.get(name, {}).values()
                if run["kind"] == kind
                for entry in run["cells"].values()
                if entry["noise"] != CONSTANT
            ]
            if entries:
                rows.append([title, words, *_shares(entries, PLAN_BAND[kind])])
    return markdown_table(header, rows)


def _shares(entries: list[dict[str, Any]], plan_band: float) -> list[str]:
    measured = [entry["measured"] for entry in entries]
    guess = geometric_mean(measured)
    planned = [(entry["planned"], entry["measured"]) for entry in entries]
    fits = [
        (hindsight, entry["measured"], excess)
        for entry in entries
        for excess, hindsight in entry["fits"]
        if hindsight is not None
    ]
    of_cells = [(hindsight, mean) for hindsight, mean, _ in fits]
    of_models = [(hindsight, excess) for hindsight, _, excess in fits]
    return [
        str(len(entries)),
        _within((guess, mean) for mean in measured),
        _within((entry["bound"], entry["measured"]) for entry in entries),
        _within(planned),
        _within(of_cells),
        _within(of_models),
        _within(planned, plan_band),
        _within(of_models, HINDSIGHT_BAND),
    ]


def _within(pairs: Iterable[tuple[float, float]], factor: float = 2.0) -> str:
    hits = [abs(math.log(told / truth)) <= math.log(factor) for told, truth in pairs]
    return f"{np.mean(hits):.0%}"


def _save_runs(name: str, runs: dict[str, Any]) -> None:
    if name == "foreign":  # as bench_foreign.py writes it: one line
        (RESULTS / f"{name}.json").write_text(json.dumps(runs) + "\n")
    else:
        save_figures(name, runs)


def _main(chosen: Any, known: Callable[[str], Iterable[str]]) -> None:
    warnings.simplefilter("ignore")  # little signal at small epsilon
    for table in chosen.tables or known(chosen.measure):
        saved = read_figures(NAME)
        former = saved[chosen.measure][table] if chosen.plans else None
        told = measure(chosen.measure, table, former)
        saved.setdefault(chosen.measure, {})[table] = told
        save_figures(NAME, saved)
        if chosen.measure != "package_tables":
            runs = read_figures(chosen.measure)
            runs[table] = with_predictions(chosen.measure, runs[table], told)
            _save_runs(chosen.measure, runs)
        print(table, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", choices=SETS)
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--plans", action="store_true")
    parser.add_argument("--render", action="store_true")
    arguments = parser.parse_args()
    if arguments.measure:
        _main(arguments, lambda name: list(read_figures(name)))
    if arguments.render:
        save_table(NAME, page(read_figures(NAME)))

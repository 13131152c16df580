"""Where a noisy walk starts: at zeros, or at the label rate; tables made for it.

``python benchmarks/tune_label_start.py --measure`` trains on tables with rare labels
from both starts, whatever the plan would choose, and saves mean excess risks in
``docs/results/label_start.json``; ``--show`` prints them beside the constant's. None of
the tables is evaluated anywhere else.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from bench_foreign import Measured
from rule_tables import RuleTable
from saved_tables import read_figures, save_figures
from tune_networks import Frame, dominated_table, mixed_table, wide_table
from tune_networks_linear import survey_table

from corrdp._random import noise_generator
from corrdp.policy import CategoryDomain, Label, Policy
from corrdp.training import CONSTANT, Descent, descend_together, prepare_rows
from corrdp.training._totals import free_constant

NAME = "label_start"
TABLE_SEED = 9
SEEDS = range(600, 608)
EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 3.0)
METHODS = ("corr", "standard")


def rare(make: Callable[[int, int], Frame], part: float) -> Callable[[int, int], Frame]:
    """Return a table with the label "1" for the largest numbers."""

    def made(seed: int, n_rows: int) -> Frame:
        frame, policy = make(seed, n_rows)
        numbers = frame["y"].to_numpy()
        label = (numbers > np.quantile(numbers, 1.0 - part)).astype(int).astype(str)
        domain = CategoryDomain(("0", "1"))
        kept = Policy(policy.features, Label("y", domain, score=0.0))
        return frame.assign(y=label), kept

    return made


TABLES: dict[str, tuple[Callable[[int, int], Frame], tuple[int, ...]]] = {
    "survey": (survey_table, (500, 2000)),
    "mixed": (rare(mixed_table, 0.15), (300,)),
    "wide": (
        rare(lambda seed, n: wide_table(seed, n, 40, noise=1.0), 0.1),
        (600, 2500),
    ),
    "dominated": (rare(dominated_table, 0.8), (400,)),
}


def measure(name: str, n_rows: int) -> dict[str, Any]:
    """Return mean excess risks of one table, from both starts."""
    frame, policy = TABLES[name][0](TABLE_SEED, n_rows)
    table = RuleTable(name, policy, frame, frame, None, 1e-5)
    measured = Measured(table)
    cells = {}
    for method in METHODS:
        for epsilon in EPSILONS:
            plan = measured.plan(method, epsilon)
            if plan.noise == CONSTANT and plan.prediction.compared_part > 0.85:
                continue  # a constant by every limit that was tried
            cells[f"{method} {epsilon:g}"] = {
                "noise_to_signal": plan.prediction.compared_part,
                **_from_both(measured, plan),
            }
    constant = measured.constant_risk - measured.floor
    return {"constant": constant, "cells": cells}


def _from_both(measured: Measured, plan: Any) -> dict[str, list[float]]:
    """Return the excess of every seed, from zeros and from the rate."""
    walking = replace(plan, noise="corr") if plan.noise == CONSTANT else plan
    rows = prepare_rows(measured.codes, measured.labels, plan.layout)
    rate = free_constant(measured.labels, plan.loss, plan.spending.classes)
    found = {}
    for start, intercept in (("zeros", 0.0), ("rate", rate)):
        models = [
            Descent(
                measured.codes, rows, walking, noise_generator(seed), measured.labels
            )
            for seed in SEEDS
        ]
        for model in models:
            model.coef[-1] = intercept
        descend_together(models)
        results = [model.result() for model in models]
        found[start] = [
            measured.risk(result.coef, result.intercept) - measured.floor
            for result in results
        ]
    return found


def show(saved: dict[str, Any]) -> None:
    """Print what was saved, cells with most noise first."""
    rows = [
        (cell["noise_to_signal"], table, name, run["constant"], cell)
        for table, run in saved.items()
        for name, cell in run["cells"].items()
    ]
    for noise, table, name, constant, cell in sorted(rows, key=lambda row: -row[0]):
        lost = np.array(cell["rate"]) - np.array(cell["zeros"])
        print(
            f"{noise:.2f} {table}, {name}: {np.mean(cell['zeros']):.4f} from zeros, "
            f"{np.mean(cell['rate']):.4f} from the rate "
            f"({lost.mean():+.4f} ± {lost.std(ddof=1) / len(lost) ** 0.5:.4f}), "
            f"constant {constant:.4f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args()
    if chosen.measure:
        figures: dict[str, Any] = {}
        for one, (_, sizes) in TABLES.items():
            for size in sizes:
                figures[f"{one}, {size} rows"] = measure(one, size)
                save_figures(NAME, figures)
    if chosen.show:
        show(read_figures(NAME))

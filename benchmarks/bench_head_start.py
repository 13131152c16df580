"""What a head start brings: sensitive weights learned after all others, or not.

``python benchmarks/bench_head_start.py --measure`` trains models of two labels on the
five foreign tables, on tables that nobody chose (`bench_strangers.py`) and on those of
packages (`package_tables.py`), with the plan that the rule picks and with the best plan
of one walk. ``--render`` writes the tables of ``docs/defaults.md``. Distances are
bounds of a public fifth, or exact ones of the rows that train, as somebody would
declare who knows them; ``semi`` protects sensitive features alone.
"""

import argparse
import warnings
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from bench_foreign import Measured, load_table, trained
from bench_strangers import LEAST_GAIN, chosen_tables
from package_tables import FRESH, HELD_OUT, LOOKED_AT, UNSEEN
from rule_tables import FOREIGN_BINARY, RuleTable
from saved_tables import markdown_table, read_figures, save_figures, save_table

import corrdp.estimators._linear_plan as planning
from corrdp.leakage import estimate_leakage

NAME = "head_start"
EPSILONS = (0.1, 0.3, 1.0)
CASES = ("corr, bounds", "corr, exact", "semi")
GROUPS = ("foreign", "strangers", "packages")
N_SEEDS = 4


def measure_table(table: RuleTable, n_seeds: int = N_SEEDS) -> dict[str, Any]:
    """Return excess and test losses with and without a head start, by case."""
    measured = Measured(table)
    gain = measured.constant_risk - measured.floor
    cells = {}
    for case in CASES:
        measured.table = with_exact_distances(table) if "exact" in case else table
        method = case.split(",")[0]
        for epsilon in EPSILONS:
            chosen = measured.plan(method, epsilon)
            cell: dict[str, Any] = {"head_start": chosen.head_start is not None}
            plans = {"rule": chosen}
            if cell["head_start"]:
                with mock.patch.object(planning, "default_plan", _one_walk):
                    plans["one walk"] = measured.plan(method, epsilon)
            for row in trained(measured, plans, range(n_seeds)):
                found = cell.setdefault(row["key"], {"excess": [], "test": []})
                found["excess"].append(row["excess"])
                found["test"].append(row["test_loss"])
            cells[f"{case} {epsilon:g}"] = cell
    score = np.full(
        len(measured.test_labels),
        measured.loss.best_constant(
            np.array([measured.labels.sum()]), len(measured.labels)
        ),
    )
    constant = float(measured.loss.value(score, measured.test_labels).mean())
    return {
        "n_rows": len(measured.labels),
        "gain": gain,
        "constant_test": constant,
        "cells": cells,
    }


_default_plan = planning.default_plan


def _one_walk(*given: Any, **options: Any) -> Any:
    return _default_plan(*given, **options | {"in_two_walks": False})


def with_exact_distances(table: RuleTable) -> RuleTable:
    """Return the table with the distances that its private rows have."""
    told = estimate_leakage(
        table.private, table.policy, source="public", join_levels=False
    )
    exact = {
        name: min(max(feature.estimate, 0.01), 1.0)
        for name, feature in told.features.items()
    }
    return replace(table, policy=table.policy.with_leakage(exact))


def every_table() -> Iterator[tuple[str, str, RuleTable]]:
    """Yield group, name and table, where labels have two values."""
    for name in FOREIGN_BINARY:
        yield "foreign", name, load_table(name)
    for name, source in chosen_tables():
        if name.endswith(" label"):
            yield "strangers", name, source.load()
    for name, source in (LOOKED_AT | HELD_OUT | FRESH | UNSEEN).items():
        table = source.load()
        if table.model == "logistic":
            yield "packages", name, table


def page(runs: Collection[dict[str, Any]]) -> str:
    """Return ratios of excess with a head start to that without, where it is chosen."""
    header = ["distances", "epsilon", "tables", "head start", "excess / one walk"]
    header += ["better", "worse", "test loss better", "worse"]
    rows = []
    for case in CASES:
        for epsilon in EPSILONS:
            cells = [run["cells"][f"{case} {epsilon:g}"] for run in runs]
            taken = [cell for cell in cells if cell["head_start"]]
            row = [case, f"{epsilon:g}", str(len(cells)), str(len(taken))]
            ratios = [_mean(c, "rule") / _mean(c, "one walk") for c in taken]
            row.append(f"{np.exp(np.mean(np.log(ratios))):.2f}" if taken else "")
            for score in ("excess", "test"):
                row += [
                    str(sum(sign * _beyond(cell, score) > 2 for cell in taken))
                    for sign in (1, -1)
                ]
            rows.append(row)
    return markdown_table(header, rows)


def _mean(cell: dict[str, Any], which: str) -> float:
    return float(np.mean(cell[which]["excess"]))


def _beyond(cell: dict[str, Any], score: str) -> float:
    """Return by how many standard errors one walk loses more."""
    more = np.subtract(cell["one walk"][score], cell["rule"][score])
    return float(more.mean() / (more.std(ddof=1) / np.sqrt(len(more)) + 1e-12))


def main() -> None:
    """Measure or render, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--render", action="store_true")
    chosen = parser.parse_args()
    if chosen.measure:
        runs: dict[str, Any] = {}
        for group, name, table in every_table():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = measure_table(table)
            if run["gain"] > LEAST_GAIN["logistic"]:
                runs[f"{group}: {name}"] = {"group": group, **run}
                save_figures(NAME, runs)
            print(name, flush=True)
    if chosen.render:
        saved = list(read_figures(NAME).values())
        for group in GROUPS:
            of_group = [run for run in saved if run["group"] == group]
            save_table(f"{NAME}_{group}", page(of_group))


if __name__ == "__main__":
    main()

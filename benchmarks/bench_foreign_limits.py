"""What could be reached: rules with distances picked on the answer, and other ways.

``python benchmarks/bench_foreign_limits.py --save FILE`` measures, on the
tables and rows of ``bench_foreign.py``, corr and standard at the best of several
distances (picked on the measured excess, which no rule could know), the model of the
public fifth alone, and AdaSSP for numbers. Excess is as there.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench_foreign import EPSILONS, Measured, trained
from bench_rivals import adassp
from rule_tables import FOREIGN_BINARY, FOREIGN_NUMBER, load_table
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

from corrdp.datasets._paper import PaperTable
from corrdp.estimators import LogisticRegression
from corrdp.training import CONSTANT

DISTANCES = (0.25, 0.5, 1.0, 2.0, 4.0)  # in units of the rule's
N_SEEDS = 4
RIDGES = np.logspace(-4, 4, 17)


def best_distance(
    measured: Measured, method: str, epsilon: float, seeds: Sequence[int]
) -> tuple[float, float]:
    """Return the least mean excess over distances, and the distance."""
    plan = measured.plan(method, epsilon)
    if plan.noise == CONSTANT:
        plan = replace(plan, noise="corr" if method == "corr" else "standard")
    plans = {
        d: replace(plan, expected_distance=d * plan.expected_distance)
        for d in DISTANCES
    }
    found: dict[float, list[float]] = {}
    for row in trained(measured, plans, seeds):
        found.setdefault(row["key"], []).append(row["excess"])
    means = {distance: float(np.mean(values)) for distance, values in found.items()}
    distance = min(means, key=lambda d: means[d])
    return min(means[distance], measured.constant_risk - measured.floor), distance


def public_only(measured: Measured) -> dict[str, float]:
    """Return scores of the model that public rows alone give, ridge by their folds."""
    table = measured.table
    codes, labels = measured.kind(table.policy, research=True).encode(table.public)
    center = codes.mean(axis=0)
    if measured.kind is LogisticRegression:
        model = LogisticRegressionCV(Cs=1 / RIDGES, cv=5, scoring="neg_log_loss")
        model.fit(codes - center, labels)
        coef, intercept = model.coef_[0], float(model.intercept_[0])
    else:
        model = RidgeCV(alphas=RIDGES).fit(codes - center, labels)
        coef, intercept = model.coef_, float(model.intercept_)
    return measured.scores(coef, intercept - float(center @ coef))


def adassp_excess(measured: Measured, epsilon: float, seed: int) -> float:
    """Return the excess of AdaSSP, which knows neither leakage nor public labels."""
    table = PaperTable(measured.table.private, measured.table.policy)
    missed = 1.0 - adassp(table, epsilon, seed)
    return 0.5 * missed * float(np.var(measured.labels)) - measured.floor


def measure(name: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Return everything measured on one table."""
    measured = Measured(load_table(name))
    cells = []
    for epsilon in EPSILONS:
        cell: dict[str, Any] = {"epsilon": epsilon}
        for method in ("corr", "standard"):
            excess, distance = best_distance(measured, method, epsilon, seeds)
            cell[method] = {"excess": excess, "distance": distance}
        if name in FOREIGN_NUMBER:
            runs = [adassp_excess(measured, epsilon, seed) for seed in seeds]
            cell["adassp"] = float(np.mean(runs))
        cells.append(cell)
    return {"public_only": public_only(measured), "cells": cells}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, required=True)
    parser.add_argument(
        "--tables", nargs="*", default=[*FOREIGN_BINARY, *FOREIGN_NUMBER]
    )
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    chosen = parser.parse_args()
    saved = json.loads(chosen.save.read_text()) if chosen.save.is_file() else {}
    for name in chosen.tables:
        saved[name] = measure(name, range(chosen.seeds))
        print(name, json.dumps(saved[name]), flush=True)
        chosen.save.write_text(json.dumps(saved, indent=1) + "\n")

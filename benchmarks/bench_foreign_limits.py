"""What could be reached: plans picked on the answer, and public rows alone.

``python benchmarks/bench_foreign_limits.py --save FILE`` measures, on the
tables and rows of ``bench_foreign.py``, corr and standard at the best of a grid over
their free numbers (distance, part of the iterates that is averaged, bound on influence
or norm; picked on the measured excess, which no rule could know), and the model of
the public fifth alone. Excess is as there; ``bench_foreign_rivals.py`` has the others.

Besides, what noise alone permits: the excess of one gradient, released with the budget
of all steps at the optimum itself, that a quadratic of the exact curvature turns into
a model with the best ridge. Nothing of that is private.
"""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from bench_foreign import EPSILONS, Measured, trained
from rule_tables import FOREIGN_BINARY, load_table
from scipy.special import expit
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

from corrdp.accounting import allocate_noise
from corrdp.estimators import LogisticRegression
from corrdp.training import (
    CONSTANT,
    GradientGroup,
    GradientLayout,
    GradientSensitivity,
    TrainingPlan,
)

DISTANCES = (0.5, 1.0, 2.0)  # in units of the rule's
AVERAGED = (0.5, 1.0)  # parts of the iterates; the rule's are always among them
INFLUENCES = (0.5, math.inf)  # in units of the nominal residual
NORMS = (0.7, 1.4)  # in units of the rule's
N_SEEDS = 3
RIDGES = np.logspace(-4, 4, 17)


def best_plan(
    measured: Measured, method: str, epsilon: float, seeds: Sequence[int]
) -> dict[str, Any]:
    """Return the least mean excess over the grid, that of the rule, and the plan."""
    rule = measured.plan(method, epsilon)
    start = rule
    if rule.noise == CONSTANT:
        start = replace(rule, noise="corr" if method == "corr" else "standard")
    plans: dict[Any, Any] = {"rule": rule}
    for bound, layout in _layouts(start):
        for distance, averaged in product(DISTANCES, AVERAGED):
            plans[distance, averaged, bound] = replace(
                start,
                layout=layout,
                expected_distance=distance * start.expected_distance,
                averaged_part=averaged,
            )
    found: dict[Any, list[float]] = {}
    for row in trained(measured, plans, seeds):
        found.setdefault(row["key"], []).append(row["excess"])
    means = {key: float(np.mean(values)) for key, values in found.items()}
    best = min(means, key=lambda key: means[key])
    constant = measured.constant_risk - measured.floor
    return {
        "rule": means["rule"],
        "excess": min(means[best], constant),
        "plan": "constant" if constant < means[best] else str(best),
    }


def _layouts(plan: TrainingPlan) -> list[tuple[float, GradientLayout]]:
    """Return layouts with other norms, or other bounds on influence, and which."""
    groups = plan.layout.groups
    if plan.noise == "standard":
        options = [
            (factor, [replace(g, clip_norm=factor * g.clip_norm) for g in groups])
            for factor in (1.0, *NORMS)
        ]
    else:
        options = [
            (factor, [_with_influence(g, factor) for g in groups])
            for factor in INFLUENCES
        ]
    return [(b, replace(plan.layout, groups=tuple(groups))) for b, groups in options]


def _with_influence(group: GradientGroup, factor: float) -> GradientGroup:
    if group.name in ("sensitive", "intercept"):
        return group
    return replace(group, influence_bound=0.35 * factor)


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


def noise_alone(measured: Measured, epsilon: float) -> dict[str, float]:
    """Return what the noise of corr permits, as planned, and at the optimum.

    Features are projected in the gradient and not in the score, as in training.
    """
    plan = replace(measured.plan("corr", epsilon), noise="corr")
    scale, center = plan.layout.column_scale, measured.codes.mean(axis=0)
    rows = np.column_stack(
        [(measured.codes - center) * scale, np.ones(len(measured.codes))]
    )
    coef, intercept = measured.best
    best = np.append(coef / scale, intercept + center @ coef)
    layout = replace(plan.layout, column_offset=center * scale)
    weight = expit(rows @ best) * expit(-(rows @ best))
    curvature = rows.T @ (rows * weight[:, None]) / len(rows)
    seen = _projected(rows, layout).T @ (rows * weight[:, None]) / len(rows)
    sensitivity = GradientSensitivity(
        plan.loss, layout, plan.spending.classes, reference=center
    )
    allowed = plan.spending.gradient_mu
    noise = allocate_noise(
        sensitivity.bounds(best),
        budget_mu=np.array([allowed[name] for name in sensitivity.row_classes]),
        sizes=np.array([float(group.size) for group in sensitivity.groups]),
    ).noise_scale[layout.column_groups] / len(rows)

    def excess(deviation: Any, ridge: float) -> float:
        inverse = np.linalg.pinv(seen + ridge * np.eye(len(seen)), rcond=1e-9)
        moved = inverse @ (ridge * best)
        spread = inverse.T @ curvature @ inverse
        return float(np.diag(spread) @ deviation**2 + moved @ curvature @ moved) / 2

    return {
        name: min(excess(deviation, ridge) for ridge in (0.0, *np.logspace(-5, 0, 21)))
        for name, deviation in (("planned", plan.column_noise), ("optimum", noise))
    }


def _projected(rows: Any, layout: GradientLayout) -> Any:
    """Return rows with the features of every group on its ball."""
    found = rows.copy()
    for place, group in enumerate(layout.groups):
        columns = np.flatnonzero(layout.column_groups == place)
        norms = np.linalg.norm(rows[:, columns], axis=1)
        shorter = np.minimum(1.0, group.feature_radius / np.maximum(norms, 1e-12))
        found[:, columns] *= shorter[:, None]
    return found


def measure(name: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Return everything measured on one table."""
    measured = Measured(load_table(name))
    cells = []
    for epsilon in EPSILONS:
        cell: dict[str, Any] = {"epsilon": epsilon}
        for method in ("corr", "standard"):
            cell[method] = best_plan(measured, method, epsilon, seeds)
        cell["noise alone"] = noise_alone(measured, epsilon)
        cells.append(cell)
    return {"public_only": public_only(measured), "cells": cells}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, required=True)
    parser.add_argument("--tables", nargs="*", default=FOREIGN_BINARY)
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    chosen = parser.parse_args()
    saved = json.loads(chosen.save.read_text()) if chosen.save.is_file() else {}
    for name in chosen.tables:
        saved[name] = measure(name, range(chosen.seeds))
        print(name, json.dumps(saved[name]), flush=True)
        chosen.save.write_text(json.dumps(saved, indent=1) + "\n")

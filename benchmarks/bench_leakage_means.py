"""What column means that a leakage table has paid for save training.

``python benchmarks/bench_leakage_means.py`` trains corr on seven foreign tables and
Adult with a private table of distances, once with the means that it tells
(docs/theory/leakage.md, Theorem 7) and once with means that training buys again; seeds
are paired, levels apart, so that both models read the same columns. Excess is the
training objective minus that of the fit without privacy on the same rows.
"""

import argparse
import itertools
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from bench_foreign import Measured
from bench_leakage_bounds import adult_policy
from rule_tables import (
    FOREIGN_BINARY,
    FOREIGN_NUMBER,
    RuleTable,
    folder,
    foreign_parts,
)
from saved_tables import (
    RESULTS,
    markdown_table,
    read_figures,
    save_figures,
    save_table,
)

from corrdp.leakage import estimate_leakage
from corrdp.policy import CategoryDomain, Label, policy_blocks

NAME = "leakage_means"
ADULT = "adult"
TABLES = (*FOREIGN_BINARY, *FOREIGN_NUMBER, ADULT)
EPSILONS = (0.5, 1.0, 3.0)
SHARES = (0.1, 0.3)
SEEDS = 20
DELTA = 1e-5
TOLD, AGAIN = "told", "bought again"


@cache
def measured(name: str) -> Measured:
    """Return the training rows of a table, encoded, and the yardsticks on them."""
    if name == ADULT:
        rows = pd.read_csv(folder() / "adult.csv.gz", keep_default_na=False)
        label = Label("income", CategoryDomain(("<=50K", ">50K")), score=0.0)
        policy = replace(adult_policy(), label=label)
    else:
        frame, policy = foreign_parts(name)
        rows = frame[: 4 * len(frame) // 5].reset_index(drop=True)
    return Measured(RuleTable(name, policy, rows, rows, None, DELTA))


def run_cell(name: str, epsilon: float, share: float, seeds: int) -> dict[str, Any]:
    """Return excess by seed, and what gradients get of budgets, told and not."""
    runs = [_pair(name, epsilon, share, seed) for seed in range(seeds)]
    return {
        key: {
            "excess": [run[key][0] for run in runs],
            "kept": float(np.mean([run[key][1] for run in runs])),
            "known": float(np.mean([run[key][2] for run in runs])),
        }
        for key in (TOLD, AGAIN)
    } | {"columns": len(policy_blocks(measured(name).table.policy))}


def _pair(
    name: str, epsilon: float, share: float, seed: int
) -> dict[str, tuple[float, float, int]]:
    """Return excess, mean part of budgets left for gradients, and blocks told."""
    table = measured(name)
    rows, policy = table.table.private, table.table.policy
    bought = estimate_leakage(
        rows,
        policy,
        epsilon=share * epsilon,
        delta=DELTA,
        join_levels=False,
        random_state=seed,
    )
    found = {}
    for key, leakage in ((TOLD, bought), (AGAIN, replace(bought, margins={}))):
        model = table.kind(
            policy, epsilon=epsilon, delta=DELTA, leakage=leakage, random_state=seed
        ).fit(rows)
        spending = model.plan_.spending
        kept = [
            (spending.gradient_mu[c.name] / spending.total_mu[c.name]) ** 2
            for c in spending.classes
            if c.promised
        ]
        excess = table.risk(model._coef, model._intercept) - table.floor  # noqa: SLF001
        found[key] = excess, float(np.mean(kept)), len(spending.known_means)
    return found


def render(saved: dict[str, Any]) -> str:
    """Return the table of the page, from the saved run alone."""
    rows = []
    ratios: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    for name, epsilon, share in itertools.product(TABLES, EPSILONS, SHARES):
        cell = saved.get(f"{name} {epsilon:g} {share:g}")
        if not cell:
            continue
        told, again = (np.array(cell[key]["excess"]) for key in (TOLD, AGAIN))
        gap = (told - again) / again.mean()
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        if cell[TOLD]["known"] > 0:
            ratios[epsilon].append(told.mean() / again.mean())
        rows.append(
            [
                name,
                f"{epsilon:g}",
                f"{share:g}",
                f"{cell[TOLD]['known']:.0f} of {cell['columns']}",
                *(f"{100 * cell[key]['kept']:.1f} %" for key in (AGAIN, TOLD)),
                f"{again.mean():.3g}",
                f"{told.mean():.3g}",
                f"{100 * gap.mean():+.1f} % ± {100 * error:.1f} % ({len(gap)})",
            ]
        )
    header = ["table", "epsilon", "share for distances", "features told"]
    header += ["left for gradients, means bought again", "told"]
    header += ["excess, means bought again", "told", "difference (seeds)"]
    means = ", ".join(
        f"{np.exp(np.mean(np.log(values))):.3f} at epsilon {epsilon:g} "
        f"({len(values)} cells)"
        for epsilon, values in ratios.items()
        if values
    )
    return (
        markdown_table(header, rows)
        + "\nGeometric mean of the excess, told / bought again, over cells in which "
        + f"some means are told: {means}.\n"
    )


def main() -> None:
    """Run what is missing, save after every cell, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--render", action="store_true", help="the page alone")
    chosen = parser.parse_args()
    saved = read_figures(NAME) if (RESULTS / f"{NAME}.json").is_file() else {}
    warnings.simplefilter("ignore")  # little signal at small epsilon
    cells = itertools.product(chosen.tables, EPSILONS, SHARES)
    for name, epsilon, share in () if chosen.render else cells:
        key = f"{name} {epsilon:g} {share:g}"
        if key not in saved:
            found = run_cell(name, epsilon, share, chosen.seeds)
            save_figures(NAME, saved := saved | {key: found})
            print(key, flush=True)
    save_table(NAME, render(saved))


if __name__ == "__main__":
    main()

"""What `fit` does when nothing is set.

``python benchmarks/bench_defaults.py --measure [--tables ...]`` trains ``corr``,
``standard`` and ``semi`` as a user would: numbers are read between released bounds
where the default rule says so. ``--render`` writes the tables of ``docs/defaults.md``.

Between other bounds other models are the best. Excess is measured from the least risk
of all linear models, between declared bounds or between those of any of the fits; of
tables measured between declared bounds alone (`bench_foreign.py`) it is measured from
the same point.
"""

import argparse
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from bench_foreign import EPSILONS, Measured
from package_tables import UNSEEN
from rule_tables import FOREIGN_BINARY, FOREIGN_NUMBER, RuleTable, load_table
from saved_tables import markdown_table, read_figures, save_figures, save_table

from corrdp.training import minimize_risk

NAME = "defaults"
METHODS = ("corr", "standard", "semi")
GROUPS = {
    "foreign, labels": FOREIGN_BINARY,
    "foreign, numbers": FOREIGN_NUMBER,
    "never seen before": tuple(UNSEEN),
}
N_SEEDS = 10
N_SEEDS_UNSEEN = 5


def measure(name: str, methods: Sequence[str], saved: dict[str, Any]) -> dict[str, Any]:
    """Return what `measure_table` says of a table that has a name."""
    if name in UNSEEN:
        return measure_table(UNSEEN[name].load(), methods, saved, N_SEEDS_UNSEEN)
    return measure_table(load_table(name), methods, saved)


def measure_table(
    table: RuleTable,
    methods: Sequence[str],
    saved: dict[str, Any] | None = None,
    n_seeds: int = N_SEEDS,
) -> dict[str, Any]:
    """Return the risks of default models on one table, and what limits them.

    Those of other methods are taken from what was saved.
    """
    measured, saved = Measured(table), saved or {}
    cells: dict[str, list[float]] = saved.get("cells", {})
    tests: dict[str, list[float]] = saved.get("test", {})
    least = min(measured.floor, saved.get("least", np.inf))
    narrowed = set(saved.get("narrowed", ()))
    for method in methods:
        for epsilon in EPSILONS:
            cell = f"{method} {epsilon:g}"
            cells[cell], tests[cell] = [], []
            for seed in range(n_seeds):
                model = _fitted(measured, method, epsilon, seed)
                codes, labels = _coded(measured, model, table.private)
                risk = _risk(measured, codes, labels, model)
                if _is_narrower(model, table.policy):
                    best = minimize_risk(codes, labels, measured.loss)
                    score = codes @ best[0] + best[1]
                    own = float(measured.loss.value(score, labels).mean())
                    least, narrowed = min(least, own), narrowed | {cell}
                cells[cell].append(risk)
                tests[cell].append(
                    _risk(measured, *_coded(measured, model, table.test), model)
                )
    return {
        "n_rows": len(measured.labels),
        "kind": table.model,
        "least": least,
        "declared": measured.floor,
        "constant": measured.constant_risk,
        "cells": cells,
        "test": tests,
        "narrowed": sorted(narrowed),
    }


def _fitted(measured: Measured, method: str, epsilon: float, seed: int) -> Any:
    table = measured.table
    options = {"epsilon": epsilon, "delta": table.delta, "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = measured.kind(table.policy, method=method, **options)
        return model.fit(table.private)


def _coded(measured: Measured, model: Any, rows: Any) -> tuple[Any, Any]:
    plain = measured.kind(model.policy_, method="nonprivate", research=True)
    return plain.encode(rows)


def _risk(measured: Measured, codes: Any, labels: Any, model: Any) -> float:
    score = codes @ model._coef + model._intercept  # noqa: SLF001
    return float(measured.loss.value(score, labels).mean())


def _is_narrower(model: Any, policy: Any) -> bool:
    read = {feature.name: feature.domain for feature in model.policy_.features}
    return any(read[feature.name] != feature.domain for feature in policy.features)


def excess(run: dict[str, Any], method: str, epsilon: float) -> Any:
    """Return the excess risk of every seed of a cell."""
    return np.array(run["cells"][f"{method} {epsilon:g}"]) - run["least"]


def page(saved: dict[str, Any], before: dict[str, Any]) -> str:
    """Return all tables as Markdown."""
    parts = ["### Ratios of excess risk, geometric means", ""]
    header = ["tables", "model", "what", *(f"epsilon {e:g}" for e in EPSILONS)]
    rows = []
    for group, names in GROUPS.items():
        for kind in ("logistic", "linear"):
            runs = {n: saved[n] for n in names if n in saved}
            runs = {n: run for n, run in runs.items() if run["kind"] == kind}
            if runs:
                rows += _ratios(group, kind, runs, before)
    parts += [markdown_table(header, rows), "### Tables never seen before", ""]
    header = ["table", "private rows", "constant"]
    header += [f"corr / standard / semi, {epsilon:g}" for epsilon in EPSILONS]
    parts += [markdown_table(header, [_row(n, saved[n]) for n in UNSEEN if n in saved])]
    ordered = {n: saved[n] for names in GROUPS.values() for n in names if n in saved}
    for title, pair in (
        ("corr is worse than standard", ("corr", "standard")),
        ("semi is worse than corr", ("semi", "corr")),
        ("corr is worse than the constant", ("corr", None)),
        ("standard is worse than the constant", ("standard", None)),
    ):
        found, total = lost_cells(ordered, *pair), len(ordered) * len(EPSILONS)
        parts += [
            f"Cells in which {title} by more than two standard errors, of {total}: "
            f"{', '.join(found) or 'none'}.",
            "",
        ]
    return "\n".join(parts)


def _ratios(
    group: str, kind: str, runs: dict[str, Any], before: dict[str, Any]
) -> list[list[str]]:
    def mean(values: Iterable[float]) -> str:
        return f"{np.exp(np.mean(np.log(list(values)))):.2f}"

    def means(method: str, epsilon: float) -> list[float]:
        return [float(excess(run, method, epsilon).mean()) for run in runs.values()]

    found = [
        [group, kind, f"{upper} / {lower}"]
        + [mean(np.divide(means(upper, e), means(lower, e)).tolist()) for e in EPSILONS]
        for upper, lower in (("corr", "standard"), ("semi", "corr"))
    ]
    if all(name in before for name in runs):
        for method in ("corr", "standard"):
            found.append([group, kind, f"{method} / former standard"])
            for epsilon in EPSILONS:
                former = [
                    _former(before[name], epsilon) + run["declared"] - run["least"]
                    for name, run in runs.items()
                ]
                ratio = np.divide(means(method, epsilon), former)
                found[-1].append(mean(ratio.tolist()))
    return found


def _former(run: dict[str, Any], epsilon: float) -> float:
    cell = ("standard", epsilon)
    rows = [r["excess"] for r in run["rows"] if (r["method"], r["epsilon"]) == cell]
    return float(np.mean(rows))


def _row(name: str, run: dict[str, Any]) -> list[str]:
    shown = [
        " / ".join(f"{excess(run, m, epsilon).mean():.2g}" for m in METHODS)
        for epsilon in EPSILONS
    ]
    return [name, str(run["n_rows"]), f"{run['constant'] - run['least']:.3g}", *shown]


def lost_cells(runs: dict[str, Any], method: str, other: str | None) -> list[str]:
    """Return the cells that a method loses to another, or to the best constant.

    By more than two standard errors of the difference, seeds paired.
    """
    found = []
    for name, run in runs.items():
        for epsilon in EPSILONS:
            constant = (run["constant"] - run["least"]) * (1 + 1e-6)
            against = constant if other is None else excess(run, other, epsilon)
            gap = excess(run, method, epsilon) - against
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            if gap.mean() > 2 * error and gap.mean() > 1e-12:
                found.append(f"{name} at {epsilon:g}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--methods", nargs="*", default=METHODS)
    chosen = parser.parse_args()
    if chosen.measure:
        every = [name for names in GROUPS.values() for name in names]
        for one in chosen.tables or every:
            runs = read_figures(NAME)
            whole = set(chosen.methods) == set(METHODS)
            kept = {} if whole else runs.get(one, {})
            runs[one] = measure(one, chosen.methods, kept)
            save_figures(NAME, runs)
            print(one, flush=True)
    if chosen.render:
        runs = read_figures(NAME)
        save_table(NAME, page(runs, read_figures("foreign_before")))

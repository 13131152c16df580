"""What a private search gains over the default rule, on rows that did not train.

``python benchmarks/bench_search.py --save FILE [--tables ...]`` fits the default rule
and searches among twenty candidates at the same epsilon, with paired seeds;
``--render`` writes the table of ``docs/private_search.md`` from the saved run.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rule_tables import FOREIGN_BINARY, FOREIGN_NUMBER, RuleTable, load_table
from saved_tables import markdown_table, measure_tables, read_figures
from sklearn.metrics import log_loss, roc_auc_score

from corrdp.estimators import (
    LinearRegression,
    LogisticRegression,
    PrivateSearchCV,
    Solver,
)
from corrdp.policy import PolicyEncoder

TABLES = (*FOREIGN_BINARY, *FOREIGN_NUMBER)
EPSILONS = (0.3, 3.0)
N_SEEDS = 3
RIDGES = (0.0, 0.001, 0.003, 0.01, 0.03)
STEPS = (None, 10, 30, 100)
WAYS = {"same rows": None, "held out": 0.2}


def scores(model: Any, frame: Any) -> dict[str, float]:
    """Return area under the curve and log loss, or R squared."""
    target = model.policy_.label.name
    if not hasattr(model, "predict_proba"):
        return {"score": float(model.score(frame, frame[target]))}
    chance = model.predict_proba(frame)
    truth = PolicyEncoder(model.policy_).encode_label(frame[target])
    loss = float(log_loss(truth, chance, labels=[0, 1]))
    return {"score": float(roc_auc_score(truth, chance[:, 1])), "log_loss": loss}


def search_of(
    table: RuleTable, epsilon: float, seed: int, held: float | None
) -> PrivateSearchCV:
    """Return a search among twenty candidates, the default rule being one."""
    kind = LogisticRegression if table.model == "logistic" else LinearRegression
    return PrivateSearchCV(
        kind(table.policy),
        {"n_steps": STEPS, "solver": [Solver(ridge=ridge) for ridge in RIDGES]},
        epsilon=epsilon,
        delta=table.delta,
        cv=held,
        scoring="neg_log_loss" if table.model == "logistic" else None,
        random_state=seed,
    )


def measure(
    name: str, epsilons: Sequence[float], seeds: Sequence[int]
) -> dict[str, Any]:
    """Return everything measured on one table."""
    table = load_table(name)
    kind = LogisticRegression if table.model == "logistic" else LinearRegression
    rows = []
    for epsilon in epsilons:
        for seed in seeds:
            rule = kind(
                table.policy, epsilon=epsilon, delta=table.delta, random_state=seed
            ).fit(table.private)
            row = {"epsilon": epsilon, "seed": seed, "rule": scores(rule, table.test)}
            for way, held in WAYS.items():
                search = search_of(table, epsilon, seed, held).fit(table.private)
                row[way] = scores(search.best_estimator_, table.test) | {
                    "fit_epsilon": search.plan_.fit_budget.epsilon
                }
            rows.append(row)
    return {"n_rows": len(table.private), "model": table.model, "rows": rows}


def cells(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rule, and the paired gains of both ways, at every epsilon."""
    found = []
    for epsilon in sorted({row["epsilon"] for row in run["rows"]}):
        rows = [row for row in run["rows"] if row["epsilon"] == epsilon]
        cell: dict[str, Any] = {
            "epsilon": epsilon,
            "rule": float(np.mean([row["rule"]["score"] for row in rows])),
            "fit_epsilon": rows[0]["same rows"]["fit_epsilon"],
        }
        for way in WAYS:
            for what in ("score", "log_loss"):
                if what not in rows[0]["rule"]:
                    continue
                gain = np.array([row[way][what] - row["rule"][what] for row in rows])
                cell[way, what] = (
                    float(gain.mean()),
                    float(gain.std(ddof=1) / np.sqrt(gain.size)),
                )
        found.append(cell)
    return found


def page(saved: dict[str, Any]) -> str:
    """Return the table of the documentation as Markdown."""
    header = ["table", "rows", "epsilon", "of it for a fit", "default rule"]
    header += ["search, same rows", "search, a fifth held out"]
    header += ["log loss, change: same rows, held out"]
    rows = []
    gains = []
    for name, run in saved.items():
        for cell in cells(run):
            losses = ", ".join(
                f"{cell[way, 'log_loss'][0]:+.4f}"
                for way in WAYS
                if (way, "log_loss") in cell
            )
            same, held = (cell[way, "score"] for way in WAYS)
            gains.append((same, held))
            rows.append(
                [
                    name,
                    str(run["n_rows"]),
                    f"{cell['epsilon']:g}",
                    f"{cell['fit_epsilon']:.2g}",
                    f"{cell['rule']:.4f}",
                    *(f"{gain:+.4f} ({error:.4f})" for gain, error in (same, held)),
                    losses,
                ]
            )
    said = []
    for place, way in enumerate(WAYS):
        clear = [gain[place] for gain in gains]
        better = sum(mean > 2 * error for mean, error in clear)
        worse = sum(mean < -2 * error for mean, error in clear)
        mean = float(np.mean([value for value, _ in clear]))
        said.append(
            f"{way}: better than the rule by more than two standard errors in {better} "
            f"of {len(clear)} cells, worse in {worse}, {mean:+.4f} on average"
        )
    return f"{markdown_table(header, rows)}\n{'; '.join(said)}.\n"


def run() -> list[dict]:
    """Return the figures of the saved run, for the page of benchmarks."""
    saved = read_figures("search")
    return [
        {
            "name": f"{name}, epsilon {cell['epsilon']:g}, search minus default rule",
            "value": cell["same rows", "score"][0],
            "unit": "AUC or R squared",
            "target": "",
            "note": f"standard error {cell['same rows', 'score'][1]:.4f}",
        }
        for name, run in saved.items()
        for cell in cells(run)
    ]


if __name__ == "__main__":
    measure_tables(
        "search", measure, page, tables=TABLES, epsilons=EPSILONS, n_seeds=N_SEEDS
    )

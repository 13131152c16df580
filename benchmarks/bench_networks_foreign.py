"""Networks on public tables.

``python benchmarks/bench_networks_foreign.py --measure`` trains networks with their
defaults on every table and saves one row per model in
``docs/results/networks_foreign.json``; ``--render`` writes the table of the docs. The
project's own tables are cut to 6,000 private and 6,000 other rows.
"""

import argparse
import json
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rule_tables import FOREIGN_BINARY, FOREIGN_NUMBER, load_table
from sklearn.metrics import log_loss, mean_squared_error, r2_score, roc_auc_score

from corrdp.estimators import (
    LinearRegression,
    LogisticRegression,
    MLPClassifier,
    MLPRegressor,
)

RESULTS = Path(__file__).parents[1] / "docs" / "results"
SAVED, RENDERED = (RESULTS / f"networks_foreign.{kind}" for kind in ("json", "inc"))
TABLES = (*FOREIGN_BINARY, *FOREIGN_NUMBER, "adult", "credit", "sepsis")
LARGEST = 6000
EPSILONS = (0.5, 1.0, 3.0)
FIRST_SEED, N_SEEDS = 100, 5


def measure(name: str, n_seeds: int) -> list[dict[str, Any]]:
    """Train everything on one table."""
    table = load_table(name)
    private, test = table.private, table.test
    if test is private:
        mixed = private.sample(len(private), random_state=0).reset_index(drop=True)
        private, test = mixed[:LARGEST], mixed[LARGEST : 2 * LARGEST]
    numeric = table.model == "linear"
    network, line = (
        (MLPRegressor, LinearRegression)
        if numeric
        else (MLPClassifier, LogisticRegression)
    )
    judged = _judged_numbers if numeric else _judged_classes
    rows = []
    for epsilon in EPSILONS:
        for seed in range(FIRST_SEED, FIRST_SEED + n_seeds):
            for kind, model, method in (
                ("network", network, "corr"),
                ("network", network, "standard"),
                ("line", line, "corr"),
            ):
                fitted = model(
                    table.policy,
                    epsilon=epsilon,
                    delta=table.delta,
                    method=method,
                    random_state=seed,
                ).fit(private)
                rows.append(
                    {
                        "table": name,
                        "n_rows": len(private),
                        "epsilon": epsilon,
                        "model": kind,
                        "method": method,
                        "gave_way": bool(getattr(fitted, "is_linear", False)),
                        "seed": seed,
                        **judged(fitted, private, test),
                    }
                )
    return rows


def _judged_classes(model: Any, private: Any, test: Any) -> dict[str, float]:
    """Return AUC and log loss, and the log loss of the private rows' base rate."""
    label = model.policy_.label
    positive = str(label.domain.levels[1])
    truth = (test[label.name].astype(str) == positive).to_numpy()
    rate = (private[label.name].astype(str) == positive).mean()
    chance = model.predict_proba(test)[:, 1]
    return {
        "score": float(roc_auc_score(truth, chance)),
        "loss": float(log_loss(truth, chance)),
        "constant": float(log_loss(truth, np.full(len(truth), rate))),
        "prediction": float(chance.mean()),
        "rate": float(truth.mean()),
    }


def _judged_numbers(model: Any, private: Any, test: Any) -> dict[str, float]:
    """Return R squared and mean squared error, in units of the label's range."""
    label = model.policy_.label
    width = label.domain.upper - label.domain.lower
    truth, known = (
        rows[label.name].clip(label.domain.lower, label.domain.upper).to_numpy() / width
        for rows in (test, private)
    )
    guess = model.predict(test) / width
    return {
        "score": float(r2_score(truth, guess)),
        "loss": float(mean_squared_error(truth, guess)),
        "constant": float(np.mean((truth - known.mean()) ** 2)),
        "prediction": float(guess.mean()),
        "rate": float(truth.mean()),
    }


def render(rows: list[dict[str, Any]]) -> str:
    """Return the table of the docs."""
    lines = [
        "| table | rows | epsilon | trained | corr | standard | linear "
        "| loss corr | constant | mean prediction (truth) |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["table"] for row in rows):
        for epsilon in EPSILONS:
            own = [r for r in rows if (r["table"], r["epsilon"]) == (name, epsilon)]
            lines.append(
                f"| {name} | {own[0]['n_rows']:,} | {epsilon:g} | {_trained(own)} "
                f"| {_shown(own, 'network', 'corr')} "
                f"| {_shown(own, 'network', 'standard')} "
                f"| {_shown(own, 'line', 'corr')} "
                f"| {_values(own, 'network', 'corr', 'loss').mean():.4g} "
                f"± {_error(_values(own, 'network', 'corr', 'loss')):.2g} "
                f"| {own[0]['constant']:.4g} "
                f"| {_values(own, 'network', 'corr', 'prediction').mean():.3f} "
                f"({own[0]['rate']:.3f}) |"
            )
    return "\n".join(lines) + "\n"


def summary(rows: list[dict[str, Any]]) -> str:
    """Return by table what the network loses to the line, and where scores fall."""
    lines = []
    for name in dict.fromkeys(row["table"] for row in rows):
        own = {
            e: [r for r in rows if (r["table"], r["epsilon"]) == (name, e)]
            for e in EPSILONS
        }
        for method in ("corr", "standard"):
            scores = [_values(own[e], "network", method, "score") for e in EPSILONS]
            line = _values(own[EPSILONS[-1]], "line", "corr", "score")
            rises = [after - before for before, after in pairwise(scores)]
            shown = [f"{100 * r.mean():+.2f} ± {100 * _error(r):.2f}" for r in rises]
            above = [
                f"{(own[e][0]['constant'] - loss.mean()) / own[e][0]['constant']:+.3f}"
                for e in EPSILONS
                for loss in [_values(own[e], "network", method, "loss")]
            ]
            lines.append(
                f"{name}, {method}: at {EPSILONS[-1]:g} "
                f"{100 * (scores[-1] - line).mean():+.2f} points to the line; rises "
                f"{', '.join(shown)}; below the constant's loss by {', '.join(above)}"
            )
    return "\n".join(lines)


def _trained(rows: list[dict[str, Any]]) -> str:
    """Return what networks became: the same for all seeds."""
    kinds = {
        row["gave_way"]
        for row in rows
        if (row["model"], row["method"]) == ("network", "corr")
    }
    return " or ".join("line" if gave_way else "network" for gave_way in sorted(kinds))


def _values(rows: list[dict[str, Any]], model: str, method: str, key: str) -> Any:
    return np.array(
        [r[key] for r in rows if (r["model"], r["method"]) == (model, method)]
    )


def _error(values: Any) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5)


def _shown(rows: list[dict[str, Any]], model: str, method: str) -> str:
    values = _values(rows, model, method, "score")
    return f"{values.mean():.3f} ± {_error(values):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    chosen = parser.parse_args()
    if chosen.measure:
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        rows = json.loads(SAVED.read_text()) if SAVED.exists() else []
        for name in chosen.tables:
            rows = [row for row in rows if row["table"] != name]
            rows += measure(name, chosen.seeds)
            SAVED.write_text(json.dumps(rows, indent=0) + "\n")
            print(name, flush=True)
    if chosen.render:
        rows = json.loads(SAVED.read_text())
        RENDERED.write_text(render(rows))
        print(summary(rows))


if __name__ == "__main__":
    main()

"""Networks on public tables.

``python benchmarks/bench_networks_foreign.py --measure`` trains classifiers with their
defaults on every table and saves one row per model in
``docs/results/networks_foreign.json``; ``--render`` writes the table of the docs. The
project's own tables are cut to 6,000 private and 6,000 other rows.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rule_tables import FOREIGN_BINARY, load_table
from sklearn.metrics import log_loss, roc_auc_score

from corrdp.estimators import LogisticRegression, MLPClassifier

RESULTS = Path(__file__).parents[1] / "docs" / "results"
SAVED, RENDERED = (RESULTS / f"networks_foreign.{kind}" for kind in ("json", "inc"))
TABLES = (*FOREIGN_BINARY, "adult", "credit", "sepsis")
EPSILONS = (0.5, 1.0, 3.0)
FIRST_SEED, N_SEEDS = 100, 5
LARGEST = 6000


def measure(name: str, n_seeds: int) -> list[dict[str, Any]]:
    """Train everything on one table."""
    table = load_table(name)
    private, test = table.private, table.test
    if test is private:
        mixed = private.sample(len(private), random_state=0).reset_index(drop=True)
        private, test = mixed[:LARGEST], mixed[LARGEST : 2 * LARGEST]
    label = table.policy.label
    assert label is not None
    positive = str(label.domain.levels[1])
    truth = (test[label.name].astype(str) == positive).to_numpy()
    rate = (private[label.name].astype(str) == positive).mean()
    constant = float(log_loss(truth, np.full(len(truth), rate)))
    rows = []
    for epsilon in EPSILONS:
        for seed in range(FIRST_SEED, FIRST_SEED + n_seeds):
            for kind, method in (
                (MLPClassifier, "corr"),
                (MLPClassifier, "standard"),
                (LogisticRegression, "corr"),
            ):
                model = kind(
                    table.policy,
                    epsilon=epsilon,
                    delta=table.delta,
                    method=method,
                    random_state=seed,
                ).fit(private)
                chance = model.predict_proba(test)[:, 1]
                rows.append(
                    {
                        "table": name,
                        "epsilon": epsilon,
                        "model": kind.__name__,
                        "method": method,
                        "noise": getattr(model.plan_, "method", None),
                        "seed": seed,
                        "auc": float(roc_auc_score(truth, chance)),
                        "log_loss": float(log_loss(truth, chance)),
                        "prediction": float(chance.mean()),
                        "constant": constant,
                        "rate": float(truth.mean()),
                    }
                )
    return rows


def render(rows: list[dict[str, Any]]) -> str:
    """Return the table of the docs."""
    lines = [
        "| table | epsilon | AUC corr | AUC standard | AUC linear | log loss corr "
        "| constant | mean prediction (rate) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["table"] for row in rows):
        for epsilon in EPSILONS:
            own = [r for r in rows if (r["table"], r["epsilon"]) == (name, epsilon)]
            lines.append(
                f"| {name} | {epsilon:g} | {_shown(own, 'MLPClassifier', 'corr')} "
                f"| {_shown(own, 'MLPClassifier', 'standard')} "
                f"| {_shown(own, 'LogisticRegression', 'corr')} "
                f"| {_shown(own, 'MLPClassifier', 'corr', 'log_loss')} "
                f"| {own[0]['constant']:.3f} "
                f"| {_mean(own, 'MLPClassifier', 'corr', 'prediction'):.3f} "
                f"({own[0]['rate']:.3f}) |"
            )
    return "\n".join(lines) + "\n"


def _values(rows: list[dict[str, Any]], model: str, method: str, key: str) -> Any:
    return np.array(
        [r[key] for r in rows if (r["model"], r["method"]) == (model, method)]
    )


def _mean(rows: list[dict[str, Any]], model: str, method: str, key: str) -> float:
    return float(_values(rows, model, method, key).mean())


def _shown(
    rows: list[dict[str, Any]], model: str, method: str, key: str = "auc"
) -> str:
    values = _values(rows, model, method, key)
    return f"{values.mean():.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    chosen = parser.parse_args()
    if chosen.measure:
        warnings.simplefilter("ignore")
        rows = json.loads(SAVED.read_text()) if SAVED.exists() else []
        for name in chosen.tables:
            rows = [row for row in rows if row["table"] != name]
            rows += measure(name, chosen.seeds)
            SAVED.write_text(json.dumps(rows, indent=0) + "\n")
            print(name, flush=True)
    if chosen.render:
        RENDERED.write_text(render(json.loads(SAVED.read_text())))


if __name__ == "__main__":
    main()

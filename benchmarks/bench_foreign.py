"""How far default rules are from the limit, on public tables.

``python benchmarks/bench_foreign.py --save FILE [--tables ...] [--methods ...]`` trains
every method at every epsilon with paired seeds and saves one row per model. Excess is
the training objective minus that of the fit without privacy on the same rows. Numbers
are read between declared bounds; `bench_defaults.py` measures what `fit` does.
"""

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rule_tables import (
    FOREIGN_BINARY,
    FOREIGN_NUMBER,
    MULTINOMIAL,
    RuleTable,
    load_table,
)
from sklearn.metrics import roc_auc_score

from corrdp._random import noise_generator
from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.policy import PolicyEncoder
from corrdp.training import (
    CONSTANT,
    Descent,
    LogisticLoss,
    constant_model,
    descend_together,
    minimize_risk,
    prepare_rows,
)

RESULTS = Path(__file__).parents[1] / "docs" / "results"
EPSILONS = (0.1, 0.3, 1.0, 3.0)
FIRST_SEED = 0
N_SEEDS = 10
MODELS_PER_PASS = 64


class Measured:
    """A table encoded once, and the yardsticks on it.

    Parameters
    ----------
    table : RuleTable
        Rows and policy.
    """

    def __init__(self, table: RuleTable) -> None:
        self.table = table
        kind = LogisticRegression if table.model == "logistic" else LinearRegression
        self.kind = kind
        model = kind(table.policy, research=True)
        self.codes, self.labels = model.encode(table.private)
        self.test_codes, self.test_labels = model.encode(table.test)
        self.loss = model.loss_of(table.policy)
        self.blocks = PolicyEncoder(table.policy).blocks_
        self.best = minimize_risk(self.codes, self.labels, self.loss)
        self.floor = self.risk(*self.best)
        self.constant_risk = self._constant_risk()

    def risk(self, coef: Any, intercept: Any) -> float:
        """Return the training objective of a model."""
        score = self.codes @ coef + intercept
        return float(self.loss.value(score, self.labels).mean())

    def scores(self, coef: Any, intercept: Any) -> dict[str, float]:
        """Return excess on the rows that trained, and scores on the others."""
        score = self.test_codes @ coef + intercept
        row = {
            "excess": self.risk(coef, intercept) - self.floor,
            "test_loss": float(self.loss.value(score, self.test_labels).mean()),
        }
        if isinstance(self.loss, LogisticLoss):
            row["auc"] = float(roc_auc_score(self.test_labels, score))
            row["accuracy"] = float(np.mean((score > 0) == (self.test_labels > 0.5)))
        elif score.ndim == 2:
            row["accuracy"] = float(np.mean(score.argmax(1) == self.test_labels))
        else:
            error = np.mean((score - self.test_labels) ** 2)
            row["r_squared"] = float(1.0 - error / np.var(self.test_labels))
        return row

    def plan(self, method: str, epsilon: float) -> Any:
        """Return the plan of the default rule."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = self.kind(
                self.table.policy,
                epsilon=epsilon,
                delta=self.table.delta,
                method=method,
                research=True,
                bounds="declared",  # all models share the rows as coded
            )
            deviation = model.label_deviation(self.labels)
            return model.plan(len(self.codes), label_deviation=deviation)

    def _constant_risk(self) -> float:
        """Return the risk of the best constant."""
        nothing = np.zeros((len(self.codes), 1))
        coef, intercept = minimize_risk(nothing, self.labels, self.loss)
        score = nothing @ coef + intercept
        return float(self.loss.value(score, self.labels).mean())


def trained(measured: Measured, plans: dict[Any, Any], seeds: Sequence[int]) -> list:
    """Train every plan with every seed; return one row per model."""
    cases = [(key, seed) for key in plans for seed in seeds]
    rows = []
    prepared: dict[Any, Any] = {}
    for start in range(0, len(cases), MODELS_PER_PASS):
        batch = cases[start : start + MODELS_PER_PASS]
        models: dict[Any, Descent] = {}
        for key, seed in batch:
            plan = plans[key]
            if plan.noise == CONSTANT:
                continue
            rows_of = _arrangement(plan)
            if rows_of not in prepared:
                compiled = measured.loss.n_outputs == 1
                prepared[rows_of] = prepare_rows(
                    measured.codes, measured.labels, plan.layout, compiled=compiled
                )
            models[key, seed] = Descent(
                measured.codes,
                prepared[rows_of],
                plan,
                noise_generator(seed),
                measured.labels,
            )
        groups: dict[Any, list[Descent]] = {}
        for (key, _), model in models.items():
            groups.setdefault(_arrangement(plans[key]), []).append(model)
        for together in groups.values():
            descend_together(together)
        for key, seed in batch:
            if (key, seed) in models:
                result = models[key, seed].result()
            else:
                rng = noise_generator(seed)
                result = constant_model(measured.labels, plans[key], rng)
            row = measured.scores(result.coef, result.intercept)
            told = None if result.hindsight is None else result.hindsight.excess
            rows.append({"key": key, "seed": seed, **row, "hindsight": told})
    return rows


def _arrangement(plan: Any) -> Any:
    """Return what rows are prepared for: scales, and columns by group."""
    groups = tuple(group.features for group in plan.layout.groups)
    return plan.layout.column_scale.tobytes(), groups


def measure(
    name: str,
    *,
    methods: Sequence[str] = ("corr", "standard", "semi"),
    epsilons: Sequence[float] = EPSILONS,
    seeds: Sequence[int] = range(N_SEEDS),
) -> dict[str, Any]:
    """Return everything measured on one table."""
    measured = Measured(load_table(name))
    plans = {(m, e): measured.plan(m, e) for e in epsilons for m in methods}
    rows = []
    for row in trained(measured, plans, list(seeds)):
        method, epsilon = row.pop("key")
        plan = plans[method, epsilon]
        rows.append(
            {
                "method": method,
                "epsilon": epsilon,
                **row,
                "noise": plan.noise,
                "n_steps": plan.n_steps,
                "predicted": plan.predicted_error,
            }
        )
    return {
        "n_rows": len(measured.codes),
        "floor": measured.floor,
        "constant_excess": measured.constant_risk - measured.floor,
        "nonprivate": measured.scores(*measured.best),
        "rows": rows,
    }


def summary(saved: dict[str, Any]) -> str:
    """Return means and standard errors of the excess as text."""
    lines = []
    for name, run in saved.items():
        lines.append(f"{name}: n={run['n_rows']} constant {run['constant_excess']:.4f}")
        cells: dict[tuple[str, float], list] = {}
        for row in run["rows"]:
            cells.setdefault((row["method"], row["epsilon"]), []).append(row)
        for (method, epsilon), rows in cells.items():
            excess = np.array([row["excess"] for row in rows])
            error = excess.std(ddof=1) / np.sqrt(len(excess))
            score = np.mean([r.get("auc", r.get("r_squared", 0)) for r in rows])
            lines.append(
                f"  {epsilon:4g} {method:9} {excess.mean():.5f} +- {error:.5f}"
                f"  {score:.4f}  {rows[0]['noise']} {rows[0]['n_steps']}"
                f" predicted {rows[0]['predicted']:.4f}"
            )
    return "\n".join(lines)


def run() -> list[dict]:
    """Return geometric means of the excess relative to that of the rule before."""
    before = json.loads((RESULTS / "foreign_before.json").read_text())
    now = {name: measure(name) for name in FOREIGN_BINARY}
    rows = []
    for method, epsilon in [(m, e) for m in ("corr", "standard") for e in EPSILONS]:
        ratios = [
            mean_excess(now[name], method, epsilon)
            / mean_excess(before[name], "standard", epsilon)
            for name in FOREIGN_BINARY
        ]
        rows.append(
            {
                "name": f"five binary tables, epsilon {epsilon:g}, {method}",
                "value": float(np.exp(np.mean(np.log(ratios)))),
                "unit": "of the former standard",
                "target": "",
                "note": ", ".join(
                    f"{n} {r:.2f}" for n, r in zip(now, ratios, strict=True)
                ),
            }
        )
    return rows


def mean_excess(run: dict[str, Any], method: str, epsilon: float) -> float:
    """Return the mean excess of a cell."""
    cell = [
        row["excess"]
        for row in run["rows"]
        if row["method"] == method and row["epsilon"] == epsilon
    ]
    return float(np.mean(cell))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, required=True)
    parser.add_argument(
        "--tables",
        nargs="*",
        default=[*FOREIGN_BINARY, *FOREIGN_NUMBER, *MULTINOMIAL],
    )
    parser.add_argument("--methods", nargs="*", default=["corr", "standard", "semi"])
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    chosen = parser.parse_args()
    saved = json.loads(chosen.save.read_text()) if chosen.save.is_file() else {}
    for name in chosen.tables:
        saved[name] = measure(
            name,
            methods=chosen.methods,
            epsilons=chosen.epsilons,
            seeds=range(chosen.first_seed, chosen.first_seed + chosen.seeds),
        )
        print(summary({name: saved[name]}), flush=True)
        chosen.save.write_text(json.dumps(saved) + "\n")

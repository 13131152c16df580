"""Additive against linear models, with paired seeds, on rows that did not train.

``python benchmarks/bench_additive.py --save FILE [--tables ...]`` fits both kinds at
every epsilon and saves one row per pair; ``--render`` writes the tables of
``docs/additive.md`` from the saved run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rule_tables import RuleTable, folder, load_table, split_rows
from saved_tables import RESULTS, markdown_table, measure_tables, read_figures
from sklearn.metrics import log_loss, roc_auc_score

from corrdp.datasets._paper import load_adult_wide
from corrdp.estimators import (
    AdditiveClassifier,
    AdditiveRegressor,
    LinearRegression,
    LogisticRegression,
)
from corrdp.policy import PolicyEncoder

TABLES = (
    "adult_all",
    "alcohol",
    "compas",
    "fair",
    "german",
    "student",
    "card",
    "k401",
    "medical",
    "synthetic",
    "credit",
    "sepsis",
    "k401_thirds",
    "blobs",
)
EPSILONS = (0.1, 0.3, 1.0, 4.0)
N_SEEDS = 5
WITH_CURVE = ("age", "hours-per-week", "educational-num", "capital-gain")


def table_of(name: str) -> RuleTable:
    """Return a table by its name; ``adult_all`` is Adult with all 14 columns.

    Its rows are shuffled, a fifth is public (leakage), a fifth for tests.
    """
    if name != "adult_all":
        return load_table(name)
    whole = load_adult_wide(folder(), sensitive=("race", "gender"))
    frame = whole.frame.sample(frac=1.0, random_state=0).reset_index(drop=True)
    return split_rows(name, frame, whole.policy)


def kinds(table: RuleTable) -> dict[str, Any]:
    """Return the estimators that are compared."""
    if table.model == "logistic":
        return {"linear": LogisticRegression, "additive": AdditiveClassifier}
    return {"linear": LinearRegression, "additive": AdditiveRegressor}


def scores(model: Any, frame: Any) -> dict[str, float]:
    """Return what a fitted model reaches on rows."""
    target = model.policy_.label.name
    if not hasattr(model, "predict_proba"):
        return {"score": float(model.score(frame, frame[target]))}
    chance = model.predict_proba(frame)
    truth = PolicyEncoder(model.policy_).encode_label(frame[target])
    labels = np.arange(chance.shape[1])
    loss = float(log_loss(truth, chance, labels=labels))
    if chance.shape[1] == 2:
        return {"score": float(roc_auc_score(truth, chance[:, 1])), "log_loss": loss}
    right = float(np.mean(chance.argmax(axis=1) == truth))
    return {"score": right, "log_loss": loss}


def measure(
    name: str, epsilons: Sequence[float], seeds: Sequence[int]
) -> dict[str, Any]:
    """Return everything measured on one table."""
    table = table_of(name)
    rows, curves = [], {}
    for epsilon in epsilons:
        for seed in seeds:
            for kind, estimator in kinds(table).items():
                model = estimator(
                    table.policy, epsilon=epsilon, delta=table.delta, random_state=seed
                ).fit(table.private)
                knots = getattr(model, "decided_parameters", dict)().get("n_knots", 0)
                rows.append(
                    {
                        "kind": kind,
                        "epsilon": epsilon,
                        "seed": seed,
                        "knots": knots,
                        **scores(model, table.test),
                    }
                )
                if kind == "additive" and seed == seeds[0] and name == "adult_all":
                    curves[f"{epsilon:g}"] = [
                        model.shape(feature).to_json() for feature in WITH_CURVE
                    ]
    plain = {
        kind: scores(
            estimator(table.policy, method="nonprivate", research=True).fit(
                table.private
            ),
            table.test,
        )
        for kind, estimator in kinds(table).items()
    }
    return {
        "n_rows": len(table.private),
        "model": table.model,
        "nonprivate": plain,
        "rows": rows,
        "curves": curves,
    }


def cells(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Return linear, additive and their paired difference at every epsilon."""
    found = []
    for epsilon in sorted({row["epsilon"] for row in run["rows"]}):
        by_kind = {
            kind: [
                row
                for row in run["rows"]
                if row["epsilon"] == epsilon and row["kind"] == kind
            ]
            for kind in ("linear", "additive")
        }
        linear, additive = (
            np.array([row["score"] for row in rows]) for rows in by_kind.values()
        )
        gain = additive - linear
        cell = {
            "epsilon": epsilon,
            "knots": by_kind["additive"][0]["knots"],
            "linear": float(linear.mean()),
            "additive": float(additive.mean()),
            "gain": float(gain.mean()),
            "error": float(gain.std(ddof=1) / np.sqrt(gain.size)),
        }
        if "log_loss" in by_kind["linear"][0]:
            first, second = (
                np.array([row["log_loss"] for row in rows]) for rows in by_kind.values()
            )
            cell["log_loss"] = float((second - first).mean())
        found.append(cell)
    return found


def page(saved: dict[str, Any]) -> str:
    """Return the table of the documentation as Markdown."""
    header = ["table", "rows", "epsilon", "knots", "linear", "additive"]
    header += ["gain (standard error)", "log loss, change"]
    header += ["without privacy: linear, additive"]
    rows = []
    for name, run in saved.items():
        plain = ", ".join(f"{s['score']:.4f}" for s in run["nonprivate"].values())
        for cell in cells(run):
            loss = f"{cell['log_loss']:+.4f}" if "log_loss" in cell else ""
            rows.append(
                [
                    name,
                    str(run["n_rows"]),
                    f"{cell['epsilon']:g}",
                    str(cell["knots"] or "none"),
                    f"{cell['linear']:.4f}",
                    f"{cell['additive']:.4f}",
                    f"{cell['gain']:+.4f} ({cell['error']:.4f})",
                    loss,
                    plain,
                ]
            )
    return markdown_table(header, rows)


def draw(saved: dict[str, Any], place: Path) -> None:
    """Draw the curves of Adult as the report does."""
    import vl_convert

    from corrdp.report._charts import VEGA_LITE, shape_chart

    rows = [
        {
            "feature": shape["feature"],
            "value": value,
            "label": "",
            "effect": effect,
            "deviation": deviation,
        }
        for shape in saved["adult_all"]["curves"]["1"]
        for value, effect, deviation in zip(
            shape["values"],
            shape["effect"],
            shape["deviation"] or [0.0] * len(shape["values"]),
            strict=True,
        )
    ]
    chart = shape_chart(rows)
    place.write_text(vl_convert.vegalite_to_svg(chart, vl_version=VEGA_LITE) + "\n")


def run() -> list[dict]:
    """Return the figures of the saved run, for the page of benchmarks."""
    saved = read_figures("additive")
    return [
        {
            "name": f"{name}, epsilon {cell['epsilon']:g}, additive minus linear",
            "value": cell["gain"],
            "unit": "AUC, accuracy or R squared",
            "target": "",
            "note": f"{cell['knots']} knots, standard error {cell['error']:.4f}",
        }
        for name, run in saved.items()
        for cell in cells(run)
    ]


if __name__ == "__main__":
    known = measure_tables(
        "additive", measure, page, tables=TABLES, epsilons=EPSILONS, n_seeds=N_SEEDS
    )
    draw(known, RESULTS / "additive_curves.svg")

"""Models on synthetic rows against models fitted privately, with and without the label.

``python benchmarks/bench_synthesis_models.py`` runs every cell that the saved run does
not hold yet and writes ``docs/results/synthesis_models.json`` and its table. Boosted
trees (scikit-learn, defaults) learn from synthetic rows; the rivals are our own linear
models at the same epsilon and delta. Scores on rows that nobody trained on: AUC, or R
squared for numbers. The label is public, or protected as one more sensitive column.
"""

import argparse
import itertools
import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from rule_tables import (
    FOREIGN_BINARY,
    FOREIGN_NUMBER,
    ROOT,
    RuleTable,
    load_table,
)
from saved_tables import markdown_table
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.metrics import r2_score, roc_auc_score

from corrdp import LinearRegression, LogisticRegression, Synthesizer
from corrdp.policy import NumberDomain, Policy

SAVED = ROOT / "docs" / "results" / "synthesis_models.json"
PAGE = ROOT / "docs" / "results" / "synthesis_models.inc"
TABLES = (*FOREIGN_BINARY, *FOREIGN_NUMBER, "adult", "credit", "sepsis", "medical")
EPSILONS = (0.3, 1.0)
LABELS = ("public", "protected")
METHODS = (
    "trees on synthetic, corr",
    "trees on synthetic, ordinary",
    "linear, corr",
    "linear, ordinary",
)
LIMIT = "trees without privacy"


def table_of(name: str, label: str) -> RuleTable:
    """Return a table split into private and test rows, with the label's reading."""
    table = load_table(name)
    if table.public is None:  # the project's own tables come whole
        frame = table.private.sample(frac=1.0, random_state=0).reset_index(drop=True)
        cut = len(frame) * 4 // 5
        parts = frame[:cut], frame[cut:].reset_index(drop=True)
        table = replace(table, private=parts[0], test=parts[1])
    assert table.policy.label is not None
    score = 1.0 if label == "protected" else 0.0
    own = replace(table.policy.label, score=score)
    return replace(table, policy=replace(table.policy, label=own))


def numeric(policy: Policy, frame: Any) -> np.ndarray:
    """Return features as trees read them: numbers, and numbers of categories."""
    columns = []
    for feature in policy.features:
        values = frame[feature.name]
        if isinstance(feature.domain, NumberDomain):
            columns.append(pd.to_numeric(values, errors="coerce").to_numpy(float))
        else:
            text = values.map(str)
            levels = {level: i for i, level in enumerate(sorted(text.unique()))}
            known = _levels(policy, feature.name)
            columns.append(text.map(known or levels).to_numpy(float))
    return np.column_stack(columns)


def _levels(policy: Policy, name: str) -> dict[str, int]:
    domain = policy.feature(name).domain
    categories = getattr(domain, "categories", ("False", "True"))
    return {str(level): i for i, level in enumerate(categories)}


def tree_score(table: RuleTable, rows: Any) -> float:
    """Return the test score of boosted trees that learned from some rows."""
    policy, label = table.policy, table.policy.label
    assert label is not None
    features = numeric(policy, rows), numeric(policy, table.test)
    if table.model == "linear":
        targets = [frame[label.name].to_numpy(float) for frame in (rows, table.test)]
        model = HistGradientBoostingRegressor(random_state=0)
        return r2_score(
            targets[1], model.fit(features[0], targets[0]).predict(features[1])
        )
    truth = table.test[label.name].map(str)
    own = rows[label.name].map(str)
    if own.nunique() < 2:
        return 0.5
    model = HistGradientBoostingClassifier(random_state=0).fit(features[0], own)
    return roc_auc_score(truth, model.predict_proba(features[1])[:, 1])


def linear_score(table: RuleTable, epsilon: float, method: str, seed: int) -> float:
    """Return the test score of our own linear model."""
    label = table.policy.label
    assert label is not None
    kind = LinearRegression if table.model == "linear" else LogisticRegression
    model = kind(
        table.policy,
        epsilon=epsilon,
        delta=table.delta,
        method=method,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table.private.drop(columns=label.name), table.private[label.name])
    features = table.test.drop(columns=label.name)
    if table.model == "linear":
        return r2_score(table.test[label.name], model.predict(features))
    truth = table.test[label.name].map(str)
    place = [str(c) for c in model.classes_].index(max(truth.unique()))
    return roc_auc_score(truth, model.predict_proba(features)[:, place])


def run_cell(table: RuleTable, epsilon: float, method: str, seed: int) -> float:
    """Return the test score of one method."""
    if method == LIMIT:
        return tree_score(table, table.private)
    kind, protected = method.split(", ")
    corr = "corr" if protected == "corr" else "standard"
    if kind == "linear":
        return linear_score(table, epsilon, corr, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        maker = Synthesizer(
            table.policy,
            epsilon=epsilon,
            delta=table.delta,
            method=corr,
            random_state=seed,
        ).fit(table.private)
    return tree_score(table, maker.sample(random_state=seed, output="pandas"))


def cells(seeds: int) -> Iterator[tuple[str, str, str, float, str, int]]:
    """Yield every cell with its key."""
    for name, label in itertools.product(TABLES, LABELS):
        yield f"{name}|{label}|0|{LIMIT}|0", name, label, 0.0, LIMIT, 0
        for epsilon, method, seed in itertools.product(EPSILONS, METHODS, range(seeds)):
            key = f"{name}|{label}|{epsilon}|{method}|{seed}"
            yield key, name, label, epsilon, method, seed


def page(saved: dict[str, float]) -> str:
    """Return the table of the documentation page."""
    lines = [
        "Test AUC (R squared for card, k401, medical), mean, standard error and number "
        "of seeds. Trees: scikit-learn's boosted trees on synthetic rows; "
        "linear: our own models at the same epsilon; the last column learns without "
        "privacy.",
        "",
    ]
    rows = []
    for name, label, epsilon in itertools.product(TABLES, LABELS, EPSILONS):
        shown = []
        for method in METHODS:
            prefix = f"{name}|{label}|{epsilon}|{method}|"
            scores = [v for key, v in saved.items() if key.startswith(prefix)]
            if len(scores) > 1:
                error = np.std(scores, ddof=1) / len(scores) ** 0.5
                shown.append(f"{np.mean(scores):.3f} ± {error:.3f} ({len(scores)})")
        limit = saved.get(f"{name}|{label}|0|{LIMIT}|0")
        if len(shown) == len(METHODS) and limit is not None:
            rows.append([name, label, f"{epsilon:g}", *shown, f"{limit:.3f}"])
    header = ["table", "label", "epsilon", *METHODS, LIMIT]
    return "\n".join([*lines, markdown_table(header, rows)])


def main() -> None:
    """Run what is missing, save after every cell, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", default=",".join(TABLES))
    chosen = parser.parse_args()
    saved = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    held: dict[tuple[str, str], RuleTable] = {}
    for key, name, label, epsilon, method, seed in cells(chosen.seeds):
        if key in saved or name not in chosen.tables.split(","):
            continue
        if (name, label) not in held:
            held = {(name, label): table_of(name, label)}
        saved[key] = run_cell(held[name, label], epsilon, method, seed)
        print(key, round(saved[key], 4), file=sys.stderr, flush=True)
        SAVED.write_text(json.dumps(dict(sorted(saved.items())), indent=1) + "\n")
    PAGE.write_text(page(saved), encoding="utf-8")


if __name__ == "__main__":
    main()

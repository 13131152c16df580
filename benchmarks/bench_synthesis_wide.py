"""Synthetic tables of many columns: time, memory, and what the limits cost.

``python benchmarks/bench_synthesis_wide.py`` runs every cell that the saved run does
not hold yet, each in a process of its own, and writes
``docs/results/synthesis_wide.json`` and the tables of the page.

From 40 columns on adaptive rounds share models and candidates; of more than 4,096 pairs
screening goes on with those that independent columns explain worst. ``whole`` lifts
both limits on the same table with the same seed: every round has a model of its own and
its look sees all candidates, and all pairs stay candidates.

Tables: *made* ones have blocks of ten columns of 2 to 20 codes that follow a hidden
cause each, the causes a chain, the label three of the causes. *credit* is Credit Card
with what its months say of each other: shares of the limit, shares paid, changes,
lateness. *adult* has an indicator per category. *digits* are the images that
scikit-learn brings, a column per pixel. Total variation is that of all single columns,
of the 200 pairs that depend on each other most, and of 200 triples: such a pair and
another column. AUC: boosted trees that learn from synthetic rows,
on rows that nobody trained on.
"""

import argparse
import contextlib
import itertools
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from bench_synthesis import load
from saved_tables import RESULTS, markdown_table, read_figures, save_figures, save_table
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from corrdp import Synthesizer
from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy
from corrdp.synthesis import TableColumns, _adaptive, _structure

NAME = "synthesis_wide"
DELTA, DECLARED = 1e-6, 0.3
N_TABLES = 200  # of two, and of three columns
NO_LIMIT = 10**9
VARIANTS = ("default", "whole")
TIMED = [
    (f"made {columns} x {rows}", "corr", 1.0)
    for rows in (10_000, 100_000)
    for columns in (40, 66, 92, 150, 300)
] + [("made 300 x 10000", "standard", 1.0)]
LIMITED = [
    (table, method, epsilon)
    for epsilon in (1.0, 0.3)
    for table, method in (
        ("made 40 x 10000", "standard"),
        ("made 66 x 10000", "standard"),
        ("credit", "standard"),
        ("digits", "standard"),
        ("made 92 x 10000", "corr"),
        ("adult", "corr"),
        ("made 150 x 10000", "corr"),
        ("made 92 x 10000", "standard"),
    )
]


def made(n_columns: int, n_rows: int) -> tuple[pd.DataFrame, Policy]:
    """Return a table of known structure: one column in twenty is sensitive."""
    rng = np.random.default_rng(0)
    sizes = [2 + 7 * number % 19 for number in range(n_columns - 1)]
    cause = rng.integers(0, 6, n_rows)
    score = np.zeros(n_rows)
    columns = {}
    for number, size in enumerate(sizes):
        if number % 10 == 0:
            kept = rng.random(n_rows) < 0.6
            cause = np.where(kept, cause, rng.integers(0, 6, n_rows))
            score += (cause >= 3) * (number < 30)
        own = rng.permutation(6) % size
        follows = rng.random(n_rows) < 0.55
        columns[f"c{number}"] = np.where(
            follows, own[cause], rng.integers(0, size, n_rows)
        )
    columns["label"] = rng.random(n_rows) < 1 / (1 + np.exp(3 - 2 * score))
    frame = pd.DataFrame(columns).astype(int).astype(str)
    sensitive = {f"c{number}" for number in range(3, n_columns - 1, 20)}
    return frame, policy_of(frame, sensitive, {})


def credit() -> tuple[pd.DataFrame, Policy]:
    """Return Credit Card with what its months say of each other: 68 columns."""
    frame, label = load("credit")
    frame = frame.rename(columns={label: "label", "PAY_0": "PAY_1"}).astype(float)
    months, parts = range(1, 7), {}
    for month in months:
        bill, paid = frame[f"BILL_AMT{month}"], frame[f"PAY_AMT{month}"]
        parts[f"used{month}"] = (bill / frame["LIMIT_BAL"]).clip(-0.5, 1.5)
        parts[f"share{month}"] = (paid / bill.clip(lower=1.0)).clip(0, 1.5)
        parts[f"late{month}"] = (frame[f"PAY_{month}"] > 0).astype(float)
        parts[f"very_late{month}"] = (frame[f"PAY_{month}"] > 1).astype(float)
        parts[f"nothing_owed{month}"] = (bill <= 0).astype(float)
        if month > 1:
            more = bill - frame[f"BILL_AMT{month - 1}"]
            parts[f"bill_change{month}"] = more.clip(-1e5, 1e5)
            more = paid - frame[f"PAY_AMT{month - 1}"]
            parts[f"paid_change{month}"] = more.clip(-5e4, 5e4)
    late = np.stack([frame[f"PAY_{month}"] for month in months])
    parts["worst"] = late.max(axis=0)
    parts["months_late"] = (late > 0).sum(axis=0)
    frame = frame.assign(**parts)
    for month in months:
        frame[f"BILL_AMT{month}"] = frame[f"BILL_AMT{month}"].clip(-5e4, 5e5)
        frame[f"PAY_AMT{month}"] = frame[f"PAY_AMT{month}"].clip(0, 1e5)
    bounds: dict[str, tuple[float, float]] = {"LIMIT_BAL": (0, 1e6), "AGE": (20, 80)}
    for month in months:
        bounds |= {f"BILL_AMT{month}": (-5e4, 5e5), f"PAY_AMT{month}": (0, 1e5)}
        bounds |= {f"used{month}": (-0.5, 1.5), f"share{month}": (0, 1.5)}
    for month in range(2, 7):
        bounds |= {f"bill_change{month}": (-1e5, 1e5)}
        bounds |= {f"paid_change{month}": (-5e4, 5e4)}
    return frame, policy_of(frame, {"SEX", "EDUCATION", "MARRIAGE"}, bounds)


def adult() -> tuple[pd.DataFrame, Policy]:
    """Return Adult with an indicator per category: 103 columns or so."""
    frame, label = load("adult")
    numbers = list(frame.select_dtypes("number").columns)
    texts = [c for c in frame.columns if c not in numbers and c != label]
    wide = pd.get_dummies(frame[texts], dtype=float)
    bounds: dict[str, tuple[float, float]] = {
        "age": (17, 90),
        "educational-num": (1, 17),
        "capital-gain": (0, 100_000),
        "capital-loss": (0, 4_500),
        "hours-per-week": (1, 99),
    }
    wide = wide.join(frame[numbers].astype(float))
    wide["label"] = (frame[label] == ">50K").astype(float)
    sensitive = {c for c in wide if c.startswith(("marital", "relationship"))}
    return wide, policy_of(wide, sensitive, bounds)


def digits() -> tuple[pd.DataFrame, Policy]:
    """Return images of digits: 64 pixels, and whether the digit is above 4."""
    held = load_digits()
    frame = pd.DataFrame(held.data, columns=[f"p{i}" for i in range(64)])
    frame["label"] = (held.target > 4).astype(float)
    bounds = {f"p{i}": (0.0, 17.0) for i in range(64)}
    return frame, policy_of(frame, {"p0", "p7", "p56", "p63"}, bounds, bins=4)


def policy_of(
    frame: pd.DataFrame,
    sensitive: set[str],
    bounds: dict[str, tuple[float, float]],
    bins: int = 16,
) -> Policy:
    """Return a policy whose insensitive columns are at the declared distance."""

    def domain(name: str) -> Any:
        if name in bounds:
            return NumberDomain(*bounds[name], bins=bins)
        return CategoryDomain(tuple(sorted(map(str, frame[name].unique()))))

    return Policy(
        tuple(
            Feature(name, "sensitive", domain(name))
            if name in sensitive
            else Feature(name, "insensitive", domain(name), leakage=DECLARED)
            for name in frame.columns
            if name != "label"
        ),
        label=Label("label", domain("label"), 0.0),
    )


def table_of(name: str) -> tuple[pd.DataFrame, pd.DataFrame, Policy]:
    """Return private rows, test rows and the policy of a table."""
    if name.startswith("made"):
        n_columns, n_rows = map(int, name.removeprefix("made ").split(" x "))
        frame, policy = made(n_columns, n_rows + 10_000)
    else:
        frame, policy = {"credit": credit, "adult": adult, "digits": digits}[name]()
        frame = frame.sample(frac=1.0, random_state=0).reset_index(drop=True)
        n_rows = len(frame) * 4 // 5
    return frame[:n_rows], frame[n_rows:].reset_index(drop=True), policy


def errors(policy: Policy, private: Any, synthetic: Any) -> dict[str, float]:
    """Return mean total variation of tables of one, two and three columns."""
    columns = TableColumns(policy, 16, {})
    codes = [columns.codes(table) for table in (private, synthetic)]
    sizes = columns.sizes

    def shares(own: Any, region: tuple[int, ...]) -> Any:
        shape = [sizes[c] for c in region]
        cells = np.ravel_multi_index(tuple(own[:, c] for c in region), shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape)))
        return (counts / len(own)).reshape(shape)

    def error(region: tuple[int, ...]) -> float:
        return 0.5 * np.abs(shares(codes[0], region) - shares(codes[1], region)).sum()

    def dependence(pair: tuple[int, ...]) -> float:
        joint = shares(codes[0], pair)
        product = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
        return float(np.abs(joint - product).sum())

    pairs = list(itertools.combinations(range(len(sizes)), 2))
    strongest = sorted(pairs, key=dependence)[-N_TABLES:]
    rng = np.random.default_rng(0)
    triples = []
    while len(triples) < N_TABLES:
        pair = strongest[rng.integers(len(strongest))]
        other = int(rng.integers(len(sizes)))
        if other not in pair:
            triples.append((*pair, other))
    tables = {"1": [(c,) for c in range(len(sizes))], "2": strongest, "3": triples}
    return {
        f"{way}-way": float(np.mean(list(map(error, own))))
        for way, own in tables.items()
    }


def tree_score(policy: Policy, rows: Any, test: Any) -> float:
    """Return the AUC of boosted trees that learned from some rows."""
    if rows["label"].astype(str).nunique() < 2:
        return 0.5
    features = [
        frame.drop(columns="label").astype(float).to_numpy() for frame in (rows, test)
    ]
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(features[0], rows["label"].astype(float))
    scores = model.predict_proba(features[1])[:, 1]
    return float(roc_auc_score(test["label"].astype(float), scores))


def run_cell(
    table: str, method: str, epsilon: float, variant: str, seed: int
) -> dict[str, Any]:
    """Return seconds, memory and errors of one synthetic table."""
    warnings.simplefilter("ignore")
    private, test, policy = table_of(table)
    maker = Synthesizer(
        policy, epsilon=epsilon, delta=DELTA, method=method, random_state=seed
    )
    before = _memory()
    started = time.process_time()
    plan = maker.plan(len(private))
    planned, of_plan = time.process_time(), _memory()
    with contextlib.ExitStack() as lifted:
        for module, name in _LIMITS if variant == "whole" else ():
            lifted.enter_context(mock.patch.object(module, name, NO_LIMIT))
        maker.fit(private)
    fitted = time.process_time()
    synthetic = maker.sample(random_state=seed)
    result = {
        "selection": str(plan.selection),
        "columns": len(private.columns),
        "rows": len(private),
        "plan": planned - started,
        "fit": fitted - planned,
        "sample": time.process_time() - fitted,
        "memory": [before, of_plan, _memory()],
        "tables": len(maker.pairs_),
    }
    result |= errors(policy, private, synthetic)
    return result | {"auc": tree_score(policy, synthetic, test)}


_LIMITS = (
    (_adaptive, "_COLUMNS_PER_ROUND"),
    (_adaptive, "_MOST_SEEN"),
    (_structure, "_MOST_RANKED"),
)


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cells(seeds: int) -> Iterator[str]:
    """Yield the key of every cell of the benchmark."""
    for table, method, epsilon in TIMED:
        yield f"timed|{table}|{method}|{epsilon}|default|0"
    for seed, (table, method, epsilon) in itertools.product(range(seeds), LIMITED):
        for variant in VARIANTS:
            yield f"{table}|{method}|{epsilon}|{variant}|{seed}"


def page(saved: dict[str, Any]) -> str:
    """Return the tables of the documentation page."""
    lines = [
        "Seconds of the processor and peak memory of a process (of it: Python and the "
        "table before anything is planned).",
        "",
    ]
    header = ["table", "method", "way", "plan, s", "fit, s", "memory, MB"]
    header += ["before, MB"]
    rows = []
    for key, run in saved.items():
        if key.startswith("timed|"):
            _, table, method = key.split("|")[:3]
            before, _, peak = run["memory"]
            rows.append([table, method, run["selection"]])
            rows[-1] += [f"{run[part]:.1f}" for part in ("plan", "fit")]
            rows[-1] += [f"{peak:.0f}", f"{before:.0f}"]
    rows.sort(key=lambda row: [int(part) for part in row[0].split()[1::2]])
    lines += [markdown_table(header, rows), ""]
    lines += [
        "Limits against the same seeds without them: mean total variation of tables of "
        "one, two and three columns and AUC of boosted trees, default / whole; ratio "
        "of the time of the fit, whole to default.",
        "",
    ]
    rows = []
    for table, method, epsilon in LIMITED:
        pairs = [
            [saved.get(f"{table}|{method}|{epsilon}|{v}|{seed}") for v in VARIANTS]
            for seed in range(100)
        ]
        pairs = [pair for pair in pairs if None not in pair]
        if not pairs:
            continue
        shown = [table, method, f"{epsilon:g}", pairs[0][0]["selection"]]
        for part in ("1-way", "2-way", "3-way", "auc"):
            means = [
                float(np.mean([run[part] for run in own]))
                for own in zip(*pairs, strict=True)
            ]
            shown.append(" / ".join(f"{mean:.4f}" for mean in means))
        slower = np.mean([whole["fit"] / own["fit"] for own, whole in pairs])
        rows.append([*shown, f"{slower:.1f}", str(len(pairs))])
    header = ["table", "method", "epsilon", "way", "1-way", "2-way", "3-way", "AUC"]
    return "\n".join([*lines, markdown_table([*header, "time", "seeds"], rows)])


def main() -> None:
    """Run what is missing, save after every cell, write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="part of the key of a cell")
    parser.add_argument("--render", action="store_true", help="run nothing")
    parser.add_argument("--cell", help="run one cell and print it")
    chosen = parser.parse_args()
    if chosen.cell:
        table, method, epsilon, variant, seed = chosen.cell.split("|")
        result = run_cell(table, method, float(epsilon), variant, int(seed))
        print(json.dumps(result))
        return
    for key in cells(chosen.seeds):
        saved = read_figures(NAME) if (RESULTS / f"{NAME}.json").is_file() else {}
        if chosen.render or key in saved or chosen.only not in key:
            continue
        cell = key.removeprefix("timed|")
        command = [sys.executable, __file__, "--cell", cell]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        saved[key] = json.loads(done.stdout)
        save_figures(NAME, dict(sorted(saved.items())))
        print(key, done.stdout.strip(), file=sys.stderr, flush=True)
    save_table(NAME, page(read_figures(NAME)))


if __name__ == "__main__":
    main()

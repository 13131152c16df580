"""When a network gives way to a linear model, from tables made for the purpose.

``python benchmarks/tune_networks_linear.py --measure`` fits networks that are kept and
linear models to tables of many sizes and saves one row per pair in
``docs/results/networks_linear.json``; ``--choose`` shows what every limit on the noise
of a plan would have cost. None of the tables is evaluated anywhere else, and errors are
on rows that were not trained on. ``--public`` does the same, one seed, on the public
tables with numbers that come with packages (``docs/results/networks_numbers.json``).
"""

import argparse
import json
import math
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from tune_networks import (
    Frame,
    _feature,
    _labeled,
    _standard,
    dominated_table,
    mixed_table,
    wide_table,
)

from corrdp.estimators import (
    LinearRegression,
    LogisticRegression,
    MLPClassifier,
    MLPRegressor,
)
from corrdp.policy import CategoryDomain, Label, NumberDomain, Policy
from corrdp.torch.mlp import CLIP_NORM, noise_walk

RESULTS = Path(__file__).parents[1] / "docs" / "results"
SAVED, PUBLIC = (RESULTS / f"networks_{name}.json" for name in ("linear", "numbers"))
DELTA = 1e-5
SIZES = (300, 1000, 3000, 8000)
EPSILONS = (0.5, 3.0)
SEEDS = (0, 1)
N_TEST = 5000
LARGEST = 20_000  # private rows of a public table


def survey_table(seed: int, n_rows: int) -> Frame:
    """Sixteen questions of two to five answers, four sensitive; one label in seven."""
    shape = np.random.default_rng(2000)
    rng = np.random.default_rng(8000 + seed)
    mood = rng.normal(size=n_rows)
    columns, features, score = {}, [], np.zeros(n_rows)
    for index in range(16):
        n_levels = 2 + index % 4
        sensitive = index % 4 == 0
        pull = shape.normal(size=n_levels) * shape.choice([0.0, 1.0])
        odds = np.outer(mood, pull) + rng.gumbel(size=(n_rows, n_levels))
        answer = odds.argmax(axis=1)
        score += 0.35 * shape.normal(size=n_levels)[answer]
        columns[f"q{index}"] = answer.astype(str)
        levels = tuple(str(level) for level in range(n_levels))
        features.append(_feature(f"q{index}", CategoryDomain(levels), sensitive, 0.3))
    both = (columns["q1"] == "1") & (columns["q5"] == "1")
    chance = 1.0 / (1.0 + np.exp(-1.8 - score - 1.2 * both))
    label = (rng.random(n_rows) < chance).astype(int).astype(str)
    policy = Policy(tuple(features), Label("y", CategoryDomain(("0", "1")), score=0.0))
    return pd.DataFrame(columns | {"y": label}), policy


def product_table(seed: int, n_rows: int, *, classes: bool = False) -> Frame:
    """Six numbers; a product of two says more than all of them in a line."""
    rng = np.random.default_rng(9000 + seed)
    X = rng.uniform(-1.0, 1.0, size=(n_rows, 6))
    line = _standard(X @ np.array([1.0, -1.0, 0.5, 0.5, 0.0, 0.0]))
    label = 0.6 * line + 0.8 * _standard(X[:, 1] * X[:, 2])
    features = tuple(
        _feature(f"x{column}", NumberDomain(-1, 1), column == 0, 0.3)
        for column in range(6)
    )
    frame = pd.DataFrame(X, columns=[feature.name for feature in features])
    return _labeled(frame, features, label, (-3.5, 3.5), 0.2, rng, classes=classes)


def income_table(seed: int, n_rows: int) -> Frame:
    """Incomes with a long tail: three categories, two numbers, one kink by age."""
    rng = np.random.default_rng(5000 + seed)
    age = rng.uniform(25, 64, n_rows)
    size = 1.0 + rng.poisson(1.9, n_rows).clip(0, 9)
    job = rng.choice(5, n_rows, p=[0.3, 0.3, 0.2, 0.15, 0.05])
    owner = (rng.random(n_rows) < 0.3 + 0.08 * job).astype(int)
    wed = (rng.random(n_rows) < 0.6).astype(int)
    score = 0.25 * (job - 1.5) + 0.35 * owner + 0.3 * wed + 0.03 * size
    score += 0.012 * (age - 45) - 0.0004 * (age - 45) ** 2
    income = np.exp(3.2 + score + 0.6 * rng.normal(size=n_rows)).clip(5, 200)
    features = (
        _feature("age", NumberDomain(25, 64), False, 0.3),
        _feature("size", NumberDomain(1, 10), False, 0.3),
        _feature("job", CategoryDomain(tuple("01234")), False, 0.4),
        _feature("owner", CategoryDomain(tuple("01")), False, 0.3),
        _feature("wed", CategoryDomain(tuple("01")), True, 0.3),
    )
    columns = {"age": age, "size": size, "job": job, "owner": owner, "wed": wed}
    frame = pd.DataFrame(columns).astype({"job": str, "owner": str, "wed": str})
    policy = Policy(features, Label("y", NumberDomain(5, 200), score=0.0))
    return frame.assign(y=income), policy


TABLES: dict[str, Callable[[int, int], Frame]] = {
    "wide": lambda seed, n: wide_table(seed, n, 40, noise=0.3),
    "bent": lambda seed, n: wide_table(seed, n, 10, bend=1.0, noise=0.2),
    "mixed": mixed_table,
    "dominated": dominated_table,
    "product": product_table,
    "wide classes": lambda seed, n: wide_table(seed, n, 40, classes=True),
    "bent classes": lambda seed, n: wide_table(seed, n, 10, bend=1.0, classes=True),
    "mixed classes": lambda seed, n: mixed_table(seed, n, classes=True),
    "product classes": lambda seed, n: product_table(seed, n, classes=True),
    "survey": survey_table,
    "income": income_table,
}


def measured(name: str, n_rows: int, seed: int) -> list[dict[str, Any]]:
    """Return errors and noise of one made table of one size at every budget."""
    frame, policy = TABLES[name](seed, n_rows + N_TEST)
    return _compared(name, policy, frame[:n_rows], frame[n_rows:], seed, EPSILONS)


def _compared(
    name: str,
    policy: Policy,
    rows: pd.DataFrame,
    test: pd.DataFrame,
    seed: int,
    epsilons: tuple[float, ...],
) -> list[dict[str, Any]]:
    """Return errors of a network that is kept and of a line at every budget."""
    n_rows, label = len(rows), policy.label.name
    numeric = not isinstance(policy.label.domain, CategoryDomain)
    network, linear = (
        (MLPRegressor, LinearRegression)
        if numeric
        else (MLPClassifier, LogisticRegression)
    )
    kind = "regression" if numeric else "classification"
    norm = CLIP_NORM[kind]
    saved = []
    for epsilon in epsilons:
        budget = {"epsilon": epsilon, "delta": DELTA, "random_state": 100 + seed}
        one = network(policy, clip_norm=norm, **budget).fit(rows)  # which keeps it
        other = linear(policy, **budget).fit(rows)
        saved.append(
            {
                "table": name,
                "kind": kind,
                "n_rows": n_rows,
                "seed": seed,
                "epsilon": epsilon,
                "deviation": one.plan_.deviation,
                "walk": noise_walk(one.plan_, n_rows),
                "noise_to_signal": other.plan_.noise_to_signal,
                "noise": [one.plan_.method, other.plan_.noise],
                "network": error(one, test, label, numeric),
                "linear": error(other, test, label, numeric),
            }
        )
    return saved


def error(model: Any, test: pd.DataFrame, label: str, numeric: bool) -> float:
    """Return the share of variance, or of one bit per label, that is left."""
    if numeric:
        domain = model.policy_.label.domain
        truth = test[label].clip(domain.lower, domain.upper).to_numpy()
        return float(np.mean((model.predict(test) - truth) ** 2) / truth.var())
    chance = model.predict_proba(test)[np.arange(len(test)), test[label].astype(int)]
    return float(-np.mean(np.log(np.maximum(chance, 1e-12))) / math.log(2.0))


def measure() -> None:
    """Fit what is not saved yet."""
    rows = json.loads(SAVED.read_text()) if SAVED.exists() else []
    done = {(row["seed"], row["n_rows"], row["table"]) for row in rows}
    for seed, n_rows, name in product(SEEDS, SIZES, TABLES):
        if (seed, n_rows, name) in done:
            continue
        rows += measured(name, n_rows, seed)
        _save(SAVED, rows)


def measure_public() -> None:
    """Fit the tables with numbers of packages, which have to be installed."""
    from package_tables import HELD_OUT, LOOKED_AT

    rows = []
    for name, source in (HELD_OUT | LOOKED_AT).items():
        table = source.load()
        if table.model == "linear" and len(table.private) <= LARGEST:
            epsilons = (1.0, 3.0)
            parts = table.policy, table.private, table.test
            rows += _compared(name, *parts, SEEDS[0], epsilons)
            _save(PUBLIC, rows)


def _save(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def choose() -> None:
    """Print the mean log error of every limit between measured deviations."""
    rows = json.loads(SAVED.read_text())
    for kind in CLIP_NORM:
        own = sorted(
            (row for row in rows if row["kind"] == kind), key=lambda r: r["deviation"]
        )
        network = np.log([row["network"] for row in own])
        linear = np.log([row["linear"] for row in own])
        print(f"{kind}: limit, mean log error; of networks {network.mean():.4f}")
        for n_kept, row in enumerate(own):
            error = (network[:n_kept].sum() + linear[n_kept:].sum()) / len(own)
            print(f"  below {row['deviation']:.4f}: {error:.4f}   {row['table']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--public", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if options.measure:
        measure()
    if options.public:
        measure_public()
    if options.choose:
        choose()


if __name__ == "__main__":
    main()

"""What bought distances bring to models, at equal total epsilon, on foreign tables.

``python benchmarks/bench_leakage_models.py --save [--seeds N] [--tables ...]`` trains
corr with all distances at 1 (nothing bought), with ``leakage="auto"``, with a tenth of
epsilon spent on levels apart, and with exact distances declared, which no certified
user can. Written to ``docs/results/leakage_models.json`` and ``.inc``.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rule_tables import FOREIGN_BINARY, FOREIGN_NUMBER, foreign_parts
from sklearn.metrics import roc_auc_score

from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.leakage import estimate_leakage
from corrdp.policy import NumberDomain

RESULTS = Path(__file__).parents[1] / "docs" / "results"
EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-5
METHODS = ("nothing bought", "auto", "a tenth, levels apart", "exact, declared")


def measure(name: str, seeds: int) -> list[dict[str, Any]]:
    """Return one row per epsilon, method and seed."""
    frame, policy = foreign_parts(name)
    cut = 4 * len(frame) // 5
    train, test = frame[:cut].reset_index(drop=True), frame[cut:]
    assert policy.label is not None
    number = isinstance(policy.label.domain, NumberDomain)
    kind = LinearRegression if number else LogisticRegression
    truth = test[policy.label.name]
    found = estimate_leakage(train, policy, source="in_sample", research=True)
    exact = {n: value.estimate for n, value in found.features.items()}
    ones = dict.fromkeys(policy.insensitive, 1.0)

    def score(model: Any) -> float:
        if number:
            return float(model.score(test, truth))
        chance = model.predict_proba(test)[:, 1]
        return float(roc_auc_score(truth.astype(str) == str(model.classes_[1]), chance))

    def fitted(seed: int, epsilon: float, leakage: Any) -> Any:
        options = {"epsilon": epsilon, "delta": DELTA, "research": True}
        return kind(policy, leakage=leakage, random_state=seed, **options).fit(train)

    def tenth(seed: int, epsilon: float) -> Any:
        return estimate_leakage(
            train,
            policy,
            epsilon=0.1 * epsilon,
            delta=DELTA,
            join_levels=False,
            random_state=seed,
        )

    rows = []
    for epsilon in EPSILONS:
        for seed in range(seeds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                plain = score(fitted(seed, epsilon, ones))
                model = fitted(seed, epsilon, "auto")
                bought = model.leakage_plan_
                scores = {
                    "nothing bought": plain,
                    "auto": score(model) if bought.buys else plain,
                    "a tenth, levels apart": score(
                        fitted(seed, epsilon, tenth(seed, epsilon))
                    ),
                    "exact, declared": score(fitted(seed, epsilon, exact)),
                }
            rows += [
                {
                    "table": name,
                    "epsilon": epsilon,
                    "seed": seed,
                    "method": method,
                    "score": value,
                    "share": bought.share,
                }
                for method, value in scores.items()
            ]
    return rows


def render(rows: list[dict[str, Any]]) -> str:
    """Return means and standard errors as a table, from the saved run alone."""
    lines = ["| table | epsilon | share bought | " + " | ".join(METHODS) + " |"]
    lines.append("|---" * (3 + len(METHODS)) + "|")
    for name in dict.fromkeys(row["table"] for row in rows):
        for epsilon in EPSILONS:
            own = [r for r in rows if (r["table"], r["epsilon"]) == (name, epsilon)]
            if not own:
                continue
            cells = []
            for method in METHODS:
                scores = [r["score"] for r in own if r["method"] == method]
                error = np.std(scores, ddof=1) / np.sqrt(len(scores))
                cells.append(f"{np.mean(scores):.3f} ± {error:.3f}")
            lines.append(
                f"| {name} | {epsilon:g} | {own[0]['share']:g} | "
                + " | ".join(cells)
                + " |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--tables", nargs="*", default=[*FOREIGN_BINARY, *FOREIGN_NUMBER]
    )
    chosen = parser.parse_args()
    path = RESULTS / "leakage_models.json"
    rows = []
    for table in chosen.tables:
        rows += measure(table, chosen.seeds)
        print(render(rows), flush=True)
        if chosen.save:
            path.write_text(json.dumps(rows) + "\n")
            path.with_suffix(".inc").write_text(render(rows))

"""What bought distances bring to models, at equal total epsilon, on foreign tables.

``python benchmarks/bench_leakage_models.py [--seeds N] [--tables ...]`` runs every cell
that the saved run does not hold yet and writes ``docs/results/leakage_models.json`` and
``.inc``. corr is trained with all distances at 1 (nothing bought), with
``leakage="auto"``, with a tenth or three tenths of epsilon spent on distances, and with
distances that no certified user has: bounds from the private rows without noise, levels
apart or joined; exact ones declared; and, on the tables `ASKED` at epsilon 1, what the
mean of no valid bound from these rows is below (`leakage_floor`), and bounds for which
epsilon 1 or 10 was paid *besides* the budget of the model.
"""

import argparse
import itertools
import json
import sys
import warnings
from functools import cache
from typing import Any

import numpy as np
from bench_leakage_bounds import limits
from rule_tables import FOREIGN_BINARY, FOREIGN_NUMBER, foreign_parts
from saved_tables import RESULTS, markdown_table
from sklearn.metrics import roc_auc_score

from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.leakage import estimate_leakage
from corrdp.policy import NumberDomain, Policy

SAVED = RESULTS / "leakage_models.json"
TABLES = (*FOREIGN_BINARY, *FOREIGN_NUMBER)
EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-5
NOTHING, AUTO, EXACT = "nothing bought", "auto", "exact, declared"
FREE, FREE_JOINED = "free bounds", "free bounds, joined"
LEAST = "least of any bound"
BESIDES = {
    f"{epsilon} besides, {levels}": (float(epsilon), levels == "joined")
    for epsilon in (1, 10)
    for levels in ("apart", "joined")
}
SHARES = {"a tenth, joined": 0.1, "a tenth, apart": 0.1, "three tenths, joined": 0.3}
JOINED_SHARES = ("a tenth, joined", "three tenths, joined")
METHODS = (NOTHING, AUTO, *SHARES, FREE, FREE_JOINED, EXACT)
ASKED_METHODS = (LEAST, *BESIDES)
ASKED = ("german", "student", "card")


@cache
def parts(name: str) -> tuple[Any, Any, Policy]:
    """Return training rows (four fifths), test rows and the policy of a table."""
    frame, policy = foreign_parts(name)
    cut = 4 * len(frame) // 5
    return frame[:cut].reset_index(drop=True), frame[cut:], policy


@cache
def known_leakage(name: str, method: str) -> dict[str, float]:
    """Return distances that do not depend on epsilon or seed."""
    train, _, policy = parts(name)
    if method == NOTHING:
        return dict.fromkeys(policy.insensitive, 1.0)
    if method == FREE:
        table = estimate_leakage(train, policy, source="public", join_levels=False)
        return dict(table.distances())
    if method == LEAST:
        _, floors = limits(train, train, policy)
        return {feature: floor for feature, (floor, _) in floors.items()}
    table = estimate_leakage(train, policy, source="in_sample", research=True)
    return {feature: value.estimate for feature, value in table.features.items()}


@cache
def joined_table(name: str) -> Any:
    """Return bounds without noise of levels that are joined where it pays."""
    train, _, policy = parts(name)
    return estimate_leakage(train, policy, source="public", join_levels=True)


def run_cell(name: str, epsilon: float, method: str, seed: int) -> dict[str, float]:
    """Return test score, mean distance, and the share of epsilon spent on leakage."""
    train, test, policy = parts(name)
    assert policy.label is not None
    number = isinstance(policy.label.domain, NumberDomain)
    kind = LinearRegression if number else LogisticRegression
    leakage: Any = AUTO
    share = SHARES.get(method, 0.0)
    if method in SHARES:
        leakage = estimate_leakage(
            train,
            policy,
            epsilon=share * epsilon,
            delta=DELTA,
            join_levels="joined" in method,
            random_state=seed,
        )
        held = leakage.distances(policy=leakage.policy_for(policy)).values()
    elif method in BESIDES:
        own, joined = BESIDES[method]
        table = estimate_leakage(
            train,
            policy,
            epsilon=own,
            delta=DELTA,
            join_levels=joined,
            random_state=seed,
        )
        policy = table.policy_for(policy)
        leakage = dict(table.distances(policy=policy))  # declared: not charged again
        held = leakage.values()
    elif method == FREE_JOINED:
        leakage = joined_table(name)
        held = leakage.distances(policy=leakage.policy_for(policy)).values()
    elif method != AUTO:
        leakage = known_leakage(name, method)
        held = leakage.values()
    model = kind(
        policy,
        epsilon=epsilon,
        delta=DELTA,
        leakage=leakage,
        random_state=seed,
        research=True,
    ).fit(train)
    if method == AUTO:
        share = model.leakage_plan_.share
        held = model.leakage_plan_.distances.values()
    truth = test[policy.label.name]
    if number:
        score = float(model.score(test, truth))
    else:
        chance = model.predict_proba(test)[:, 1]
        own = truth.astype(str) == str(model.classes_[1])
        score = float(roc_auc_score(own, chance))
    return {"score": score, "distance": float(np.mean(list(held))), "share": share}


def found(
    saved: dict[str, Any], name: str, epsilon: float, method: str
) -> list[dict[str, float]]:
    """Return the saved cells of one method, by seed."""
    prefix = f"{name}|{epsilon}|{method}|"
    keys = sorted(key for key in saved if key.startswith(prefix))
    return [saved[key] for key in keys]


def mean_and_error(values: list[float]) -> str:
    """Return mean, standard error of the mean, and the number of values."""
    if not values:
        return ""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.3f} ± {error:.3f} ({len(values)})"


def part_kept(gains: np.ndarray, gaps: np.ndarray) -> str:
    """Return the mean gain over the mean gap, and the standard error of the ratio."""
    ratio = gains.mean() / gaps.mean()
    error = np.std(gains - ratio * gaps, ddof=1) / np.sqrt(len(gaps)) / gaps.mean()
    return f"{ratio:.0%} ± {error:.0%}"


def render(saved: dict[str, Any]) -> str:
    """Return the tables of the documentation page, from the saved run alone."""
    rows = []
    for name, epsilon in itertools.product(TABLES, EPSILONS):
        held = {m: found(saved, name, epsilon, m) for m in METHODS}
        if not any(held.values()):
            continue
        shown = [mean_and_error([v["score"] for v in own]) for own in held.values()]
        rows.append([name, f"{epsilon:g}", *shown])
    scores = markdown_table(["table", "epsilon", *METHODS], rows)
    compared = (*JOINED_SHARES, FREE, FREE_JOINED, *ASKED_METHODS, EXACT)
    header = ["distances, epsilon 1"]
    kept = {method: [method] for method in compared}
    for name in ASKED:
        held = {m: found(saved, name, 1.0, m) for m in (NOTHING, *compared)}
        if len({len(own) for own in held.values()}) > 1:  # a run that goes on
            continue
        header += [f"`{name}`: mean distance", "gain", "of the gain of exact ones"]
        score = {m: np.array([v["score"] for v in own]) for m, own in held.items()}
        gaps = score[EXACT] - score[NOTHING]  # of equal seeds
        for method in compared:
            gains = score[method] - score[NOTHING]
            distance = np.mean([v["distance"] for v in held[method]])
            kept[method] += [f"{distance:.2f}", mean_and_error(gains.tolist())]
            kept[method] += [part_kept(gains, gaps)]
    return f"{scores}\n{markdown_table(header, kept.values())}"


def main() -> None:
    """Run what is missing, save after every table, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--methods", nargs="*", default=[*METHODS, *ASKED_METHODS])
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--render", action="store_true", help="the page alone")
    chosen = parser.parse_args()
    saved = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    if chosen.render:
        SAVED.with_suffix(".inc").write_text(render(saved), encoding="utf-8")
        return
    for name, seed in itertools.product(chosen.tables, range(chosen.seeds)):
        for epsilon, method in itertools.product(chosen.epsilons, chosen.methods):
            key = f"{name}|{epsilon}|{method}|{seed}"
            asked = name in ASKED and epsilon == 1.0
            if key in saved or (method in ASKED_METHODS and not asked):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                saved[key] = run_cell(name, epsilon, method, seed)
        print(name, seed, file=sys.stderr, flush=True)
        text = json.dumps(dict(sorted(saved.items())), indent=0)
        SAVED.write_text(text + "\n")
        SAVED.with_suffix(".inc").write_text(render(saved), encoding="utf-8")


if __name__ == "__main__":
    main()

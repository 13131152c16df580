"""Constants of the default rule for networks, from tables made for the purpose.

``python benchmarks/tune_networks.py --measure`` trains on every table with every
clipping norm, influence bound and step size of a grid and saves the scores in
``docs/results/networks_tuning.json`` (a quarter of an hour on two cores);
``--choose`` compares the constants of `corrdp.torch` with the grid. None of the tables
is evaluated anywhere else, and scores are on rows that were not trained on.
"""

import argparse
import json
import math
import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from corrdp.certificate import LeakageClaim
from corrdp.estimators import scaled_codes
from corrdp.policy import (
    Budget,
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    neighbor_classes,
    policy_blocks,
)
from corrdp.torch._plan_inputs import INFLUENCE, NetworkPlan, NetworkPlanInputs
from corrdp.torch._planning import plan_network
from corrdp.torch.mlp import (
    CLIP_NORM,
    LARGEST_STEP,
    MOMENTUM,
    TOLERATED_WALK,
    as_tensors,
    build_network,
    cross_entropy,
    noise_walk,
    run_training,
    shrink_first_layer,
    squared_error,
)
from corrdp.torch.networks import ReleaseTerms, trained_layers, training_by_plan
from corrdp.training._layout import standardizing_scale

SAVED = Path(__file__).parents[1] / "docs" / "results" / "networks_tuning.json"
N_STEPS = 200
DELTA = 1e-5
SEEDS = (0, 1)
STEPS = tuple(0.06 * 2.0**power for power in range(6))  # times the clipping norm
INFLUENCES = (0.1, 0.2, 0.3)
NORMS = {"regression": (0.06, 0.12, 0.25), "classification": (1.0, 1.5, 2.0, 3.0)}
_SENSITIVE, _INSENSITIVE = ColumnRole.SENSITIVE, ColumnRole.INSENSITIVE

Frame = tuple[pd.DataFrame, Policy]


def wide_table(
    seed: int,
    n_rows: int,
    n_columns: int,
    *,
    weight: float = 1.0,
    across: float = 0.3,
    bend: float = 0.0,
    noise: float = 0.1,
    classes: bool = False,
) -> Frame:
    """Numbers, a tenth of them sensitive, with one factor each for the two roles.

    `weight` scales what sensitive features do, `across` correlates the factors,
    `bend` adds a curve.
    """
    shape = np.random.default_rng(1000 + n_columns)
    rng = np.random.default_rng(5000 + seed)
    sensitive = np.arange(n_columns) < n_columns // 10
    own = rng.normal(size=(n_rows, 1))
    other = across * own + math.sqrt(1 - across**2) * rng.normal(size=(n_rows, 1))
    factor = np.where(sensitive, other, own) * shape.choice([-1, 1], n_columns)
    X = math.sqrt(0.4) * factor + math.sqrt(0.6) * rng.normal(size=factor.shape)
    X = X.clip(-3.0, 3.0)
    line = _standard(
        X @ (shape.normal(size=n_columns) * np.where(sensitive, weight, 1))
    )
    curve = np.tanh(_standard(X @ shape.normal(size=n_columns))) ** 2
    features = tuple(
        _feature(f"x{column}", NumberDomain(-3, 3), sensitive[column], 0.3)
        for column in range(n_columns)
    )
    frame = pd.DataFrame(X, columns=[feature.name for feature in features])
    label = _standard(line + bend * curve)
    return _labeled(frame, features, label, (-3.2, 3.2), noise, rng, classes=classes)


def mixed_table(
    seed: int, n_rows: int, *, skew: bool = False, classes: bool = False
) -> Frame:
    """Two numbers and three categories, two of the five sensitive."""
    rng = np.random.default_rng(6000 + seed)
    hidden = rng.normal(size=n_rows)
    a = (0.5 * hidden + 0.87 * rng.normal(size=n_rows)).clip(-3, 3)
    b = rng.normal(size=n_rows).clip(-3, 3)
    kind = rng.integers(0, 4, n_rows)
    ill = (hidden + rng.normal(size=n_rows) > 0.8).astype(int)
    side = rng.integers(0, 2, n_rows)
    step = np.array([-0.3, 0.0, 0.2, 0.4])[kind]
    label = 0.8 * a + 0.3 * b + 0.9 * ill * (1 + 0.5 * a) + step + 0.2 * side
    label = _standard(np.exp(label / 2) if skew else label)
    frame = pd.DataFrame(
        {"a": a, "b": b, "kind": kind, "ill": ill, "side": side}
    ).astype({"kind": str, "ill": str, "side": str})
    features = (
        _feature("a", NumberDomain(-3, 3), False, 0.4),
        _feature("b", NumberDomain(-3, 3), True, 0.4),
        _feature("kind", CategoryDomain(tuple("0123")), False, 0.4),
        _feature("ill", CategoryDomain(tuple("01")), True, 0.4),
        _feature("side", CategoryDomain(tuple("01")), False, 0.4),
    )
    bounds = (-3.0, 5.0) if skew else (-3.0, 3.0)
    return _labeled(frame, features, label, bounds, 0.3, rng, classes=classes)


def dominated_table(seed: int, n_rows: int, *, classes: bool = False) -> Frame:
    """One sensitive number decides nearly everything, far from the middle of its range.

    Two insensitive categories, most rows in one category each, know little of it.
    """
    rng = np.random.default_rng(7000 + seed)
    age = (1.0 + 0.9 * rng.normal(size=n_rows)).clip(-3, 3)
    side = (rng.random(n_rows) < 0.3 + 0.05 * (age > 1)).astype(int)
    times = rng.choice(4, size=n_rows, p=[0.7, 0.2, 0.06, 0.04])
    label = _standard(np.exp(0.5 * age) + 0.2 * side + 0.1 * times)
    frame = pd.DataFrame({"age": age, "side": side, "times": times}).astype(
        {"side": str, "times": str}
    )
    features = (
        _feature("age", NumberDomain(-3, 3), True, 0.3),
        _feature("side", CategoryDomain(tuple("01")), False, 0.3),
        _feature("times", CategoryDomain(tuple("0123")), False, 0.3),
    )
    return _labeled(frame, features, label, (-2.5, 5.0), 0.3, rng, classes=classes)


def _standard(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / values.std()


def _feature(name: str, domain: Any, sensitive: bool, leakage: float) -> Feature:
    role = _SENSITIVE if sensitive else _INSENSITIVE
    return Feature(name, role, domain, leakage=None if sensitive else leakage)


def _labeled(
    frame: pd.DataFrame,
    features: tuple[Feature, ...],
    label: np.ndarray,
    bounds: tuple[float, float],
    noise: float,
    rng: np.random.Generator,
    *,
    classes: bool,
) -> Frame:
    if classes:
        odds = label + 0.3 * rng.logistic(size=len(label))
        domain: Any = CategoryDomain(("0", "1"))
        return (
            frame.assign(y=(odds > 0).astype(int).astype(str)),
            Policy(features, Label("y", domain, score=0.0)),
        )
    noisy = label + noise * rng.normal(size=len(label))
    domain = NumberDomain(*bounds)
    return frame.assign(y=noisy.clip(*bounds)), Policy(
        features, Label("y", domain, score=0.0)
    )


@dataclass(frozen=True)
class Problem:
    """A table with the budgets to try; the first half of the rows is trained on."""

    make: Callable[[int], Frame]
    n_rows: int
    epsilons: tuple[float, ...]
    hidden_units: int = 20


PROBLEMS = {
    "wide": Problem(lambda seed: wide_table(seed, 8000, 80), 4000, (1.0, 4.0)),
    "weak": Problem(
        lambda seed: wide_table(seed, 8000, 60, weight=0.4, noise=0.2, across=0.1),
        4000,
        (1.0, 4.0),
    ),
    "bent": Problem(
        lambda seed: wide_table(seed, 8000, 40, bend=1.0, noise=0.2), 4000, (1.0, 4.0)
    ),
    "noisy": Problem(
        lambda seed: wide_table(seed, 8000, 40, noise=1.0), 4000, (1.0, 4.0)
    ),
    "mixed": Problem(lambda seed: mixed_table(seed, 2000), 1000, (0.3, 1.0, 4.0)),
    "skewed": Problem(
        lambda seed: mixed_table(seed, 2000, skew=True), 1000, (0.3, 1.0, 4.0)
    ),
    "dominated": Problem(
        lambda seed: dominated_table(seed, 2000), 1000, (0.3, 1.0, 4.0)
    ),
    "dominated classes": Problem(
        lambda seed: dominated_table(seed, 6000, classes=True), 3000, (0.1, 0.5), 5
    ),
    "wide classes": Problem(
        lambda seed: wide_table(seed, 8000, 40, classes=True), 4000, (0.5, 2.0)
    ),
    "mixed classes": Problem(
        lambda seed: mixed_table(seed, 6000, classes=True), 3000, (0.1, 0.5, 2.0), 5
    ),
}


class Trial:
    """One problem and seed: plans, training, and scores on the other rows."""

    def __init__(self, problem: Problem, seed: int) -> None:
        frame, self.policy = problem.make(seed)
        self._seed = seed
        encoder = PolicyEncoder(self.policy).fit(frame)
        codes = scaled_codes(encoder, frame)
        labels = np.asarray(encoder.encode_label(frame["y"]))
        assert self.policy.label is not None
        is_number = isinstance(self.policy.label.domain, NumberDomain)
        self.kind = "regression" if is_number else "classification"
        labels = labels.astype(np.float64 if is_number else np.int64)
        self._shape = codes.shape[1], (problem.hidden_units,), 1 if is_number else 2
        self.n_rows = problem.n_rows
        rows = codes[: self.n_rows], labels[: self.n_rows]
        self._rows = as_tensors(*rows, self._shape[2])
        self._test = codes[self.n_rows :]
        self._truth = labels[self.n_rows :]

    def plan(
        self, method: str, epsilon: float, clip_norm: float, influence: float
    ) -> NetworkPlan:
        """Return the plan of one method, without falling back."""
        blocks = policy_blocks(self.policy)
        facts = NetworkPlanInputs(
            layers=trained_layers(build_network(*self._shape, 0)),
            blocks=blocks,
            reference=np.zeros(blocks[-1].stop),
            code_scale=standardizing_scale(blocks),
            policy=self.policy,
            classes=neighbor_classes(self.policy),
            budget=Budget(epsilon=epsilon, delta=DELTA),
            n_rows=self.n_rows,
            n_steps=N_STEPS,
            rate=None,
            clip_norm=clip_norm,
            influence=influence,
        )
        return plan_network(facts, method=method, fall_back=False)

    def score(self, plan: NetworkPlan, rate: float) -> float:
        """Return the error at a step size; infinite if training diverged."""
        network = build_network(*self._shape, self._seed)
        shrink_first_layer(network)
        training = training_by_plan(
            network,
            torch.optim.SGD(network.parameters(), lr=1.0, momentum=MOMENTUM),
            self._rows,
            plan,
            loss=squared_error if self.kind == "regression" else cross_entropy,
            terms=ReleaseTerms(
                self.policy,
                Budget(epsilon=1.0, delta=DELTA),
                LeakageClaim.declared(self.policy),
            ),
            random_state=self._seed,
        )
        values = self._test
        for index, (weight, bias) in enumerate(run_training(training, rate)):
            if index > 0:
                values = np.logaddexp(0.0, values)
            values = values @ weight.T + bias
        return self._error(values.T) if np.isfinite(values).all() else math.inf

    def _error(self, outputs: np.ndarray) -> float:
        """Return the share of variance, or of one bit per label, that is left."""
        if self.kind == "regression":
            left = np.mean((outputs[0] - self._truth) ** 2)
            return float(left / self._truth.var())
        chances = outputs - np.logaddexp(outputs[0], outputs[1])
        own = chances[self._truth, np.arange(len(self._truth))]
        return float(-np.mean(own) / math.log(2.0))


def measured(name: str) -> list[dict[str, Any]]:
    """Return the errors of one problem over the whole grid."""
    torch.set_num_threads(1)
    problem = PROBLEMS[name]
    rows = []
    for seed in SEEDS:
        trial = Trial(problem, seed)
        grid = product(problem.epsilons, NORMS[trial.kind], (None, *INFLUENCES))
        for epsilon, clip_norm, influence in grid:
            method = "layered" if influence is None else "corr"
            plan = trial.plan(method, epsilon, clip_norm, influence or INFLUENCE)
            errors = [trial.score(plan, step / clip_norm) for step in STEPS]
            rows.append(
                {
                    "problem": name,
                    "kind": trial.kind,
                    "seed": seed,
                    "epsilon": epsilon,
                    "clip_norm": clip_norm,
                    "influence": influence,
                    "walk": noise_walk(plan, trial.n_rows),
                    "errors": [min(round(error, 6), 1e6) for error in errors],
                }
            )
    return rows


def measure() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        parts = pool.map(measured, PROBLEMS, chunksize=1)
    rows = [row for part in parts for row in part]
    SAVED.write_text(
        "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8"
    )


def choose() -> None:
    """Print what the grid says about every constant of the rule."""
    rows = json.loads(SAVED.read_text(encoding="utf-8"))
    for kind in NORMS:
        own = [row for row in rows if row["kind"] == kind]
        print(f"{kind}: mean log error, best step of the grid")
        for norm, influence in product(NORMS[kind], (None, *INFLUENCES)):
            chosen = _of(own, norm, influence)
            value = np.mean([math.log(min(row["errors"])) for row in chosen])
            print(f"  norm {norm:g}, influence {influence}: {value:.4f}")
        print(f"{kind}: mean log error by largest step and tolerated walk")
        chosen = [
            *_of(own, CLIP_NORM[kind], None),
            *_of(own, CLIP_NORM[kind], INFLUENCE),
        ]
        for largest, tolerated in product(
            (0.5, 1.0, 1.5, 2.0), (2, 3, 4, 6, 8, 12, 20)
        ):
            value = np.mean([_log_error(row, largest, tolerated) for row in chosen])
            mark = (largest, tolerated) == (LARGEST_STEP[kind], TOLERATED_WALK[kind])
            print(f"  {largest:g}, {tolerated:g}: {value:.4f}{' *' if mark else ''}")
        print(f"{kind}: noise by layer and by groups at the rule's step")
        _print_gain(own, kind)


def _of(
    rows: list[dict[str, Any]], clip_norm: float, influence: float | None
) -> list[dict[str, Any]]:
    wanted = (clip_norm, influence)
    return [row for row in rows if (row["clip_norm"], row["influence"]) == wanted]


def _log_error(row: dict[str, Any], largest: float, tolerated: float) -> float:
    """Return the logarithm of the error at the rule's step, between grid points."""
    step = largest / (1.0 + largest * row["walk"] / tolerated)
    return float(np.interp(math.log(step), np.log(STEPS), np.log(row["errors"])))


def _print_gain(rows: list[dict[str, Any]], kind: str) -> None:
    steps = LARGEST_STEP[kind], TOLERATED_WALK[kind]
    layered = _of(rows, CLIP_NORM[kind], None)
    grouped = _of(rows, CLIP_NORM[kind], INFLUENCE)
    for problem, epsilon in dict.fromkeys((r["problem"], r["epsilon"]) for r in rows):
        pairs = [
            (one, other)
            for one, other in zip(layered, grouped, strict=True)
            if (one["problem"], one["epsilon"]) == (problem, epsilon)
        ]
        errors = np.exp([[_log_error(r, *steps) for r in pair] for pair in pairs])
        less_noise = (pairs[0][0]["walk"] - pairs[0][1]["walk"]) / N_STEPS
        before, after = errors.mean(0)
        print(
            f"  {problem}, epsilon {epsilon:g}: {before:.4f}, {after:.4f}, "
            f"noise less by {less_noise:.4f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--choose", action="store_true")
    options = parser.parse_args()
    if options.measure:
        measure()
    if options.choose:
        choose()


if __name__ == "__main__":
    main()

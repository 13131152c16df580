"""Time one step of training against the bare matrix products it contains.

The table has the shape of Adult, 45,000 rows and 31 columns in single precision; a
step includes clipping by group, influence bounds, sensitivity, allocation and noise.
Alternatives are timed in turn with it, so that ratios survive a busy machine.
"""

import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from corrdp._random import noise_generator
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
)
from corrdp.training import (
    Descent,
    PublicFacts,
    default_plan,
    plan_spending,
    prepare_rows,
)
from corrdp.training._kernels import gradient_sums

N_ROWS = 45_000
N_ROUNDS = 30
N_MODELS = 64


def adult_policy() -> Policy:
    number = NumberDomain(0, 1)
    sensitive, insensitive = ColumnRole.SENSITIVE, ColumnRole.INSENSITIVE
    return Policy(
        (
            *(Feature(f"n{i}", sensitive, number) for i in range(3)),
            *(Feature(f"s{k}", sensitive, _levels(k)) for k in (7, 6)),
            Feature("race", insensitive, _levels(5), leakage=0.23),
            Feature("gender", insensitive, _levels(2), leakage=0.90),
            Feature("workclass", insensitive, _levels(7), leakage=1.0),
            Feature("fnlwgt", insensitive, number, leakage=0.22),
        ),
        Label("income", CategoryDomain(("no", "yes")), score=0.0),
    )


def _levels(count: int) -> CategoryDomain:
    return CategoryDomain(tuple(f"level {i}" for i in range(count)))


def random_codes(policy: Policy) -> np.ndarray:
    rng = np.random.default_rng(0)
    blocks = PolicyEncoder(policy).blocks_
    codes = np.zeros((N_ROWS, blocks[-1].stop))
    for block in blocks:
        width = block.stop - block.start
        if width == 1:
            codes[:, block.start] = rng.random(N_ROWS) - 0.5
        else:
            level = rng.integers(0, width, N_ROWS)
            codes[np.arange(N_ROWS), block.start + level] = 1.0
    return codes


def best_times(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the shortest time of each call, in milliseconds, taken in turns."""
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
    return best


def run() -> list[dict]:
    policy = adult_policy()
    codes = random_codes(policy)
    y = (np.random.default_rng(1).random(N_ROWS) < 0.25).astype(float)
    spending = plan_spending(
        policy, neighbor_classes(policy), budget=Budget(epsilon=0.1, delta=1e-6)
    )
    facts = PublicFacts(PolicyEncoder(policy).blocks_, spending, N_ROWS, True)
    plan = default_plan(facts).with_steps(10**6)
    tracemalloc.start()
    fast_rows = prepare_rows(codes, y, plan.layout)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    slow_rows = prepare_rows(codes, y, plan.layout, compiled=False)
    fast = Descent(codes, fast_rows, plan, noise_generator(0))
    slow = Descent(codes, slow_rows, plan, noise_generator(0))
    matrix = np.column_stack([codes, np.ones(N_ROWS)]).astype(np.float32)
    weights = np.ones(matrix.shape[1], np.float32)
    residual = np.ones(N_ROWS, np.float32)

    def step(model: Descent) -> None:
        model.advance(*model.rows.gradient_sum(model.coef, residual_bound=0.0))

    def bookkeeping() -> None:
        fast.advance(np.zeros_like(fast.coef), 0)

    times = best_times(
        {
            "products": lambda: (matrix @ weights, residual @ matrix),
            "step": lambda: step(fast),
            "pass": lambda: fast.rows.gradient_sum(fast.coef, residual_bound=0.0),
            "bookkeeping": bookkeeping,
            "numpy step": lambda: step(slow),
        },
        N_ROUNDS,
    )
    together = [
        Descent(codes, fast_rows, plan, noise_generator(seed))
        for seed in range(N_MODELS)
    ]
    coefs = np.array([model.coef for model in together])
    many = best_times(
        {
            "together": lambda: gradient_sums(
                [model.rows for model in together], coefs, [0.0] * N_MODELS
            ),
            "one by one": lambda: [
                m.rows.gradient_sum(m.coef, residual_bound=0.0) for m in together
            ],
        },
        5,
    )
    whole = best_times({"sweep step": lambda: one_step_together(together)}, 3)
    data_bytes = matrix.nbytes
    return [
        _row("full step", times["step"], "ms"),
        _row(
            "full step / bare products",
            times["step"] / times["products"],
            "times",
            "<= 1",
            "clipping, influence, bounds, allocation and noise included",
        ),
        _row("pass over the rows", times["pass"], "ms"),
        _row(
            "bounds, allocation, noise / pass",
            times["bookkeeping"] / times["pass"],
            "times",
            "<= 1",
        ),
        _row(
            "numpy step / compiled step", times["numpy step"] / times["step"], "times"
        ),
        _row(
            "64 models: numpy one by one / together",
            N_MODELS * times["numpy step"] / whole["sweep step"],
            "times",
            ">= 4",
            "whole steps",
        ),
        _row(
            "64 models: compiled one by one / together",
            many["one by one"] / many["together"],
            "times",
            ">= 1.5",
            "passes over the rows",
        ),
        _row("memory of prepared rows / data", peak / data_bytes, "times", "<= 1.2"),
    ]


def one_step_together(models: list[Descent]) -> None:
    sums = gradient_sums(
        [model.rows for model in models],
        np.array([model.coef for model in models]),
        [0.0] * len(models),
    )
    for model, (gradient, n_inside) in zip(models, sums, strict=True):
        model.advance(gradient, n_inside)


def _row(name: str, value: float, unit: str, target: str = "", note: str = "") -> dict:
    row = {"name": name, "value": float(value), "unit": unit}
    return row | {"target": target, "note": note}


if __name__ == "__main__":
    for row in run():
        print(
            f"{row['name']:<45}{row['value']:>10.4g} {row['unit']:<6}"
            f"{row['target']:>8}  {row['note']}"
        )

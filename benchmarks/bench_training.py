"""Time one step of training against the bare matrix products it contains.

The table is Adult with the paper's roles, 45,175 rows and 31 columns in single
precision; a step includes clipping by group, influence bounds, sensitivity, allocation
and noise.
"""

import math
import multiprocessing
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np

from corrdp._random import noise_generator
from corrdp.datasets import PaperTable, load_adult
from corrdp.policy import Budget, PolicyEncoder, neighbor_classes
from corrdp.training import (
    Descent,
    LogisticLoss,
    PlanInputs,
    TrainingPlan,
    default_plan,
    plan_spending,
    prepare_rows,
)
from corrdp.training._layout import GroupRole
from corrdp.training.rows._questions import gradient_sums

N_ROUNDS = 20
N_REPEATS = 10
N_MODELS = 64
N_PROCESSES = 7  # where threads and memory come to lie differs between them


def adult_plan(table: PaperTable) -> TrainingPlan:
    """Return the default plan, with the influence of sensitive features bounded."""
    policy = table.policy
    spending = plan_spending(
        policy, neighbor_classes(policy), budget=Budget(epsilon=0.1, delta=1e-5)
    )
    blocks = PolicyEncoder(policy).blocks_
    facts = PlanInputs(blocks, spending, len(table.frame), LogisticLoss())
    plan = default_plan(facts).with_steps(10**6)
    layout = plan.layout
    groups = tuple(
        group
        if role is GroupRole.SENSITIVE or math.isinf(group.clip_norm)
        else replace(group, influence_bound=group.clip_norm / 2)
        for group, role in zip(layout.groups, layout.roles, strict=True)
    )
    return replace(plan, layout=replace(layout, groups=groups))


def best_times(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the shortest time of each call, in milliseconds.

    Every call is repeated until it is warm, as in training, before another has its
    turn: threads of one library that still wait for work would slow down the next.
    """
    best = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(N_REPEATS):
                start = time.perf_counter()
                call()
                best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
    return best


def adult_rows() -> tuple[np.ndarray, np.ndarray, TrainingPlan]:
    table = load_adult()
    encoder = PolicyEncoder(table.policy)
    y = encoder.encode_label(table.frame[table.policy.label.name])
    return encoder.transform(table.frame), y, adult_plan(table)


def times_of_a_step(_: int = 0) -> dict[str, float]:
    """Return milliseconds of a step, its parts, and what it is compared to."""
    codes, y, plan = adult_rows()
    fast, slow = (
        Descent(
            codes,
            prepare_rows(codes, y, plan.layout, compiled=compiled),
            plan,
            noise_generator(0),
        )
        for compiled in (True, False)
    )
    matrix = np.column_stack([codes, np.ones(len(codes))]).astype(np.float32)
    weights = np.ones(matrix.shape[1], np.float32)
    residual = np.ones(len(codes), np.float32)
    nothing = np.zeros_like(fast.coef)
    return best_times(
        {
            "products": lambda: (matrix @ weights, matrix.T @ residual),
            "step": lambda: fast.advance(*fast.exact_gradient()),
            "pass": fast.exact_gradient,
            "bookkeeping": lambda: fast.advance(nothing, 0),
            "numpy step": lambda: slow.advance(*slow.exact_gradient()),
        },
        N_ROUNDS,
    )


def run() -> list[dict]:
    with ProcessPoolExecutor(
        1, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        processes = list(pool.map(times_of_a_step, range(N_PROCESSES)))
    times = {name: np.median([one[name] for one in processes]) for name in processes[0]}
    ratios = sorted(one["step"] / one["products"] for one in processes)
    codes, y, plan = adult_rows()
    tracemalloc.start()
    fast_rows = prepare_rows(codes, y, plan.layout)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    together = [
        Descent(codes, fast_rows, plan, noise_generator(seed))
        for seed in range(N_MODELS)
    ]
    coefs = np.array([model.coef for model in together])
    many = best_times(
        {
            "together": lambda: gradient_sums(
                [model.rows for model in together], coefs, [None] * N_MODELS
            ),
            "one by one": lambda: [
                m.rows.gradient_sum(m.coef, residual_bound=None) for m in together
            ],
            "steps together": lambda: one_step_together(together),
        },
        2,
    )
    data_bytes = 4 * len(codes) * plan.layout.n_columns
    return [
        _row("full step", times["step"], "ms"),
        _row(
            "full step / bare products",
            np.median(ratios),
            "times",
            "<= 1",
            "clipping, influence, bounds, allocation and noise included; median of "
            f"{N_PROCESSES} processes, {ratios[0]:.2f} to {ratios[-1]:.2f}",
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
            N_MODELS * times["numpy step"] / many["steps together"],
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
        [None] * len(models),
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

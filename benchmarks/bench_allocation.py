"""Time the noise allocation: a large plan, and the update of every training step.

Run with OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.
"""

import statistics
import timeit
import warnings
from collections.abc import Callable

import numpy as np

from corrdp.accounting import OnlineAllocator, allocate_noise

N_LARGE = 200
N_SMALL = 10
N_CALLS = 50  # short enough to fit between two interruptions


def quickest(function: Callable[[], object], *, number: int, repeat: int) -> float:
    """Return seconds per call in the least disturbed of several runs."""
    return min(timeit.repeat(function, number=number, repeat=repeat)) / number


def cvxpy_objective(sensitivity: np.ndarray) -> float:
    """Return the optimum by the general solver that the tests use as oracle."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import cvxpy

        precision = cvxpy.Variable(sensitivity.shape[1])
        problem = cvxpy.Problem(
            cvxpy.Minimize(cvxpy.sum(cvxpy.inv_pos(precision))),
            [sensitivity**2 @ precision <= 1.0],
        )
        return float(problem.solve(solver=cvxpy.CLARABEL))


def large_plan() -> list[dict]:
    rng = np.random.default_rng(0)
    tables = {
        "dense": rng.random((N_LARGE, N_LARGE)),
        "sparse": rng.random((N_LARGE, N_LARGE))
        * (rng.random((N_LARGE, N_LARGE)) < 0.1),
        "entries 1e-6 to 1e6": 10.0 ** rng.uniform(-6, 6, (N_LARGE, N_LARGE)),
    }
    ones = np.ones(N_LARGE)
    rows = []
    for name, table in tables.items():
        allocation = allocate_noise(table, budget_mu=ones, sizes=ones)

        def solve(table: np.ndarray = table) -> object:
            return allocate_noise(table, budget_mu=ones, sizes=ones)

        rows.append(
            {
                "name": f"plan {N_LARGE} x {N_LARGE}, {name}",
                "value": 1e3 * quickest(solve, number=1, repeat=9),
                "unit": "ms",
                "target": "< 50",
                "note": f"{allocation.iterations} iterations, "
                f"gap {allocation.optimality_gap:.0e}",
            }
        )
    dense = tables["dense"]
    oracle = cvxpy_objective(dense)
    seconds = quickest(lambda: cvxpy_objective(dense), number=1, repeat=3)
    ours = allocate_noise(dense, budget_mu=ones, sizes=ones).objective
    rows.append(
        {
            "name": "cvxpy (Clarabel) / plan, dense",
            "value": 1e3 * seconds / rows[0]["value"],
            "unit": "times",
            "target": "> 1",
            "note": f"cvxpy {1e3 * seconds:.0f} ms, objectives differ by "
            f"{abs(oracle / ours - 1):.0e}",
        }
    )
    return rows


def online_update() -> list[dict]:
    rng = np.random.default_rng(1)
    table, ones = rng.random((N_SMALL, N_SMALL)), np.ones(N_SMALL)
    allocator = OnlineAllocator(ones, budget_mu=ones)
    runs = timeit.repeat(lambda: allocator.update(table), number=N_CALLS, repeat=500)
    update = min(runs) / N_CALLS

    def from_scratch() -> object:
        return allocate_noise(table, budget_mu=ones, sizes=ones)

    return [
        {
            "name": f"update {N_SMALL} x {N_SMALL}",
            "value": 1e6 * update,
            "unit": "microseconds",
            "target": "< 30",
            "note": f"{allocator.n_iterations} iterations; median of runs "
            f"{1e6 * statistics.median(runs) / N_CALLS:.1f}",
        },
        {
            "name": "solving from scratch / update",
            "value": quickest(from_scratch, number=20, repeat=9) / update,
            "unit": "times",
            "target": "> 1",
            "note": "what the warm start saves at every step",
        },
    ]


def run() -> list[dict]:
    return large_plan() + online_update()


if __name__ == "__main__":
    for row in run():
        print(
            f"{row['name']:<38} {row['value']:>9.2f} {row['unit']:<13}"
            f" target {row['target']:<6} {row['note']}"
        )

"""Networks: cost of a private step.

Run as ``python benchmarks/bench_networks.py``; the result is saved in ``docs/results``
and ``--render`` writes the table of ``docs/networks.md``. Utility is measured by
``bench_networks_utility.py``.
"""

import argparse
import contextlib
import math
import resource
import statistics
import time
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import torch
from saved_tables import markdown_table, read_figures, save_table

from corrdp.policy import Feature, NumberDomain, Policy
from corrdp.torch import make_private

BATCH = 1024
UNITS = (31, 64, 2)
_STEPS = 2000
_PROCESSES = 3


def run() -> list[dict[str, Any]]:
    """Return medians over processes, one after the other.

    Where memory happens to lie moves the ratios of a process by some hundredths.
    """
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        runs = pool.map(_run_once, range(_PROCESSES), chunksize=1)
    return [
        rows[0] | {"value": statistics.median(row["value"] for row in rows)}
        for rows in zip(*runs, strict=True)
    ]


def _run_once(process: int) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    growth = _memory_growth("standard")  # first: peaks never fall
    planning = _planning_seconds()  # before anything is remembered
    steps = {
        "plain": _plain_step(),
        "standard": _private_step("standard"),
        "corr": _private_step("corr"),
        "drawn": _private_step("standard", draws=True),
    }
    with contextlib.suppress(ImportError):
        steps["opacus"] = _opacus_step()
    seconds = _seconds(steps)
    plain, standard = seconds["plain"], seconds["standard"]
    rows = [
        _row(
            "plain torch SGD step", 1e3 * plain, "ms", None, "MLP 31-64-2, batch 1024"
        ),
        _row("standard / plain", standard / plain, "ratio", 1.3, "at most"),
        _row(
            "certified corr / plain", seconds["corr"] / plain, "ratio", 2.5, "at most"
        ),
        _row(
            "standard and drawing the batch / plain",
            seconds["drawn"] / plain,
            "ratio",
            None,
            "gathered by index from 45,000 rows",
        ),
        _row(
            "memory per row of a batch", growth, "kB", 8.0, "at most; 4,096 to 65,536"
        ),
    ]
    rows += [
        _row(f"planning 94 sampled steps, {what}", value, "s", 1.0, "at most, CPU")
        for what, value in planning.items()
    ]
    if "opacus" in seconds:
        ratio = seconds["opacus"] / standard
        rows.append(_row("Opacus hooks / standard", ratio, "ratio", 3.0, "at least"))
    return rows


def _network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(UNITS[0], UNITS[1]),
        torch.nn.Softplus(),
        torch.nn.Linear(UNITS[1], UNITS[2]),
    )


def _batch(n_rows: int = BATCH) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    features = torch.rand(n_rows, UNITS[0], generator=generator) - 0.5
    return features, torch.randint(0, UNITS[2], (n_rows,), generator=generator)


def _loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(outputs, labels, reduction="none")


def _plain_step() -> Callable[[], None]:
    network = _network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    features, labels = _batch()

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(features), labels).backward()
        optimizer.step()

    return step


def _training(
    method: str,
    n_rows: int,
    batch_size: int,
    n_steps: int = _STEPS,
    epsilon: float = 1.0,
) -> Any:
    network = _network()
    policy = Policy(
        tuple(
            Feature(
                f"x{column}",
                "sensitive" if column < 5 else "insensitive",
                NumberDomain(0, 1),
                leakage=None if column < 5 else 0.2,
            )
            for column in range(UNITS[0])
        )
    )
    return make_private(
        network,
        torch.optim.SGD(network.parameters(), lr=1e-6),  # noise must not blow it up
        _batch(n_rows),
        loss=_loss,
        policy=policy,
        epsilon=epsilon,
        delta=1e-6,
        epochs=n_steps * min(1.0, batch_size / n_rows),
        batch_size=batch_size,
        method=method,
        fall_back=False,
    )


def _private_step(method: str, *, draws: bool = False) -> Callable[[], None]:
    n_rows = 45_000 if draws else BATCH
    module, optimizer, loader = _training(method, n_rows, BATCH)

    def step() -> None:
        module.backward(*loader.draw())
        optimizer.step()

    return step


def _opacus_step() -> Callable[[], None]:
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    network = GradSampleModule(_network())
    optimizer = DPOptimizer(
        torch.optim.SGD(network.parameters(), lr=0.01),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=BATCH,
    )
    features, labels = _batch()

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(features), labels).backward()
        optimizer.step()

    return step


def _seconds(
    steps: dict[str, Callable[[], None]], rounds: int = 300, count: int = 3
) -> dict[str, float]:
    """Return the least time of every step, on the one thread that all of them use.

    Short rounds alternate, so that load is shared.
    """
    best = dict.fromkeys(steps, math.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(rounds):
            for name, step in steps.items():
                start = time.thread_time()
                for _ in range(count):
                    step()
                best[name] = min(best[name], (time.thread_time() - start) / count)
    return best


def _memory_growth(method: str) -> float:
    """Return the growth of peak memory per row of a batch, in kB."""
    peaks = []
    for n_rows in (4096, 65_536):
        module, optimizer, loader = _training(method, n_rows, n_rows)
        for _ in range(3):
            module.backward(*loader.draw())
            optimizer.step()
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return (peaks[1] - peaks[0]) / (65_536 - 4096)


def _planning_seconds() -> dict[str, float]:
    """Return what `make_private` takes for the first time, in CPU seconds."""
    seconds = {}
    for what, method, epsilon in (
        ("standard", "standard", 1.0),
        ("corr", "corr", 1.0),
        ("corr at epsilon 3", "corr", 3.0),
    ):
        start = time.process_time()
        _training(method, 12_000, 256, n_steps=94, epsilon=epsilon)
        seconds[what] = time.process_time() - start
    return seconds


def _row(
    name: str, value: float, unit: str, target: float | None, note: str
) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target, "note": note}


def render() -> str:
    """Return the table of the documentation from the run that run_all.py saved."""
    rows = [
        [
            row["name"],
            f"{row['value']:.3g} {row['unit']}",
            "" if row["target"] is None else f"{row['target']:g}",
        ]
        for row in read_figures("benchmarks")["networks"]["rows"]
    ]
    return markdown_table(["measure", "value", "target"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", action="store_true")
    if parser.parse_args().render:
        save_table("networks_speed", render())
        return
    rows = run()
    for row in rows:
        target = "" if row["target"] is None else f"target {row['target']:g}"
        print(f"{row['name']:<42} {row['value']:10.4g} {row['unit']:<6} {target}")


if __name__ == "__main__":
    main()

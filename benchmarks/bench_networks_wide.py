"""A wide table: `corr` beside ordinary noise, ours and that of Opacus, at one promise.

Made rows of `bench_networks_towers.py`: forty insensitive numbers and two sensitive
ones. One small network, Poisson batches, one number of steps; epsilon and delta hold
for replaced records, so that Opacus, whose own accountant counts records that are added
or removed, is given the noise that `method="standard"` needs. ``--measure`` first takes
for every method the step size and clipping norm with the least log loss on tables of
their own (`CHOOSING`), then trains on others (`SEEDS`); rows are saved as they come.
The grid was moved twice because choices lay at its edge.
``--render`` writes the table of the docs. Needs Opacus.
"""

import argparse
import itertools
import time
import warnings
from typing import Any

import numpy as np
import torch
from bench_networks_rivals import loss, trained_by_opacus
from bench_networks_towers import N_TEXT, made_rows, policy
from saved_tables import markdown_table, read_figures, save_figures, save_table
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from corrdp.accounting import sampled_noise_multiplier
from corrdp.torch import make_private

N_ROWS, BATCH, EPOCHS, DELTA = 6_000, 256, 4.0, 1e-6
N_STEPS = round(EPOCHS * N_ROWS / BATCH)
EPSILONS = (0.5, 1.0, 3.0)
STEP_SIZES = (0.01, 0.03, 0.1, 0.3)
CLIP_NORMS = (0.5, 1.0, 2.0, 4.0)
CHOOSING, SEEDS = range(3), range(200, 208)
METHODS = ("Opacus", "standard", "corr")


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(N_TEXT + 2, 24), nn.Tanh(), nn.Linear(24, 2))


def trained(
    method: str, epsilon: float, step_size: float, clip_norm: float, seed: int
) -> dict[str, float]:
    """Return log loss and accuracy on fresh rows, and the median time of a step."""
    module = network(seed)
    optimizer = torch.optim.SGD(module.parameters(), lr=step_size, momentum=0.9)
    data = made_rows(N_ROWS, seed)
    train = _theirs if method == "Opacus" else _ours
    seconds = train(module, optimizer, data, method, epsilon, clip_norm)
    features, labels = made_rows(8_000, 10_000 + seed)
    with torch.no_grad():
        said = module(features)
    return {
        "loss": float(loss(said, labels).mean()),
        "accuracy": float((said.argmax(1) == labels).float().mean()),
        "step_ms": 1e3 * seconds,
    }


def _ours(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: tuple[Tensor, Tensor],
    method: str,
    epsilon: float,
    clip_norm: float,
) -> float:
    private, stepping, loader = make_private(
        module,
        optimizer,
        data,
        loss=loss,
        policy=policy(),
        epsilon=epsilon,
        delta=DELTA,
        epochs=EPOCHS,
        batch_size=BATCH,
        clip_norm=clip_norm,
        method=method,
    )
    times = []
    for _ in range(loader.n_steps):
        start = time.perf_counter()
        private.backward(*loader.draw())
        stepping.step()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _theirs(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: tuple[Tensor, Tensor],
    method: str,
    epsilon: float,
    clip_norm: float,
) -> float:
    noise = sampled_noise_multiplier(
        epsilon=epsilon, delta=DELTA, rate=BATCH / N_ROWS, n_steps=N_STEPS, grid=1e-3
    )
    return trained_by_opacus(
        module,
        optimizer,
        DataLoader(TensorDataset(*data), batch_size=BATCH),
        noise=noise,
        clip_norm=clip_norm,
        n_steps=N_STEPS,
    )


def measure() -> None:
    """Choose on some seeds, train on others, save every cell as it comes."""
    rows: list[dict[str, Any]] = []
    for epsilon, method in itertools.product(EPSILONS, METHODS):
        settings = list(itertools.product(STEP_SIZES, CLIP_NORMS))
        tried = {
            setting: float(
                np.mean(
                    [trained(method, epsilon, *setting, s)["loss"] for s in CHOOSING]
                )
            )
            for setting in settings
        }
        best = min(settings, key=tried.__getitem__)
        rows += [
            {
                "method": method,
                "epsilon": epsilon,
                "step_size": best[0],
                "clip_norm": best[1],
                "seed": seed,
                **trained(method, epsilon, *best, seed),
            }
            for seed in SEEDS
        ]
        save_figures("networks_wide", rows)
        print(epsilon, method, best, flush=True)


def render(rows: list[dict[str, Any]]) -> str:
    """Return the table of the documentation."""
    lines = []
    for epsilon, method in itertools.product(EPSILONS, METHODS):
        own, ordinary = (
            [r for r in rows if (r["epsilon"], r["method"]) == (epsilon, name)]
            for name in (method, "standard")
        )
        chosen = f"{own[0]['step_size']:g}, {own[0]['clip_norm']:g}"
        apart = _values(own, "loss") - _values(ordinary, "loss")
        cells = [
            _shown(_values(own, "loss")),
            "" if method == "standard" else _shown(apart, sign="+"),
            _shown(_values(own, "accuracy")),
            f"{np.median(_values(own, 'step_ms')):.1f}",
        ]
        lines.append([f"{epsilon:g}", method, chosen, *cells])
    header = ["epsilon", "method", "step size, norm", "log loss", "− standard, by seed"]
    return markdown_table([*header, "accuracy", "step, ms"], lines)


def _values(rows: list[dict[str, Any]], key: str) -> Any:
    return np.array([row[key] for row in rows])


def _shown(values: Any, sign: str = "") -> str:
    error = values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():{sign}.3f} ± {error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--render", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.measure:
        warnings.simplefilter("ignore")
        measure()
    if chosen.render:
        save_table("networks_wide", render(read_figures("networks_wide")))


if __name__ == "__main__":
    main()

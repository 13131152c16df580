"""Networks: what bounds on whole towers save on a wide table.

Made rows: forty numbers such as a public model makes of a text, insensitive, and two
sensitive ones. Ordinary noise by layer, ``corr`` on the input columns of a network that
reads all of them at once, and ``corr`` on two towers; the same budget, the same numbers
of units. Run as ``python benchmarks/bench_networks_towers.py``; results are saved in
``docs/results`` and ``--render`` writes the table of ``docs/networks.md``.
"""

import argparse
import statistics
from typing import Any

import torch
from saved_tables import markdown_table, read_figures, save_figures, save_table
from torch import Tensor, nn

from corrdp.policy import Feature, NumberDomain, Policy
from corrdp.torch import make_private

N_TEXT, N_ROWS, N_STEPS = 40, 6_000, 60
SEEDS = range(100, 105)  # step sizes and the table were tried on seeds 0 to 3
STEP_SIZES = (0.1, 0.2, 0.3)
EPSILONS = (0.5, 1.0)
METHODS = {
    "ordinary, by layer": {"method": "layered"},
    "corr on input columns": {},
    "corr on two towers": {"towers": ["tower"]},
}


class Network(nn.Module):
    """Two hidden layers; sensitive columns join before or after them."""

    def __init__(self, *, joins_first: bool) -> None:
        super().__init__()
        self.joins_first = joins_first
        self.tower = nn.Sequential(
            nn.Linear(N_TEXT + 2 * joins_first, 24),
            nn.Tanh(),
            nn.Linear(24, 8),
            nn.Tanh(),
        )
        self.head = nn.Linear(8 + 2 * (not joins_first), 2)

    def forward(self, features: Tensor) -> Tensor:
        """Return scores of the two labels."""
        if self.joins_first:
            return self.head(self.tower(features))
        read = self.tower(features[:, 2:])
        return self.head(torch.cat([read, features[:, :2]], dim=1))


def policy() -> Policy:
    text = (
        Feature(f"text{i}", "insensitive", NumberDomain(0, 1), leakage=0.05)
        for i in range(N_TEXT)
    )
    own = (Feature(n, "sensitive", NumberDomain(0, 1)) for n in ("age", "income"))
    return Policy((*own, *text))


def made_rows(n_rows: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.rand(n_rows, 2 + N_TEXT, generator=generator) - 0.5
    meaning = torch.randn(N_TEXT, 3, generator=torch.Generator().manual_seed(99))
    topics = torch.tanh(1.2 * features[:, 2:] @ meaning)
    score = topics @ torch.tensor([2.0, 1.5, 1.0])
    score = score + features[:, :2] @ torch.tensor([2.0, -1.5])
    chance = torch.sigmoid(1.5 * score)
    return features, (torch.rand(n_rows, generator=generator) < chance).long()


def _loss(outputs: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, labels, reduction="none")


def _error(name: str, epsilon: float, step_size: float, seed: int) -> float:
    torch.manual_seed(seed)
    network = Network(joins_first=name == "corr on input columns")
    module, optimizer, loader = make_private(
        network,
        torch.optim.SGD(network.parameters(), lr=step_size, momentum=0.9),
        made_rows(N_ROWS, seed),
        loss=_loss,
        policy=policy(),
        epsilon=epsilon,
        delta=1e-6,
        epochs=N_STEPS,
        clip_norm=2.0,
        residual_bound=2**0.5,
        fall_back=False,
        **METHODS[name],  # type: ignore[arg-type]
    )
    for batch in loader:
        module.backward(*batch)
        optimizer.step()
    features, labels = made_rows(8_000, 10_000 + seed)
    with torch.no_grad():
        return float(_loss(network(features), labels).mean())


def run() -> list[dict[str, Any]]:
    """Return mean losses on fresh rows by method, budget and step size."""
    torch.set_num_threads(1)
    rows = []
    for epsilon in EPSILONS:
        for name in METHODS:
            for size in STEP_SIZES:
                errors = [_error(name, epsilon, size, seed) for seed in SEEDS]
                rows.append(
                    {
                        "method": name,
                        "epsilon": epsilon,
                        "step size": size,
                        "loss": statistics.mean(errors),
                        "error": statistics.stdev(errors) / len(errors) ** 0.5,
                    }
                )
                print(rows[-1], flush=True)
    return rows


def render(rows: list[dict[str, Any]]) -> str:
    """Return the table of the documentation."""
    lines = []
    for epsilon in EPSILONS:
        for name in METHODS:
            own = [r for r in rows if (r["method"], r["epsilon"]) == (name, epsilon)]
            cells = [f"{r['loss']:.3f} ± {r['error']:.3f}" for r in own]
            lines.append([f"{epsilon:g}", name, *cells])
    sizes = [f"step size {size:g}" for size in STEP_SIZES]
    return markdown_table(["epsilon", "method", *sizes], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", action="store_true")
    if not parser.parse_args().render:
        save_figures("networks_towers", run())
    save_table("networks_towers", render(read_figures("networks_towers")))


if __name__ == "__main__":
    main()

"""Networks of the shapes of Opacus' tutorials, beside Opacus at equal noise.

``python benchmarks/bench_networks_rivals.py --measure`` trains a small convolutional
network on made pictures, a recurrent one on made text and a transformer on made
sentences, with `method="standard"` and with Opacus (hooks), at one clipping norm, noise
multiplier, batch size and number of steps; ``--render`` writes the table of the docs.
Needs Opacus.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.layers import DPLSTM, DPMultiheadAttention
from saved_tables import RESULTS, markdown_table
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy
from corrdp.torch import LSTM, MultiheadAttention, make_private

SAVED, RENDERED = (RESULTS / f"networks_rivals.{kind}" for kind in ("json", "inc"))
N_ROWS, BATCH, N_STEPS = 2000, 64, 60
NOISE, CLIP_NORM, RATE = 0.6, 1.0, 0.5
N_LETTERS, LENGTH = 12, 10
SEEDS = tuple(range(8))
POLICY = Policy(
    (Feature("x", "sensitive", NumberDomain(0, 1)),),
    Label("y", CategoryDomain(("0", "1")), score=0.0),
)


class Letters(nn.Module):
    """A recurrent network on text, as in the tutorial on names."""

    def __init__(self, recurrent: Callable[..., nn.Module], **settings: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(N_LETTERS, 8)
        self.recurrent = recurrent(8, 16, **settings)
        self.head = nn.Linear(16, 2)

    def forward(self, letters: Tensor) -> Tensor:
        """Return the outputs after the last letter."""
        said: Tensor = self.head(self.recurrent(self.embedding(letters))[0][:, -1])
        return said


class Sentences(nn.Module):
    """One block of a transformer, as in the tutorial on text classification."""

    def __init__(self, attention: Callable[..., nn.Module], **settings: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(N_LETTERS, 16)
        self.attention = attention(16, 2, **settings)
        self.norm = nn.LayerNorm(16)
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, words: Tensor) -> Tensor:
        """Return outputs of the mean over words."""
        seen = self.embedding(words)
        seen = self.norm(seen + self.attention(seen, seen, seen)[0])
        seen = seen + self.second(torch.relu(self.first(seen)))
        said: Tensor = self.head(seen.mean(1))
        return said


def pictures() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 2),
    )


SHAPES: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module]]] = {
    "convolutions, pictures of 14 x 14": (pictures, pictures),
    "LSTM, text of 10 letters": (
        lambda: Letters(LSTM),
        lambda: Letters(DPLSTM, batch_first=True),
    ),
    "transformer, sentences of 10 words": (
        lambda: Sentences(MultiheadAttention),
        lambda: Sentences(DPMultiheadAttention, batch_first=True),
    ),
}


def rows(name: str, seed: int, n_rows: int) -> tuple[Tensor, Tensor]:
    """Return made rows: a bar lies or stands; a letter comes early or late."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n_rows)
    if name.startswith("conv"):
        images = rng.normal(0, 0.5, size=(n_rows, 1, 14, 14))
        for image, label, place in zip(
            images, labels, rng.integers(2, 12, n_rows), strict=True
        ):
            image[0, place, :] += 1.0 - label
            image[0, :, place] += 1.0 * label
        return torch.tensor(images, dtype=torch.float32), torch.tensor(labels)
    words = rng.integers(1, N_LETTERS, size=(n_rows, LENGTH))
    place = rng.integers(LENGTH // 2, size=n_rows) + labels * (LENGTH // 2)
    words[np.arange(n_rows), place] = 0
    if name.startswith("transformer"):  # order is not known to it: letters tell
        words = np.where(labels[:, None], words, np.maximum(words - 3, 0))
    return torch.tensor(words), torch.tensor(labels)


def loss(outputs: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, labels, reduction="none")


def ours(network: nn.Module, data: tuple[Tensor, Tensor]) -> float:
    """Train, and return the median time of a step."""
    module, optimizer, loader = make_private(
        network,
        torch.optim.SGD(network.parameters(), lr=RATE),
        data,
        loss=loss,
        policy=POLICY,
        delta=1e-5,
        noise_multiplier=NOISE,
        epochs=N_STEPS * BATCH / N_ROWS,
        batch_size=BATCH,
        clip_norm=CLIP_NORM,
        method="standard",
    )
    times = []
    for _ in range(N_STEPS):
        start = time.perf_counter()
        batch = loader.draw()
        module.backward(*batch)
        optimizer.step()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def theirs(network: nn.Module, data: tuple[Tensor, Tensor]) -> float:
    """Train with Opacus, and return the median time of a step."""
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    return trained_by_opacus(
        network,
        optimizer,
        DataLoader(TensorDataset(*data), batch_size=BATCH),
        noise=NOISE,
        clip_norm=CLIP_NORM,
        n_steps=N_STEPS,
    )


def trained_by_opacus(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: DataLoader,
    *,
    noise: float,
    clip_norm: float,
    n_steps: int,
) -> float:
    """Take steps on Poisson samples, and return the median time of one."""
    module, stepping, loader = PrivacyEngine().make_private(
        module=network,
        optimizer=optimizer,
        data_loader=data,
        noise_multiplier=noise,
        max_grad_norm=clip_norm,
        poisson_sampling=True,
    )
    times: list[float] = []
    while len(times) < n_steps:
        start = time.perf_counter()
        for features, labels in loader:
            stepping.zero_grad()
            loss(module(features), labels).mean().backward()
            stepping.step()
            times.append(time.perf_counter() - start)
            if len(times) == n_steps:
                break
            start = time.perf_counter()
    return float(np.median(times))


def measure() -> list[dict[str, Any]]:
    found = []
    for name, builds in SHAPES.items():
        for seed in SEEDS:
            data, test = rows(name, seed, N_ROWS), rows(name, 1000 + seed, N_ROWS)
            for who, build, train in (
                ("corrdp", builds[0], ours),
                ("opacus", builds[1], theirs),
            ):
                torch.manual_seed(seed)
                network = build()
                seconds = train(network, data)
                with torch.no_grad():
                    right = network(test[0]).argmax(1) == test[1]
                found.append(
                    {
                        "shape": name,
                        "who": who,
                        "seed": seed,
                        "step_ms": 1e3 * seconds,
                        "accuracy": float(right.float().mean()),
                    }
                )
        print(name, flush=True)
    return found


def render(found: list[dict[str, Any]]) -> str:
    header = ["network", "accuracy here", "accuracy Opacus"]
    header += ["step here, ms", "step Opacus, ms", "ratio"]
    rows = []
    for name in dict.fromkeys(row["shape"] for row in found):
        cells, speed = [], []
        for who in ("corrdp", "opacus"):
            own = [r for r in found if (r["shape"], r["who"]) == (name, who)]
            right = np.array([r["accuracy"] for r in own])
            error = right.std(ddof=1) / len(right) ** 0.5
            cells.append(f"{right.mean():.3f} ± {error:.3f}")
            speed.append(float(np.median([r["step_ms"] for r in own])))
        speeds = (*speed, speed[0] / speed[1])
        rows.append([name, *cells, *(f"{value:.2f}" for value in speeds)])
    return markdown_table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--render", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.measure:
        warnings.simplefilter("ignore")
        SAVED.write_text(json.dumps(measure(), indent=0) + "\n")
    if chosen.render:
        RENDERED.write_text(render(json.loads(SAVED.read_text())))


if __name__ == "__main__":
    main()

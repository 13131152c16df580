"""Certified training against what users would otherwise pick, on the same promise.

Everybody protects the label and the whole record against replacement, at the same
epsilon and delta: ours with every feature sensitive and a label score of 1, Opacus
with its noise calibrated to replacement, diffprivlib and AdaSSP likewise. Rivals get
declared bounds, and the settings of their documentation; none is tuned on the data.
"""

import math
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from corrdp._random import noise_generator
from corrdp.accounting import gaussian_mu, sampled_noise_multiplier
from corrdp.datasets._paper import PaperTable, load_adult, load_medical_cost
from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.policy import PolicyEncoder
from corrdp.training import Descent, prepare_rows

DELTA = 1e-6
SEEDS = 5
EPSILONS = (0.1, 1.0)
BATCH, EPOCHS, CLIP_NORM, STEP = 1024, 5, 1.0, 2.0
ROOT = Path(__file__).parents[1]


def folder() -> Path:
    return Path(os.environ.get("CORRDP_DATA_DIR", ROOT / ".." / "shared" / "data"))


def protected(table: PaperTable) -> PaperTable:
    """Return the table with its label fully protected."""
    policy = table.policy
    assert policy.label is not None
    label = replace(policy.label, score=1.0)
    return PaperTable(table.frame, replace(policy, label=label))


def ours(kind: Any) -> Callable[..., float]:
    def fit(table: PaperTable, epsilon: float, seed: int) -> float:
        assert table.policy.label is not None
        model = kind(
            table.policy,
            epsilon=epsilon,
            delta=DELTA,
            method="standard",
            random_state=seed,
        ).fit(table.frame)
        return float(model.score(table.frame, table.frame[table.policy.label.name]))

    return fit


def encoded(table: PaperTable) -> tuple[np.ndarray, np.ndarray]:
    encoder = PolicyEncoder(table.policy)
    assert table.policy.label is not None
    y = encoder.encode_label(table.frame[table.policy.label.name])
    return encoder.transform(table.frame), np.asarray(y, dtype=float)


def opacus(table: PaperTable, epsilon: float, seed: int) -> float:
    """DP-SGD by Opacus on resident tensors, Poisson batches, its own hooks."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    torch.manual_seed(seed)
    codes, y = encoded(table)
    features = torch.tensor(codes, dtype=torch.float32)
    labels = torch.tensor(y, dtype=torch.float32)
    n_rows = len(labels)
    rate = BATCH / n_rows
    n_steps = math.ceil(EPOCHS / rate)
    multiplier = opacus_multiplier(epsilon, rate, n_steps)
    model = GradSampleModule(torch.nn.Linear(features.shape[1], 1))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=STEP),
        noise_multiplier=multiplier,
        max_grad_norm=CLIP_NORM,
        expected_batch_size=BATCH,
    )
    loss = torch.nn.BCEWithLogitsLoss(reduction="mean")
    for _ in range(n_steps):
        batch = torch.rand(n_rows) < rate
        optimizer.zero_grad()
        loss(model(features[batch])[:, 0], labels[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        return float(((model(features)[:, 0] > 0) == (labels > 0.5)).float().mean())


_MULTIPLIERS: dict[tuple[float, float, int], float] = {}


def opacus_multiplier(epsilon: float, rate: float, n_steps: int) -> float:
    """Return noise over clip norm for replacement, which moves a sum by twice it."""
    key = (epsilon, rate, n_steps)
    if key not in _MULTIPLIERS:
        _MULTIPLIERS[key] = sampled_noise_multiplier(
            epsilon=epsilon, delta=DELTA, rate=rate, n_steps=n_steps
        )
    return _MULTIPLIERS[key]


def objective_perturbation(table: PaperTable, epsilon: float, seed: int) -> float:
    """Return the accuracy of diffprivlib's logistic regression (pure epsilon)."""
    from diffprivlib.models import LogisticRegression as Rival

    codes, y = encoded(table)
    blocks = PolicyEncoder(table.policy).blocks_
    norm = math.sqrt(sum(block.radius**2 for block in blocks))
    model = Rival(epsilon=epsilon, data_norm=norm, random_state=seed).fit(codes, y)
    return float(model.score(codes, y))


def adassp(table: PaperTable, epsilon: float, seed: int, delta: float = DELTA) -> float:
    """Return R squared of AdaSSP (Wang 2018, Algorithm 2) for replaced records.

    Three equal Gaussian releases: smallest eigenvalue, Gram matrix, cross products.
    """
    rng = np.random.default_rng(seed)
    codes, y = encoded(table)
    design = np.column_stack([codes, np.ones(len(y))])
    blocks = PolicyEncoder(table.policy).blocks_
    radius = math.sqrt(1 + sum(block.radius**2 for block in blocks))
    label_radius, failure = 0.5, 0.05
    n_columns = design.shape[1]
    mu = gaussian_mu(epsilon=epsilon, delta=delta) / math.sqrt(3)
    gram = design.T @ design
    eigenvalue_scale = radius**2 / mu
    smallest = np.linalg.eigvalsh(gram)[0] + rng.normal() * eigenvalue_scale
    smallest = max(0.0, smallest - math.sqrt(math.log(6 / delta)) * eigenvalue_scale)
    gram_scale = math.sqrt(2) * radius**2 / mu
    noise = np.triu(rng.normal(size=gram.shape)) * gram_scale
    noise = noise + np.triu(noise, 1).T
    cross_scale = 2 * radius * label_radius / mu
    cross = design.T @ y + rng.normal(size=n_columns) * cross_scale
    wanted = gram_scale * math.sqrt(n_columns * math.log(2 * n_columns**2 / failure))
    ridge = max(0.0, wanted - smallest)
    coef = np.linalg.solve(gram + noise + ridge * np.eye(n_columns), cross)
    return float(1 - np.mean((y - design @ coef) ** 2) / np.var(y))


def step_times(table: PaperTable) -> list[dict]:
    """Time one full-batch step of Opacus, resident and by its loader, against ours."""
    try:
        import torch
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer
    except ImportError:
        return []
    codes, y = encoded(table)
    features = torch.tensor(codes, dtype=torch.float32)
    labels = torch.tensor(y, dtype=torch.float32)
    data = torch.utils.data.TensorDataset(features, labels)
    loader = torch.utils.data.DataLoader(data, batch_size=len(y))
    model = GradSampleModule(torch.nn.Linear(features.shape[1], 1))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=STEP),
        noise_multiplier=1.0,
        max_grad_norm=CLIP_NORM,
        expected_batch_size=len(y),
    )
    loss = torch.nn.BCEWithLogitsLoss(reduction="mean")

    def opacus_step(inputs: Any, targets: Any) -> None:
        optimizer.zero_grad()
        loss(model(inputs)[:, 0], targets).backward()
        optimizer.step()

    chosen = LogisticRegression(table.policy, epsilon=1.0, delta=DELTA)
    plan = chosen.plan(len(y)).with_steps(10**6)
    rows = prepare_rows(codes, y, plan.layout)
    descent = Descent(codes, rows, plan, noise_generator(0))

    def own_step() -> None:
        descent.advance(*descent.rows.gradient_sum(descent.coef, residual_bound=None))

    own = shortest(own_step, 30)
    resident = shortest(lambda: opacus_step(features, labels), 20)
    loaded = shortest(lambda: opacus_step(*next(iter(loader))), 3)
    figures = [
        ("own full-batch step", 1e3 * own, "ms", ""),
        ("Opacus step on a resident tensor / own", resident / own, "times", ">= 10"),
        ("Opacus step through its loader / own", loaded / own, "times", ">= 500"),
    ]
    return [
        {"name": name, "value": value, "unit": unit, "target": target, "note": ""}
        for name, value, unit, target in figures
    ]


def shortest(call: Callable[[], None], rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def run(seeds: int = SEEDS) -> list[dict]:
    adult = protected(load_adult(folder()))
    medical = protected(load_medical_cost(folder()))
    cases: list[tuple[str, PaperTable, dict[str, Callable[..., float]]]] = [
        (
            "Adult accuracy",
            adult,
            {
                "corrdp": ours(LogisticRegression),
                "Opacus": opacus,
                "diffprivlib": objective_perturbation,
            },
        ),
        (
            "Medical Cost R squared",
            medical,
            {"corrdp": ours(LinearRegression), "AdaSSP": adassp},
        ),
    ]
    warnings.simplefilter("ignore")  # of hooks, and of tables too small for epsilon
    rows = step_times(adult)
    for row in rows:
        print(f"{row['name']:<50}{row['value']:>9.4g} {row['unit']}", flush=True)
    for name, table, rivals in cases:
        for epsilon in EPSILONS:
            for rival, fit in rivals.items():
                rows += measured(f"{name}, epsilon {epsilon:g}, {rival}", fit, table,
                                 epsilon, seeds)  # fmt: skip
    return rows


def measured(
    name: str, fit: Callable[..., float], table: PaperTable, epsilon: float, seeds: int
) -> list[dict]:
    try:
        fit(table, epsilon, seeds)  # compile and calibrate before timing
    except ImportError as error:
        print(f"{name}: cannot be imported ({error})")
        return []
    start = time.perf_counter()
    scores = [fit(table, epsilon, seed) for seed in range(seeds)]
    seconds = (time.perf_counter() - start) / seeds
    row = {
        "name": name,
        "value": float(np.mean(scores)),
        "unit": f"+- {np.std(scores) / math.sqrt(seeds):.2g}",
        "target": "",
        "note": f"{seconds:.2f} s per fit",
    }
    print(f"{name:<50}{row['value']:>9.4f} {row['unit']:<10} {row['note']}", flush=True)
    return [row]


if __name__ == "__main__":
    run()

"""What others reach on the tables of ``bench_foreign.py``, at the same epsilon.

``python benchmarks/bench_foreign_rivals.py --save FILE [--ebm-python PYTHON]`` measures
DP-SGD by Opacus on all rows, step size and norm picked on the answer (no user could),
DP-EBM by ``interpret`` in a Python of its own, and AdaSSP for numbers. All of them
hide the whole record; epsilon is for a replaced record: Gaussian noise of rivals that
count added and removed records is doubled. Excess is as in ``bench_foreign.py``, so a
richer model than a linear one, as DP-EBM is, may be below 0.
"""

import argparse
import json
import math
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bench_foreign import EPSILONS, Measured
from bench_rivals import adassp
from rule_tables import FOREIGN_BINARY, FOREIGN_NUMBER, load_table
from sklearn.metrics import roc_auc_score

from corrdp.accounting import gaussian_epsilon, gaussian_mu
from corrdp.datasets._paper import PaperTable
from corrdp.policy import NumberDomain
from corrdp.training import standardizing_scale

N_SEEDS = 3
STEP_SIZES = (0.002, 0.01, 0.05, 0.2)
NORMS = (1.0, 3.0)
N_STEPS = 100


def opacus(
    measured: Measured, epsilon: float, seed: int, *, step_size: float, norm: float
) -> dict[str, float]:
    """Return scores of logistic regression by Opacus, every step on all rows."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    torch.manual_seed(seed)
    scale = standardizing_scale(measured.blocks)
    features = torch.tensor(measured.codes * scale, dtype=torch.float32)
    labels = torch.tensor(measured.labels, dtype=torch.float32)
    mu = gaussian_mu(epsilon=epsilon, delta=measured.table.delta)
    layer = torch.nn.Linear(features.shape[1], 1)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    model = GradSampleModule(layer)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=step_size, momentum=0.9),
        noise_multiplier=2 * math.sqrt(N_STEPS) / mu,  # replacing moves twice the norm
        max_grad_norm=norm,
        expected_batch_size=len(labels),
    )
    loss = torch.nn.BCEWithLogitsLoss(reduction="mean")
    warnings.filterwarnings("ignore", message="Full backward hook")
    for _ in range(N_STEPS):
        optimizer.zero_grad()
        loss(model(features)[:, 0], labels).backward()
        optimizer.step()
    weights = layer.weight.detach().numpy()[0].astype(float) * scale
    return measured.scores(weights, float(layer.bias.detach()[0]))


def tuned_opacus(
    measured: Measured, epsilon: float, seeds: Sequence[int]
) -> list[dict[str, float]]:
    """Return scores at the settings of least mean excess."""
    runs = [
        [opacus(measured, epsilon, seed, step_size=size, norm=norm) for seed in seeds]
        for size in STEP_SIZES
        for norm in NORMS
    ]
    return min(runs, key=lambda rows: np.mean([row["excess"] for row in rows]))


def dp_ebm(
    measured: Measured, epsilon: float, seed: int, python: Path
) -> dict[str, float]:
    """Return scores of DP-EBM with its own defaults and declared bounds."""
    table, policy = measured.table, measured.table.policy
    assert policy.label is not None
    domain, label = policy.label.domain, policy.label.name
    mu = gaussian_mu(epsilon=epsilon, delta=table.delta)
    number = isinstance(domain, NumberDomain)
    task = {
        "columns": [feature.name for feature in policy.features],
        "bounds": {
            feature.name: (feature.domain.lower, feature.domain.upper)
            for feature in policy.features
            if isinstance(feature.domain, NumberDomain)
        },
        "label": label,
        "number": (-0.5, 0.5) if number else None,
        # Replacing a record is removing one and adding another: half the mu for each.
        "epsilon": gaussian_epsilon(mu=mu / 2, delta=table.delta),
        "delta": table.delta,
        "seed": seed,
    }
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        parts = ((table.private, measured.labels), (table.test, measured.test_labels))
        for part, (frame, labels) in zip(("train", "test"), parts, strict=True):
            frame.assign(**{label: labels}).to_csv(place / f"{part}.csv", index=False)
        (place / "task.json").write_text(json.dumps(task))
        child = Path(__file__).with_name("dp_ebm.py")
        subprocess.run([python, child, place], check=True)
        train, test = map(np.array, json.loads((place / "scores.json").read_text()))
    risk = float(measured.loss.value(train, measured.labels).mean())
    row = {
        "excess": risk - measured.floor,
        "test_loss": float(measured.loss.value(test, measured.test_labels).mean()),
    }
    if number:
        error = np.mean((test - measured.test_labels) ** 2)
        row["r_squared"] = float(1.0 - error / np.var(measured.test_labels))
    else:
        row["auc"] = float(roc_auc_score(measured.test_labels, test))
    return row


def adassp_excess(measured: Measured, epsilon: float, seed: int) -> dict[str, float]:
    """Return the excess of AdaSSP, at the delta of its own benchmark."""
    table = PaperTable(measured.table.private, measured.table.policy)
    missed = 1.0 - adassp(table, epsilon, seed, delta=measured.table.delta)
    risk = 0.5 * missed * float(np.var(measured.labels))
    return {"excess": risk - measured.floor}


def measure(name: str, seeds: Sequence[int], python: Path | None) -> list[dict]:
    """Return one row per method, epsilon and seed."""
    measured = Measured(load_table(name))
    rows = []
    for epsilon in EPSILONS:
        found: dict[str, list[dict[str, float]]] = {}
        if name in FOREIGN_BINARY:
            found["opacus"] = tuned_opacus(measured, epsilon, seeds)
        else:
            found["adassp"] = [adassp_excess(measured, epsilon, s) for s in seeds]
        if python is not None:
            found["dp_ebm"] = [dp_ebm(measured, epsilon, s, python) for s in seeds]
        for method, runs in found.items():
            for seed, row in zip(seeds, runs, strict=True):
                rows.append({"method": method, "epsilon": epsilon, "seed": seed, **row})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, required=True)
    parser.add_argument(
        "--tables", nargs="*", default=[*FOREIGN_BINARY, *FOREIGN_NUMBER]
    )
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    parser.add_argument("--ebm-python", type=Path)
    chosen = parser.parse_args()
    saved = json.loads(chosen.save.read_text()) if chosen.save.is_file() else {}
    for name in chosen.tables:
        saved[name] = measure(name, range(chosen.seeds), chosen.ebm_python)
        print(name, flush=True)
        chosen.save.write_text(json.dumps(saved) + "\n")

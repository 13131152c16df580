"""Networks: cost of a private step, and utility on the paper's data.

Run as ``python benchmarks/bench_networks.py`` for speed, with ``--utility`` for the
utility runs (20 seeds, some twenty minutes on one core); results are saved in
``docs/results`` and ``--render`` writes the tables of ``docs/networks.md``. The paper's
tables are read from ``CORRDP_DATA_DIR``, else from ``../shared/data``.
"""

import argparse
import contextlib
import json
import math
import os
import resource
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from corrdp.datasets._paper import PaperTable, load_medical_cost, load_sepsis
from corrdp.datasets._synthetic import paper_synthetic
from corrdp.estimators._mlp_classifier import MLPClassifier
from corrdp.estimators._mlp_regressor import MLPRegressor
from corrdp.exceptions import UtilityWarning
from corrdp.policy import Feature, NumberDomain, Policy
from corrdp.torch import make_private

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
DATA = os.environ.get("CORRDP_DATA_DIR", str(ROOT.parent / "shared" / "data"))
BATCH = 1024
UNITS = (31, 64, 2)
_STEPS = 2000
METHODS = ("corr", "standard", "semi")


def run() -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    growth = _memory_growth("standard")  # first: peaks never fall
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
    if "opacus" in seconds:
        ratio = seconds["opacus"] / standard
        rows.append(_row("Opacus hooks / standard", ratio, "ratio", 3.0, "at least"))
    return rows


def utility(n_seeds: int) -> None:
    """Save one row per data set, calibration, epsilon and method, as they come."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for name, calibration, epsilons in RUNS:
        for epsilon in epsilons:
            for method in METHODS:
                rows.append(_summary(name, method, calibration, epsilon, n_seeds))
                _save("networks_utility.json", rows)
    for name in BUILD:
        rows.append(_summary(name, "nonprivate", "certified", 1.0, min(n_seeds, 5)))
        _save("networks_utility.json", rows)


def _summary(
    name: str, method: str, calibration: str, epsilon: float, n_seeds: int
) -> dict[str, Any]:
    runs = [BUILD[name](seed, method, calibration, epsilon) for seed in range(n_seeds)]
    scores = [score for score, _, _ in runs]
    row = {
        "data": name,
        "calibration": "none" if method == "nonprivate" else calibration,
        "epsilon": None if method == "nonprivate" else epsilon,
        "method": method,
        "noise": runs[0][2],
        "score": float(np.mean(scores)),
        "deviation": float(np.std(scores, ddof=1)) if n_seeds > 1 else 0.0,
        "risk": float(np.mean([risk for _, risk, _ in runs])),
        "seeds": n_seeds,
    }
    print(json.dumps(row), flush=True)
    return row


def _sepsis(
    seed: int, method: str, calibration: str, epsilon: float
) -> tuple[float, float, str]:
    """Accuracy on 10,000 rows, both outcomes equally often (no synthetic rows)."""
    table = _loaded(load_sepsis)
    assert table.policy.label is not None
    name = table.policy.label.name
    frame = table.frame.groupby(name).sample(5000, random_state=seed)
    paper = {
        "n_steps": 200,
        "batch_size": 1024,
        "clip_norm": 5.0,
    }
    model = MLPClassifier(
        table.policy,
        epsilon=epsilon,
        delta=1e-5,
        hidden_units=(5,),
        **_settings(seed, method, calibration, paper),
    )
    return _scored(model, frame, frame[name])


def _medical(
    seed: int, method: str, calibration: str, epsilon: float
) -> tuple[float, float, str]:
    """R^2 on 1,000 rows."""
    table = _loaded(load_medical_cost)
    frame = table.frame.sample(1000, random_state=seed)
    paper = {"n_steps": 1000, "clip_norm": 10.0}
    model = MLPRegressor(
        table.policy,
        epsilon=epsilon,
        delta=1e-5,
        hidden_units=(20,),
        **_settings(seed, method, calibration, paper),
    )
    return _scored(model, frame, frame["charges"])


def _synthetic(
    seed: int, method: str, calibration: str, epsilon: float
) -> tuple[float, float, str]:
    """R^2 on the paper's synthetic data: 100 features, 10 of them sensitive."""
    table = paper_synthetic(n_rows=20_000, random_state=seed)
    model = MLPRegressor(
        table.policy,
        epsilon=epsilon,
        delta=1e-5,
        hidden_units=(20,),
        batch_size=2000,
        n_steps=600,
        **_settings(seed, method, calibration, {}),
    )
    return _scored(model, table.frame, table.frame["y"])


BUILD = {"medical": _medical, "sepsis": _sepsis, "synthetic": _synthetic}
RUNS = (
    ("medical", "certified", (0.2, 0.5, 1.0, 2.0)),
    ("sepsis", "certified", (0.05, 0.1, 1.0)),
    ("synthetic", "certified", (1.0,)),
    ("medical", "theorem", (0.5, 1.0, 2.0)),
    ("sepsis", "theorem", (0.05, 0.1, 1.0)),
)


@cache
def _loaded(load: Callable[[str], PaperTable]) -> PaperTable:
    return load(DATA)


def _settings(
    seed: int, method: str, calibration: str, paper: dict[str, Any]
) -> dict[str, Any]:
    common = {
        "method": method,
        "calibration": calibration,
        "random_state": seed,
        "research": method == "nonprivate",
    }
    return common | (paper if calibration == "theorem" else {})


def _scored(model: Any, frame: Any, labels: Any) -> tuple[float, float, str]:
    """Return score, risk and the noise that was chosen. Not private: research only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model.fit(frame, labels)
    noise = "none" if model.plan_ is None else model.plan_.method
    score = model.score(frame, labels)
    if isinstance(model, MLPRegressor):
        domain = model.policy_.label.domain
        width = domain.upper - domain.lower
        risk = float(np.mean(((model.predict(frame) - labels) / width) ** 2))
    else:
        risk = 1.0 - score
    return float(score), risk, noise


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


def _training(method: str, n_rows: int, batch_size: int) -> Any:
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
        epsilon=1.0,
        delta=1e-6,
        epochs=_STEPS * min(1.0, batch_size / n_rows),
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


def _row(
    name: str, value: float, unit: str, target: float | None, note: str
) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target, "note": note}


def render() -> str:
    """Return the tables of the documentation from the saved results."""
    speed = json.loads((RESULTS / "networks_speed.json").read_text())
    lines = ["| measure | value | target |", "|---|---|---|"]
    for row in speed:
        target = "" if row["target"] is None else f"{row['target']:g}"
        lines.append(f"| {row['name']} | {row['value']:.3g} {row['unit']} | {target} |")
    rows = json.loads((RESULTS / "networks_utility.json").read_text())
    lines += [
        "",
        "| data | calibration | epsilon | corr | noise taken | standard | semi |",
        "|---|---|---|---|---|---|---|",
    ]
    keys = dict.fromkeys(
        (r["data"], r["calibration"], r["epsilon"])
        for r in rows
        if r["method"] != "nonprivate"
    )
    for key in keys:
        own = {
            r["method"]: r
            for r in rows
            if (r["data"], r["calibration"], r["epsilon"]) == key
        }
        cells = [_cell(own.get(method)) for method in METHODS]
        taken = own["corr"]["noise"] if "corr" in own else ""
        lines.append(
            f"| {key[0]} | {key[1]} | {key[2]:g} | {cells[0]} | {taken} | {cells[1]} | "
            f"{cells[2]} |"
        )
    lines += [
        f"| {r['data']} | not private | | {r['score']:.4f} | | | |"
        for r in rows
        if r["method"] == "nonprivate"
    ]
    risk = {
        r["method"]: r["risk"]
        for r in rows
        if r["data"] == "synthetic" and r["epsilon"] in (1.0, None)
    }
    if {"corr", "standard", "nonprivate"} <= risk.keys():
        plain = risk["nonprivate"]
        ratio = (risk["corr"] - plain) / (risk["standard"] - plain)
        lines += [
            "",
            "Synthetic data at epsilon 1: the excess risk of `corr` over the network "
            f"that is not private is {ratio:.2f} of that of `standard` (target: 0.5).",
        ]
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "not run"
    return f"{row['score']:.4f} ± {row['deviation']:.4f}"


def curve() -> str:
    """Return an SVG of the certified scores of the paper's two networks."""
    rows = json.loads((RESULTS / "networks_utility.json").read_text())
    colors = {"corr": "#1b6ca8", "standard": "#c44e52", "semi": "#8c8c8c"}
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 300" '
        'font-family="sans-serif" font-size="12">'
    ]
    for panel, (data, measure) in enumerate(
        (("medical", "R2"), ("sepsis", "accuracy"))
    ):
        own = [r for r in rows if (r["data"], r["calibration"]) == (data, "certified")]
        epsilons = sorted({r["epsilon"] for r in own})
        low, high = (f(r["score"] for r in own) for f in (min, max))
        left = 60 + 360 * panel

        def x(epsilon: float, left: int = left, e: list[float] = epsilons) -> float:
            return left + 260 * math.log(epsilon / e[0]) / math.log(e[-1] / e[0])

        def y(score: float, low: float = low, high: float = high) -> float:
            return 240 - 190 * (score - low) / (high - low)

        parts.append(f'<text x="{left}" y="20">{data}: {measure} by epsilon</text>')
        parts += [
            f'<text x="{x(e):.0f}" y="265" text-anchor="middle">{e:g}</text>'
            for e in epsilons
        ]
        parts += [
            f'<text x="{left - 10}" y="{y(v) + 4:.0f}" text-anchor="end">{v:.2f}</text>'
            for v in (low, high)
        ]
        for index, (method, color) in enumerate(colors.items()):
            line = sorted(
                (r["epsilon"], r["score"]) for r in own if r["method"] == method
            )
            points = " ".join(f"{x(e):.1f},{y(s):.1f}" for e, s in line)
            dash = ' stroke-dasharray="5 4"' if method == "semi" else ""
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{color}" '
                f'stroke-width="2"{dash}/>'
            )
            parts.append(
                f'<text x="{left + 90 * index}" y="290" fill="{color}">{method}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--utility", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    if options.utility:
        utility(options.seeds)
    elif not options.render:
        rows = run()
        for row in rows:
            target = "" if row["target"] is None else f"target {row['target']:g}"
            print(f"{row['name']:<42} {row['value']:10.4g} {row['unit']:<6} {target}")
        _save("networks_speed.json", rows)
    if options.render:
        (RESULTS / "networks_tables.inc").write_text(render(), encoding="utf-8")
        (RESULTS / "networks_curve.svg").write_text(curve(), encoding="utf-8")


def _save(name: str, rows: list[dict[str, Any]]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / name).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

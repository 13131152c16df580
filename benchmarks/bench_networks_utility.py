"""Networks: utility on the paper's data, by proof and by the paper's noise.

Run as ``python benchmarks/bench_networks_utility.py --measure`` (20 seeds, some minutes
on one core); rows are saved in ``docs/results/networks_utility.json`` as they come, and
``--render`` writes the table and the curves of ``docs/networks.md`` from them. Seeds
start at 5000: no rule was changed after a look at them; earlier seeds of the same
tables did change it (``docs/networks.md``). Tables are read from
``CORRDP_DATA_DIR``. Runs with the paper's noise, which has nothing to tune, are those
of ``corrdp reproduce``.
"""

import argparse
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from saved_tables import RESULTS, markdown_table, save_table
from sklearn.metrics import r2_score

from corrdp.estimators import scaled_codes
from corrdp.policy import PolicyEncoder
from corrdp.reproduction._data import load_table
from corrdp.reproduction._experiments import (
    EXPERIMENTS,
    Calibration,
    Cell,
    CellResult,
    Experiment,
    Model,
)
from corrdp.reproduction._networks import certified_model, train_network_cell
from corrdp.torch.mlp import private_network, train_network
from corrdp.training import standardizing_scale

SAVED = RESULTS / "networks_utility.json"
REPRODUCED = RESULTS / "reproduction" / "results.json"
FIRST_SEED = 5000
N_SEEDS = 20
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
METHODS = ("corr", "standard", "semi")
FLAT = "flat"  # one clipping norm and one noise scale for all parameters
SYNTHETIC = Experiment(
    name="synthetic",
    title="Synthetic data, network with 20 units",
    data="synthetic",
    model=Model.NETWORK,
    step_size=0.005,
    n_steps=200,
    n_rows=20_000,
    hidden_units=20,
    epsilons=(),
    certified_epsilons=(1.0,),
)
RUNS = (
    (replace(EXPERIMENTS["medical-nn"], name="medical"), Calibration.CERTIFIED),
    (EXPERIMENTS["sepsis"], Calibration.CERTIFIED),
    (SYNTHETIC, Calibration.CERTIFIED),
)
# Colors that color-blind readers can tell apart (Okabe and Ito), and shapes for print.
LOOKS = {
    "corr": ("#0072B2", "-", "o"),
    "standard": ("#D55E00", "--", "s"),
    "semi": ("#009E73", ":", "^"),
    "nonprivate": ("#000000", "-.", ""),
}


def run() -> list[dict[str, Any]]:
    """Return the figures with a target, from the saved rows."""
    rows = saved_rows()
    worst = {
        data: min(
            100 * (one["score"] - other["score"]) for one, other in _pairs(rows, data)
        )
        for data in ("medical", "sepsis")
    }
    return [
        *(
            {
                "name": f"{data}: corr - standard, least over epsilon",
                "value": value,
                "unit": "points",
                "target": -0.5,
                "note": "certified, 20 fresh seeds; at least",
            }
            for data, value in worst.items()
        ),
        *(
            {
                "name": f"synthetic: excess risk of corr / {rival}",
                "value": excess_ratio(rows, method),
                "unit": "ratio",
                "target": 0.44,
                "note": "certified, epsilon 1, 20 seeds, "
                f"± {excess_error(rows, method):.2f}; at most",
            }
            for method, rival in (
                ("standard", "standard"),
                (FLAT, "flat clipping"),
            )
        ),
    ]


def _pairs(
    rows: list[dict[str, Any]], data: str
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return certified rows of corr and standard at every epsilon."""
    own = [r for r in rows if (r["data"], r["calibration"]) == (data, "certified")]
    by_method = {
        method: {r["epsilon"]: r for r in own if r["method"] == method}
        for method in ("corr", "standard")
    }
    return [
        (row, by_method["standard"][epsilon])
        for epsilon, row in by_method["corr"].items()
    ]


def measure(n_seeds: int, only: str | None) -> None:
    """Run every block, or one, and put its rows in the place of older ones."""
    torch.set_num_threads(1)
    for experiment, calibration in RUNS:
        if only not in (None, f"{experiment.name}-{calibration.value}"):
            continue
        is_synthetic = experiment is SYNTHETIC
        epsilons = experiment.certified_epsilons if is_synthetic else EPSILONS
        methods = METHODS[:2] if is_synthetic else METHODS
        cells = [
            Cell(experiment, calibration, method, epsilon, n_seeds)
            for epsilon in epsilons
            for method in methods
        ]
        plain = Cell(experiment, calibration, "nonprivate", math.inf, n_seeds)
        results = [
            train_network_cell(cell, first_seed=FIRST_SEED) for cell in [*cells, plain]
        ]
        rows = [_row(*pair) for pair in zip([*cells, plain], results, strict=True)]
        if is_synthetic:
            rows += [_flat_row(experiment, epsilon, n_seeds) for epsilon in epsilons]
        block = (experiment.name, calibration.value)
        others = [r for r in saved_rows() if (r["data"], r["calibration"]) != block]
        names = [run.name for run, _ in RUNS]
        together = sorted([*others, *rows], key=lambda row: names.index(row["data"]))
        text = json.dumps(together, indent=1) + "\n"
        SAVED.write_text(text, encoding="utf-8")
        print(*block, flush=True)


def _flat_row(experiment: Experiment, epsilon: float, n_seeds: int) -> dict[str, Any]:
    """Return ordinary differential privacy as Opacus does it, with the same rule."""
    scores = []
    for seed in range(FIRST_SEED, FIRST_SEED + n_seeds):
        table = load_table(experiment, seed)
        encoder = PolicyEncoder(table.policy).fit(table.frame)
        codes = scaled_codes(encoder, table.frame)
        labels = encoder.encode_label(table.frame[table.policy.label.name])
        training = private_network(
            codes,
            labels,
            hidden_units=(experiment.hidden_units,),
            n_outputs=1,
            clip_norm=None,
            random_state=seed,
            policy=table.policy,
            epsilon=epsilon,
            delta=experiment.delta,
            epochs=experiment.n_steps,
            method="standard",
            reference=np.zeros(codes.shape[1]),
            code_scale=standardizing_scale(encoder.blocks_),
        )
        (first, last) = train_network(training, n_outputs=1)
        hidden = np.logaddexp(0.0, codes @ first[0].T + first[1])
        said = (hidden @ last[0].T + last[1])[:, 0]
        scores.append(float(r2_score(labels, said)))
    cell = Cell(experiment, Calibration.CERTIFIED, "standard", epsilon, n_seeds)
    proved = training.module.plan.epsilon("sensitive")
    result = CellResult(tuple(scores), provable_epsilon=proved)
    return _row(cell, result) | {"method": FLAT, "noise": "standard"}


def _row(cell: Cell, result: CellResult) -> dict[str, Any]:
    noise, proved = "none", result.provable_epsilon
    if cell.is_private:
        planned = certified_model(cell, 0).planned_training(cell.experiment.n_rows)
        noise = planned.module.plan.method
    return {
        "data": cell.experiment.name,
        "calibration": cell.calibration.value,
        "epsilon": cell.epsilon if cell.is_private else None,
        "method": cell.method,
        "noise": noise,
        "proved_epsilon": proved if math.isfinite(proved) else None,
        "score": float(np.mean(result.scores)),
        "deviation": float(np.std(result.scores, ddof=1)),
        "scores": [round(score, 6) for score in result.scores],
        "seeds": len(result.scores),
    }


def reproduced_rows() -> list[dict[str, Any]]:
    """Return the theorem runs of the reproduction in the form of `_row`."""
    names = {"medical-nn": "medical", "sepsis": "sepsis"}
    cells = json.loads(REPRODUCED.read_text(encoding="utf-8"))["cells"]
    return [
        {
            "data": names[cell["experiment"]],
            "calibration": cell["calibration"],
            "epsilon": None if cell["method"] == "nonprivate" else cell["epsilon"],
            "method": cell["method"],
            "proved_epsilon": cell["provable_epsilon"],
            "score": float(np.mean(cell["scores"])),
            "deviation": float(np.std(cell["scores"], ddof=1)),
            "scores": cell["scores"],
            "seeds": len(cell["scores"]),
        }
        for cell in cells
        if cell["experiment"] in names and cell["calibration"] == "theorem"
    ]


def saved_rows() -> list[dict[str, Any]]:
    if not SAVED.is_file():
        return []
    rows: list[dict[str, Any]] = json.loads(SAVED.read_text(encoding="utf-8"))
    return rows


def render() -> str:
    """Return the tables of the documentation from the saved rows."""
    rows = saved_rows() + reproduced_rows()
    lines = []
    for calibration in reversed(Calibration):
        own = [row for row in rows if row["calibration"] == calibration.value]
        if not own:
            continue
        lines += [f"**{calibration.value.capitalize()}**", "", _table(own)]
    return "\n".join([*lines, *verdicts()]) + "\n"


def _table(rows: list[dict[str, Any]]) -> str:
    by_theorem = rows[0]["calibration"] == Calibration.THEOREM.value
    last = "proved for corr, standard" if by_theorem else "noise of corr"
    header = ["data", "epsilon", *METHODS, "corr − standard, points", last]
    lines = []
    keys = dict.fromkeys((r["data"], r["epsilon"]) for r in rows if r["epsilon"])
    for data, epsilon in keys:
        own = {
            r["method"]: r for r in rows if (r["data"], r["epsilon"]) == (data, epsilon)
        }
        cells = [_cell(own[m]) if m in own else "" for m in METHODS]
        note = (
            ", ".join(f"{own[m]['proved_epsilon']:.3g}" for m in METHODS[:2])
            if by_theorem
            else own["corr"]["noise"]
        )
        cells += [_difference(own["corr"], own["standard"]), note]
        lines.append([data, f"{epsilon:g}", *cells])
    lines += [
        [r["data"], f"not private ({r['seeds']} seeds)", _cell(r), *[""] * 4]
        for r in rows
        if r["method"] == "nonprivate"
    ]
    return markdown_table(header, lines)


def _cell(row: dict[str, Any]) -> str:
    if abs(row["score"]) >= 10:
        return f"{row['score']:.0f} ± {row['deviation']:.0f}"
    return f"{row['score']:.4f} ± {row['deviation']:.4f}"


def _difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Return mean and standard error of the difference by seed, in points."""
    apart = 100 * (np.array(one["scores"]) - np.array(other["scores"]))
    if not apart.any():
        return "0"
    if abs(apart.mean()) > 100:
        return "beyond 100"
    return f"{apart.mean():+.2f} ± {apart.std(ddof=1) / math.sqrt(apart.size):.2f}"


def excess_ratio(rows: list[dict[str, Any]], rival: str) -> float:
    """Return the excess risk of corr over that of a rival, synthetic data."""
    score = {r["method"]: r["score"] for r in rows if r["data"] == "synthetic"}
    plain = score["nonprivate"]
    return float((plain - score["corr"]) / (plain - score[rival]))


def excess_error(rows: list[dict[str, Any]], rival: str) -> float:
    """Return the standard error of that ratio, over seeds that share rows."""
    scores = {
        r["method"]: np.array(r["scores"]) for r in rows if r["data"] == "synthetic"
    }
    own, other = (scores["nonprivate"] - scores[method] for method in ("corr", rival))
    left = (own - excess_ratio(rows, rival) * other) / other.mean()
    return float(left.std(ddof=1) / math.sqrt(left.size))


def verdicts() -> list[str]:
    """Return one sentence per target, with whether it is met."""
    sentences = []
    for row in run():
        at_most = row["note"].endswith("at most")
        met = (
            row["value"] <= row["target"] if at_most else row["value"] >= row["target"]
        )
        sentences.append(
            f"- {row['name']}: {row['value']:.3f} {row['unit']} (target: {row['note']} "
            f"{row['target']:g}), {'met' if met else '**not met**'}."
        )
    return sentences


def curve() -> None:
    """Draw the curves of the paper's two networks, both calibrations."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "corrdp", "font.size": 9}
    rows = saved_rows() + reproduced_rows()
    figure, panels = plt.subplots(2, 2, figsize=(7.5, 6), layout="constrained")
    measures = {"medical": ("R²", (-0.5, 0.95)), "sepsis": ("accuracy", (0.48, 0.82))}
    for line, (data, (measure, limits)) in zip(panels, measures.items(), strict=True):
        for panel, calibration in zip(line, reversed(Calibration), strict=True):
            own = [
                r
                for r in rows
                if (r["data"], r["calibration"]) == (data, calibration.value)
            ]
            for method, look in LOOKS.items():
                chosen = [r for r in own if r["method"] == method]
                if chosen:
                    _draw(panel, chosen, method, look)
            panel.set(xscale="log", ylim=limits, title=f"{data}, {calibration.value}")
            panel.set(xlabel="epsilon", ylabel=measure)
            panel.grid(alpha=0.3)
    panels[0, 0].legend(*panels[1, 1].get_legend_handles_labels(), fontsize=8)
    figure.savefig(RESULTS / "networks_curve.svg", metadata={"Date": None})


def _draw(
    panel: Any, rows: list[dict[str, Any]], label: str, look: tuple[str, str, str]
) -> None:
    color, style, marker = look
    if rows[0]["epsilon"] is None:
        panel.axhline(rows[0]["score"], color=color, linestyle=style, label=label)
        return
    epsilon = [r["epsilon"] for r in rows]
    score = np.array([r["score"] for r in rows])
    spread = np.array([r["deviation"] for r in rows])
    panel.plot(epsilon, score, color=color, linestyle=style, marker=marker, label=label)
    panel.fill_between(epsilon, score - spread, score + spread, color=color, alpha=0.15)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--only", help="one block, such as medical-certified")
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    options = parser.parse_args()
    if options.measure:
        measure(options.seeds, options.only)
    if options.render:
        save_table("networks_utility", render())
        curve()


if __name__ == "__main__":
    main()

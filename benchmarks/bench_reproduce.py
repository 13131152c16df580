"""How long the paper's experiments take, and what makes them fast.

``python benchmarks/bench_reproduce.py --full DIR`` times `corrdp reproduce all` with 20
seeds from nothing, into an empty directory, and saves the seconds; ``run`` shows the
saved figure, since a full run takes minutes.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from corrdp.reproduction import EXPERIMENTS, Calibration, Cell, reproduce
from corrdp.reproduction._data import paper_rows
from corrdp.reproduction._theorem import paper_plan, ridge_sums
from corrdp.training import sums_by_theorem

ROOT = Path(__file__).parents[1]
SAVED = ROOT / "docs" / "results" / "reproduction" / "seconds.json"
os.environ.setdefault("CORRDP_DATA_DIR", str(ROOT.parent / "shared" / "data"))
N_MODELS = 192


def fastest(work, repeats=7):
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def seconds_of(out, **options):
    start = time.perf_counter()
    reproduce("all", out=out, cache=out / "cache", **options)
    return time.perf_counter() - start


def entry(name, value, unit, target="", note=""):
    return {"name": name, "value": value, "unit": unit, "target": target, "note": note}


def together_against_alone(name):
    """Compare a step of many models with one; on synthetic data rows with moments."""
    experiment = EXPERIMENTS[name]
    rows = paper_rows(experiment)
    plan = paper_plan(Cell(experiment, Calibration.THEOREM, "corr", 1.0, 1))
    coefs = np.zeros((N_MODELS, rows.layout.n_columns))
    sums = sums_by_theorem(rows.codes, rows.labels, plan)
    sums(coefs[:1])  # compiles
    together = fastest(lambda: sums(coefs), repeats=3) / N_MODELS
    if name == "synthetic":
        moments = ridge_sums(rows.features, rows.labels, ridge=1.0)
        ratio = together * N_MODELS / fastest(lambda: moments(coefs))
        note = f"a step of {N_MODELS} models, 2,000 rows of 100 columns"
        return entry("least squares: rows / Gram matrix", ratio, "times", "> 1", note)
    ratio = fastest(lambda: sums(coefs[:1])) / together
    note = f"a step on {name}, {together * 1e6:.0f} microseconds a model of {N_MODELS}"
    return entry("logistic models one by one / together", ratio, "times", "", note)


def run():
    rows = []
    if SAVED.is_file():
        saved = json.loads(SAVED.read_text())
        rows.append(
            entry("reproduce all, 20 seeds", saved["all"], "s", "< 1800", saved["note"])
        )
    with tempfile.TemporaryDirectory() as folder:
        quick = seconds_of(Path(folder), quick=True)
    rows.append(entry("reproduce all --quick", quick, "s", "< 60", "two processes"))
    return rows + [together_against_alone(name) for name in ("synthetic", "adult")]


if __name__ == "__main__":
    if "--full" in sys.argv:
        folder = Path(sys.argv[sys.argv.index("--full") + 1])
        folder.mkdir(parents=True)
        seconds = round(seconds_of(folder), 1)
        figures = {"all": seconds, "note": "two processes, from nothing"}
        SAVED.write_text(json.dumps(figures) + "\n")
    for row in run():
        print(f"{row['name']:<55} {row['value']:>10.4g} {row['unit']}")

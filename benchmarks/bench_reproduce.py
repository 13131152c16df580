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

from corrdp.reproduction import EXPERIMENTS, reproduce
from corrdp.reproduction._data import paper_rows
from corrdp.reproduction._descent import GramMoments, RowBlocks
from corrdp.reproduction._logistic_kernel import LogisticRows

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


def gram_against_rows():
    rows = paper_rows(EXPERIMENTS["synthetic"])
    table = rows.features, rows.labels, rows.counts
    coefs = np.zeros((rows.features.shape[1], N_MODELS))
    gram, blocks = GramMoments(*table), RowBlocks(*table, residual_bound=1e6)
    single = coefs.astype(np.float32)
    ratio = fastest(lambda: blocks.mean_gradient(single)) / fastest(
        lambda: gram.mean_gradient(coefs)
    )
    note = f"a step of {N_MODELS} models, 2,000 rows of 100 columns"
    return entry("least squares: rows / Gram matrix", ratio, "times", "> 1", note)


def repeated_against_counted():
    from corrdp.reproduction import load_sepsis_balanced

    table = load_sepsis_balanced()
    codes = table.frame.to_numpy(dtype=float)
    distinct, counts = np.unique(codes, axis=0, return_counts=True)
    coefs = np.zeros((3, N_MODELS), dtype=np.float32)
    ones = np.ones(len(codes))
    all_rows = RowBlocks(codes[:, :3], codes[:, 3], ones, residual_bound=None)
    few_rows = RowBlocks(
        distinct[:, :3], distinct[:, 3], counts.astype(float), residual_bound=None
    )
    ratio = fastest(lambda: all_rows.mean_gradient(coefs)) / fastest(
        lambda: few_rows.mean_gradient(coefs)
    )
    note = f"{len(codes):,} rows of balanced Sepsis, {len(distinct):,} distinct"
    return entry("repeated rows / counted rows", ratio, "times", "> 1", note)


def one_by_one_against_together():
    rows = paper_rows(EXPERIMENTS["adult"])
    table = rows.features, rows.labels, rows.counts
    kernel = LogisticRows.of(*table, rows.number_columns)
    blocks = RowBlocks(*table, residual_bound=None)
    coefs = np.zeros((rows.features.shape[1], N_MODELS), dtype=np.float32)
    one = np.ascontiguousarray(coefs[:, :1])
    kernel.mean_gradient(one)  # compiles
    together = fastest(lambda: kernel.mean_gradient(coefs)) / N_MODELS
    alone = fastest(lambda: kernel.mean_gradient(one))
    plain = fastest(lambda: blocks.mean_gradient(coefs), repeats=3) / N_MODELS
    note = f"a step on Adult, {together * 1e6:.0f} microseconds a model of {N_MODELS}"
    return [
        entry("logistic models one by one / together", alone / together, "times"),
        entry(
            "matrix products / compiled pass over sorted rows",
            plain / together,
            "times",
            "> 1",
            note,
        ),
    ]


def run():
    rows = []
    if SAVED.is_file():
        saved = json.loads(SAVED.read_text())
        rows.append(
            entry("reproduce all, 20 seeds", saved["all"], "s", "< 1200", saved["note"])
        )
    with tempfile.TemporaryDirectory() as folder:
        quick = seconds_of(Path(folder), quick=True)
    rows.append(entry("reproduce all --quick", quick, "s", "< 60", "two processes"))
    rows.append(gram_against_rows())
    rows.append(repeated_against_counted())
    return rows + one_by_one_against_together()


if __name__ == "__main__":
    if "--full" in sys.argv:
        folder = Path(sys.argv[sys.argv.index("--full") + 1])
        folder.mkdir(parents=True)
        seconds = round(seconds_of(folder), 1)
        figures = {"all": seconds, "note": "two processes, from nothing"}
        SAVED.write_text(json.dumps(figures) + "\n")
    for row in run():
        print(f"{row['name']:<55} {row['value']:>10.4g} {row['unit']}")

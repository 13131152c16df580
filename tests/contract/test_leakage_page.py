"""The page of leakage is of saved runs, and keeps what it says of buying distances."""

import json
from importlib import import_module
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[2] / "docs" / "results"
N_SEEDS = 10


def saved():
    return json.loads((RESULTS / "leakage_models.json").read_text(encoding="utf-8"))


def test_tables_are_rendered_from_the_saved_run():
    tools = import_module("bench_leakage_models")  # benchmarks are on the path of tests
    shown = (RESULTS / "leakage_models.inc").read_text(encoding="utf-8")
    assert shown == tools.render(saved()), "run bench_leakage_models.py --render"


def test_auto_is_never_worse_than_not_buying():
    """On all seven tables at three epsilons, ten paired seeds, within two errors."""
    tools = import_module("bench_leakage_models")
    runs = saved()
    for name in tools.TABLES:
        for epsilon in tools.EPSILONS:
            auto, nothing = (
                np.array(
                    [
                        runs[f"{name}|{epsilon}|{method}|{seed}"]["score"]
                        for seed in range(N_SEEDS)
                    ]
                )
                for method in (tools.AUTO, tools.NOTHING)
            )
            gain = auto - nothing
            error = gain.std(ddof=1) / np.sqrt(N_SEEDS)
            assert gain.mean() >= -2 * error, (name, epsilon)

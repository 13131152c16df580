"""Trace five walks through the library: which functions and files data meets.

``python docs/tools/trace_walks.py`` runs a small train, leakage release, query, network
fit and audit, and saves for each walk the files in the order in which they are met, how
many functions are called, how deep, how often what should be done once is done, and
for bounds of the gradient, how often for something else.
``docs/tools/write_architecture.py`` puts the figures on the page.
"""

import contextlib
import gc
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import _lru_cache_wrapper
from pathlib import Path
from types import FrameType
from typing import Any

import corrdp
from corrdp.cli import main
from corrdp.datasets import hospital_policy, hospital_policy_text, hospital_table

SAVED = Path(__file__).parents[1] / "results" / "walks.json"
HOUSE = str(Path(corrdp.__file__).parent)
ROWS = 600
# What a release should do once, or once per class.
BOUNDS = "GradientSensitivity.__init__"
WATCHED = {
    "neighbor_classes": "classes of neighbors",
    "class_epsilon": "epsilon of a class",
    BOUNDS: "sensitivity of the gradient",
    "read_table": "table read",
    "_plan_tables": "leakage release planned",
    "default_plan": "default rule",
    "plan_spending": "budget split",
    "plan_queries": "queries planned",
    "plan_network": "network planned",
    "gaussian_mu": "epsilon turned into mu",
    "allocate_noise": "noise allocated",
    "compose_epsilon": "epsilon composed",
}
BUDGET = ("--epsilon", "1", "--delta", "1e-6", "--seed", "3")
DATA = ("data.csv", "--policy", "policy.toml")
LEDGER = ("--ledger", "budget.ledger", "--ledger-epsilon", "9")


class Walk:
    """Counts the calls of functions of the library, and how they are nested."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self._depth = self.depth = 0
        self._bounded: set[object] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take one event of the interpreter."""
        del argument
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(HOUSE):
            return
        if event == "return":
            self._depth -= 1
            return
        self._depth += 1
        self.depth = max(self.depth, self._depth)
        name = code.co_qualname
        if name == BOUNDS:
            self._bounded.add(_asked(frame.f_locals))
        if not name.startswith("<") and "<locals>.<" not in name:
            file = code.co_filename.removeprefix(HOUSE).lstrip("/")
            self.calls[file, name] += 1

    def summary(self) -> dict[str, Any]:
        """Return what the page shows."""
        names: Counter[str] = Counter()
        for (_, name), count in self.calls.items():
            names[name] += count
        return {
            "functions": len(self.calls),
            "files": list(dict.fromkeys(file for file, _ in self.calls)),
            "depth": self.depth,
            "again": {words: names[n] for n, words in WATCHED.items() if names[n]},
            "distinct": {WATCHED[BOUNDS]: len(self._bounded)} if names[BOUNDS] else {},
        }


def _asked(given: dict[str, Any]) -> object:
    """Return all that bounds are computed from: equal only where they would be."""
    layout, reference = given["layout"], given["reference"]
    return (
        repr(given["loss"]),
        layout.groups,
        layout.column_scale.tobytes(),
        layout.column_offset.tobytes(),
        None if reference is None else reference.tobytes(),
        tuple(given["classes"]),
    )


def traced(action: Callable[[], object]) -> dict[str, Any]:
    """Return the walk of an action that was tried before: imports are done."""
    walk = Walk()
    sys.setprofile(walk)
    try:
        action()
    finally:
        sys.setprofile(None)
    return walk.summary()


def forget() -> None:
    """Empty caches of numbers, which a process that just began would have to fill.

    Code that was compiled stays: compiling is not part of a walk.
    """
    rooms = ("corrdp.accounting.", "corrdp.training._", "corrdp.training.sensitivity.")
    # By type: asking a dead weak reference for its class is an error.
    caches = [c for c in gc.get_objects() if type(c) is _lru_cache_wrapper]
    for cache in caches:
        if cache.__module__.startswith(rooms):
            cache.cache_clear()


def command(*words: str) -> None:
    """Run a command line and say nothing."""
    sys.argv = ["corrdp", *words]
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        main()


def network() -> None:
    """Fit a small network."""
    rows = hospital_table(ROWS)
    model = corrdp.MLPClassifier(hospital_policy(), epsilon=1.0, delta=1e-6)
    model.set_params(n_steps=5, hidden_units=(3,), random_state=0, fall_back=False)
    model.fit(rows)


def audit() -> None:
    """Attack the model that was trained, for as long as a fixed clock allows."""
    command("audit", "model", "--seed", "3", "--time-limit", "0.2", "--json")


def walks() -> dict[str, Any]:
    """Return all five, each in a folder of its own and after one rehearsal."""
    found = {}
    leakage = ("leakage", *DATA, "--source", "private", *BUDGET, *LEDGER)
    train = ("train", *DATA, "--model", "logistic", *BUDGET, "--out", "model")
    ask = ("query", *DATA, *BUDGET, "--ask", "mean(age)", "--ask", "count()")
    actions: dict[str, Callable[[], object]] = {
        "train": lambda: command(*train, "--json"),
        "leakage": lambda: command(*leakage, "--json"),
        "query": lambda: command(*ask, "--json"),
        "network fit": network,
        "audit": audit,
    }
    for name, action in actions.items():
        for last in (False, True):
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
                hospital_table(ROWS).to_csv("data.csv", index=False)
                Path("policy.toml").write_text(hospital_policy_text())
                if name == "audit":
                    command(*train)
                if last:
                    forget()
                    found[name] = traced(action)
                else:
                    action()
    return found


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SAVED
    result = walks()
    target.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for name, walk in result.items():
        print(name, walk["functions"], len(walk["files"]), walk["depth"], walk["again"])

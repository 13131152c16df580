"""Synthetic tables: error of 3-way marginals at equal epsilon, time and memory.

``python benchmarks/bench_synthesis.py`` runs every cell that the saved run does not
hold yet, writes ``docs/results/synthesis.json`` and the tables of the page. AIM comes
from ``dpmm`` in an environment of its own, because it pins old versions: name its
Python in ``CORRDP_AIM_PYTHON``; without it the saved AIM runs are kept.

A cell is keyed by table, epsilon, method, selection and seed, and says what
``selection="auto"`` comes to there, so that no run is made twice.

Error of a synthetic table: mean total variation distance to the private table over 100
triples of columns (all, if there are fewer), drawn once. All methods are under
replace-one neighbors at the same epsilon and delta. AIM is written for adding and
removing a record; replacing one moves a marginal by sqrt 2 instead of 1 and a score by
2 instead of 1, which costs 2 and 4 times its rho, so it is given rho / (0.9 * 2 + 0.1 *
4).
"""

import argparse
import fcntl
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rule_tables import FOREIGN_BINARY, FOREIGN_NUMBER, foreign_parts
from saved_tables import markdown_table

from corrdp import Synthesizer, estimate_leakage
from corrdp.mechanisms.noise import concentrated_rho
from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy

ROOT = Path(__file__).parents[1]
SAVED = ROOT / "docs" / "results" / "synthesis.json"
PAGE = ROOT / "docs" / "results" / "synthesis.inc"
DELTA = 1e-6
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
N_TRIPLES = 100
DECLARED = 0.3
# A fifth declared public is not in the private table: the rival gets the same rows.
METHODS = ("corr", "corr, public fifth", "standard", "standard, four fifths", "aim")
SELECTIONS = ("screen", "adaptive")
DATA = Path(os.environ.get("CORRDP_DATA_DIR", ROOT.parent / "shared" / "data"))


@dataclass(frozen=True)
class Problem:
    """A table with roles.

    Parameters
    ----------
    name : str
        Shown in the tables.
    source : str
        ``adult``, ``credit`` or a foreign table.
    sensitive : tuple of str
        Sensitive columns; all others are insensitive. A foreign table brings its own.
    protected : bool
        Whether the label is one more sensitive column.
    """

    name: str
    source: str
    sensitive: tuple[str, ...]
    protected: bool = False


PROBLEMS = (
    Problem("Adult, two sensitive", "adult", ("marital-status", "relationship")),
    Problem("Adult, race", "adult", ("race",)),
    Problem("Credit Card, three sensitive", "credit", ("SEX", "EDUCATION", "MARRIAGE")),
    Problem(
        "Adult, two sensitive, label protected",
        "adult",
        ("marital-status", "relationship"),
        protected=True,
    ),
    Problem(
        "Credit Card, three sensitive, label protected",
        "credit",
        ("SEX", "EDUCATION", "MARRIAGE"),
        protected=True,
    ),
    *(Problem(name, name, ()) for name in (*FOREIGN_BINARY, *FOREIGN_NUMBER)),
)


def load(source: str) -> tuple[pd.DataFrame, str]:
    """Return a table with public bounds in its attributes, and its label."""
    if source == "adult":
        frame = pd.read_csv(DATA / "adult.csv.gz")
        frame = frame[(frame != "?").all(axis=1)].drop_duplicates()
        return frame.drop(columns=["fnlwgt"]).reset_index(drop=True), "income"
    frame = pd.read_csv(DATA / "credit_card.csv.gz").drop(columns=["ID"])
    return frame, "default payment next month"


BOUNDS = {
    "age": (17, 90),
    "educational-num": (1, 17),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 4_500),
    "hours-per-week": (1, 99),
    "AGE": (20, 80),
    "LIMIT_BAL": (0, 1_000_000),
} | {
    f"{kind}{month}": (-50_000, 950_000) if kind == "BILL_AMT" else (0, 1_000_000)
    for kind in ("BILL_AMT", "PAY_AMT")
    for month in range(1, 7)
}


@functools.cache
def table_of(problem: Problem) -> tuple[pd.DataFrame, Policy]:
    """Return rows and policy, every insensitive column at the declared distance."""
    if problem.source in (*FOREIGN_BINARY, *FOREIGN_NUMBER):
        frame, policy = foreign_parts(problem.source)
        leakage = dict.fromkeys(policy.insensitive, DECLARED)
        return frame, policy.with_leakage(leakage)
    frame, label = load(problem.source)
    return frame, policy_of(problem, frame, label)


def policy_of(problem: Problem, frame: pd.DataFrame, label: str) -> Policy:
    """Return the policy: 16 bins for numbers, categories from public knowledge."""

    def domain(name: str) -> Any:
        if name in BOUNDS:
            return NumberDomain(*BOUNDS[name], bins=16)
        return CategoryDomain(tuple(sorted(map(str, frame[name].unique()))))

    return Policy(
        tuple(
            Feature(name, "sensitive", domain(name))
            if name in problem.sensitive
            else Feature(name, "insensitive", domain(name), leakage=DECLARED)
            for name in frame.columns
            if name != label
        ),
        label=Label(label, domain(label), float(problem.protected)),
    )


def three_way_error(policy: Policy, private: Any, synthetic: Any) -> float:
    """Return the mean total variation distance over the triples."""
    from corrdp.synthesis import TableColumns

    columns = TableColumns(policy, 16, {})
    rng = np.random.default_rng(0)
    triples = list(itertools.combinations(range(len(columns.names)), 3))
    n_chosen = min(N_TRIPLES, len(triples))
    chosen = [triples[i] for i in rng.choice(len(triples), n_chosen, replace=False)]
    codes = [columns.codes(table) for table in (private, synthetic)]
    errors = []
    for triple in chosen:
        shape = [columns.sizes[c] for c in triple]
        shares = [
            np.bincount(
                np.ravel_multi_index(tuple(own[:, c] for c in triple), shape),
                minlength=int(np.prod(shape)),
            )
            / len(own)
            for own in codes
        ]
        errors.append(0.5 * np.abs(shares[0] - shares[1]).sum())
    return float(np.mean(errors))


def cells(seeds: int) -> Iterator[tuple[Problem, float, str, str, int]]:
    """Yield every cell of the benchmark."""
    for problem, epsilon, method in itertools.product(PROBLEMS, EPSILONS, METHODS):
        if problem != kept_under(problem, method):
            continue
        selections = ("aim",) if method == "aim" else SELECTIONS
        for selection, seed in itertools.product(selections, range(seeds)):
            yield problem, epsilon, method, selection, seed


def key_of(
    problem: Problem, epsilon: float, method: str, selection: str, seed: int
) -> str:
    """Return the name of a cell in the saved run."""
    return f"{problem.name}|{epsilon}|{method}|{selection}|{seed}"


def kept_under(problem: Problem, method: str) -> Problem:
    """Return under which problem a run is kept.

    Ordinary DP sees no roles of columns, only whether the label is protected; AIM
    protects the label in any case.
    """
    if method.startswith("corr"):
        return problem
    return next(
        other
        for other in PROBLEMS
        if other.source == problem.source
        and (method == "aim" or other.protected == problem.protected)
    )


def run_cell(
    problem: Problem, epsilon: float, method: str, selection: str, seed: int
) -> dict[str, Any] | None:
    """Return error and seconds of one synthetic table; None if AIM is not there."""
    frame, policy = table_of(problem)
    leakage = None
    private = frame
    if method in ("corr, public fifth", "standard, four fifths"):
        shuffled = frame.sample(frac=1.0, random_state=seed)
        cut = len(frame) // 5
        private = shuffled[cut:].reset_index(drop=True)
        if method.startswith("corr"):
            leakage = estimate_leakage(shuffled[:cut], policy, source="public")
    started = time.perf_counter()
    result = {}
    if method == "aim":
        synthetic = _aim(policy, private, epsilon, seed)
        if synthetic is None:
            return None
    else:
        maker = Synthesizer(
            policy,
            epsilon=epsilon,
            delta=DELTA,
            leakage=leakage,
            method=method.split(",")[0],
            random_state=seed,
        )
        result["auto"] = maker.plan(len(private)).selection
        maker.selection = selection
        synthetic = maker.fit(private).sample(random_state=seed)
    result["seconds"] = time.perf_counter() - started
    result["error"] = three_way_error(policy, private, synthetic)
    return result


_AIM = """
import json, sys, numpy as np, pandas as pd
from dpmm.models.aim import AIM
path, rho, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
held = np.load(path)
frame = pd.DataFrame(held["codes"], columns=[str(i) for i in range(len(held["sizes"]))])
domain = {str(i): int(size) for i, size in enumerate(held["sizes"])}
model = AIM(epsilon=1.0, delta=1e-6, prng=np.random.RandomState(seed), degree=3,
            n_iters=200, max_model_size=2, domain=domain, n_jobs=1)
model.rho = rho / (0.9 * 2 + 0.1 * 4)
model.fit(frame)
np.save(path + ".out.npy", model.generate(len(frame))[list(frame.columns)].to_numpy())
"""


def _aim(policy: Policy, frame: pd.DataFrame, epsilon: float, seed: int) -> Any:
    python = os.environ.get("CORRDP_AIM_PYTHON")
    if python is None:
        return None
    from corrdp.synthesis import TableColumns

    columns = TableColumns(policy, 16, {})
    rho = concentrated_rho(epsilon=epsilon, delta=DELTA)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "codes.npz")
        np.savez(path, codes=columns.codes(frame), sizes=np.array(columns.sizes))
        command = [python, "-W", "ignore", "-c", _AIM, path, repr(rho), str(seed)]
        subprocess.run(command, check=True, capture_output=True)
        drawn = np.load(path + ".out.npy")
    return pd.DataFrame(columns.values(drawn, np.random.default_rng(seed)))


def page(saved: dict[str, Any]) -> str:
    """Return the tables of the documentation page."""
    lines = [
        "Mean error of 3-way marginals (total variation), replace-one, delta 1e-6; "
        "mean, standard error and number of seeds. `corr .3`: leakage of every "
        "insensitive column declared .3; `corr, fifth`: upper bounds from a fifth of "
        "the rows, declared public and left out of the private table; both with the "
        "default selection (s: screen, a: adaptive). `ordinary`: the same code under "
        "ordinary DP, the better of both selections; `on 4/5`: of the rows that the "
        "public fifth leaves. AIM: `dpmm` 0.1.9, degree 3, 2 MB. Ratios: `corr .3` to "
        "the better of ordinary and AIM, `corr, fifth` to ordinary on the same rows.",
        "",
    ]
    header = ["table", "epsilon", "corr .3", "ordinary", "AIM", "ratio"]
    header += ["corr, fifth", "on 4/5", "ratio"]
    rows = []
    for problem, epsilon in itertools.product(PROBLEMS, EPSILONS):
        own = Cell(saved, problem, epsilon)
        if own.by_default("corr") is None or own.best("standard") is None:
            continue
        declared = own.by_default("corr"), own.best("standard", "aim")
        fifth = own.by_default("corr, public fifth"), own.best("standard, four fifths")
        rows.append(
            [
                problem.name,
                f"{epsilon:g}",
                _shown(declared[0]) + own.mark("corr"),
                _shown(own.best("standard")),
                _shown(own.best("aim")),
                _ratio(*declared),
                _shown(fifth[0]) + own.mark("corr, public fifth"),
                _shown(fifth[1]),
                _ratio(*fifth),
            ]
        )
    return "\n".join([*lines, markdown_table(header, rows)])


class Cell:
    """Saved errors of one table at one epsilon."""

    def __init__(self, saved: dict[str, Any], problem: Problem, epsilon: float) -> None:
        self.saved, self.problem, self.epsilon = saved, problem, epsilon

    def _runs(self, method: str, selection: str) -> list[dict[str, Any]]:
        held = kept_under(self.problem, method)
        prefix = f"{held.name}|{self.epsilon}|{method}|{selection}|"
        return [run for key, run in self.saved.items() if key.startswith(prefix)]

    def _errors(self, method: str, selection: str) -> Any:
        errors = [run["error"] for run in self._runs(method, selection)]
        return np.array(errors) if errors else None

    def _default(self, method: str) -> str | None:
        for selection in SELECTIONS:
            for run in self._runs(method, selection):
                return str(run["auto"])
        return None

    def by_default(self, method: str) -> Any:
        """Return the errors with the selection that the default comes to."""
        selection = self._default(method)
        return None if selection is None else self._errors(method, selection)

    def mark(self, method: str) -> str:
        """Return the first letter of that selection."""
        found = self.by_default(method)
        return "" if found is None else f" {str(self._default(method))[0]}"

    def best(self, *methods: str) -> Any:
        """Return the errors of the method and selection with the least mean."""
        found = [
            self._errors(method, selection)
            for method in methods
            for selection in (*SELECTIONS, "aim")
        ]
        return min(
            (errors for errors in found if errors is not None),
            key=lambda errors: float(errors.mean()),
            default=None,
        )


def scatter(errors: Any) -> float:
    """Return the standard error of a mean; 0 of a single run, which has none."""
    if len(errors) == 1:
        return 0.0
    return float(errors.std(ddof=1) / np.sqrt(len(errors)))


def _ratio(own: Any, rival: Any) -> str:
    if own is None or rival is None:
        return "-"
    ratio = own.mean() / rival.mean()
    if min(len(own), len(rival)) == 1:
        return f"{ratio:.2f}"
    relative = [scatter(errors) / errors.mean() for errors in (own, rival)]
    return f"{ratio:.2f} ± {ratio * np.hypot(*relative):.2f}"


def _shown(errors: Any) -> str:
    if errors is None:
        return "-"
    mean = f"{errors.mean():.4f}"
    if len(errors) == 1:
        return f"{mean} (1)"
    return f"{mean} ± {scatter(errors):.4f} ({len(errors)})"


_MADE_UP = """
import numpy as np, pandas as pd
from corrdp.policy import CategoryDomain, Feature, Label, Policy
n_rows, n_columns, epsilon = 45_000, int(sys.argv[1]), 1.
rng = np.random.default_rng(0)
hidden = rng.integers(0, 6, n_rows)
sizes = [6 + i % 8 for i in range(n_columns)]
frame = pd.DataFrame({
    f"c{i}": np.where(rng.random(n_rows) < .5, hidden, rng.integers(0, size, n_rows))
    .astype(str) for i, size in enumerate(sizes)})
levels = tuple(map(str, range(14)))
policy = Policy(
    tuple(Feature(f"c{i}", "sensitive" if i < 2 else "insensitive",
                  CategoryDomain(levels[:sizes[i]]), leakage=None if i < 2 else .3)
          for i in range(n_columns - 1)),
    label=Label(f"c{n_columns - 1}", CategoryDomain(levels[:sizes[-1]]), 0.))
"""
_ADULT = """
from bench_synthesis import PROBLEMS, table_of
frame, policy = table_of(PROBLEMS[0])
epsilon = float(sys.argv[1])
"""
_TIMED = """
import resource, sys, time
from corrdp import Synthesizer
{table}
started = time.perf_counter(), time.process_time()
Synthesizer(policy, epsilon=epsilon, delta=1e-6, random_state=0).fit(frame).sample()
print(time.perf_counter() - started[0], time.process_time() - started[1],
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def run() -> list[dict[str, Any]]:
    """Return time and memory by number of columns, and on Adult by epsilon."""
    small = "15 s, 500 MB"
    made_up = [
        _timed(f"45,000 rows, {number} columns", _MADE_UP, number, target)
        for number, target in ((7, ""), (14, small), (30, "120 s"))
    ]
    return made_up + [
        _timed(f"Adult, 14 columns, epsilon {epsilon:g}", _ADULT, epsilon, small)
        for epsilon in EPSILONS
    ]


def _timed(name: str, table: str, argument: float, target: str) -> dict[str, Any]:
    """Return processor time and memory of a fit in a process of its own."""
    command = [sys.executable, "-c", _TIMED.format(table=table), str(argument)]
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    passed, used, memory = map(float, done.stdout.split())
    return {
        "name": f"fit and sample, {name}",
        "value": used,
        "unit": "s of the processor",
        "target": target,
        "note": f"{passed:.1f} s passed; peak memory {memory:.0f} MB",
    }


def main() -> None:
    """Run what is missing, save after every cell, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epsilons", default="0.1,0.3,1.0,3.0,10.0")
    parser.add_argument("--methods", default=";".join(METHODS))
    parser.add_argument("--selections", default=";".join((*SELECTIONS, "aim")))
    parser.add_argument("--problems", default=";".join(p.name for p in PROBLEMS))
    chosen = parser.parse_args()
    epsilons = [float(text) for text in chosen.epsilons.split(",")]
    for cell in cells(chosen.seeds):
        problem, epsilon, method, selection, _ = cell
        wanted = (
            epsilon in epsilons
            and method in chosen.methods.split(";")
            and selection in chosen.selections.split(";")
            and problem.name in chosen.problems.split(";")
        )
        if not wanted or key_of(*cell) in _saved():
            continue
        result = run_cell(*cell)
        if result is not None:
            _save(key_of(*cell), result)
    PAGE.write_text(page(_saved()), encoding="utf-8")


def _saved() -> dict[str, Any]:
    return json.loads(SAVED.read_text()) if SAVED.exists() else {}


def _save(key: str, result: dict[str, Any]) -> None:
    """Add one cell to the saved run, which another process may be adding to."""
    with (Path(tempfile.gettempdir()) / "corrdp-bench-synthesis").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        saved = _saved() | {key: result}
        written = SAVED.with_suffix(".new")
        written.write_text(json.dumps(dict(sorted(saved.items())), indent=1))
        written.replace(SAVED)
    print(key, result, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

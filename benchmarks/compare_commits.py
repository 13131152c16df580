"""Compare the measurements of today's tree with those of an earlier commit.

``python benchmarks/compare_commits.py COMMIT [name ...]`` runs each benchmark seven
times on both trees, one after the other and in turn, so that a busy machine slows both.
Only what both trees measure under the same name is compared; of ratios against an
alternative in the same run, and of times. ``--render`` writes the table anew.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saved_tables import markdown_table, read_figures, save_figures, save_table

ROOT = Path(__file__).parents[1]
NAME = "house_ratios"
BENCHMARKS = ("accounting", "allocation", "cli", "training", "leakage", "networks")
N_RUNS = 7
TIMES = ("microseconds", "ms", "seconds", "s", "us")
RATIOS = ("times", "x", "ratio")
BETTER_IF_LARGE = (
    "/ corrdp",
    "over ours",
    "/ plan, dense",
    "/ update",
    "/ compiled step",
    "/ together",
    "/ standard",
)
"""How names of ratios end that divide by our own time."""

MEASURE = """
import json, sys
sys.path[:0] = [sys.argv[1]]
module = __import__(sys.argv[2])
rows = [[row["name"], row["value"], row["unit"]] for row in module.run()]
print("FIGURES" + json.dumps(rows))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", nargs="?")
    parser.add_argument("names", nargs="*", default=list(BENCHMARKS))
    parser.add_argument("--runs", type=int, default=N_RUNS)
    parser.add_argument("--render", action="store_true")
    given = parser.parse_args()
    if not given.render:
        if given.commit is None:
            parser.error("name the commit to compare with")
        for name in given.names:
            _save(name, given.commit, compared(name, given.commit, given.runs))
    save_table(NAME, page(read_figures(NAME)))


def compared(name: str, commit: str, n_runs: int) -> list[dict[str, Any]]:
    """Return medians of both trees for all that both measure."""
    runs: dict[str, list[dict[str, tuple[float, str]]]] = {"before": [], "now": []}
    with _tree_of(commit) as before:
        trees = {"before": before, "now": ROOT}
        for tree in trees.values():  # compiled code is cached by the first run
            measured(tree, name)
        for _ in range(n_runs):
            for which, tree in trees.items():
                runs[which].append(measured(tree, name))
    shared = [row for row in runs["now"][0] if row in runs["before"][0]]
    return [
        {
            "name": row,
            "unit": runs["now"][0][row][1],
            **{
                which: statistics.median(run[row][0] for run in several)
                for which, several in runs.items()
            },
        }
        for row in shared
        if runs["now"][0][row][1] in (*TIMES, *RATIOS)
    ]


def measured(tree: Path, name: str) -> dict[str, tuple[float, str]]:
    """Run a benchmark of a tree in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tree / "benchmarks"), f"bench_{name}"],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    line = next(x for x in done.stdout.splitlines() if x.startswith("FIGURES"))
    rows = json.loads(line.removeprefix("FIGURES"))
    return {row: (float(value), unit) for row, value, unit in rows}


@contextmanager
def _tree_of(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "-q", tree, commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True)


def _save(name: str, commit: str, rows: list[dict[str, Any]]) -> None:
    try:
        saved = read_figures(NAME)
    except FileNotFoundError:
        saved = {}
    save_figures(NAME, saved | {name: {"commit": commit, "rows": rows}})


def slower(row: dict[str, Any]) -> float:
    """Return by which factor today's code is slower; below 1 if it is faster."""
    large_is_good = row["unit"] in RATIOS and row["name"].endswith(BETTER_IF_LARGE)
    before, now = row["before"], row["now"]
    return float(before / now if large_is_good else now / before)


def page(saved: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    rows = [
        [
            name,
            row["name"],
            f"{row['before']:.4g}",
            f"{row['now']:.4g} {row['unit']}",
            f"{slower(row):.2f}",
        ]
        for name, run in saved.items()
        for row in run["rows"]
    ]
    header = ["benchmark", "what", "before", "now", "slower by"]
    return markdown_table(header, rows)


if __name__ == "__main__":
    main()

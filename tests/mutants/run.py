"""Plant each bug in a copy of the source and see whether its tests notice.

``python tests/mutants/run.py`` tries all; ``--only NAME`` or ``--area AREA`` some;
``--quick --sample 6`` the fixed set and six more, chosen by the hash of the source.
Verdicts: *killed* (a test failed that passes on the clean tree), *SURVIVED* (all tests
passed), *BROKEN* (no verdict: nothing ran, the edit is not a program, or the test fails
on the clean tree too). Exit code 1 unless all are killed.
"""

import argparse
import json
import os
import queue
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from mutants.planted_bugs import (  # noqa: E402
    ROOT,
    PlantedBug,
    load_bugs,
    sample_bugs,
    tree_hash,
)
from mutants.trial import Outcome, Workplace, workplaces  # noqa: E402

SAVED = Path("docs/results/mutants.json")
KILLED, SURVIVED, BROKEN = "killed", "SURVIVED", "BROKEN"


@dataclass(frozen=True)
class Verdict:
    """What became of one planted bug; `detail` names the test or the trouble."""

    bug: PlantedBug
    verdict: str
    detail: str
    seconds: float


def try_bugs(
    bugs: Sequence[PlantedBug],
    *,
    root: Path = ROOT,
    n_jobs: int = 1,
    tell: Callable[[Verdict], None] = lambda verdict: None,
) -> tuple[Verdict, ...]:
    """Try each bug against its tests, then the tests that failed on the clean tree.

    Every bug is checked against the tree first; `PlantedBugError` if one does not fit.
    """
    for bug in bugs:
        bug.check(root)
    with workplaces(root, min(n_jobs, max(1, len(bugs)))) as places:
        free: queue.SimpleQueue[Workplace] = queue.SimpleQueue()
        for place in places:
            free.put(place)

        def attempt(bug: PlantedBug) -> tuple[Verdict, Outcome]:
            place, began = free.get(), time.monotonic()
            try:
                outcome = place.plant(bug)
            finally:
                free.put(place)
            verdict = _first_verdict(bug, outcome, time.monotonic() - began)
            tell(verdict)
            return verdict, outcome

        with ThreadPoolExecutor(len(places)) as pool:
            tried = list(pool.map(attempt, bugs))
        guilty = sorted({test for _, outcome in tried for test in outcome.failed})
        clean = places[0].clean(guilty) if guilty else Outcome(None, 0, {})
    return tuple(_second_verdict(verdict, outcome, clean) for verdict, outcome in tried)


def _first_verdict(bug: PlantedBug, outcome: Outcome, seconds: float) -> Verdict:
    if outcome.problem is not None:
        return Verdict(bug, BROKEN, outcome.problem, seconds)
    if not outcome.failed:
        return Verdict(bug, SURVIVED, f"{outcome.n_ran} tests passed", seconds)
    test, kind = next(iter(outcome.failed.items()))
    return Verdict(bug, KILLED, f"{test} ({kind})", seconds)


def _second_verdict(verdict: Verdict, outcome: Outcome, clean: Outcome) -> Verdict:
    """Take back a kill by a test that fails, or does not run, without the bug."""
    if verdict.verdict != KILLED:
        return verdict
    if clean.problem is not None and not clean.failed:
        return replace(verdict, verdict=BROKEN, detail=f"clean tree: {clean.problem}")
    also = sorted(set(outcome.failed) & set(clean.failed))
    if also:
        return replace(
            verdict, verdict=BROKEN, detail=f"fails on the clean tree too: {also[0]}"
        )
    return verdict


def choose(bugs: Sequence[PlantedBug], arguments: argparse.Namespace) -> list:
    """Return the bugs that the options ask for, in the order of the files."""
    known = {bug.name for bug in bugs}
    unknown = sorted(set(arguments.only) - known)
    if unknown:
        raise SystemExit(f"no planted bug is called {', '.join(unknown)}")
    wanted = [
        bug
        for bug in bugs
        if (not arguments.only or bug.name in arguments.only)
        and (not arguments.area or bug.area in arguments.area)
    ]
    if not arguments.quick and arguments.sample is None:
        return wanted
    chosen = {bug.name for bug in wanted if bug.quick} if arguments.quick else set()
    others = [bug for bug in wanted if bug.name not in chosen]
    seed = arguments.sample_seed or tree_hash()
    chosen |= {bug.name for bug in sample_bugs(others, arguments.sample or 0, seed)}
    return [bug for bug in wanted if bug.name in chosen]


def table(verdicts: Sequence[Verdict]) -> str:
    """Return what the run prints: one line per bug, then the count."""
    rows = [("area", "bug", "verdict", "seconds", "by")]
    rows += [
        (v.bug.area, v.bug.name, v.verdict, f"{v.seconds:.0f}", v.detail)
        for v in verdicts
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = [
        "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[4]])
        for row in rows
    ]
    n_killed = sum(v.verdict == KILLED for v in verdicts)
    return "\n".join([*lines, f"{n_killed} of {len(verdicts)} killed"])


def save(verdicts: Sequence[Verdict], bugs: Sequence[PlantedBug], path: Path) -> None:
    """Merge a run into the saved one; bugs that are no longer planted are dropped."""
    kept = {}
    if path.is_file():
        kept = {row["name"]: row for row in json.loads(path.read_text("utf-8"))}
    for found in verdicts:
        kept[found.bug.name] = {"verdict": found.verdict, "by": found.detail}
    rows = [
        {
            "name": bug.name,
            "area": bug.area,
            "breaks": bug.breaks,
            "file": bug.file,
            "verdict": kept[bug.name]["verdict"],
            "by": kept[bug.name]["by"],
        }
        for bug in bugs
        if bug.name in kept
    ]
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--area", nargs="+", default=[], metavar="AREA")
    parser.add_argument("--quick", action="store_true", help="the fixed quick set")
    parser.add_argument("--sample", type=int, metavar="N", help="N more, by hash")
    parser.add_argument("--sample-seed", help="instead of the hash of the source")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--save", action="store_true", help=f"merge into {SAVED}")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    arguments = parse(words)
    bugs = load_bugs()
    chosen = choose(bugs, arguments)

    def tell(verdict: Verdict) -> None:
        print(f"{verdict.verdict:8} {verdict.bug.name}", file=sys.stderr, flush=True)

    verdicts = try_bugs(chosen, n_jobs=arguments.jobs, tell=tell)
    print(table(verdicts))
    if arguments.save:
        save(verdicts, bugs, ROOT / SAVED)
    return int(any(v.verdict != KILLED for v in verdicts))


if __name__ == "__main__":
    sys.exit(main())

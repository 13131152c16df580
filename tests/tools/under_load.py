"""Run tests beside busy loops, to show that none of them looks at the clock.

``python tests/tools/under_load.py`` runs, ten times, those that once failed or could
fail on a busy machine; ``--all`` runs every test once, ``--all --versions NAME`` by way
of requirements/try_versions.py, which saves the installed versions too. Counts go to
docs/results/test_load.json.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAVED = ROOT / "docs" / "results" / "test_load.json"
TRY_VERSIONS = ROOT / "requirements" / "try_versions.py"
N_LOOPS = 4
N_WORKERS = 8  # beside the loops: tests get two thirds of the machine
N_REPEATS = 10
# Tests that had a deadline, a health check that measures time, or a limit in seconds.
MEASURED_TIME = (
    "tests/property/test_accounting_properties.py::test_saved_events_load_equal",
    "tests/property/test_allocation_properties.py",
    "tests/property/test_policy_properties.py",
    "tests/property/test_theory_properties.py",
    "tests/unit/auditing/test_audit.py",
    "tests/unit/auditing/test_statistics.py",
    "tests/unit/auditing/test_command.py::test_a_time_limit_covers_the_search_and_is_told",
    "tests/unit/training/test_epochs.py",
    "tests/unit/training/test_losses.py",
    "tests/end_to_end/test_audit_mutations.py",
    "tests/end_to_end/test_audit_adapters.py"
    "::test_a_time_limit_ends_the_search_and_leaves_valid_verdicts",
    "tests/end_to_end/test_command_refusals.py::test_an_interrupted_run_leaves_nothing",
    "tests/end_to_end/test_ledger_concurrency.py",
    "tests/end_to_end/test_ledger_crash.py",
    "tests/end_to_end/test_report_privacy.py",
)


@contextmanager
def busy_loops(count: int = N_LOOPS) -> Iterator[None]:
    """Keep processors busy while the body runs."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run(
    tests: tuple[str, ...], repeats: int, versions: str | None = None
) -> Iterator[int]:
    """Yield the exit code of each repetition."""
    command = [sys.executable, "-m", "pytest", "-q"]
    if versions is not None:
        command = [sys.executable, str(TRY_VERSIONS), versions]
    command += ["-n", str(N_WORKERS), *tests]
    with busy_loops():
        for _ in range(repeats):
            yield subprocess.run(command, cwd=ROOT).returncode


def save(name: str, codes: list[int], tests: tuple[str, ...]) -> None:
    """Write how many repetitions there were so far, and how many passed."""
    saved = json.loads(SAVED.read_text("utf-8")) if SAVED.is_file() else {}
    saved[name] = {
        "busy_loops": N_LOOPS,
        "repetitions": len(codes),
        "passed": codes.count(0),
        "workers": N_WORKERS,
        "tests": list(tests),
    }
    SAVED.write_text(json.dumps(saved, indent=1, sort_keys=True) + "\n", "utf-8")


def main() -> int:
    """Run, save, and return 1 if a repetition failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every test, once")
    parser.add_argument("--versions", help="name under which they are saved")
    chosen = parser.parse_args()
    name = "every test" if chosen.all else "tests that measured time"
    tests = () if chosen.all else MEASURED_TIME
    codes: list[int] = []
    for code in run(tests, 1 if chosen.all else N_REPEATS, chosen.versions):
        codes.append(code)
        save(name, codes, tests)
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())

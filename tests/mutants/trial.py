"""Copies of the tree in which planted bugs are tried, one after the other."""

import compileall
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mutants.planted_bugs import PlantedBug
from mutants.recorder import OUTPUT, SOURCE

# A hanging bug must not stop the run; no verdict depends on it on a working tree.
LONGEST_TRIAL_SECONDS = 900
# Failures that say that the edit is not a program, rather than a wrong one.
_NOT_A_PROGRAM = {
    *("ImportError", "ModuleNotFoundError", "NameError", "SyntaxError"),
    *("IndentationError", "UnboundLocalError", "TypingError"),
}
_TESTS = Path(__file__).parents[1]  # where pytest finds the recorder
_COPIED = ("src", "tests", "pyproject.toml")
_LEFT_OUT = {".git", ".venv", "dist", "build", "demo-output", ".hypothesis"}


@dataclass(frozen=True)
class Outcome:
    """What one pytest process said.

    Attributes
    ----------
    problem : str or None
        Why the process gives no verdict, if it does not.
    n_ran : int
        Tests whose body was run.
    failed : dict of str
        Kind of error of each failed test, by node id.
    """

    problem: str | None
    n_ran: int
    failed: dict[str, str]


class Workplace:
    """A copy of the tree; bugs are made and undone in it, never in the original.

    Only `src` and `tests` are copied. Bytecode is checked by the hash of its source, so
    that an edit of equal length within a second is still seen.
    """

    def __init__(self, original: Path, folder: Path) -> None:
        self.original = original
        self.folder = folder
        self.root = folder / "tree"
        self._record = folder / "record.json"
        self._machine_code = folder / "numba"
        self.root.mkdir(parents=True)
        (folder / "tmp").mkdir()
        for entry in original.iterdir():
            target = self.root / entry.name
            if entry.name not in _COPIED:
                if entry.name not in _LEFT_OUT:
                    target.symlink_to(entry)
            elif entry.is_dir():
                shutil.copytree(
                    entry, target, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copy2(entry, target)
        compileall.compile_dir(
            self.root / "src",
            quiet=2,
            invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
        )

    def clean(self, tests: Iterable[str]) -> Outcome:
        """Run tests against the source as it is."""
        return self._run(list(tests), stop_at_first=False, machine_code="numba")

    def plant(self, bug: PlantedBug) -> Outcome:
        """Make one edit, run its tests until one fails, undo the edit."""
        # Compiled code of other files may hold what the edit changes, by inlining.
        near = bug.file in compiled_files(self.original)
        machine_code = "numba-once" if near else "numba"
        bug.apply(self.root)
        try:
            return self._run(
                list(bug.tests), stop_at_first=True, machine_code=machine_code
            )
        finally:
            shutil.copy2(self.original / bug.file, self.root / bug.file)
            if near:
                shutil.rmtree(self.folder / machine_code, ignore_errors=True)

    def environment(self, machine_code: str) -> dict[str, str]:
        """Return variables under which every process imports the copied source."""
        changed = {
            "PYTHONPATH": os.pathsep.join([str(self.root / "src"), str(_TESTS)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": str(self.folder / machine_code),
            "TMPDIR": str(self.folder / "tmp"),
            OUTPUT: str(self._record),
            SOURCE: str(self.root / "src"),
        }
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        dropped = ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "HYPOTHESIS_PROFILE")
        kept = {k: v for k, v in os.environ.items() if k not in dropped}
        return {**threads, **kept, **changed}

    def _run(
        self, tests: list[str], *, stop_at_first: bool, machine_code: str
    ) -> Outcome:
        self._record.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "mutants.recorder", "-n0", "--tb=no"]
        command += ["-x"] * stop_at_first
        try:
            done = subprocess.run(
                [*command, *tests],
                cwd=self.root,
                env=self.environment(machine_code),
                capture_output=True,
                text=True,
                timeout=LONGEST_TRIAL_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Outcome(f"no end after {LONGEST_TRIAL_SECONDS} s", 0, {})
        if not self._record.is_file():
            return Outcome(f"pytest stopped: {_last_line(done)}", 0, {})
        return _outcome(json.loads(self._record.read_text(encoding="utf-8")))


@contextmanager
def workplaces(original: Path, count: int) -> Iterator[list[Workplace]]:
    """Provide copies of the tree, and remove them."""
    with tempfile.TemporaryDirectory(prefix="corrdp-mutants-") as folder:
        yield [Workplace(original, Path(folder) / str(i)) for i in range(count)]


def compiled_files(root: Path) -> set[str]:
    """Return source files that numba compiles, and those whose values they freeze."""
    sources = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in (root / "src").rglob("*.py")
    }
    compiled = {
        file for file, text in sources.items() if re.search("from numba|@njit", text)
    }
    imported = {
        module
        for file in compiled
        for module in re.findall(r"^from (corrdp[\w.]+) import", sources[file], re.M)
    }
    for file in sources:
        module = file.removeprefix("src/").removesuffix(".py").replace("/", ".")
        if any(module == name or module.startswith(name + ".") for name in imported):
            compiled.add(file)
    return compiled


def _outcome(record: dict[str, object]) -> Outcome:
    failed, ran = record["failed"], record["ran"]
    assert isinstance(failed, dict)
    assert isinstance(ran, list)
    wrong = sorted(set(failed.values()) & _NOT_A_PROGRAM)
    problem = None
    if record["collection_errors"]:
        problem = f"tests cannot be collected: {record['collection_errors']}"
    elif wrong:
        problem = f"not a program: {', '.join(wrong)}"
    elif not ran and not failed:
        problem = "no test ran"
    return Outcome(problem, len(ran), failed)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [*done.stderr.splitlines(), *done.stdout.splitlines()]
    return next((line for line in reversed(lines) if line.strip()), "no output")

"""Run the tests with the installed versions and save what was tested.

``PYTHON requirements/try_versions.py NAME [PYTEST OPTIONS]``: versions and counts of
tests go to docs/results/test_versions.json under the name; no dates, so that equal
runs leave equal files.
"""

import json
import platform
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from importlib import metadata
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

from resolve import EXTRAS, NOT_BOUNDED, requirements  # noqa: E402

ROOT = Path(__file__).parents[1]
SAVED = ROOT / "docs" / "results" / "test_versions.json"


def counts(report: Path) -> dict[str, int]:
    """Return how many tests passed, failed and were skipped."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in suites:
        for key in total:
            total[key] += int(suite.attrib.get(key, 0))
    failed = total["failures"] + total["errors"]
    return {
        "passed": total["tests"] - failed - total["skipped"],
        "failed": failed,
        "skipped": total["skipped"],
    }


def versions() -> dict[str, str]:
    """Return the installed versions of what the project asks for."""
    extras = tuple(extra for extra in EXTRAS if extra not in NOT_BOUNDED)
    names = sorted({name for name, _ in requirements(extras)})
    return {name: metadata.version(name) for name in names}


def main(name: str, *options: str) -> int:
    """Run pytest, save what it found, return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}"]
        code = subprocess.run([*command, *options], cwd=ROOT).returncode
        if not report.is_file():
            return code
        found = counts(report)
    runs = json.loads(SAVED.read_text("utf-8")) if SAVED.is_file() else {}
    runs[name] = {
        "python": platform.python_version(),
        "options": " ".join(options),
        "tests": found,
        "versions": versions(),
    }
    SAVED.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n", "utf-8")
    return code


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(*sys.argv[1:]))

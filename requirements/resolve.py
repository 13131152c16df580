"""Write the files that fix or bound the versions of the test environment.

``python requirements/resolve.py lock`` asks pip for the newest versions that fit
together and writes them to test.lock; ``python requirements/resolve.py oldest`` writes
the lower bounds of pyproject.toml to oldest.txt. Neither installs anything.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = HERE.parent / "pyproject.toml"
LOCK = HERE / "test.lock"
OLDEST = HERE / "oldest.txt"
# One pinned build for tests; the torch extra itself admits every current release.
TORCH = "torch==2.13.0"
# Installed without what they depend on, which would replace pinned packages.
ALONE = ("opacus==1.6.0", "opt_einsum==3.4.0")
EXTRAS = (
    *("dask", "docs", "fast", "files", "lint", "ray", "report", "reproduce", "spark"),
    *("sql", "studio", "test", "torch"),
)
# Of the time of the oldest typer: newer ones warn under it, and tests allow no warning.
BESIDE_OLDEST = ("click==8.1.8",)
# Tools that check or describe the code are no part of what it runs with; engines are
# supported in the versions that were tried, which need newer packages than others do.
NOT_BOUNDED = {"bench", "dask", "docs", "lint", "ray", "spark"}


def requirements(extras: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield name and lower bound of what the project and its extras ask for.

    >>> dict(requirements(()))["scikit-learn"] >= "1.6"
    True
    """
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    known = [extra for extra in extras if extra in optional]
    for line in [*project["dependencies"], *(r for e in known for r in optional[e])]:
        found = re.fullmatch(r"([\w-]+)>=([\w.]+)", line)
        if found is None:
            raise SystemExit(f"{line!r} is not of the form name>=version")
        yield found[1], found[2]


def lower_bounds() -> str:
    """Return constraints that admit the oldest supported versions alone."""
    bounds: dict[str, str] = {}
    for name, version in requirements(
        tuple(extra for extra in EXTRAS if extra not in NOT_BOUNDED)
    ):
        if bounds.setdefault(name, version) != version:
            raise SystemExit(f"{name} has two lower bounds: {bounds[name]}, {version}")
    del bounds["torch"]
    lines = sorted([*(f"{name}=={v}" for name, v in bounds.items()), *BESIDE_OLDEST])
    return "\n".join(["# Lower bounds of pyproject.toml: make oldest", *lines, ""])


def newest_versions() -> str:
    """Return the newest versions that fit together, as pip resolves them."""
    known = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    extras = ",".join(extra for extra in EXTRAS if extra in known)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
    command += ["--ignore-installed", "--report", "-", TORCH, f".[{extras}]"]
    printed = subprocess.run(
        command, cwd=PROJECT.parent, check=True, capture_output=True, text=True
    ).stdout
    installed = json.loads(printed)["install"]
    versions = {
        item["metadata"]["name"].lower().replace("_", "-"): item["metadata"]["version"]
        for item in installed
    }
    del versions["corrdp"]
    # The local part says where a build comes from, which is each machine's own affair.
    lines = [f"{name}=={v.split('+')[0]}" for name, v in versions.items()]
    lines = sorted({*lines, *ALONE})
    return "\n".join(["# The test environment: make lock", *lines, ""])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["lock"]:
            LOCK.write_text(newest_versions(), encoding="utf-8")
        case ["oldest"]:
            OLDEST.write_text(lower_bounds(), encoding="utf-8")
        case _:
            raise SystemExit(__doc__)

"""Versions of the test environment: complete, within bounds, of no machine's own."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESOLVE = runpy.run_path(str(ROOT / "requirements" / "resolve.py"))
LOAD = runpy.run_path(str(ROOT / "tests" / "tools" / "under_load.py"))


def locked():
    lines = RESOLVE["LOCK"].read_text(encoding="utf-8").splitlines()[1:]
    return dict(line.split("==") for line in lines)


def as_numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def test_the_lock_names_versions_alone():
    for name, version in locked().items():
        assert re.fullmatch(r"[\w-]+", name)
        assert re.fullmatch(r"\d[\w.]*", version)


def test_the_lock_keeps_the_declared_lower_bounds():
    versions = locked()
    for name, lower in RESOLVE["requirements"](RESOLVE["EXTRAS"]):
        assert as_numbers(versions[name]) >= as_numbers(lower), name
    pinned = (RESOLVE["TORCH"], *RESOLVE["ALONE"])
    assert {line.split("==")[0]: line.split("==")[1] for line in pinned}.items() <= (
        versions.items()
    )


def test_the_oldest_versions_are_the_declared_lower_bounds():
    text = RESOLVE["OLDEST"].read_text(encoding="utf-8")
    assert text == RESOLVE["lower_bounds"](), "run make oldest"


@pytest.mark.parametrize("target", ["demo", "dev"])
def test_environments_are_made_with_the_lock(target):
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert RESOLVE["LOCK"].relative_to(ROOT).as_posix() in text
    recipe = text.split(f"$(VENV)/.{target}:", 1)[1].split("\n\n", 1)[0]
    installs = [line for line in recipe.splitlines() if "pip install" in line]
    assert installs
    assert all("--constraint $(LOCK)" in line for line in installs)


def test_tests_that_are_run_under_load_exist():
    for test in LOAD["MEASURED_TIME"]:
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file()
        assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8")

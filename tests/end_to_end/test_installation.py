"""The library works with nothing but what it depends on, outside its source tree."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "tests" / "tools" / "smoke.py"


def smoke(place):
    """Run the smoke test on a copy of the package, extras hidden."""
    return subprocess.run(
        [sys.executable, SMOKE, "--hide-extras"],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def copy(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "corrdp", tmp_path / "corrdp", ignore=ignored)
    return tmp_path


def test_what_is_promised_without_extras_works_without_them(copy):
    done = smoke(copy)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_an_extra_that_is_needed_to_train_is_noticed(copy):
    path = copy / "corrdp" / "estimators" / "_linear.py"
    path.write_text(f"{path.read_text('utf-8')}\nimport pandas\n", encoding="utf-8")
    done = smoke(copy)
    assert done.returncode == 1
    assert "No module named 'pandas'" in done.stderr


def test_extras_that_are_hidden_are_no_dependencies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {line.split(">")[0].lower() for line in project["dependencies"]}
    hidden = SMOKE.read_text("utf-8").split("EXTRAS = (")[1].split("\n)")[0]
    assert not {name for name in names if f'"{name}"' in hidden}

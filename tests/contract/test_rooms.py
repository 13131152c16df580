"""The contracts between packages hold, and would not if somebody broke them."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip(
    "importlinter", reason="a static check; runs with other versions install no linters"
)

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "src" / "corrdp"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NAMES = [
    contract["name"] for contract in CONTRACTS["tool"]["importlinter"]["contracts"]
]
# File, line that breaks a contract, and the contract.
PLANTED = [
    ("accounting/_events.py", "from corrdp.policy import Budget", "numbers only"),
    ("theory/_checks.py", "import pandas", "numbers only"),
    ("policy/_neighbors.py", "from corrdp.leakage import METRICS", "never back"),
    ("attic/__init__.py", "", "never back"),
    (
        "training/_public_model.py",
        "import corrdp.accounting._gaussian",
        "private modules",
    ),
    ("torch/mlp.py", "from corrdp.training import _layout", "private modules"),
    ("studio/_jobs.py", "import corrdp.report._html", "private modules"),
    ("report/_html.py", "import corrdp.estimators._base", "private modules"),
    ("synthesis/_plan.py", "import corrdp.leakage.release._table", "private modules"),
    ("queries/_plan.py", "import corrdp.mechanisms.noise._vector", "private modules"),
    ("studio/_app.py", "import rich", "typer and rich"),
    ("estimators/_base.py", "import torch", "torch only"),
    ("queries/_result.py", "import jinja2", "pages are made"),
    ("estimators/_tiled.py", "import dask", "engines are called"),
    ("queries/_release.py", "import pyspark", "engines are called"),
]


def verdicts(house):
    """Run the contracts on a copy of the house; return them and what was printed."""
    config = house / "pyproject.toml"
    done = subprocess.run(
        [
            Path(sys.executable).with_name("lint-imports"),
            "--config",
            config,
            "--no-cache",
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(house / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()  # colors
    found = {
        name: line.removeprefix(name).split()[0]
        for name in NAMES
        for line in lines
        if line.startswith(name + " ")
    }
    return found, done.stdout


@pytest.fixture(scope="module")
def broken_house(tmp_path_factory):
    house = tmp_path_factory.mktemp("house")
    shutil.copy(ROOT / "pyproject.toml", house)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(HOUSE, house / "src" / "corrdp", ignore=ignored)
    for file, line, _ in PLANTED:
        path = house / "src" / "corrdp" / file
        path.parent.mkdir(exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(f"{text}\n{line}\n", encoding="utf-8")
    return verdicts(house)


def test_every_contract_is_kept():
    found, printed = verdicts(ROOT)
    assert found == dict.fromkeys(NAMES, "KEPT"), printed


def test_every_contract_breaks_when_it_is_broken(broken_house):
    found, printed = broken_house
    assert found == dict.fromkeys(NAMES, "BROKEN"), printed


@pytest.mark.parametrize(("file", "line", "contract"), PLANTED)
def test_a_planted_import_is_named(broken_house, file, line, contract):
    _, printed = broken_house
    assert sum(contract in name for name in NAMES) == 1
    place = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    sections = printed.split("Broken contracts")[1]
    told = next(name for name in NAMES if contract in name)
    after = sections.split(told, 1)[1]
    ends = [after.find(name) for name in NAMES if name in after]
    section = after[: min(ends)] if ends else after
    module = line.split()[-1] if line.startswith("import") else ""
    assert place.split(".")[-1] in section
    assert module in section


def private_names(path):
    """Return names with an underscore that a file takes from another package."""
    room = path.relative_to(HOUSE).parts[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").count(".") >= 1:
            house, there, *_ = node.module.split(".")
            if house == "corrdp" and there not in (room, "_typing"):
                yield from (a.name for a in node.names if a.name.startswith("_"))


def test_no_private_name_is_imported_from_another_package():
    taken = {str(p): list(private_names(p)) for p in sorted(HOUSE.rglob("*.py"))}
    assert {path: names for path, names in taken.items() if names} == {}

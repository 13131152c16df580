"""The commands of the tutorial run as they stand there."""

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from command_runner import run

ROOT = Path(__file__).parents[2]


def commands(page):
    return re.findall(r"^\$ corrdp (.*)$", page.read_text("utf-8"), re.MULTILINE)


@pytest.fixture
def folder(tmp_path):
    """A table with the columns of Adult, small and invented."""
    n_rows = 3_000
    table = pd.DataFrame({"age": [17 + row % 74 for row in range(n_rows)]})
    for name in ("educational-num", "hours-per-week", "fnlwgt"):
        table[name] = [1 + row % 16 for row in range(n_rows)]
    table["capital-gain"] = table["capital-loss"] = 0
    for name in ("workclass", "marital-status", "race", "gender", "occupation"):
        table[name] = ["one" if row % 3 else "two" for row in range(n_rows)]
    for name in ("education", "relationship", "native-country"):
        table[name] = "same"
    table["income"] = ["<=50K" if age < 60 else ">50K" for age in table["age"]]
    table.to_csv(tmp_path / "adult.csv.gz", index=False)
    return tmp_path


def test_tutorial_runs_in_under_ten_commands(folder):
    lines = commands(ROOT / "docs" / "tutorial.md")
    assert len(lines) + 1 < 10  # and the installation
    for line in lines:
        result = run(*shlex.split(line), cwd=folder)
        assert result.code == 0, f"{line}: {result.stderr}"
    assert (folder / "model" / "report.html").is_file()
    assert (folder / "model" / "certificate.json").is_file()


def test_the_page_holds_the_commands_of_its_source():
    source = ROOT / "docs" / "tools" / "tutorial.md.in"
    assert commands(source) == commands(ROOT / "docs" / "tutorial.md")

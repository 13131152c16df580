"""Errors that nobody foresaw: their kind and place are told, their words are not."""

import subprocess
import sys

import pytest
from tests.command_runner import run

from corrdp import policy

CELL = "a cell that nobody may see"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError(CELL), "KeyError"),
        (UnicodeDecodeError("utf-8", CELL.encode(), 0, 1, CELL), "UnicodeDecodeError"),
        (PermissionError(13, "Permission denied", "x.csv"), "Permission denied x.csv"),
    ],
)
def test_words_that_may_quote_a_row_are_withheld(monkeypatch, tmp_path, error, words):
    def stumble(*_, **__):
        try:
            raise ValueError(CELL)
        except ValueError:
            raise error  # noqa: B904 - what a library does

    monkeypatch.setattr(policy, "read_declared", stumble)
    (tmp_path / "policy.toml").write_text(
        '[features.x]\nrole = "sensitive"\ntype = "boolean"\n'
    )
    result = run("check", "x.csv", "--policy", "policy.toml", cwd=tmp_path)
    assert (result.code, result.stdout) == (1, "")
    assert CELL not in result.stderr
    assert f"({words})" in result.stderr or f": {words})" in result.stderr
    assert "in stumble" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_package_is_the_command():
    told = subprocess.run(
        [sys.executable, "-m", "corrdp", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.startswith("corrdp ")

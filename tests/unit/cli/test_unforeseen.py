"""Errors that nobody foresaw: their kind and place are told, their words are not."""

import io
import subprocess
import sys

import pytest
from tests.command_runner import run

from corrdp import policy
from corrdp.cli import main

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


def test_nothing_is_paid_for_where_nobody_hears_the_answer(monkeypatch):
    """A shell closes standard output with ``>&-``; then Python has none."""
    errors = io.StringIO()
    monkeypatch.setattr(sys, "argv", ["corrdp", "account", "gaussian"])
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", errors)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 3
    assert "standard output is closed" in errors.getvalue()


def test_a_name_that_no_file_can_have_is_told_in_a_line(tmp_path):
    result = run("check", "x" * 300, "--policy", "y" * 300, cwd=tmp_path)
    assert result.code == 3
    (tmp_path / "policy.toml").write_text(
        '[features.x]\nrole = "sensitive"\ntype = "boolean"\n'
    )
    result = run("check", "x" * 300, "--policy", "policy.toml", cwd=tmp_path)
    assert result.code == 3
    assert "File name too long" in result.stderr
    assert len(result.stderr.splitlines()) == 1

"""Run the command line through its entry point, and build what its tests need."""

import contextlib
import io
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from corrdp.cli import main
from corrdp.datasets import hospital_policy_text, hospital_table

ROWS = 2_000
INIT = ("--target", "readmitted", "--sensitive", "diagnosis,income")
TRAIN = ("--epsilon", 2, "--delta", 1e-6, "--model", "logistic")
COMMAND = Path(sys.executable).with_name("corrdp")


class Result(NamedTuple):
    """What a user sees of a command."""

    code: int
    stdout: str
    stderr: str


def run(*arguments, cwd=None):
    """Call the entry point of the installed command in this process."""
    stdout, stderr = io.StringIO(), io.StringIO()
    before, handler = Path.cwd(), signal.getsignal(signal.SIGTERM)
    code = 0
    with (
        mock.patch.object(sys, "argv", ["corrdp", *map(str, arguments)]),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        try:
            if cwd is not None:
                os.chdir(cwd)
            main()
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            os.chdir(before)
            signal.signal(signal.SIGTERM, handler)
    return Result(code, stdout.getvalue(), stderr.getvalue())


def hospital_folder(folder):
    """Write a table, its policy, and a model trained under it with a ledger."""
    hospital_table(ROWS).to_csv(folder / "data.csv", index=False)
    (folder / "policy.toml").write_text(hospital_policy_text())
    result = run(
        *("train", "data.csv", "--policy", "policy.toml", *TRAIN, "--out", "model"),
        *("--ledger", "budget.ledger", "--ledger-epsilon", 20, "--json"),
        cwd=folder,
    )
    assert result.code == 0, result.stderr
    (folder / "train.json").write_text(result.stdout)
    return folder

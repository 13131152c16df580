"""Files appear whole or not at all; a person who watches sees progress."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_runner import COMMAND, hospital_folder
from corrdp._files import write_text
from corrdp.cli._output import counting, rate_words, results, working
from corrdp.exceptions import CorrDPError
from corrdp.ledger import Ledger
from corrdp.tables import iter_batches


def test_results_move_at_the_end_only(tmp_path):
    out = tmp_path / "out"
    with results(out) as staging:
        write_text(staging / "a.txt", "a")
        assert not (out / "a.txt").exists()
    assert [path.name for path in out.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [CorrDPError, KeyboardInterrupt])
def test_nothing_stays_after_a_failure(error, tmp_path):
    def fail():
        with results(tmp_path / "out") as staging:
            write_text(staging / "a.txt", "a")
            raise error

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_stay(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(KeyError), results(tmp_path):
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_private_results_are_for_their_owner_alone(tmp_path):
    with results(tmp_path / "out", private=True) as staging:
        (staging / "a.txt").write_text("a")
    assert (tmp_path / "out" / "a.txt").stat().st_mode & 0o777 == 0o600


def test_progress_is_shown_to_people_and_not_to_pipes(monkeypatch, capsys, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("a,b\n" + "1,2\n" * 1234)

    def shown():
        with working("Training"):
            list(iter_batches(table, number_columns=()))
        with counting("Sweeping") as tell:
            tell(1, 2)
        return capsys.readouterr()

    assert shown() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    captured = shown()
    assert captured.out == ""
    assert "Training, 1,234 rows read" in captured.err
    assert "Sweeping" in captured.err
    assert "50%" in captured.err
    assert "1/2" in captured.err
    assert ":" not in captured.err.split("Sweeping")[0]  # no clock beside private work


@pytest.mark.parametrize(
    ("per_second", "words"),
    [(None, ""), (0.0, ""), (2.5, "2.5/s"), (0.5, "30/min"), (12_345.0, "12,345/s")],
)
def test_a_rate_is_told_as_people_read_it(per_second, words):
    assert rate_words(per_second) == words


def test_output_that_cannot_be_written_is_told(tmp_path):
    folder = hospital_folder(tmp_path)
    words = ["check", "data.csv", "--policy", "policy.toml"]
    with Path("/dev/full").open("w") as full:  # a disk without room
        done = subprocess.run(
            [COMMAND, *words],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert "cannot write to standard output" in done.stderr


def test_a_reader_that_goes_away_ends_nothing(tmp_path):
    """As ``corrdp train ... | head -1`` does: the payment is made, the files follow."""
    folder = hospital_folder(tmp_path)
    before = len(Ledger.open(folder / "budget.ledger").entries())
    read, write = os.pipe()
    os.close(read)
    words = ["query", "data.csv", "--policy", "policy.toml", "--ask", "mean(age)"]
    with os.fdopen(write, "w") as gone:
        done = subprocess.run(
            [COMMAND, *words, "--epsilon", "0.1", "--ledger", "budget.ledger"],
            cwd=folder,
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(Ledger.open(folder / "budget.ledger").entries()) == before + 1


def test_a_command_goes_on_after_its_reader(tmp_path):
    script = (
        "import os, sys; from corrdp.cli._output import show; sys.stdin.read(); "
        "show({}, as_json=True, text=''); show({}, as_json=True, text=''); "
        f"open({str(tmp_path / 'kept')!r}, 'w').close()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    child.stdout.close()
    child.stdin.close()
    assert (child.wait(), child.stderr.read()) == (0, b"")
    child.stderr.close()
    assert (tmp_path / "kept").exists()

"""What was paid for is not lost, whatever happens after the payment."""

import json
import shutil
import sys

import pytest

from command_runner import INIT, TRAIN, hospital_folder, run
from corrdp import report
from corrdp.cli import _demo, _models, _output
from corrdp.exceptions import CorrDPError
from corrdp.ledger import Ledger

LEDGER = ("--ledger", "budget.ledger")
RELEASES = {
    "train": ("train", "data.csv", "--policy", "policy.toml", *TRAIN),
    "synthesize": (
        *("synthesize", "data.csv", "--policy", "policy.toml"),
        *("--epsilon", 0.5, "--delta", 1e-7),
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return hospital_folder(tmp_path_factory.mktemp("hospital"))


def charged(folder):
    return len(Ledger.open(folder / "budget.ledger").entries())


@pytest.mark.parametrize("absent", ["jinja2", "vl_convert"])
@pytest.mark.parametrize("command", RELEASES)
def test_a_report_that_cannot_be_written_is_told_before_payment(
    command, absent, folder, monkeypatch
):
    monkeypatch.setitem(sys.modules, absent, None)
    before = charged(folder)
    result = run(*RELEASES[command], *LEDGER, "--out", "never", cwd=folder)
    assert result.code == 3
    assert "corrdp[report]" in result.stderr
    assert charged(folder) == before
    assert not (folder / "never").exists()


def test_a_model_that_was_paid_for_outlives_its_report(folder, monkeypatch):
    def broken(*_, **__):
        raise CorrDPError("no report")

    monkeypatch.setattr(report, "summarize", broken)
    before = charged(folder)
    result = run(*RELEASES["train"], *LEDGER, "--out", "kept", cwd=folder)
    assert result.code == 3
    assert charged(folder) == before + 1
    assert run("certificate", "verify", "kept", cwd=folder).code == 0
    assert not list((folder / "kept").glob(".unfinished-*"))


@pytest.mark.parametrize("command", RELEASES)
@pytest.mark.parametrize("name", ["policy.toml", "report.html", "certificate.json"])
def test_no_file_in_the_directory_of_results_is_replaced(
    name, command, folder, tmp_path
):
    (tmp_path / name).write_text("mine")
    words = RELEASES[command]
    before = charged(folder)
    result = run(*words, *LEDGER, "--out", tmp_path, cwd=folder)
    assert result.code == 3
    assert name in result.stderr
    assert charged(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_no_synthetic_table_is_replaced(folder, tmp_path):
    (tmp_path / "synthetic.csv").write_text("mine")
    result = run(*RELEASES["synthesize"], "--out", tmp_path, cwd=folder)
    assert result.code == 3
    assert (tmp_path / "synthetic.csv").read_text() == "mine"


def test_drawn_bounds_are_not_paid_for_where_no_policy_can_be_written(folder):
    (folder / "a_file").write_text("")
    before = charged(folder)
    result = run(
        *("init", "data.csv", *INIT, "--label", "public", "--epsilon", 0.1),
        *(*LEDGER, "--out", "a_file/policy.toml"),
        cwd=folder,
    )
    assert result.code == 3
    assert "cannot write" in result.stderr
    assert charged(folder) == before


@pytest.mark.parametrize(
    "words",
    [
        ("query", "data.csv", "--policy", "policy.toml", "--ask", "mean(age)"),
        ("evaluate", "model", "data.csv", "--metric", "accuracy"),
        ("leakage", "data.csv", "--policy", "policy.toml", "--delta", 1e-7),
    ],
    ids=lambda words: words[0],
)
def test_answers_are_shown_even_if_their_file_cannot_be_written(
    words, folder, monkeypatch
):
    def full(*_, **__):
        raise CorrDPError("the disk is full")

    monkeypatch.setattr(_output, "write_text", full)
    before = charged(folder)
    options = ("--epsilon", 0.1, "--out", "page", "--json")
    result = run(*words, *options, *LEDGER, cwd=folder)
    assert result.code == 3
    assert "the disk is full" in result.stderr
    assert charged(folder) > before
    assert json.loads(result.stdout)


def test_what_costs_nothing_replaces_no_rows_and_no_answers(folder, tmp_path):
    """By its name a table of rows is a prediction, and answers are a report."""
    shutil.copytree(folder / "model", tmp_path / "model")
    shutil.copy(folder / "data.csv", tmp_path)
    asked = ("query", "data.csv", "--policy", "model/policy.toml", "--epsilon", 1)
    answers = (*asked, "--ask", "mean(age)", "--out", "answers.html")
    assert run(*answers, cwd=tmp_path).code == 0
    (tmp_path / "mine.csv").write_text("age\n1\n")
    (tmp_path / "notes.md").write_text("# Notes\n")
    for words in (
        ("predict", "model", "data.csv", "--out", "mine.csv"),
        ("report", "model", "--out", "answers.html"),
        ("report", "model", "--format", "markdown", "--out", "notes.md"),
    ):
        before = (tmp_path / words[-1]).read_bytes()
        result = run(*words, cwd=tmp_path)
        assert result.code == 3, words
        assert "Choose another --out" in result.stderr
        assert (tmp_path / words[-1]).read_bytes() == before
    (tmp_path / "empty.csv").touch()
    for out in ("empty.csv", "empty.csv"):  # the second time it holds predictions
        assert run("predict", "model", "data.csv", "--out", out, cwd=tmp_path).code == 0
    page = ("report", "model", "--format", "markdown", "--out", "page.md")
    for _ in range(2):
        assert run(*page, cwd=tmp_path).code == 0


def test_the_demo_clears_only_what_is_its_own(tmp_path):
    paid = tmp_path / "model" / "model.json"
    paid.parent.mkdir()
    paid.write_text("paid for")
    (tmp_path / "policy.toml").write_text("mine")
    result = run("demo", "--out", tmp_path)
    assert result.code == 3
    assert "Choose another --out" in result.stderr
    assert paid.read_text() == "paid for"
    assert (tmp_path / "policy.toml").read_text() == "mine"
    assert run("demo", "--out", tmp_path / "policy.toml").code == 3


def test_a_demo_that_broke_off_is_run_again(tmp_path, monkeypatch):
    kept = _demo.write_text

    def write(path, text):
        if path.name == "public.csv":
            raise KeyboardInterrupt
        kept(path, text)

    monkeypatch.setattr(_demo, "write_text", write)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            _demo.demo(tmp_path / "demo")


def test_a_strange_field_can_be_confirmed(folder, tmp_path):
    text = (folder / "policy.toml").read_text()
    place = tmp_path / "policy.toml"
    place.write_text('unconfirmed = ["target.bounds"]\n' + text)
    result = run("confirm", place, "--all", "--json")
    assert result.code == 0, result.stderr
    assert json.loads(result.stdout)["values"] == {"target.bounds": None}


def test_what_a_link_leads_to_is_confirmed(folder, tmp_path):
    text = (folder / "policy.toml").read_text()
    (tmp_path / "shared.toml").write_text('unconfirmed = ["label.type"]\n' + text)
    (tmp_path / "policy.toml").symlink_to("shared.toml")
    assert run("confirm", tmp_path / "policy.toml", "--all").code == 0
    assert (tmp_path / "policy.toml").is_symlink()
    assert "unconfirmed" not in (tmp_path / "shared.toml").read_text()


def test_models_know_what_a_run_writes(folder):
    written = {path.name for path in (folder / "model").iterdir()}
    fixed = {_models.SUMMARY_FILE, _models.REPORT_FILE, "model.json"}
    assert written == fixed | set(_models._POLICY_AND_CERTIFICATE)

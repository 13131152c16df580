"""Every release takes the same words, and none of them is silently ignored."""

import json
import re

import pytest
import typer

from command_runner import TRAIN, run
from corrdp.cli._app import app
from corrdp.datasets import hospital_policy_text, hospital_table
from corrdp.ledger import Ledger

WORDS = ("policy", "epsilon", "delta", "leakage", "ledger", "ledger-epsilon")
WORDS += ("ledger-delta", "accept-new-data", "seed", "json")
RELEASES = {
    "train": (*TRAIN, "--out", "model"),
    "query": ("--ask", "mean(age)", "--epsilon", 0.5),
    "leakage": ("--epsilon", 0.5, "--delta", 1e-7),
    "synthesize": ("--epsilon", 0.5, "--delta", 1e-7, "--out", "rows"),
}


@pytest.fixture
def files(tmp_path):
    hospital_table(600).to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "policy.toml").write_text(hospital_policy_text())
    return tmp_path


def release(files, command, *options, words=None):
    given = RELEASES[command] if words is None else words
    return run(
        *(command, "data.csv", "--policy", "policy.toml", *given, *options), cwd=files
    )


def names(files):
    return sorted(path.name for path in files.iterdir())


@pytest.mark.parametrize("command", RELEASES)
def test_every_release_takes_the_same_words(command):
    options = typer.main.get_command(app).commands[command].params
    assert {f"--{word}" for word in WORDS} <= {o for p in options for o in p.opts}


@pytest.mark.parametrize("command", RELEASES)
@pytest.mark.parametrize(
    "words",
    [("--ledger-epsilon", 5), ("--ledger-delta", 1e-6), ("--accept-new-data",)],
    ids=lambda words: words[0],
)
def test_words_about_a_ledger_need_a_ledger(command, words, files):
    before = names(files)
    result = release(files, command, *words)
    assert result.code == 3
    assert f"{words[0]} was given without --ledger" in result.stderr
    assert names(files) == before


@pytest.mark.parametrize("command", RELEASES)
def test_a_total_delta_needs_a_total_epsilon(command, files):
    before = names(files)
    result = release(files, command, "--ledger", "l.db", "--ledger-delta", 1e-6)
    assert result.code == 3
    assert "without --ledger-epsilon" in result.stderr
    assert names(files) == before


NEW = ("--ledger", "l.db", "--ledger-epsilon", 60, "--ledger-delta", 1e-5)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("query", ("--ask", "mean(agee)", "--epsilon", 0.5)),
        ("query", ("--ask", "meen(age)", "--epsilon", 0.5)),
        ("query", ("--ask", "mean(age", "--epsilon", 0.5)),
        ("query", ("--ask", "mean(age)", "--epsilon", 0.5, "--delta", 2)),
        ("query", (*RELEASES["query"], "--failure-probability", 2)),
        ("leakage", (*RELEASES["leakage"], "--metric", "taxicab")),
        ("leakage", (*RELEASES["leakage"], "--estimator", "nearest")),
        ("leakage", (*RELEASES["leakage"], "--failure-probability", 2)),
        ("train", (*RELEASES["train"], "--leakage", "absent.json")),
    ],
)
def test_a_refused_release_creates_no_ledger(command, words, files):
    before = names(files)
    result = release(files, command, *NEW, words=words)
    assert result.code == 3, result.stderr
    assert names(files) == before


@pytest.mark.parametrize("command", RELEASES)
def test_an_absent_table_creates_no_ledger(command, files):
    (files / "data.csv").unlink()
    result = release(files, command, *NEW)
    assert result.code == 3
    assert names(files) == ["policy.toml"]


@pytest.mark.parametrize("source", ["public", "declared", "in_sample"])
def test_a_ledger_is_not_ignored_where_nothing_is_charged(source, files):
    words = ("--source", source, "--research")
    result = release(files, "leakage", *NEW, words=words)
    assert result.code == 3
    assert f"--source {source} charges nothing" in result.stderr
    assert "l.db" not in names(files)


def test_leakage_needs_leave_to_charge_another_table(files):
    assert release(files, "leakage", *NEW).code == 0
    hospital_table(500).to_csv(files / "data.csv", index=False)
    refused = release(files, "leakage", "--ledger", "l.db")
    assert refused.code == 3
    assert "earlier charges" in refused.stderr
    accepted = release(files, "leakage", "--ledger", "l.db", "--accept-new-data")
    assert accepted.code == 0, accepted.stderr
    kinds = [entry["kind"] for entry in Ledger.open(files / "l.db").entries()]
    assert kinds.count("charge") == 2


def test_queries_take_a_leakage_table_that_their_ledger_has_paid(files):
    assert release(files, "leakage", *NEW, "--out", "t.json").code == 0
    use = ("--leakage", "t.json", "--json")
    paid = release(files, "query", *use, "--ledger", "l.db")
    assert paid.code == 0, paid.stderr
    certificate = json.loads(paid.stdout)["certificate"]
    assert certificate["leakage"]["source"] == "private"
    other = ("--ledger", "other.db", "--ledger-epsilon", 60, "--ledger-delta", 1e-5)
    refused = release(files, "query", *use, *other)
    assert refused.code == 4
    assert "has not paid for the leakage table" in refused.stderr
    assert "other.db" not in names(files)
    # No ledger: the certificate says so, and so does the answer.
    alone = release(files, "query", "--leakage", "t.json")
    assert alone.code == 0
    assert "A ledger adds both up" in alone.stdout


@pytest.mark.parametrize("command", RELEASES)
def test_no_release_takes_distances_that_its_ledger_has_not_paid(command, files):
    """A new ledger would open its accounts by them, whatever is refused afterwards."""
    assert release(files, "leakage", "--out", "t.json").code == 0
    before = names(files)
    refused = release(files, command, *NEW, "--leakage", "t.json")
    assert refused.code == 4, refused.stderr
    assert "has not paid for the leakage table" in refused.stderr
    assert names(files) == before


def test_exact_leakage_serves_no_query(files):
    words = ("--source", "public", "--research", "--out", "t.json")
    assert release(files, "leakage", words=words).code == 0
    refused = release(files, "query", "--leakage", "t.json")
    assert refused.code == 4
    assert "exact private numbers" in refused.stderr


def test_a_seed_repeats_a_query_and_is_told(files):
    first, second = (release(files, "query", "--seed", 1, "--json") for _ in range(2))
    assert first.stdout == second.stdout
    assert json.loads(first.stdout)["certificate"]["replayable_noise"]
    free = [release(files, "query", "--json").stdout for _ in range(2)]
    assert free[0] != free[1]


def test_an_earlier_table_tells_the_ledger_its_distances(files):
    assert release(files, "leakage", *NEW, "--out", "t.json").code == 0
    again = release(files, "leakage", "--ledger", "l.db", "--leakage", "t.json")
    assert again.code == 0, again.stderr
    unused = release(files, "leakage", "--leakage", "t.json")
    assert unused.code == 3
    assert "without --ledger" in unused.stderr


# --- what a run prints


def test_training_prints_no_time_that_depends_on_rows(files):
    result = release(files, "train")
    assert result.code == 0, result.stderr
    last = result.stdout.strip().splitlines()[-1]
    assert last == (
        "Saved in model. Report: model/report.html; every claim in words: corrdp "
        "certificate show model"
    )
    assert not re.search(r"\d s\b|second", result.stdout)


def test_research_is_stamped_in_words_and_in_json(files):
    shown = release(files, "train", "--research").stdout
    assert re.search(r"^research: not private \(took .* s\)$", shown, re.MULTILINE)
    words = (*TRAIN, "--research", "--out", "second", "--json")
    document = json.loads(release(files, "train", words=words).stdout)
    assert document["notice"] == "research: not private"


# --- permissions


def modes(files, *names_):
    return {name: (files / name).stat().st_mode & 0o777 for name in names_}


def test_private_results_are_readable_for_their_owner_alone(files):
    init = ("--target", "readmitted", "--sensitive", "income", "--label", "public")
    words = ("init", "data.csv", *init, "--out", "draft.toml")
    assert run(*words, cwd=files).code == 0
    assert release(files, "train").code == 0
    predict = ("predict", "model", "data.csv", "--out", "predictions.csv")
    (files / "predictions.csv").touch(mode=0o644)
    assert run(*predict, cwd=files).code == 0
    words = ("--source", "in_sample", "--delta", 1e-6, "--research", "--out", "t.json")
    assert release(files, "leakage", words=words).code == 0
    research = (*TRAIN, "--research", "--out", "research")
    assert release(files, "train", words=research).code == 0
    private = ("draft.toml", "predictions.csv", "t.json", "research/model.json")
    assert set(modes(files, *private).values()) == {0o600}
    assert run("confirm", "draft.toml", "--all", cwd=files).code == 0
    assert modes(files, "draft.toml") == {"draft.toml": 0o600}


def test_paid_results_follow_the_umask(files):
    (files / "probe").touch()
    usual = modes(files, "probe")["probe"]
    assert release(files, "train").code == 0
    found = modes(files, *(f"model/{path.name}" for path in files.glob("model/*")))
    assert set(found.values()) == {usual}


# --- formulas


def test_labels_that_spreadsheets_run_are_refused_or_quoted(files):
    formula = '=HYPERLINK("https://example.org")'
    table = hospital_table(600)
    table["readmitted"] = table["readmitted"].map({True: formula, False: "no"})
    table.to_csv(files / "data.csv", index=False)
    text = hospital_policy_text().split("[label]")[0]
    text += f'[label]\ntype = "category"\ncategories = [\'{formula}\', "no"]\n'
    (files / "policy.toml").write_text(text + "score = 0.0\n")
    assert release(files, "train").code == 0
    predict = ("predict", "model", "data.csv", "--out", "p.csv")
    refused = run(*predict, cwd=files)
    assert refused.code == 3
    assert "--spreadsheet-safe" in refused.stderr
    # Refused by declared labels alone, though no row has this prediction.
    hospital_table(1).to_csv(files / "data.csv", index=False)
    refused = run(*predict, cwd=files)
    assert refused.code == 3
    assert "declared labels begin like a formula" in refused.stderr
    assert "p.csv" not in names(files)
    safe = run(*predict, "--spreadsheet-safe", cwd=files)
    assert safe.code == 0, safe.stderr
    assert not re.search(r'^"?=', (files / "p.csv").read_text(), re.MULTILINE)

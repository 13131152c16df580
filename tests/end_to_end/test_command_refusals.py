"""What commands refuse: one line, an exit code, and nothing written."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

from command_runner import INIT, TRAIN, hospital_folder, run
from corrdp.datasets import hospital_policy_text, hospital_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return hospital_folder(tmp_path_factory.mktemp("hospital"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("account gaussian --mu -1 --delta 1e-6", 3, "mu"),
        ("account gaussian --mu 1 --delta 2", 3, "delta=2.0"),
        ("account gaussian --mu one --delta 2", 2, "--mu"),
        (
            "account sampled --rate 2 --contribution 1 --change 1 --steps 1 --delta .1",
            3,
            "rate",
        ),
        ("plan --policy none.toml --rows 9 --epsilon 1 --delta 1e-6", 3, "none.toml"),
        (
            "plan --policy P --rows 9 --epsilon 1 --delta 1e-6 --leakage auto",
            3,
            "bought by corrdp train alone",
        ),
        ("plan --policy P --rows 0 --epsilon 1 --delta 1e-6", 3, "n_rows"),
        ("plan --policy P --rows 9000 --epsilon -1 --delta 1e-6", 3, "epsilon"),
        ("certificate show nowhere", 3, "nowhere"),
        ("certificate verify nowhere", 3, "nowhere"),
        ("init none.csv --target a --sensitive b --label public", 3, "none.csv"),
        ("init D --target absent --sensitive b --label public", 3, "absent"),
        ("init D --target age --sensitive age --label public", 3, "two roles"),
        ("check none.csv --policy P", 3, "none.csv"),
        ("check D --policy none.toml", 3, "none.toml"),
        ("leakage none.csv --policy P --epsilon 1 --delta 1e-6", 3, "none.csv"),
        ("leakage D --policy P --source private", 3, "epsilon"),
        ("train D --policy P --model logistic --out O", 3, "epsilon=None"),
        (
            "train none.csv --policy P --model logistic --epsilon 1 --delta 1e-6 "
            "--out O",
            3,
            "none.csv",
        ),
        ("train D --policy P --model forest --out O", 2, "forest"),
        ("predict nowhere D --out p.csv", 3, "nowhere"),
        ("predict M D --out p.parquet", 3, "written as CSV"),
        ("predict M D --out D", 3, "is what the command reads"),
        ("sample nowhere --out -", 3, "written as CSV"),
        ("leakage D --policy P --source public --out P", 3, "what the command reads"),
        (
            "train D --policy P --model logistic --epsilon 1 --delta 1e-6 --out O "
            "--no-fall-back",
            3,
            "--no-fall-back is for --model mlp",
        ),
        ("report nowhere", 3, "nowhere"),
        ("report M --sweep nowhere", 3, "nowhere"),
        ("sweep D --policy P --epsilons a,b --research --out O", 3, "'a,b'"),
        ("sweep D --policy P --epsilons , --research --out O", 3, "--epsilons"),
        ("sweep none.csv --policy P --epsilons 1 --research --out O", 3, "none.csv"),
        ("query none.csv --policy P --ask count() --epsilon 1", 3, "none.csv"),
        ("query D --policy P --ask mean(shoe) --epsilon 1", 3, "shoe"),
        ("query D --policy P --ask mean(a(b)) --epsilon 1", 3, "in double quotes"),
        ("query D --policy P --ask mean(agee) --epsilon 1", 3, "Did you mean 'age'?"),
        ("confirm P features.agee.bounds", 3, "does not await confirmation"),
        ("trian D --policy P", 2, "train"),
        ("train D --policy P --epsilom 1", 2, "--epsilon"),
        ("ledger show nowhere", 3, "nowhere"),
        ("confirm none.toml --all", 3, "none.toml"),
        ("confirm P features.age.bounds --all", 3, "beside it"),
        ("unknown", 2, "No such command"),
    ],
)
def test_bad_input_is_one_line_and_an_exit_code(
    arguments, code, message, folder, tmp_path
):
    known = {"P": folder / "policy.toml", "D": folder / "data.csv", "O": "out"}
    known["M"] = folder / "model"
    words = [known.get(word, word) for word in arguments.split()]
    result = run(*words, cwd=tmp_path)
    assert result.code == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ("init", *INIT, "--label", "public"),
        ("check", "--policy", "P"),
        ("train", "--policy", "P", *TRAIN, "--out", "out"),
        ("leakage", "--policy", "P", "--epsilon", 1, "--delta", 1e-6),
        ("query", "--policy", "P", "--ask", "count()", "--epsilon", 1),
    ],
    ids=lambda command: command[0],
)
def test_text_that_is_not_utf8_is_refused_without_a_value(command, folder, tmp_path):
    table = hospital_table(50)
    table["region"] = "médoc-7731"
    (tmp_path / "latin.csv").write_bytes(table.to_csv(index=False).encode("latin1"))
    words = [folder / "policy.toml" if word == "P" else word for word in command]
    result = run(words[0], "latin.csv", *words[1:], cwd=tmp_path)
    assert result.code == 3
    assert "7731" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["latin.csv"]


def test_a_leakage_table_that_was_paid_for_is_not_replaced(folder, tmp_path):
    release = (
        *("leakage", folder / "data.csv", "--policy", folder / "policy.toml"),
        *("--epsilon", 1, "--delta", 1e-6, "--out", tmp_path / "leakage.json"),
    )
    assert run(*release).code == 0
    first = (tmp_path / "leakage.json").read_text()
    again = run(*release)
    assert again.code == 3
    assert "which has cost budget" in again.stderr
    assert (tmp_path / "leakage.json").read_text() == first


@pytest.mark.parametrize("command", ["train", "query", "predict"])
def test_a_table_that_does_not_fit_the_policy_is_refused(command, folder, tmp_path):
    hospital_table(50).drop(columns="sex").to_csv(tmp_path / "d.csv", index=False)
    policy = ("--policy", folder / "policy.toml")
    words = {
        "train": ("d.csv", *policy, *TRAIN, "--out", "out"),
        "query": ("d.csv", *policy, "--ask", "count()", "--epsilon", 1),
        "predict": (folder / "model", "d.csv", "--out", "p.csv"),
    }[command]
    result = run(command, *words, cwd=tmp_path)
    assert result.code == 3
    assert "'sex'" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["d.csv"]


def test_an_exhausted_ledger_stops_training_and_queries(folder, tmp_path):
    ledger = tmp_path / "budget.ledger"
    shutil.copy(folder / "budget.ledger", ledger)
    use = ("--policy", folder / "policy.toml", "--ledger", ledger)
    train = ("train", folder / "data.csv", *use, "--delta", 1e-6, "--model", "logistic")
    result = run(*train, "--epsilon", 19, "--out", tmp_path / "model")
    assert result.code == 3
    assert "left of" in result.stderr
    assert not (tmp_path / "model").exists()
    asked = run(
        *("query", folder / "data.csv", *use, "--ask", "mean(age)", "--epsilon", 50)
    )
    assert asked.code == 3
    assert "left of" in asked.stderr


def test_private_leakage_is_charged_and_refused_when_the_budget_is_spent(
    folder, tmp_path
):
    ledger = tmp_path / "budget.ledger"
    words = ("leakage", folder / "data.csv", "--policy", folder / "policy.toml")
    options = ("--delta", 1e-7, "--ledger", ledger)
    first = run(
        *(*words, *options, "--epsilon", 0.2),
        *("--ledger-epsilon", 1, "--ledger-delta", 1e-6),
    )
    assert first.code == 0, first.stderr
    shown = json.loads(run("ledger", "show", ledger, "--json").stdout)
    charges = [e["purpose"] for e in shown["entries"] if e["kind"] == "charge"]
    assert charges == ["leakage"]
    refused = run(*words, *options, "--epsilon", 5, "--out", tmp_path / "t.json")
    assert refused.code == 3
    assert "left of" in refused.stderr
    assert not (tmp_path / "t.json").exists()


def test_noise_without_proof_cannot_be_charged(folder, tmp_path):
    result = run(
        *("train", folder / "data.csv", "--policy", folder / "policy.toml", *TRAIN),
        *("--calibration", "theorem", "--method", "semi", "--research"),
        *("--ledger", folder / "budget.ledger", "--out", tmp_path / "model"),
    )
    assert result.code == 4
    assert "cannot be charged" in result.stderr
    assert not (tmp_path / "model").exists()


def test_the_paper_s_noise_is_reported_as_unproved(folder, tmp_path):
    result = run(
        *("train", folder / "data.csv", "--policy", folder / "policy.toml", *TRAIN),
        *("--calibration", "theorem", "--out", tmp_path / "model", "--json"),
    )
    assert result.code == 0, result.stderr
    assert json.loads(result.stdout)["certificate"]["calibration"] == "theorem"
    assert "unstated constants" in (tmp_path / "model" / "report.html").read_text()


def test_leakage_tables_must_be_readable_and_paid_for(folder, tmp_path):
    policy = ("--policy", folder / "policy.toml")
    leak = ("leakage", folder / "data.csv", *policy, "--source", "public", "--research")
    run(*leak, "--out", tmp_path / "leakage.json")
    train = ("train", folder / "data.csv", *policy, *TRAIN, "--out", tmp_path / "model")
    exact = run(*train, "--leakage", tmp_path / "leakage.json")
    assert exact.code == 4
    assert "--research" in exact.stderr
    absent = run(*train, "--leakage", tmp_path / "absent.json")
    assert absent.code == 3
    assert "absent.json" in absent.stderr
    assert not (tmp_path / "model").exists()


def test_check_names_what_is_left_to_declare(folder, tmp_path):
    text = hospital_policy_text().replace("one_insensitive", "all_insensitive")
    (tmp_path / "block.toml").write_text(text)
    checked = run("check", folder / "data.csv", "--policy", tmp_path / "block.toml")
    assert "leakage of block" in checked.stdout
    hospital_table(50).drop(columns="readmitted").to_csv(
        tmp_path / "d.csv", index=False
    )
    result = run("check", tmp_path / "d.csv", "--policy", folder / "policy.toml")
    assert result.code == 3
    assert "column readmitted" in result.stdout


def test_a_policy_without_label_trains_nothing(folder, tmp_path):
    text = hospital_policy_text().split("# Score 0")[0]
    text = text.replace('target = "readmitted"', "")
    (tmp_path / "policy.toml").write_text(text)
    result = run(
        *("train", folder / "data.csv", "--policy", tmp_path / "policy.toml", *TRAIN),
        *("--out", tmp_path / "model"),
    )
    assert result.code == 3
    assert "no label" in result.stderr


def test_a_ledger_needs_a_budget_once(folder, tmp_path):
    train = ("train", folder / "data.csv", "--policy", folder / "policy.toml", *TRAIN)
    out = ("--out", tmp_path / "model")
    absent = run(*train, *out, "--ledger", tmp_path / "new.ledger")
    assert absent.code == 3
    assert "--ledger-epsilon" in absent.stderr
    existing = ("--ledger", folder / "budget.ledger", "--ledger-epsilon", 3)
    assert run(*train, *out, *existing).code == 3
    assert list(tmp_path.iterdir()) == []


# A shell's background job, and all that it starts, ignores interruptions.
WITHOUT_NOISE = """
import signal
import time
import corrdp._random
signal.signal(signal.SIGINT, signal.default_int_handler)
corrdp._random.noise_generator = lambda *_, **__: time.sleep(3600)
from corrdp.cli import main
main()
"""


@pytest.mark.parametrize(
    ("command", "stop", "code"),
    [
        (("train", *TRAIN), signal.SIGINT, 130),
        (("train", *TRAIN), signal.SIGTERM, 143),
        (("synthesize", "--epsilon", 1, "--delta", 1e-6), signal.SIGINT, 130),
    ],
    ids=["train-interrupted", "train-terminated", "synthesize-interrupted"],
)
def test_an_interrupted_run_leaves_nothing(command, stop, code, folder, tmp_path):
    name, *options = command
    words = (name, folder / "data.csv", "--policy", folder / "policy.toml", *options)
    # The run waits for its noise, so that the signal never comes too late.
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            WITHOUT_NOISE,
            *map(str, words),
            "--out",
            tmp_path / "model",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not list(tmp_path.glob("model/.unfinished-*")):
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(stop)
    process.communicate()
    assert process.returncode == code
    assert list(tmp_path.iterdir()) == []


def test_output_that_cannot_be_written_is_refused(folder, tmp_path):
    (tmp_path / "file").write_text("")
    result = run(
        *("train", folder / "data.csv", "--policy", folder / "policy.toml", *TRAIN),
        *("--out", tmp_path / "file"),
    )
    assert result.code == 3
    assert "cannot write" in result.stderr


@pytest.mark.parametrize("command", ["leakage", "query"])
@pytest.mark.parametrize("out", ["kept.json", "file/new.json"])
def test_what_is_paid_for_is_neither_replaced_nor_lost(command, out, folder, tmp_path):
    """Said before the ledger is charged: afterwards the answer would be gone."""
    (tmp_path / "kept.json").write_text("paid")
    (tmp_path / "file").write_text("")
    asked = ("--ask", "count()") if command == "query" else ()
    ledger = tmp_path / "new.ledger"
    result = run(
        *(command, folder / "data.csv", "--policy", folder / "policy.toml", *asked),
        *("--epsilon", 0.1, "--delta", 1e-6, "--out", tmp_path / out),
        *("--ledger", ledger, "--ledger-epsilon", 3, "--ledger-delta", 1e-5),
    )
    assert result.code == 3
    assert "another --out" in result.stderr
    assert (tmp_path / "kept.json").read_text() == "paid"
    assert not ledger.exists()


def test_a_question_that_is_refused_leaves_no_directory(folder, tmp_path):
    result = run(
        *("query", folder / "data.csv", "--policy", folder / "policy.toml"),
        *(
            "--ask",
            "mean(shoe)",
            "--epsilon",
            1,
            "--out",
            tmp_path / "a" / "b" / "page",
        ),
    )
    assert result.code == 3
    assert list(tmp_path.iterdir()) == []

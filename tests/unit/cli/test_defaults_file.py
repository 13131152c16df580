"""Defaults of options from a file: typed ones win, nothing is taken unseen."""

import pytest

from command_runner import run
from corrdp.datasets import hospital_policy_text

PLAN = ("plan", "--rows", "20000", "--json")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "policy.toml").write_text(hospital_policy_text())
    return tmp_path


def write(folder, text):
    (folder / "corrdp.toml").write_text(text, encoding="utf-8")


def test_options_come_from_the_file_and_typed_ones_win(folder):
    write(folder, '[plan]\npolicy = "policy.toml"\nepsilon = 1\ndelta = 1e-6\n')
    typed = ("--policy", "policy.toml", "--epsilon", "1", "--delta", "1e-6")
    found = run(*PLAN, cwd=folder)
    assert found.code == 0
    assert found.stdout == run(*PLAN, *typed, cwd=folder).stdout
    assert "from corrdp.toml: --policy, --epsilon, --delta" in found.stderr
    assert run(*PLAN, "--epsilon", "2", cwd=folder).stdout != found.stdout


def test_other_commands_are_silent_and_without_a_file_nothing_changes(folder):
    write(folder, "[plan]\nepsilon = 1\n")
    other = run("check", "missing.csv", "--policy", "policy.toml", cwd=folder)
    assert "corrdp.toml" not in other.stderr
    (folder / "corrdp.toml").unlink()
    assert run(*PLAN, "--policy", "policy.toml", cwd=folder).code != 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[plann]\nepsilon = 1\n", ["[plann]", "Did you mean 'plan'?"]),
        ("[ledger]\nepsilon = 1\n", ["[ledger]", "not a command"]),
        ("[plan]\nepsilom = 1\n", ["'epsilom'", "Did you mean 'epsilon'?"]),
        ("plan = 3\n", ["must be a table of options"]),
        ("[train]\nresearch = true\n", ["'research'", "has to be typed"]),
        ("[train]\naccept-new-data = true\n", ["'accept-new-data'", "typed"]),
        ('[leakage]\nsource = "public"\n', ["'source'", "has to be typed"]),
        ('[train]\npublic-test = "d.csv"\n', ["'public-test'", "typed"]),
        ('[train]\npublic-rows = "d.csv"\n', ["'public-rows'", "typed"]),
        ("[plan\n", ["cannot read 'corrdp.toml'"]),
    ],
)
def test_what_cannot_be_meant_is_refused(folder, text, words):
    write(folder, text)
    found = run(*PLAN, cwd=folder)
    assert found.code == 3
    assert all(word in found.stderr for word in words)


def test_a_value_of_the_wrong_kind_is_answered_like_a_typed_one(folder):
    write(folder, '[plan]\npolicy = "policy.toml"\ndelta = 1e-6\nepsilon = "much"\n')
    found = run(*PLAN, cwd=folder)
    assert found.code == 2
    assert "--epsilon" in found.stderr

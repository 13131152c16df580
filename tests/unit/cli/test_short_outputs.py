"""What commands print for people: short, and honest about what it is worth."""

import pytest

from command_runner import run
from corrdp.cli._check import TO_RENAME
from corrdp.cli._plan import training_plan
from corrdp.datasets import hospital_policy
from corrdp.estimators import LogisticRegression
from corrdp.leakage import declared_table
from corrdp.policy import BooleanDomain, Budget, Feature, Policy


def test_notes_that_begin_alike_share_a_line(tmp_path):
    features = [Feature(name, "insensitive", BooleanDomain()) for name in ("x", "a: b")]
    policy = Policy(
        (Feature("s", "sensitive", BooleanDomain()), *features),
        unconfirmed=("features.x.type",),
    )
    (tmp_path / "policy.toml").write_text(policy.to_toml())
    (tmp_path / "data.csv").write_text("s,x,a: b,id\n1,0,1,7\n")
    done = run("check", "data.csv", "--policy", "policy.toml", cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "to confirm: features.x.type",
        "to declare or estimate: leakage of x, a: b",
        "not in the policy: id",
        "the table fits the policy",
    ]


def test_init_refuses_what_it_would_ignore(tmp_path):
    (tmp_path / "data.csv").write_text("age,sex,y\n1,a,0\n2,b,1\n")
    words = ("--target", "y", "--sensitive", "sex", "--label", "public")
    done = run("init", "data.csv", *words, "--delta", 1e-6, cwd=tmp_path)
    assert done.code == 3
    assert "without --epsilon" in done.stderr
    assert not (tmp_path / "policy.toml").exists()


@pytest.mark.parametrize(
    ("n_rows", "words"), [(100, "too few"), (5_000, "CorrDP is worth it here")]
)
def test_a_plan_begins_with_its_verdict(n_rows, words):
    budget = Budget(epsilon=1.0, delta=1e-6)
    model = LogisticRegression(hospital_policy(), epsilon=1.0, delta=1e-6)
    _, text = training_plan(model, budget, n_rows)
    verdict, table = text.split("\n\n", 1)
    assert words in " ".join(verdict.split())
    assert table.startswith("column ")


def test_leakage_that_buys_nothing_says_so():
    policy = hospital_policy()
    worst = policy.with_leakage(dict.fromkeys(policy.insensitive, 1.0))
    assert "no bound is below 1" in declared_table(worst).to_text()
    assert "no bound is below 1" not in declared_table(policy).to_text()


def test_check_names_a_column_that_models_call_their_own(tmp_path):
    policy = Policy((Feature("intercept", "sensitive", BooleanDomain()),))
    (tmp_path / "policy.toml").write_text(policy.to_toml())
    (tmp_path / "data.csv").write_text("intercept\ntrue\nfalse\n")
    done = run("check", "data.csv", "--policy", "policy.toml", cwd=tmp_path)
    assert done.code == 0
    assert f"{TO_RENAME}intercept" in done.stdout


def test_init_says_where_no_text_was_drawn(tmp_path):
    rows = "".join(f"{k % 3},{'ab'[k % 2]},{k % 2}\n" for k in range(60))
    (tmp_path / "data.csv").write_text("age,sex,y\n" + rows)
    words = ("--target", "y", "--sensitive", "sex", "--label", "public")
    paid = ("--epsilon", 0.1, "--delta", 1e-6, "--out", "policy.toml")
    done = run("init", "data.csv", *words, *paid, cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert "no text was frequent enough" in done.stdout
    assert "categories of sex" in done.stdout

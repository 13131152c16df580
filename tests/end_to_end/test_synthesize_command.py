"""``corrdp synthesize`` and ``corrdp sample``, as a user types them."""

import inspect
import json

import pandas as pd
import pytest

from command_runner import run
from corrdp import Synthesizer
from corrdp.cli import _synthesize
from corrdp.datasets import hospital_policy_text, hospital_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("hospital")
    hospital_table(2_000).to_csv(place / "data.csv", index=False)
    (place / "policy.toml").write_text(hospital_policy_text())
    return place


def synthesize(folder, out, *more):
    return run(
        "synthesize",
        *("data.csv", "--policy", "policy.toml", "--epsilon", "1"),
        *("--delta", "1e-6", "--seed", "1", "--out", out),
        *more,
        cwd=folder,
    )


@pytest.fixture(scope="module")
def made(folder):
    result = synthesize(folder, "made", "--rows", "500", "--json")
    assert result.code == 0, result.stderr
    return json.loads(result.stdout)


def test_everything_is_written_and_the_certificate_verifies(folder, made):
    assert made["rows"] == 500
    assert made["certificate"]["epsilon"] <= 1.0
    assert {path.name for path in (folder / "made").iterdir()} == {
        "certificate.json",
        "certificate.txt",
        "model.json",
        "policy.toml",
        "report.html",
        "summary.json",
        "synthetic.csv",
    }
    assert run("certificate", "verify", "made", cwd=folder).code == 0
    table = pd.read_csv(folder / "made" / "synthetic.csv")
    assert list(table.columns) == list(hospital_table(2).columns)


def test_more_rows_cost_nothing_and_a_seed_repeats_them(folder, made):
    for name in ("first.csv", "second.csv"):
        out = ("--rows", "40", "--seed", "7", "--out", name)
        assert run("sample", "made", *out, cwd=folder).code == 0
    first, second = ((folder / n).read_text() for n in ("first.csv", "second.csv"))
    assert first == second
    assert len(first.splitlines()) == 41


def test_public_columns_can_be_given(folder, made):
    pd.DataFrame({"season": ["winter", "summer"]}).to_csv(
        folder / "given.csv", index=False
    )
    result = run("sample", "made", "--given", "given.csv", "--out", "g.csv", cwd=folder)
    assert result.code == 0, result.stderr
    assert pd.read_csv(folder / "g.csv")["season"].tolist() == ["winter", "summer"]


def test_a_second_run_does_not_overwrite_what_has_cost_budget(folder, made):
    result = synthesize(folder, "made")
    assert result.code == 3
    assert "already holds a model" in result.stderr


def test_declared_knowledge_comes_from_a_file(folder):
    (folder / "zeros.toml").write_text(
        '[[impossible]]\nsmoker = true\ninsurance = "none"\n'
    )
    result = synthesize(folder, "zeros", "--constraints", "zeros.toml")
    assert result.code == 0, result.stderr
    table = pd.read_csv(folder / "zeros" / "synthetic.csv", keep_default_na=False)
    assert not (
        table["smoker"].astype(str).eq("True") & table["insurance"].eq("none")
    ).any()


@pytest.mark.parametrize("text", ["[[never]]\na = 1\n", "impossible = 3\n", "[[["])
def test_a_file_of_something_else_is_refused(folder, text):
    (folder / "odd.toml").write_text(text)
    result = synthesize(folder, "odd", "--constraints", "odd.toml")
    assert result.code == 3
    assert not (folder / "odd").exists()


def test_a_ledger_pays_once_and_refuses_what_it_cannot_pay(folder):
    ledger = ("--ledger", "l.db")
    new = ("--ledger-epsilon", "1.5", "--ledger-delta", "1e-5")
    assert synthesize(folder, "paid", *ledger, *new).code == 0
    again = synthesize(folder, "paid twice", *ledger)
    assert again.code == 3
    assert not (folder / "paid twice").exists()


def test_a_method_that_protects_nothing_is_refused(folder):
    result = synthesize(folder, "bare", "--method", "nonprivate")
    assert result.code == 3
    assert not (folder / "bare").exists()


def test_a_domain_that_is_too_large_is_refused_by_name_and_nothing_is_left(
    folder, tmp_path
):
    policy = hospital_policy_text().replace("bins = 6", "bins = 200000", 1)
    (tmp_path / "policy.toml").write_text(policy)
    result = run(
        *("synthesize", folder / "data.csv", "--policy", tmp_path / "policy.toml"),
        *("--epsilon", 1, "--delta", 1e-6, "--out", tmp_path / "made"),
        *("--ledger", tmp_path / "new.ledger", "--ledger-epsilon", 3),
    )
    assert result.code == 3
    assert "(200000 codes)" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["policy.toml"]


def test_the_model_may_have_as_many_cells_as_asked_for(folder):
    refused = synthesize(folder, "few", "--max-cells", "10")
    assert refused.code == 3
    assert "max_cells=10" in refused.stderr
    assert not (folder / "few").exists()
    assert synthesize(folder, "singles", "--max-cells", "60", "--json").code == 0
    assert Synthesizer.load(folder / "singles").max_cells == 60


def test_defaults_are_those_of_the_library():
    own = inspect.signature(_synthesize.synthesize).parameters
    library = inspect.signature(Synthesizer).parameters
    for name in ("bins", "max_cells", "method", "selection"):
        assert own[name].default == library[name].default, name

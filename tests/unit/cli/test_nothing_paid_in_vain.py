"""What can be refused is refused before a ledger is charged, or costs no result."""

import tracemalloc

import pyarrow as pa
import pytest

from command_runner import hospital_folder, run
from corrdp.cli import _synthesize
from corrdp.datasets import hospital_policy_text
from corrdp.ledger import Ledger
from corrdp.policy import CategoryDomain, Feature, Policy, require_fit

BUDGET = ("--epsilon", 0.5, "--delta", 1e-7, "--ledger", "budget.ledger")
TRAIN = ("train", "data.csv", "--policy", "policy.toml", "--model", "logistic")
SYNTHESIZE = ("synthesize", "data.csv", "--out", "rows")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = hospital_folder(tmp_path_factory.mktemp("hospital"))
    (place / "other.csv").write_text("a,b\n1,2\n")
    policy = hospital_policy_text()
    (place / "formula.toml").write_text(policy.replace('"winter"', '"=winter"'))
    assert '"=winter"' in (place / "formula.toml").read_text()
    return place


def charged(folder):
    return len(Ledger.open(folder / "budget.ledger").entries())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*TRAIN, "--out", "x", "--public-test", "absent.csv"), "absent.csv"),
        ((*TRAIN, "--out", "x", "--public-test", "other.csv"), "lacks the columns"),
        ((*SYNTHESIZE, "--policy", "policy.toml", "--rows", -3), "--rows"),
        ((*SYNTHESIZE, "--policy", "formula.toml"), "--spreadsheet-safe"),
        (
            ("query", "data.csv", "--policy", "policy.toml", "--ask", "sum(age) / 0"),
            "0",
        ),
    ],
)
def test_it_is_refused_before_it_is_paid(folder, words, told):
    before, table = charged(folder), (folder / "data.csv").read_bytes()
    result = run(*words, *BUDGET, cwd=folder)
    assert result.code in (2, 3)
    assert told in result.stderr
    assert charged(folder) == before
    assert (folder / "data.csv").read_bytes() == table
    assert not (folder / "x").exists()
    assert not (folder / "rows").exists()


def test_many_categories_are_read_in_little_memory():
    """A code per row, not a column per category: 1e7 rows of 500 were 40 GB."""
    names, n_rows = tuple(f"c{number}" for number in range(500)), 10_000
    policy = Policy((Feature("job", "sensitive", CategoryDomain(names)),))
    table = pa.table({"job": [names[row % 500] for row in range(n_rows)]})
    require_fit(policy, table, ["job"])
    tracemalloc.start()
    try:
        require_fit(policy, table, ["job"])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10 * 8 * n_rows


def test_a_model_that_was_paid_for_outlives_its_rows(folder, monkeypatch):
    def no_room(*_, **__):
        raise MemoryError

    monkeypatch.setattr(_synthesize, "write_table", no_room)
    words = (*SYNTHESIZE[:2], "--out", "kept", "--policy", "policy.toml")
    before = charged(folder)
    assert run(*words, *BUDGET, cwd=folder).code == 1
    assert charged(folder) == before + 1
    drawn = run("sample", "kept", "--rows", 5, "--out", "five.csv", cwd=folder)
    assert drawn.code == 0, drawn.stderr
    assert len((folder / "five.csv").read_text().splitlines()) == 6

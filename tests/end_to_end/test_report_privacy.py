"""No raw private value reaches any file that training leaves."""

import re

import pytest

from command_runner import run
from corrdp.datasets import hospital_policy_text, hospital_table
from report_fixtures import raw_values_in


@pytest.fixture(scope="module")
def table():
    drawn = hospital_table(1_999, random_state=3)
    return drawn.assign(name=[f"Quux {row}" for row in drawn.index])


@pytest.mark.parametrize("research", [(), ("--research",)], ids=["private", "research"])
def test_no_file_of_a_training_run_holds_a_raw_value(research, table, tmp_path):
    table.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "policy.toml").write_text(hospital_policy_text())
    result = run(
        *("train", "data.csv", "--policy", "policy.toml", "--model", "logistic"),
        *("--epsilon", 1, "--delta", 1e-6, "--out", "model", "--json", *research),
        cwd=tmp_path,
    )
    assert result.code == 0, result.stderr
    texts = {path.name: path.read_text() for path in (tmp_path / "model").iterdir()}
    texts["standard output"] = result.stdout
    texts["report.html"] = re.sub(
        r'<script type="module">.*?</script>', "", texts["report.html"], flags=re.DOTALL
    )
    found = {name: raw_values_in(text, table) for name, text in texts.items()}
    assert [name for name in found if found[name]] == []


def test_the_same_search_catches_a_draft_that_quotes_rows(table):
    quoted = f"bounds = [{table['income'].min()}, {table['income'].max()}]"
    assert raw_values_in(quoted, table)

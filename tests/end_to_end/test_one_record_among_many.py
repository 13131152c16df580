"""One record never changes how the others are read: the commands, from CSV files."""

import csv
import json

import numpy as np
import pytest
from tests.command_runner import run

from corrdp.estimators import LogisticRegression
from corrdp.policy import Policy, read_declared

ROLES = ("--target", "label", "--sensitive", "group", "--label", "public")
RELEASE = ("--policy", "policy.toml", "--epsilon", 1, "--delta", 1e-5)
N_ROWS = 200
ODD_ROW = 7
CASES = {
    "code": ("250.0", "401.0", "V58"),
    "flag": ("True", "False", "maybe"),
    "word": ("True", "False", "maybe"),
    "padded": ("01", "02", "x"),
    "day": ("2020-01-01", "2020-01-02", "never"),
    "power": ("1e3", "2e3", "q"),
    "amount": ("1e3", "2e3", "q"),
    "kept": ("NA", "1", "x"),
    "label": ("1", "0", "x"),
}
POLICY = """
target = "label"

[label]
type = "category"
categories = [0, 1]
unknown = 1
score = 1.0

[features.group]
role = "sensitive"
type = "category"
categories = ["a", "b"]
"""
DOMAINS = {
    "code": 'type = "category"\ncategories = [250, 401]\nother = true',
    "flag": 'type = "boolean"\nmissing = "slot"',
    "word": 'type = "category"\ncategories = [true, false]\nother = true',
    "padded": 'type = "category"\ncategories = [1, 2]\nother = true',
    "day": 'type = "category"\ncategories = ["2020-01-01", "2020-01-02"]\nother = true',
    "power": 'type = "category"\ncategories = [1000, 2000]\nother = true',
    "amount": 'type = "number"\nbounds = [0, 3000]\nbins = 3\nmissing = "slot"',
    "kept": 'type = "category"\ncategories = ["NA", 1]\nother = true\nmissing = "slot"',
}
for _name, _domain in DOMAINS.items():
    POLICY += f'\n[features.{_name}]\nrole = "insensitive"\nleakage = 0.5\n{_domain}\n'


def write(path, odd=None):
    """Write a table whose columns tell the group; one cell is odd if asked for."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["group", *CASES])
        for row in range(N_ROWS):
            cells = {name: pair[row % 2] for name, pair in CASES.items()}
            if odd is not None and row == ODD_ROW:
                cells[odd] = CASES[odd][2]
            writer.writerow(["ab"[row % 2], *cells.values()])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    (folder / "policy.toml").write_text(POLICY)
    write(folder / "plain.csv")
    for name in CASES:
        write(folder / f"{name}.csv", odd=name)
    return folder


def commanded(folder, *words):
    result = run(*words, cwd=folder)
    assert result.code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("case", CASES)
def test_training_sees_other_rows_as_before(folder, case):
    policy = Policy.from_file(folder / "policy.toml")
    model = LogisticRegression(policy)
    others = np.arange(N_ROWS) != ODD_ROW

    def encoded(name):
        table = read_declared(str(folder / f"{name}.csv"), policy)
        return np.column_stack(model.encode(table, table["label"]))

    np.testing.assert_array_equal(encoded("plain")[others], encoded(case)[others])
    # the odd cell itself is seen, so that equality above is no accident
    assert (encoded("plain")[~others] != encoded(case)[~others]).any()


@pytest.mark.parametrize("case", [name for name in CASES if name != "label"])
def test_query_counts_move_by_one_row(folder, case):
    def counts(name):
        words = ("query", f"{name}.csv", "--policy", "policy.toml", "--json")
        asked = ("--ask", f"histogram({case})", "--epsilon", 300)
        (answer,) = json.loads(commanded(folder, *words, *asked))["answers"]
        return list(answer["value"].values())

    before, after = counts("plain"), counts(case)
    moved = np.abs(np.subtract(before, after))
    assert moved.sum() == 2
    assert moved.max() == 1


@pytest.mark.parametrize("case", [name for name in CASES if name != "label"])
def test_leakage_of_a_column_hardly_moves(folder, case):
    def estimate(name):
        out = folder / f"leakage-{name}.json"
        words = ("leakage", f"{name}.csv", "--policy", "policy.toml", "--out", out)
        commanded(folder, *words, "--source", "public")
        return json.loads(out.read_text())["features"][case]["estimate"]

    assert estimate("plain") == 1.0
    assert estimate(case) >= 1.0 - 2 / N_ROWS


def test_predictions_of_other_rows_stay_and_are_zero_or_one(folder):
    train = ("--epsilon", 3, "--delta", 1e-5, "--model", "logistic", "--out", "model")
    commanded(folder, "train", "plain.csv", "--policy", "policy.toml", *train)

    def predicted(name):
        out = folder / f"predicted-{name}.csv"
        commanded(folder, "predict", "model", f"{name}.csv", "--out", out)
        return out.read_text().splitlines()

    plain = predicted("plain")
    assert plain[0] == "prediction,probability of 0,probability of 1"
    assert {line.split(",")[0] for line in plain[1:]} <= {"0", "1"}
    for case in DOMAINS:
        lines = predicted(case)
        del lines[ODD_ROW + 1]
        assert lines == plain[: ODD_ROW + 1] + plain[ODD_ROW + 2 :]


@pytest.mark.parametrize("case", CASES)
def test_check_finds_that_the_table_fits(folder, case):
    words = ("check", f"{case}.csv", "--policy", "policy.toml", "--json")
    assert json.loads(commanded(folder, *words))["fits"]


def test_drafts_keep_zero_and_one_as_labels(folder, tmp_path):
    draft = tmp_path / "draft.toml"
    commanded(folder, "init", "plain.csv", *ROLES, "--out", draft)
    policy = Policy.from_file(draft)
    assert policy.label.domain.values == (0, 1)


COMMANDS = {
    "init": (*ROLES, "--out", "new.toml"),
    "check": ("--policy", "policy.toml"),
    "train": (*RELEASE, "--model", "logistic", "--out", "refused"),
    "leakage": RELEASE,
    "query": ("--policy", "policy.toml", "--ask", "count()", "--epsilon", 1),
}
HEADER = ",".join(["group", *CASES])
ROW = ",".join(["a", *(pair[0] for pair in CASES.values())])
TABLES = {
    "empty": ("", "has no rows"),
    "header": (HEADER, "has no rows"),
    "header and line end": (f"{HEADER}\n", "has no rows"),
    "same name twice": (
        f"{HEADER},day\n{ROW},never\n",
        "has two columns of the same name",
    ),
    "same name twice, not declared": (
        f"{HEADER},more,more\n{ROW},1,2\n",
        "has two columns of the same name",
    ),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("command", COMMANDS)
def test_all_commands_refuse_a_table_in_the_same_words(command, table, folder):
    text, said = TABLES[table]
    (folder / "odd.csv").write_text(text)
    result = run(command, "odd.csv", *COMMANDS[command], cwd=folder)
    assert result.code == 3, result.stdout
    assert f"'odd.csv' {said}" in " ".join(result.stderr.split())

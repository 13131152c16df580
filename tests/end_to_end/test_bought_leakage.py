"""`corrdp train --leakage auto` buys distances if it pays, and pays for them once."""

import json

import numpy as np
import pandas as pd
import pytest

from command_runner import run
from corrdp.leakage import LeakageTable
from corrdp.ledger import Ledger
from corrdp.policy import Policy

POLICY = """
target = "y"

[features.s]
role = "sensitive"
type = "category"
categories = ["v0", "v1"]

{numbers}
[label]
type = "number"
bounds = [0, 1]
score = 0.0
"""
NUMBER = """[features.u{index}]
role = "insensitive"
type = "number"
bounds = [0, 1]
bins = 4

"""
N_NUMBERS = 12


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr("corrdp.estimators._leakage_purchase.WORTH_BUYING", 0.9)
    generator = np.random.default_rng(4)
    columns = {f"u{i}": generator.random(10_000) for i in range(N_NUMBERS)}
    s = generator.random(10_000) < 0.5
    y = np.clip(0.3 + 0.3 * columns["u0"] + 0.1 * s, 0, 1)
    frame = pd.DataFrame({"s": np.where(s, "v1", "v0"), **columns, "y": y})
    frame.round(3).to_csv(tmp_path / "data.csv", index=False)
    frame[:200].round(3).to_csv(tmp_path / "few.csv", index=False)
    numbers = "".join(NUMBER.format(index=i) for i in range(N_NUMBERS))
    (tmp_path / "policy.toml").write_text(POLICY.format(numbers=numbers))
    return tmp_path


def train(files, data, *options):
    return run(
        *("train", data, "--policy", "policy.toml", "--model", "linear"),
        *("--epsilon", 1, "--delta", 1e-6, "--leakage", "auto", "--json", *options),
        cwd=files,
    )


def test_a_purchase_is_charged_before_training_and_not_again(files):
    result = train(
        files, "data.csv", "--out", "m", "--ledger", "l.db", "--ledger-epsilon", 9
    )
    assert result.code == 0, result.stderr
    document = json.loads(result.stdout)
    assert "bought with" in document["leakage"]["reason"]
    names = [part["name"] for part in document["certificate"]["components"]]
    assert names.count("leakage") == 1
    table = LeakageTable.from_dict(json.loads((files / "m/leakage.json").read_text()))
    declared = Policy.from_file(files / "policy.toml")
    read = Policy.from_file(files / "m" / "policy.toml")
    assert read.fingerprint() == table.policy_for(declared).fingerprint()
    ledger = Ledger.open(files / "l.db")
    charges = [entry for entry in ledger.entries() if entry["kind"] == "charge"]
    assert len(charges) == 2
    assert ledger.has_paid(table.digest)


def test_what_is_not_worth_its_price_is_not_bought(files):
    result = train(files, "few.csv", "--out", "m")
    assert result.code == 0, result.stderr
    document = json.loads(result.stdout)
    assert "not bought" in document["leakage"]["reason"]
    assert not (files / "m" / "leakage.json").exists()
    names = [part["name"] for part in document["certificate"]["components"]]
    assert "leakage" not in names


def test_what_was_bought_is_kept_if_the_ledger_cannot_pay_for_the_training(files):
    ledger = ("--ledger", "l.db")
    first = train(files, "data.csv", "--out", "m", *ledger, "--ledger-epsilon", 0.9)
    assert first.code != 0
    assert "--leakage 'm/leakage.json'" in first.stderr
    table = LeakageTable.from_dict(json.loads((files / "m/leakage.json").read_text()))
    opened = Ledger.open(files / "l.db")
    assert opened.has_paid(table.digest)
    # it is neither bought once more nor replaced
    again = train(files, "data.csv", "--out", "m", *ledger)
    assert "already" in again.stderr
    assert [e["kind"] for e in opened.entries()].count("charge") == 1

"""A ledger that is not there yet appears with its first charge, or never."""

import os
import sqlite3
import stat
from contextlib import closing

import pandas as pd
import pytest

from corrdp.accounting import WHOLE_RECORD, LaplaceEvent
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.ledger import Ledger
from corrdp.policy import Budget, Feature, NumberDomain, Policy

POLICY = Policy((Feature("age", "sensitive", NumberDomain(0, 100)),))
TOTAL = Budget(epsilon=1.0, delta=0.0)


def cost(epsilon):
    return {WHOLE_RECORD: [LaplaceEvent(epsilon)]}


@pytest.fixture
def draft(tmp_path):
    return Ledger.draft(tmp_path / "folder" / "l", POLICY, budget=TOTAL)


def test_looking_at_a_draft_makes_no_file(draft, tmp_path):
    draft.require(cost(1.0), policy=POLICY)
    assert draft.remaining()["sensitive"].share_left == 1.0
    assert draft.knows(POLICY)
    assert not draft.has_paid("a release")
    with pytest.raises(BudgetError):
        draft.charge(cost(1.5), policy=POLICY, purpose="too much")
    assert os.listdir(tmp_path) == []


def test_the_first_charge_makes_the_file_and_is_in_it(draft):
    receipt = draft.charge(cost(0.25), policy=POLICY, purpose="first")
    assert os.listdir(draft.path.parent) == ["l"]
    assert stat.S_IMODE(draft.path.stat().st_mode) == 0o600
    again = draft.charge(cost(0.25), policy=POLICY, purpose="second")
    other = Ledger.open(draft.path)
    assert other.entries() == draft.entries()
    assert [receipt.number, again.number] == [3, 4]
    assert other.remaining()["sensitive"].share_left == 0.5


def test_a_fingerprint_of_a_draft_is_that_of_its_file(draft):
    frame = pd.DataFrame({"age": [1.0, 2.0]})
    before = draft.fingerprint(frame)
    draft.charge(cost(0.1), policy=POLICY, purpose="x", fingerprint=before)
    assert Ledger.open(draft.path).fingerprint(frame) == before


def test_a_file_that_came_first_is_not_replaced(draft):
    Ledger.create(draft.path, POLICY, budget=TOTAL)
    before = draft.path.read_bytes()
    with pytest.raises(CorrDPError, match="Open that one and charge it") as refusal:
        draft.charge(cost(0.1), policy=POLICY, purpose="x")
    assert "another path" not in str(refusal.value)  # a budget of its own
    assert draft.path.read_bytes() == before
    assert os.listdir(draft.path.parent) == ["l"]


def test_asking_whether_a_release_could_be_paid_waits_for_nobody(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "l", POLICY, budget=TOTAL)
    monkeypatch.setattr("corrdp.ledger._store._WAIT_SECONDS", 0.0)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ledger.require(cost(1.0), policy=POLICY)
        with pytest.raises(BudgetError):
            ledger.require(cost(1.5), policy=POLICY)


def test_a_policy_is_introduced_with_its_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "l", POLICY, budget=TOTAL)
    ledger.charge(cost(0.5), policy=POLICY, purpose="first")
    wide = Policy((*POLICY.features, Feature("pay", "sensitive", NumberDomain(0, 1))))
    before = ledger.path.read_bytes()
    ledger.introduce(wide)
    assert not ledger.knows(wide)
    with pytest.raises(BudgetError):  # its account owes what was released before
        ledger.charge(cost(0.6), policy=wide, purpose="x")
    free = Policy((Feature("age", "public", NumberDomain(0, 100)), wide.features[1]))
    ledger.introduce(free)
    with pytest.raises(GuaranteeVoidError, match="no bound"):
        ledger.charge(cost(0.1), policy=free, purpose="x")
    assert ledger.path.read_bytes() == before
    ledger.charge(cost(0.5), policy=wide, purpose="second")
    kinds = [entry["kind"] for entry in Ledger.open(ledger.path).entries()]
    assert kinds == ["ledger", "policy", "charge", "policy", "charge"]

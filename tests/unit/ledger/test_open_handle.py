"""An open ledger trusts nothing it saw before; limits hold to the last unit."""

import shutil
import sqlite3

import numpy as np
import pytest

from corrdp.accounting import WHOLE_RECORD, GaussianEvent, LaplaceEvent
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.ledger import Ledger, Receipt, _store
from corrdp.ledger._rules import UNITS, Rule, cost_units
from corrdp.policy import Budget, Feature, NumberDomain, Policy


def feature(name, role="sensitive", **options):
    return Feature(name, role, NumberDomain(0, 1), **options)


POLICY = Policy((feature("s"), feature("u", "insensitive", leakage=0.5)))


def cost(epsilon):
    return {WHOLE_RECORD: [LaplaceEvent(epsilon)]}


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger.create(
        tmp_path / "l", POLICY, budget=Budget(epsilon=1.0, delta=0.0)
    )
    for _ in range(3):
        ledger.charge(cost(0.1), policy=POLICY, purpose="x")
    return ledger


OPERATIONS = {
    "charge": lambda opened: opened.charge(cost(0.1), policy=POLICY, purpose="x"),
    "require": lambda opened: opened.require(cost(0.1), policy=POLICY),
    "remaining": lambda opened: opened.remaining(),
    "add_policy": lambda opened: opened.add_policy(POLICY),
    "record_release": lambda opened: opened.record_release(Receipt(3, ""), "abc"),
    "has_paid": lambda opened: opened.has_paid("abc"),
    "knows": lambda opened: opened.knows(POLICY),
    "entries": lambda opened: opened.entries(),
    "fingerprint": lambda opened: opened.fingerprint(np.ones((2, 1))),
}
EDITS = {
    "a cheaper entry": "UPDATE entries SET costs = '[0,0,0]' WHERE id = 4",
    "a cheaper balance": "UPDATE costs SET cost = 0 WHERE entry = 4",
    "the last entry gone": "DELETE FROM entries WHERE id = 5;"
    "DELETE FROM costs WHERE entry = 5",
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("edit", EDITS)
def test_a_ledger_that_is_edited_while_open_is_refused(ledger, edit, operation):
    connection = sqlite3.connect(ledger.path)
    connection.executescript(EDITS[edit])
    connection.close()
    before = ledger.path.read_bytes()
    with pytest.raises(GuaranteeVoidError, match="is damaged"):
        OPERATIONS[operation](ledger)
    assert ledger.path.read_bytes() == before


def test_a_ledger_that_is_set_back_while_open_is_refused(ledger, tmp_path):
    shutil.copy(ledger.path, tmp_path / "old")
    ledger.charge(cost(0.1), policy=POLICY, purpose="x")
    ledger.remaining()
    shutil.copy(tmp_path / "old", ledger.path)
    with pytest.raises(GuaranteeVoidError, match="entry 6, which it had, was chang"):
        ledger.charge(cost(0.1), policy=POLICY, purpose="x")


def test_other_handles_may_add_to_it(ledger):
    Ledger.open(ledger.path).charge(cost(0.1), policy=POLICY, purpose="x")
    ledger.charge(cost(0.1), policy=POLICY, purpose="x")
    assert ledger.remaining()["sensitive"].share_left == pytest.approx(0.5)


def test_a_known_policy_with_a_stricter_promise_is_refused(ledger):
    """Opened with leakage 0.5, u may spend 2; leakage 0.9 promises it 1.11."""
    with pytest.raises(BudgetError, match=r"epsilon 1\.11111, its account may spend 2"):
        ledger.add_policy(POLICY, leakage={"u": 0.9})
    n_entries = len(ledger.entries())
    ledger.add_policy(POLICY, leakage={"u": 0.4})  # asks for less: the account stays
    assert len(ledger.entries()) == n_entries


def test_the_last_unit_is_paid_and_the_next_is_not(tmp_path):
    ledger = Ledger.create(
        tmp_path / "unit", POLICY, budget=Budget(epsilon=1.0, delta=0.0)
    )
    unit = 1.0 / UNITS
    with pytest.raises(BudgetError):
        ledger.charge(cost(1.0 + unit), policy=POLICY, purpose="a unit too much")
    ledger.charge(cost(1.0 - unit), policy=POLICY, purpose="all but one unit")
    with pytest.raises(BudgetError):
        ledger.charge(cost(2 * unit), policy=POLICY, purpose="two units")
    ledger.charge(cost(unit), policy=POLICY, purpose="the last unit")
    with pytest.raises(BudgetError):
        ledger.charge(cost(unit), policy=POLICY, purpose="one more")
    assert ledger.remaining()["sensitive"].units_left == 0


def test_sums_beyond_what_sqlite_adds(tmp_path):
    """The whole record is tracked, not limited: its costs may be huge."""
    ledger = Ledger.create(
        tmp_path / "huge", POLICY, budget=Budget(epsilon=1.0, delta=1e-6)
    )
    events = {
        "sensitive": [GaussianEvent(mu=1e-3)],
        "insensitive:u": [GaussianEvent(mu=1e-3)],
        WHOLE_RECORD: [GaussianEvent(mu=250.0)],
    }
    receipts = [
        ledger.charge(events, policy=POLICY, purpose="x").number for _ in range(20)
    ]
    assert len(receipts) == 20
    spent = Ledger.open(ledger.path).remaining()[WHOLE_RECORD].spent
    account = ledger.remaining()[WHOLE_RECORD].account
    one = cost_units(Rule.RENYI, account.order, events[WHOLE_RECORD])
    assert spent == 20 * one
    assert spent > 2**63


def test_a_cost_that_no_file_holds_is_unbounded():
    event = LaplaceEvent(1e6)
    assert cost_units(Rule.PURE, None, [event]) == 10**18
    assert cost_units(Rule.PURE, None, [event] * 10) is None


def full_disk(monkeypatch):
    """Let no file grow: SQLite itself then reports a full disk."""
    connect = _store._connect

    def limited(path):
        connection = connect(path)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {max(pages, 1)}")
        return connection

    monkeypatch.setattr(_store, "_connect", limited)


def charge_many(ledger):
    for _ in range(60):
        ledger.charge(cost(1e-6), policy=POLICY, purpose="x" * 500)


def test_a_full_disk_is_not_called_damage(ledger, monkeypatch):
    before = ledger.remaining()
    with monkeypatch.context() as patch:
        full_disk(patch)
        with pytest.raises(
            CorrDPError, match=r"disk is full.*Nothing was charged"
        ) as e:
            charge_many(ledger)
        assert not isinstance(e.value, GuaranteeVoidError)
    paid = len(ledger.entries()) - 5
    spent = ledger.remaining()["sensitive"].spent
    assert spent == before["sensitive"].spent + paid * UNITS // 10**6
    ledger.charge(cost(1e-6), policy=POLICY, purpose="there is room again")


def test_a_ledger_is_not_created_on_a_full_disk(tmp_path, monkeypatch):
    full_disk(monkeypatch)
    with pytest.raises(CorrDPError, match="disk is full"):
        Ledger.create(tmp_path / "n", POLICY, budget=Budget(epsilon=1.0, delta=0.0))
    assert list(tmp_path.iterdir()) == []

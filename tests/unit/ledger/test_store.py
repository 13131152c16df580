"""Files that are not a ledger, or no longer one, are refused and left untouched."""

import sqlite3
import stat

import pytest

from corrdp.accounting import WHOLE_RECORD, LaplaceEvent
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.ledger import Ledger, _store, check_ledger
from corrdp.policy import Budget, Feature, NumberDomain, Policy

POLICY = Policy((Feature("age", "sensitive", NumberDomain(0, 100)),))


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger.create(
        tmp_path / "ages.ledger", POLICY, budget=Budget(epsilon=1.0, delta=0.0)
    )
    for index in range(8):
        ledger.charge(
            {WHOLE_RECORD: [LaplaceEvent(0.01)]}, policy=POLICY, purpose=str(index)
        )
    return ledger


def refused(path, error, message):
    """Check the refusal, and that not a byte changed."""
    before = path.read_bytes()
    with pytest.raises(error, match=message):
        Ledger.open(path)
    assert path.read_bytes() == before
    assert [p for p in path.parent.iterdir() if p.name.startswith(path.name)] == [path]


def foreign_database(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE entries (id INTEGER)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "content", [b"", b"age,race\n30,a\n", b"SQLite format 3\x00" + b"x" * 200]
)
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    refused(path, CorrDPError, "is not a ledger of corrdp")


def test_foreign_databases_are_refused(tmp_path):
    foreign_database(tmp_path / "file")
    refused(tmp_path / "file", CorrDPError, "is not a ledger of corrdp")


def test_a_link_to_nothing_is_no_place_for_a_ledger(tmp_path):
    link = tmp_path / "link.ledger"
    link.symlink_to(tmp_path / "gone.ledger")
    budget = Budget(epsilon=1.0, delta=0.0)
    for create in (Ledger.create, Ledger.draft):
        with pytest.raises(CorrDPError, match="a link to a file that is not there"):
            create(link, POLICY, budget=budget)
    for given in (budget, None):
        with pytest.raises(CorrDPError, match="a link to a file that is not there"):
            check_ledger(link, given)
    assert list(tmp_path.iterdir()) == [link]


def test_a_missing_file_is_refused_and_not_created(tmp_path):
    with pytest.raises(CorrDPError, match="cannot read the ledger"):
        Ledger.open(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_file_of_a_later_version_is_refused(ledger):
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    refused(ledger.path, CorrDPError, "has schema 2")


def test_an_existing_file_is_not_overwritten(ledger):
    before = ledger.path.read_bytes()
    with pytest.raises(CorrDPError, match="exists already"):
        Ledger.create(ledger.path, POLICY, budget=Budget(epsilon=9.0, delta=0.0))
    assert ledger.path.read_bytes() == before
    assert list(ledger.path.parent.iterdir()) == [ledger.path]


def test_only_the_owner_can_read_a_new_ledger(ledger):
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600


def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CorrDPError, match="cannot write the ledger"):
        Ledger.create(
            tmp_path / "file" / "l", POLICY, budget=Budget(epsilon=1.0, delta=0.0)
        )


@pytest.mark.parametrize("cut", [150, 4096, 6000])
def test_truncated_files_are_refused(ledger, cut):
    ledger.path.write_bytes(ledger.path.read_bytes()[:cut])
    refused(ledger.path, GuaranteeVoidError, "is damaged")


@pytest.mark.parametrize("place", [0.2, 0.4, 0.6, 0.8])
def test_overwritten_pages_are_refused(ledger, place):
    content = bytearray(ledger.path.read_bytes())
    start = int(place * len(content)) // 4096 * 4096
    content[start : start + 4096] = b"\x5a" * 4096
    ledger.path.write_bytes(content)
    refused(ledger.path, GuaranteeVoidError, "is damaged")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE costs SET cost = 0 WHERE entry = 5", "costs do not match"),
        ("DELETE FROM costs WHERE entry = 5", "costs do not match"),
        ("DELETE FROM entries WHERE id = 5", "entry 5 was changed"),
        ("DELETE FROM entries WHERE id = 1", "entry 1 was changed"),
        (
            "UPDATE entries SET document = replace(document, '0.01', '0.00') "
            "WHERE id = 7",
            "entry 7 was changed",
        ),
        ("UPDATE entries SET kind = 'note' WHERE id = 9", "entry 9 was changed"),
        ("DELETE FROM entries", "costs do not match"),
    ],
)
def test_edited_ledgers_are_refused(ledger, statement, message):
    with sqlite3.connect(ledger.path) as connection:
        connection.execute(statement)
    connection.close()
    refused(ledger.path, GuaranteeVoidError, message)


@pytest.mark.parametrize(
    "change",
    ["costs = '[1, 2, 3, 4, 5, 6]'", "costs = 'null'", "document = x'ff'"],
)
def test_entries_that_cannot_be_read_are_told_in_words(ledger, change):
    """Also if whoever edited them knew how entries are chained."""
    connection = sqlite3.connect(ledger.path)
    connection.execute(f"UPDATE entries SET {change} WHERE id = 3")
    previous = ""
    for number, *texts in connection.execute(
        "SELECT id, kind, document, costs FROM entries ORDER BY id"
    ).fetchall():
        if not isinstance(texts[1], bytes):
            previous = _store.chained_digest(previous, number, *texts)
        connection.execute(
            "UPDATE entries SET digest = ? WHERE id = ?", (previous, number)
        )
    connection.commit()
    connection.close()
    refused(ledger.path, CorrDPError, "is damaged")


def test_every_flipped_byte_of_an_entry_is_noticed(ledger):
    """Sampled over the file: either refused, or the balance is what it was."""
    original = ledger.path.read_bytes()
    balance = ledger.remaining()["sensitive"].spent
    noticed = 0
    for place in range(100, len(original), len(original) // 60):
        content = bytearray(original)
        content[place] ^= 0xFF
        ledger.path.write_bytes(content)
        try:
            assert Ledger.open(ledger.path).remaining()["sensitive"].spent == balance
        except (CorrDPError, GuaranteeVoidError):
            noticed += 1
    assert noticed > 10


def test_an_overdrawn_ledger_is_refused(ledger, monkeypatch):
    monkeypatch.setattr("corrdp.ledger._ledger.refuse_overdraft", lambda *_: None)
    ledger.charge({WHOLE_RECORD: [LaplaceEvent(5.0)]}, policy=POLICY, purpose="x")
    refused(ledger.path, GuaranteeVoidError, "'sensitive' is overdrawn")


def test_a_lock_that_is_never_released_is_reported(ledger, monkeypatch):
    monkeypatch.setattr(_store, "_WAIT_SECONDS", 0.05)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CorrDPError, match="stayed locked"):
        ledger.charge({WHOLE_RECORD: [LaplaceEvent(0.01)]}, policy=POLICY, purpose="x")
    other.close()

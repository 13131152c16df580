"""What a ledger's database says, and whether its entries are still what they were."""

import hashlib
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from corrdp._typing import JSONObject
from corrdp.exceptions import CorrDPError
from corrdp.ledger._accounts import Account
from corrdp.ledger._balance import Balance
from corrdp.ledger._store import chained_digest, check_structure, damaged

_HALF = 31  # bits

RELEASE = "release"


def read_header(connection: sqlite3.Connection) -> JSONObject:
    """Return the first entry: budget and rule."""
    row = connection.execute("SELECT document FROM entries WHERE id = 1").fetchone()
    header: JSONObject = json.loads(row[0])
    return header


def known_policies(connection: sqlite3.Connection) -> set[str]:
    """Return the fingerprints of the policies that releases may use."""
    return {document["policy"] for _, document in _read(connection, "policy")}


def read_accounts(connection: sqlite3.Connection) -> list[Account]:
    """Return all accounts, in the order in which they were opened."""
    return [
        Account.from_json(account)
        for _, document in _read(connection, "policy")
        for account in document["accounts"]
    ]


def read_charges(connection: sqlite3.Connection) -> list[tuple[int, JSONObject]]:
    """Return number and document of every charge, oldest first."""
    return _read(connection, "charge")


def _read(connection: sqlite3.Connection, kind: str) -> list[tuple[int, JSONObject]]:
    # Said in full: SQLite uses the index of one kind for queries that name the kind.
    rows = connection.execute(
        f"SELECT id, document FROM entries WHERE kind = '{kind}' ORDER BY id"
    )
    return [(number, json.loads(text)) for number, text in rows]


def read_balances(connection: sqlite3.Connection) -> list[Balance]:
    """Return what every account has paid."""
    # Costs are added in two halves: a plain SUM overflows near 2**63.
    sums = {
        index: None if counted < rows else (high << _HALF) + low
        for index, high, low, counted, rows in connection.execute(
            f"SELECT account, SUM(cost >> {_HALF}), SUM(cost & {(1 << _HALF) - 1}), "
            "COUNT(cost), COUNT(*) FROM costs GROUP BY account"
        )
    }
    return [
        Balance(account, sums.get(index, 0))
        for index, account in enumerate(read_accounts(connection))
    ]


def read_releases(connection: sqlite3.Connection) -> list[JSONObject]:
    """Return charge and digest of every release that was recorded."""
    return [document for _, document in _read(connection, RELEASE)]


def check_new_release(
    connection: sqlite3.Connection, charge: int, release: str
) -> None:
    """Raise unless the charge exists and neither it nor the release is recorded."""
    if charge not in [number for number, _ in read_charges(connection)]:
        raise CorrDPError(
            f"entry {charge} of the ledger is not a charge. Record what a charge of "
            "this ledger has paid for."
        )
    for known in read_releases(connection):
        if charge == known["charge"] or release == known["release"]:
            raise CorrDPError(
                f"entry {charge} of the ledger, or release {release[:12]}, is recorded "
                "already. A charge pays for one release, and a release is paid once."
            )


@dataclass(frozen=True)
class Verified:
    """What was verified: the entries up to a number, and what they add up to.

    Whoever has verified entries once compares their texts as they were read, several
    times faster than by their chain.
    """

    number: int = 0  # of the last entry
    digest: str = ""  # its own, which continues the chain
    texts: bytes = hashlib.sha256().digest()  # of all entries
    totals: tuple[int | None, ...] = ()  # what every account has paid


def verify_entries(
    path: Path, connection: sqlite3.Connection, before: Verified
) -> Verified:
    """Return what is verified now, or raise if an entry was changed or removed.

    Entries after those of an earlier look are checked by their chain.
    """
    if before.number == 0:
        check_structure(path, connection)
    texts = hashlib.sha256()
    totals = list(before.totals)
    previous, expected = before.digest, 1
    for number, *fields in connection.execute(
        "SELECT id, kind, document, costs, digest FROM entries ORDER BY id"
    ):
        kind, document, costs, digest = fields
        if number != expected:
            raise damaged(path, f"entry {expected} was changed or removed")
        texts.update("\0".join(fields).encode())
        if number > before.number:
            if digest != chained_digest(previous, number, kind, document, costs):
                raise damaged(path, f"entry {expected} was changed or removed")
            for index, cost in enumerate(json.loads(costs)):
                spent = totals[index]
                known = spent is not None and cost is not None
                totals[index] = spent + cost if known else None
            if kind == "policy":
                opened = json.loads(document)["accounts"]
                totals += [account["carried"] for account in opened]
            previous = digest
        elif number == before.number and texts.digest() != before.texts:
            raise damaged(path, f"an entry up to {number} was changed")
        expected += 1
    if expected <= before.number:
        raise damaged(path, f"entry {expected}, which it had, was removed")
    return Verified(expected - 1, previous, texts.digest(), tuple(totals))

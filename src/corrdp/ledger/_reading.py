"""What a ledger's database says: accounts, charges, balances, what charges paid for."""

import json
import sqlite3

from corrdp._typing import JSONObject
from corrdp.exceptions import CorrDPError
from corrdp.ledger._accounts import Account
from corrdp.ledger._balance import Balance

_HALF = 31  # bits

RELEASE = "release"


def read_header(connection: sqlite3.Connection) -> JSONObject:
    """Return the first entry: budget and rule."""
    row = connection.execute("SELECT document FROM entries WHERE id = 1").fetchone()
    header: JSONObject = json.loads(row[0])
    return header


def read_policy_entries(connection: sqlite3.Connection) -> list[JSONObject]:
    """Return the entries that open accounts, oldest first."""
    rows = connection.execute(
        "SELECT document FROM entries WHERE kind = 'policy' ORDER BY id"
    )
    return [json.loads(text) for (text,) in rows]


def known_policies(connection: sqlite3.Connection) -> set[str]:
    """Return the fingerprints of the policies that releases may use."""
    return {document["policy"] for document in read_policy_entries(connection)}


def read_accounts(connection: sqlite3.Connection) -> list[Account]:
    """Return all accounts, in the order in which they were opened."""
    return [
        Account.from_json(account)
        for document in read_policy_entries(connection)
        for account in document["accounts"]
    ]


def read_charges(connection: sqlite3.Connection) -> list[tuple[int, JSONObject]]:
    """Return number and document of every charge, oldest first."""
    rows = connection.execute(
        "SELECT id, document FROM entries WHERE kind = 'charge' ORDER BY id"
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
    rows = connection.execute(
        "SELECT document FROM entries WHERE kind = ? ORDER BY id", (RELEASE,)
    )
    return [json.loads(text) for (text,) in rows]


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

"""Check all entries of a ledger, again and again, without paying for it each time."""

import hashlib
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from corrdp.ledger._store import Entry, chained_digest, check_structure, damaged


@dataclass(frozen=True)
class Verified:
    """What was verified: the entries up to a number, and what they add up to.

    Parameters
    ----------
    number : int
        Last entry.
    digest : str
        Its digest, which continues the chain.
    texts : bytes
        SHA-256 of the texts of all entries as they were read: whoever has verified
        them once compares them by it, several times faster than by their chain.
    totals : tuple of int or None
        What every account has paid.
    """

    number: int = 0
    digest: str = ""
    texts: bytes = hashlib.sha256().digest()
    totals: tuple[int | None, ...] = ()


def verify_entries(
    path: Path, connection: sqlite3.Connection, before: Verified
) -> Verified:
    """Return what is verified now, or raise if an entry was changed or removed.

    Parameters
    ----------
    path : Path
        Of the ledger, for messages.
    connection : sqlite3.Connection
        In a transaction.
    before : Verified
        Of an earlier look; entries after it are checked by their chain.
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
            _add(totals, Entry(number, kind, document, json.loads(costs)))
            previous = digest
        elif number == before.number and texts.digest() != before.texts:
            raise damaged(path, f"an entry up to {number} was changed")
        expected += 1
    if expected <= before.number:
        raise damaged(path, f"entry {expected}, which it had, was removed")
    return Verified(expected - 1, previous, texts.digest(), tuple(totals))


def _add(totals: list[int | None], entry: Entry) -> None:
    for index, cost in enumerate(entry.costs):
        spent = totals[index]
        totals[index] = None if spent is None or cost is None else spent + cost
    if entry.kind == "policy":
        accounts = json.loads(entry.document)["accounts"]
        totals += [account["carried"] for account in accounts]

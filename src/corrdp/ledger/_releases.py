"""What a charge paid for: digests of releases, so that none is paid twice."""

import json
import sqlite3

from corrdp._typing import JSONObject
from corrdp.exceptions import CorrDPError
from corrdp.ledger._reading import read_charges

KIND = "release"


def read_releases(connection: sqlite3.Connection) -> list[JSONObject]:
    """Return charge and digest of every release that was recorded."""
    rows = connection.execute(
        "SELECT document FROM entries WHERE kind = ? ORDER BY id", (KIND,)
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

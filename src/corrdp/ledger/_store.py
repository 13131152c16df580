"""The ledger's file: one SQLite database, append-only, chained by digests.

A file is looked at as plain bytes before SQLite opens it, so that a file which is not
a ledger is refused untouched. Every operation opens its own connection: nothing is
shared across a fork.
"""

import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from corrdp._json import canonical_text
from corrdp._typing import JSONObject
from corrdp.exceptions import CorrDPError, GuaranteeVoidError

APPLICATION_ID = 0x43445031  # "CDP1"
SCHEMA_VERSION = 1
_MAGIC = b"SQLite format 3\x00"
_WAIT_SECONDS = 120.0
_TROUBLES = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_READONLY: "the file, or its folder, cannot be written",
    sqlite3.SQLITE_PERM: "the file may not be opened",
    sqlite3.SQLITE_CANTOPEN: "the file, or its folder, cannot be opened",
    sqlite3.SQLITE_NOMEM: "memory ran out",
    sqlite3.SQLITE_INTERRUPT: "the operation was interrupted",
}
_SCHEMA = """
CREATE TABLE secret (key BLOB NOT NULL);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    document TEXT NOT NULL,
    costs TEXT NOT NULL,
    digest TEXT NOT NULL
);
CREATE INDEX entries_that_open_accounts ON entries (id) WHERE kind = 'policy';
CREATE TABLE costs (
    account INTEGER NOT NULL,
    entry INTEGER NOT NULL REFERENCES entries (id),
    cost INTEGER,
    PRIMARY KEY (account, entry)
) WITHOUT ROWID;
"""


class Draft(NamedTuple):
    """What a ledger that is not there yet begins with."""

    key: bytes
    documents: tuple[tuple[str, JSONObject], ...]


def is_there(path: Path) -> bool:
    """Return whether there is a file; refuse a link to one that is not there."""
    if path.is_symlink() and not path.exists():
        raise CorrDPError(
            f"the ledger {str(path)!r} is a link to a file that is not there. Bring "
            "the file back, or name the path of a new ledger itself."
        )
    return path.exists()


def draft_of(path: Path, *documents: tuple[str, JSONObject]) -> Draft:
    """Return a draft with a key of its own; refuse if there is a file already."""
    if is_there(path):
        raise CorrDPError(
            f"a file {str(path)!r} exists already. Open it with Ledger.open, or choose "
            "another path."
        )
    return Draft(os.urandom(32), documents)


def _drafted(draft: Draft) -> sqlite3.Connection:
    """Return a ledger in memory, which is nowhere else."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(_SCHEMA)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("INSERT INTO secret VALUES (?)", (draft.key,))
    for kind, document in draft.documents:
        append(connection, kind, document)
    return connection


def _write_new(path: Path, connection: sqlite3.Connection) -> None:
    """Give a ledger its file in one move, which outlives a power cut right after it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        try:
            with closing(_connect(Path(name))) as file:
                connection.backup(file)
            try:
                os.link(name, path)  # unlike a rename, never over another file
            except FileExistsError:
                raise CorrDPError(
                    f"another process made the ledger {str(path)!r} meanwhile. Open "
                    "that one and charge it (without --ledger-epsilon): two ledgers of "
                    "one table would allow twice the budget."
                ) from None
        finally:
            os.unlink(name)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise CorrDPError(
            f"cannot write the ledger {str(path)!r} ({error.strerror}). "
            "Choose another path."
        ) from None


def check_header(path: Path) -> None:
    """Refuse a file that is not a ledger of this version, without opening it."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise CorrDPError(
            f"cannot read the ledger {str(path)!r} ({error.strerror}). Check the path, "
            "or create a ledger there."
        ) from None
    application = int.from_bytes(header[68:72], "big")
    if len(header) < 100 or header[:16] != _MAGIC or application != APPLICATION_ID:
        raise CorrDPError(
            f"{str(path)!r} is not a ledger of corrdp. It was left untouched; choose "
            "another path."
        )
    version = int.from_bytes(header[60:64], "big")
    if version != SCHEMA_VERSION:
        raise CorrDPError(
            f"the ledger {str(path)!r} has schema {version}, this version of corrdp "
            f"reads schema {SCHEMA_VERSION}. Use the version that wrote it."
        )


def append(
    connection: sqlite3.Connection,
    kind: str,
    document: JSONObject,
    costs: Sequence[int | None] = (),
) -> int:
    """Append an entry, chained to the one before it; return its number."""
    last = last_entry(connection)
    number, previous = (last[0] + 1, last[1]) if last else (1, "")
    texts = (kind, canonical_text(document), canonical_text(list(costs)))
    connection.execute(
        "INSERT INTO entries VALUES (?, ?, ?, ?, ?)",
        (number, *texts, chained_digest(previous, number, *texts)),
    )
    connection.executemany(
        "INSERT INTO costs VALUES (?, ?, ?)",
        [(account, number, cost) for account, cost in enumerate(costs)],
    )
    return number


def last_entry(connection: sqlite3.Connection) -> tuple[int, str] | None:
    """Return number and digest of the last entry, which stand for all before it."""
    row = connection.execute(
        "SELECT id, digest FROM entries ORDER BY id DESC LIMIT 1"
    ).fetchone()
    return None if row is None else (row[0], row[1])


def require_entry(
    path: Path, connection: sqlite3.Connection, seen: tuple[int, str] | None
) -> None:
    """Raise if an entry that was seen earlier is gone: the file was set back."""
    if seen is None:
        return
    row = connection.execute(
        "SELECT digest FROM entries WHERE id = ?", (seen[0],)
    ).fetchone()
    if row is None or row[0] != seen[1]:
        raise damaged(path, f"entry {seen[0]}, which it had, was changed or removed")


def chained_digest(previous: str, number: int, *texts: str) -> str:
    """Return the digest of an entry and of all entries before it."""
    joined = canonical_text([previous, number, *texts])
    return hashlib.sha256(joined.encode()).hexdigest()


def check_structure(path: Path, connection: sqlite3.Connection) -> None:
    """Raise if SQLite finds its own structure broken."""
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise damaged(path, "the database is malformed")


def damaged(path: Path, what: str) -> GuaranteeVoidError:
    """Return the error for a ledger that cannot be trusted."""
    return GuaranteeVoidError(
        f"the ledger {str(path)!r} is damaged: {what}. It was left untouched; restore "
        "a copy that holds every release, or treat the budget as spent."
    )


def _told(path: Path, error: sqlite3.Error) -> CorrDPError:
    """Return what went wrong: a ledger is called damaged only if it is.

    Whatever it was, the transaction is rolled back: nothing was charged.
    """
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return CorrDPError(
            f"the ledger {str(path)!r} stayed locked for {_WAIT_SECONDS:g} seconds."
            " Wait for the other process, and try again."
        )
    trouble = _TROUBLES.get(code)
    if trouble is None:
        return damaged(path, "SQLite cannot read it")
    return CorrDPError(
        f"the ledger {str(path)!r} was left as it was: {trouble}. Nothing was charged, "
        "so nothing may be released; mend this, and try again."
    )


@contextmanager
def transaction(
    path: Path, *, alone: bool, keep: bool = True, draft: Draft | None = None
) -> Iterator[sqlite3.Connection]:
    """Open a ledger for one consistent look, or alone, to write.

    What is written is on disk when the block ends, or nowhere unless it is to `keep`. A
    ledger that is a draft gets its file with what is written to it first.
    """
    if draft is None:
        check_header(path)
    connection = None
    try:
        connection = _connect(path) if draft is None else _drafted(draft)
        connection.execute("BEGIN IMMEDIATE" if alone else "BEGIN")
        yield connection
        connection.execute("COMMIT" if keep else "ROLLBACK")
        if draft is not None and alone and keep:
            _write_new(path, connection)
    except sqlite3.Error as error:
        raise _told(path, error) from None
    finally:
        if connection is not None:
            connection.close()  # rolls back whatever was not committed


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=rw",
        uri=True,
        timeout=_WAIT_SECONDS,
        isolation_level=None,
    )
    # EXTRA: a charge outlives even a power cut right after it.
    connection.execute("PRAGMA synchronous = EXTRA")
    return connection

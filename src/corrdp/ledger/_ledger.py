"""The ledger: a budget per neighbor class that cannot be overspent."""

import getpass
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from corrdp._json import decoding
from corrdp._typing import JSONObject
from corrdp._validate import check_flag
from corrdp.accounting import PrivacyEvent
from corrdp.engines import refuse_hosted
from corrdp.exceptions import BudgetError
from corrdp.ledger import _store
from corrdp.ledger._accounts import Account, Price, open_accounts, price_release
from corrdp.ledger._balance import Remaining, check_no_overdraft, refuse_overdraft
from corrdp.ledger._reading import (
    RELEASE,
    Verified,
    check_new_release,
    known_policies,
    read_accounts,
    read_balances,
    read_charges,
    read_header,
    read_releases,
    verify_entries,
)
from corrdp.ledger._rules import UNITS, Rule
from corrdp.policy import Budget, Policy, number_columns, require_fit
from corrdp.tables import check_same_data, table_fingerprint

Distances: TypeAlias = Mapping[str, float] | float | None


@dataclass(frozen=True)
class Receipt:
    """Proof of payment: the number of the charge in its ledger.

    Parameters
    ----------
    number : int
        Entry of the ledger.
    when : str
        Time of the charge, UTC.
    """

    number: int
    when: str


class Ledger:
    """A file that every release on the same data is charged to, before it happens.

    Open one with `Ledger.create` or `Ledger.open`.

    Guarantee
    ---------
    All releases charged together are (epsilon_c, delta)-indistinguishable for every
    promised class, although each may be chosen after seeing the earlier answers, by
    several processes at once: `charge` commits to disk before it returns, and refuses
    what would pass the budget. Not covered: releases that nobody charges, and a file
    that is replaced by an older copy of itself. Proof: ``docs/theory/ledger.md``.

    Examples
    --------
    >>> import tempfile
    >>> from corrdp.accounting import LaplaceEvent
    >>> from corrdp.policy import Budget, Feature, NumberDomain, Policy
    >>> policy = Policy((Feature("age", "sensitive", NumberDomain(0, 100)),))
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.create(
    ...     folder.name + "/ages.ledger", policy, budget=Budget(epsilon=1, delta=0)
    ... )
    >>> receipt = ledger.charge(
    ...     {"whole_record": [LaplaceEvent(0.25)]}, policy=policy, purpose="mean age"
    ... )
    >>> ledger.remaining()["sensitive"].share_left
    0.75
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path, draft: _store.Draft | None = None) -> None:
        self._path, self._draft = Path(path), draft
        self._introduced: dict[str, tuple[Policy, Distances]] = {}
        self._last_seen: tuple[int, str] | None = None
        self._verified = Verified()
        with self._opened():
            pass

    @classmethod
    def create(
        cls,
        path: str | Path,
        policy: Policy,
        *,
        budget: Budget,
        leakage: Distances = None,
        rule: Rule | str | None = None,
    ) -> "Ledger":
        """Create a ledger file; an existing file is refused.

        Parameters
        ----------
        path : str or Path
            Where; beside the data is a good place.
        policy : Policy
            Opens one account per neighbor class.
        budget : Budget
            For the whole life of the data. With ``delta=0`` only pure releases fit.
        leakage : mapping of str to float, or float, optional
            Distances of the classes; declared leakage by default.
        rule : Rule, optional
            ``renyi`` (default): any kind of event, at one Renyi order per class.
            ``gaussian``: Gaussian events alone, a little more of them. ``pure``:
            epsilons add; the default where ``delta=0``.
        """
        ledger = cls.draft(path, policy, budget=budget, leakage=leakage, rule=rule)
        ledger.add_policy(policy, leakage=leakage)
        return ledger

    @classmethod
    def draft(
        cls,
        path: str | Path,
        policy: Policy,
        *,
        budget: Budget,
        leakage: Distances = None,
        rule: Rule | str | None = None,
    ) -> "Ledger":
        """Return a ledger whose file appears with its first charge, or never.

        Parameters as in `create`. A first release that is refused, whatever for, leaves
        no file behind.
        """
        if rule is None:
            rule = Rule.PURE if budget.delta == 0.0 else Rule.RENYI
        header = {
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "rule": str(Rule(rule)),
            **_who_and_when(),
        }
        accounts = open_accounts(
            policy, budget=budget, rule=Rule(rule), leakage=leakage, existing=()
        )
        first = _policy_document(policy, accounts)
        return cls(
            path, _store.draft_of(Path(path), ("ledger", header), ("policy", first))
        )

    @classmethod
    def open(cls, path: str | Path) -> "Ledger":
        """Open an existing ledger and check all of it.

        Raises
        ------
        CorrDPError
            If the file is missing or not a ledger; it is left untouched.
        GuaranteeVoidError
            If the ledger is damaged; it is left untouched.
        """
        return cls(path)

    @property
    def path(self) -> Path:
        """Where the ledger is."""
        return self._path

    def charge(
        self,
        events: Mapping[str, Sequence[PrivacyEvent]],
        *,
        policy: Policy,
        purpose: str,
        fingerprint: JSONObject | None = None,
        accept_new_data: bool = False,
    ) -> Receipt:
        """Pay for a release. When this returns, the payment is on disk.

        Parameters
        ----------
        events : mapping of str to sequence of PrivacyEvent
            Cost per class of the policy; ``whole_record`` must be there, and classes
            that are not named pay its cost.
        policy : Policy
            The policy of the release; known to the ledger.
        purpose : str
            What is released, in words; never a value from data.
        fingerprint : dict, optional
            From `fingerprint`; a table that differs from that of earlier charges in a
            column they share is refused.
        accept_new_data : bool
            Accept another table, for example after rows were corrected. Nothing is
            refunded.

        Raises
        ------
        BudgetError
            If an account would pass its limit. Nothing is charged then, and nothing
            may be computed.

        Guarantee
        ---------
        The check and the payment are one transaction; two processes cannot both
        spend the last of a budget. Draw noise only after the return: a crash in
        between wastes budget and leaks nothing.
        """
        price = price_release(policy, events)
        check_flag("accept_new_data", accept_new_data)
        with self._opened(alone=True) as connection:
            costs = self._affordable(connection, price, policy)
            if fingerprint is not None and not accept_new_data:
                charges = reversed(read_charges(connection))
                check_same_data(fingerprint, (seen["data"] for _, seen in charges))
            document: JSONObject = {
                "purpose": purpose,
                "policy": policy.fingerprint(),
                "data": fingerprint,
                "price": price.to_json(),
                **_who_and_when(),
            }
            number = _store.append(connection, "charge", document, costs)
        return Receipt(number, document["when"])

    def charge_for_rows(
        self,
        rows: Any,
        events: Mapping[str, Sequence[PrivacyEvent]],
        *,
        policy: Policy,
        purpose: str,
        columns: Collection[str] = (),
        accept_new_data: bool = False,
    ) -> Receipt:
        """Pay for a release from a table, which must be that of earlier charges.

        Parameters as in `charge`; `columns` are those of which the release reads cells
        that nobody has read yet. What the accounts refuse is refused before a row is
        read, and what the cells would refuse before anything is paid.
        """
        self.require(events, policy=policy)
        fingerprint = self.fingerprint(rows, policy=policy)
        if columns:
            require_fit(policy, rows, columns)
        return self.charge(
            events,
            policy=policy,
            purpose=purpose,
            fingerprint=fingerprint,
            accept_new_data=accept_new_data,
        )

    def record_release(self, receipt: Receipt, release: str) -> None:
        """Record what a charge has paid for, so that it is not charged again.

        Parameters
        ----------
        receipt : Receipt
            Of the charge, made before the release was computed.
        release : str
            Digest of all that was released; never of something without noise.

        Guarantee
        ---------
        One release per charge, and the digest binds all of it: whatever was changed
        since is another release, which is not paid for (`docs/theory/ledger.md`).
        """
        with self._opened(alone=True) as connection:
            check_new_release(connection, receipt.number, release)
            document = {"charge": receipt.number, "release": release}
            _store.append(connection, RELEASE, document | _who_and_when())

    def has_paid(self, release: str) -> bool:
        """Return whether a charge of this ledger has paid for a release."""
        with self._opened() as connection:
            return release in [r["release"] for r in read_releases(connection)]

    def require(
        self, events: Mapping[str, Sequence[PrivacyEvent]], *, policy: Policy
    ) -> None:
        """Raise `BudgetError` now if `charge` would; pay nothing."""
        price = price_release(policy, events)
        writes = policy.fingerprint() in self._introduced
        with self._opened(alone=writes, keep=False) as connection:
            self._affordable(connection, price, policy)

    def remaining(self) -> Remaining:
        """Return what every class has paid and can still pay."""
        with self._opened() as connection:
            return Remaining(tuple(read_balances(connection)))

    def add_policy(self, policy: Policy, *, leakage: Distances = None) -> None:
        """Let releases use another policy; open accounts for its new classes.

        An account keeps the budget it was opened with: a policy that promises one of
        them less is refused, also if the ledger knows the policy and only the leakage
        has changed. A new account is charged for every earlier release: the cost of the
        cheapest class that covers it, in the end the whole record's.
        """
        with self._opened(alone=True) as connection:
            _add_policy(connection, policy, leakage)

    def introduce(self, policy: Policy, *, leakage: Distances = None) -> None:
        """Let a release use another policy: as `add_policy`, once it is charged.

        Nothing is written before: the charge adds the policy in its own transaction, so
        that a release which is refused leaves the ledger as it was.
        """
        self._introduced[policy.fingerprint()] = policy, leakage

    def knows(self, policy: Policy) -> bool:
        """Return whether releases may use a policy without `add_policy`."""
        with self._opened() as connection:
            return policy.fingerprint() in known_policies(connection)

    def fingerprint(self, table: Any, *, policy: Policy | None = None) -> JSONObject:
        """Return the number of rows and a keyed hash of every column.

        Parameters
        ----------
        table : table
            Private rows.
        policy : Policy, optional
            Hash only the columns it declares, and take the columns of a numpy array
            by its order.
        """
        refuse_hosted(
            table,
            "a fingerprint, which reads them in order,",
            "Charge without a table, or pass the files.",
        )
        columns = () if policy is None else policy.columns
        names = None if policy is None else [column.name for column in columns]
        with self._opened() as connection:
            (key,) = connection.execute("SELECT key FROM secret").fetchone()
        return table_fingerprint(
            table, key=key, names=names, number_columns=number_columns(columns)
        )

    def entries(self) -> list[JSONObject]:
        """Return all entries, oldest first; the key is not among them."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT id, kind, document, costs FROM entries ORDER BY id"
            )
            return [
                {"number": number, "kind": kind}
                | json.loads(document)
                | ({"costs": json.loads(costs)} if kind == "charge" else {})
                for number, kind, document, costs in rows
            ]

    def to_json(self) -> JSONObject:
        """Return everything but the key: entries and balances."""
        return {
            "schema": "corrdp.ledger/1",
            "units": UNITS,
            "remaining": self.remaining().to_json(),
            "entries": self.entries(),
        }

    def to_text(self) -> str:
        """Return balances and charges as plain tables."""
        lines = [self.remaining().to_text(), ""]
        lines.append(f"{'number':>6}  {'when':<20}  {'who':<12}  purpose")
        lines += [
            f"{entry['number']:>6}  {entry['when']:<20}  {entry['who']:<12}  "
            f"{entry['purpose']}"
            for entry in self.entries()
            if entry["kind"] == "charge"
        ]
        return "\n".join(lines)

    def _affordable(
        self,
        connection: sqlite3.Connection,
        price: Price,
        policy: Policy,
    ) -> list[int | None]:
        """Return the cost to every account, or raise if one cannot pay."""
        if introduced := self._introduced.get(policy.fingerprint()):
            _add_policy(connection, *introduced)
        if policy.fingerprint() not in known_policies(connection):
            raise BudgetError(
                f"the ledger {str(self._path)!r} does not know policy "
                f"{policy.fingerprint()[:12]}. Register it with add_policy."
            )
        costs = []
        for balance in read_balances(connection):
            cost = balance.account.cost(price)
            refuse_overdraft(balance.account, cost, balance.spent)
            costs.append(cost)
        return costs

    @contextmanager
    def _opened(
        self, *, alone: bool = False, keep: bool = True
    ) -> Iterator[sqlite3.Connection]:
        """Open the file for one look, or alone to write, and check all of it first.

        The check belongs to the transaction: what was verified when the ledger was
        opened may have been changed since. Nothing is written unless it is to `keep`.
        """
        with _store.transaction(
            self._path, alone=alone, keep=keep, draft=self._draft
        ) as connection:
            self._verify(connection)
            yield connection
            last = _store.last_entry(connection)
        if alone and keep:  # on disk by now
            self._last_seen, self._draft = last, None

    def _verify(self, connection: sqlite3.Connection) -> None:
        _store.require_entry(self._path, connection, self._last_seen)
        with decoding(f"ledger {str(self._path)!r}"):
            self._verified = verify_entries(self._path, connection, self._verified)
            balances = read_balances(connection)
            spent = tuple(balance.spent for balance in balances)
            if not balances or spent != self._verified.totals:
                raise _store.damaged(self._path, "costs do not match the entries")
            overdrawn = check_no_overdraft(balances)
        if overdrawn is not None:
            raise _store.damaged(self._path, f"account {overdrawn!r} is overdrawn")
        self._last_seen = _store.last_entry(connection)


def _add_policy(
    connection: sqlite3.Connection, policy: Policy, leakage: Distances
) -> None:
    header = read_header(connection)
    existing = read_accounts(connection)
    opened = open_accounts(
        policy,
        budget=Budget(epsilon=header["epsilon"], delta=header["delta"]),
        rule=Rule(header["rule"]),
        leakage=leakage,
        existing=existing,
    )
    if policy.fingerprint() in known_policies(connection) and not opened:
        return
    past = [
        (number, Price.from_json(document["price"]))
        for number, document in read_charges(connection)
    ]
    rows, accounts = [], []
    for index, account in enumerate(opened, start=len(existing)):
        costs = [(number, account.cost(price)) for number, price in past]
        carried = _total([cost for _, cost in costs])
        refuse_overdraft(account, carried, 0)
        accounts.append(replace(account, carried=carried))
        rows += [(index, number, cost) for number, cost in costs]
    _store.append(connection, "policy", _policy_document(policy, accounts))
    connection.executemany("INSERT INTO costs VALUES (?, ?, ?)", rows)


def _policy_document(policy: Policy, accounts: Sequence[Account]) -> JSONObject:
    return {
        "policy": policy.fingerprint(),
        "accounts": [account.to_json() for account in accounts],
        **_who_and_when(),
    }


def _total(costs: Sequence[int | None]) -> int | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _who_and_when() -> JSONObject:
    try:
        who = getpass.getuser()
    except (KeyError, OSError):  # a container without a user name
        who = "unknown"
    return {"who": who, "when": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}

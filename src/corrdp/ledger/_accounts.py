"""Accounts: one neighbor class each, with a budget fixed when it was opened."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corrdp._json import decode_number, encode_number
from corrdp._typing import JSONObject
from corrdp.accounting import WHOLE_RECORD, PrivacyEvent
from corrdp.exceptions import BudgetError, UnsupportedEventError
from corrdp.ledger._rules import (
    LARGEST_COST,
    Rule,
    cost_units,
    epsilon_of,
    fixed_order,
    limit_units,
    read_event,
)
from corrdp.policy import (
    Budget,
    Policy,
    allowed_epsilon,
    class_columns,
    neighbor_classes,
)


@dataclass(frozen=True)
class PricedClass:
    """What a release costs one neighbor class of its policy.

    The columns that may change, the label among them if it may and the number of rows
    of a unit, identify the class; its name does not.
    """

    name: str
    columns: tuple[str, ...]  # sorted
    events: tuple[PrivacyEvent, ...]

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "name": self.name,
            "columns": list(self.columns),
            "events": [event.to_json() for event in self.events],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "PricedClass":
        """Read what `to_json` wrote."""
        return cls(
            document["name"],
            tuple(document["columns"]),
            tuple(read_event(event) for event in document["events"]),
        )


@dataclass(frozen=True)
class Price:
    """What a release costs every class of its policy."""

    classes: tuple[PricedClass, ...]  # the whole record among them
    unprotected: tuple[str, ...]  # sorted columns that it may read, without protection
    unit: str | None = None  # column that says whose row it is, if rows of one are one

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "classes": [priced.to_json() for priced in self.classes],
            "unprotected": list(self.unprotected),
            **_if_any(self.unit),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Price":
        """Read what `to_json` wrote."""
        return cls(
            tuple(PricedClass.from_json(c) for c in document["classes"]),
            tuple(document["unprotected"]),
            document.get("unit"),
        )


def price_release(
    policy: Policy, events: Mapping[str, Sequence[PrivacyEvent]]
) -> Price:
    """Join the classes of a policy with the events of a release.

    A class that the events do not name is charged the whole-record cost.
    """
    known = _what_changes(policy)
    unknown = sorted(set(events) - set(known))
    if unknown:
        raise UnsupportedEventError(
            f"events name the classes {unknown}, which the policy does not have. "
            f"Its classes are: {', '.join(known)}."
        )
    if WHOLE_RECORD not in events:
        raise UnsupportedEventError(
            f"events do not price {WHOLE_RECORD!r}, got {sorted(events)}. Add its "
            "cost: classes that a later policy names are charged it."
        )
    whole = events[WHOLE_RECORD]
    classes = tuple(
        PricedClass(name, tuple(sorted(columns)), tuple(events.get(name, whole)))
        for name, columns in known.items()
    )
    return Price(classes, tuple(sorted(policy.unprotected)), policy.unit)


@dataclass(frozen=True)
class Account:
    """The budget of one neighbor class.

    Parameters
    ----------
    name : str
        Name of the class in the policy that opened the account.
    columns : tuple of str
        Sorted columns that may change; they identify the account.
    epsilon, delta : float
        What the class is promised in total; epsilon infinite if only tracked.
    rule : Rule
        How costs add.
    order : float, optional
        Renyi order, under the Renyi rule.
    limit : int, optional
        Units the class can pay; None if only tracked.
    carried : int, optional
        Units of releases before the account was opened; None if unbounded.
    unit : str, optional
        Column that says whose row it is, if all rows of a unit are one record.
    """

    name: str
    columns: tuple[str, ...]
    epsilon: float
    delta: float
    rule: Rule
    order: float | None
    limit: int | None
    carried: int | None = 0
    unit: str | None = None

    @property
    def identity(self) -> tuple[tuple[str, ...], bool, str | None]:
        """What two policies must share to speak of the same account."""
        return self.columns, self.limit is not None, self.unit

    def cost(self, price: Price) -> int | None:
        """Return the cost of a release: that of its cheapest class that covers this.

        Neighbors of this account are neighbors of any class that may change at least
        the same columns, so the cost of such a class bounds theirs; the whole record
        covers every protected column. Columns that the policy of the release does not
        declare are not read by it and do not count. A column that it reads without
        protecting it has no bound: None. Neither has a record of several rows under a
        policy whose records are other ones; a single row is a part of any unit, unless
        it may change whose it is.

        Guarantee
        ---------
        Never below the cost of the release to this class (`docs/theory/ledger.md`).
        """
        if self.unit not in (None, price.unit) or price.unit in self.columns:
            return None
        if set(self.columns) & set(price.unprotected):
            return None
        declared = {name for priced in price.classes for name in priced.columns}
        read = set(self.columns) & declared
        if not read:
            return 0
        costs = [
            cost
            for priced in price.classes
            if read <= set(priced.columns)
            and (cost := cost_units(self.rule, self.order, priced.events)) is not None
        ]
        return min(costs, default=None)

    def epsilon_spent(self, units: int | None) -> float:
        """Return the epsilon that a total cost proves at the account's delta."""
        if units is None:
            return float("inf")
        return epsilon_of(self.rule, self.order, units, delta=self.delta)

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "name": self.name,
            "columns": list(self.columns),
            "epsilon": encode_number(self.epsilon),
            "delta": self.delta,
            "rule": str(self.rule),
            "order": self.order,
            "limit": self.limit,
            "carried": self.carried,
            **_if_any(self.unit),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Account":
        """Read what `to_json` wrote."""
        return cls(
            name=document["name"],
            columns=tuple(document["columns"]),
            epsilon=decode_number(document["epsilon"]),
            delta=document["delta"],
            rule=Rule(document["rule"]),
            order=document["order"],
            limit=document["limit"],
            carried=document["carried"],
            unit=document.get("unit"),
        )


def open_accounts(
    policy: Policy,
    *,
    budget: Budget,
    rule: Rule,
    leakage: Mapping[str, float] | float | None,
    existing: Sequence[Account],
) -> list[Account]:
    """Return the accounts that a policy needs and that do not exist yet.

    Raises
    ------
    BudgetError
        If the policy promises a class less epsilon than its account may spend.
    """
    policy.require_confirmed()
    known = {account.identity: account for account in existing}
    columns = _what_changes(policy)
    opened = []
    for neighbor in neighbor_classes(policy, leakage):
        allowed = allowed_epsilon(
            neighbor, epsilon=budget.epsilon, epsilon_cap=policy.epsilon_cap
        )
        # A class that is only tracked pays at the order of the sensitive budget.
        epsilon = min(budget.epsilon if math.isinf(allowed) else allowed, LARGEST_COST)
        own = {"epsilon": epsilon, "delta": budget.delta}
        order = fixed_order(rule, **own)
        account = Account(
            name=neighbor.name,
            columns=tuple(sorted(columns[neighbor.name])),
            epsilon=allowed,
            delta=budget.delta,
            rule=rule,
            order=order,
            limit=limit_units(rule, order, **own) if neighbor.promised else None,
            unit=policy.unit,
        )
        present = known.get(account.identity)
        if present is None:
            opened.append(account)
        elif present.epsilon > allowed:
            raise BudgetError(
                f"the policy promises class {neighbor.name!r} epsilon {allowed:.6g}, "
                f"its account may spend {present.epsilon:.6g}. Keep the leakage the "
                "ledger was opened with, or open a new ledger."
            )
    return opened


def _what_changes(policy: Policy) -> dict[str, frozenset[str]]:
    """Return the columns of each class, and the number of rows of a unit among them.

    It changes along with sensitive features alone (`docs/theory/queries.md`).
    """
    columns = class_columns(policy)
    if policy.unit is None:
        return columns
    rows = frozenset({f"(rows of {policy.unit})"})
    return {
        name: own | rows if own.intersection(policy.sensitive) else own
        for name, own in columns.items()
    }


def _if_any(unit: str | None) -> JSONObject:
    """Return a unit as a field; most policies have none, and old files no field."""
    return {} if unit is None else {"unit": unit}

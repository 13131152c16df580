"""Accounts: one neighbor class each, with a budget fixed when it was opened."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corrdp._json import decode_number, encode_number
from corrdp._typing import JSONObject
from corrdp.accounting import WHOLE_RECORD, PrivacyEvent
from corrdp.exceptions import UnsupportedEventError
from corrdp.ledger._events import read_event
from corrdp.ledger._rules import Rule, cost_units, epsilon_of
from corrdp.policy import NeighborClass


@dataclass(frozen=True)
class PricedClass:
    """What a release costs one neighbor class.

    Parameters
    ----------
    name : str
        Name of the class in the policy of the release.
    features : tuple of str
        Sorted features that may change; they, not the name, identify the class.
    label_changes : bool
        Whether the label may change.
    events : tuple of PrivacyEvent
        The cost.
    """

    name: str
    features: tuple[str, ...]
    label_changes: bool
    events: tuple[PrivacyEvent, ...]

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "name": self.name,
            "features": list(self.features),
            "label_changes": self.label_changes,
            "events": [event.to_json() for event in self.events],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "PricedClass":
        """Read what `to_json` wrote."""
        return cls(
            document["name"],
            tuple(document["features"]),
            document["label_changes"],
            tuple(read_event(event) for event in document["events"]),
        )


def price_classes(
    neighbors: Iterable[NeighborClass],
    events: Mapping[str, Sequence[PrivacyEvent]],
) -> tuple[PricedClass, ...]:
    """Join the classes of a policy with the events of a release.

    A class that the events do not name is charged the whole-record cost.
    """
    known = tuple(neighbors)
    unknown = sorted(set(events) - {neighbor.name for neighbor in known})
    if unknown:
        raise UnsupportedEventError(
            f"events name the classes {unknown}, which the policy does not have. "
            f"Its classes are: {', '.join(neighbor.name for neighbor in known)}."
        )
    if WHOLE_RECORD not in events:
        raise UnsupportedEventError(
            f"events do not price {WHOLE_RECORD!r}, got {sorted(events)}. Add its "
            "cost: classes that a later policy names are charged it."
        )
    return tuple(
        PricedClass(
            neighbor.name,
            tuple(sorted(neighbor.features)),
            neighbor.label_changes,
            tuple(events.get(neighbor.name, events[WHOLE_RECORD])),
        )
        for neighbor in known
    )


@dataclass(frozen=True)
class Account:
    """The budget of one neighbor class.

    Parameters
    ----------
    name : str
        Name of the class in the policy that opened the account.
    features : tuple of str
        Sorted features that may change.
    label_changes : bool
        Whether the label may change.
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
    """

    name: str
    features: tuple[str, ...]
    label_changes: bool
    epsilon: float
    delta: float
    rule: Rule
    order: float | None
    limit: int | None
    carried: int | None = 0

    @property
    def identity(self) -> tuple[tuple[str, ...], bool, bool]:
        """What two policies must share to speak of the same account."""
        return self.features, self.label_changes, self.limit is not None

    def cost(self, classes: Iterable[PricedClass]) -> int | None:
        """Return the cost of a release: that of its cheapest class that covers this.

        Neighbors of this account are neighbors of any class that may change at least
        the same columns, so the cost of such a class bounds theirs. The whole record
        covers everything that the policy of the release protected; a column that it
        did not protect has no bound.
        """
        costs = [
            cost
            for priced in classes
            if set(self.features) <= set(priced.features)
            and (priced.label_changes or not self.label_changes)
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
            "features": list(self.features),
            "label_changes": self.label_changes,
            "epsilon": encode_number(self.epsilon),
            "delta": self.delta,
            "rule": str(self.rule),
            "order": self.order,
            "limit": self.limit,
            "carried": self.carried,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Account":
        """Read what `to_json` wrote."""
        return cls(
            name=document["name"],
            features=tuple(document["features"]),
            label_changes=document["label_changes"],
            epsilon=decode_number(document["epsilon"]),
            delta=document["delta"],
            rule=Rule(document["rule"]),
            order=document["order"],
            limit=document["limit"],
            carried=document["carried"],
        )

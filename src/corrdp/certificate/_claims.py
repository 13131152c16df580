"""The parts of a certificate: what is claimed, per class, and on what grounds."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from corrdp._json import check_shape, decode_number, encode_number
from corrdp._names import BLOCK
from corrdp._typing import JSONObject
from corrdp._validate import check_real
from corrdp.accounting import (
    WHOLE_RECORD,
    NoisePlan,
    PrivacyEvent,
    epsilon_within,
    event_from_json,
)
from corrdp.exceptions import CorrDPError, GuaranteeVoidError, UnsupportedEventError
from corrdp.policy import NeighborRelation, Policy, class_columns


class Calibration(StrEnum):
    """How noise was set: proved constants, or the paper's closed forms."""

    CERTIFIED = "certified"
    THEOREM = "theorem"


@dataclass(frozen=True)
class ClassClaim:
    """What one neighbor class is promised, and what is proved for it.

    Parameters
    ----------
    epsilon : float
        Epsilon proved at the certificate's delta; infinite if nothing is proved.
    allowed_epsilon : float
        Epsilon the policy allows; infinite for a class that is priced only.
    distance : float
        Distance of the class, floor applied.
    features : tuple of str
        Features that may change.
    label_changes : bool
        Whether the label may change too.
    promised : bool
        False for the whole-record class: priced, never promised.
    """

    epsilon: float
    allowed_epsilon: float
    distance: float
    features: tuple[str, ...]
    label_changes: bool
    promised: bool

    @property
    def holds(self) -> bool:
        """Whether the proved epsilon stays within the allowed one."""
        return self.epsilon <= self.allowed_epsilon

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "epsilon": encode_number(self.epsilon),
            "allowed_epsilon": encode_number(self.allowed_epsilon),
            "distance": self.distance,
            "features": list(self.features),
            "label_changes": self.label_changes,
            "promised": self.promised,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "ClassClaim":
        """Read what `to_json` wrote."""
        return cls(
            epsilon=decode_number(document["epsilon"]),
            allowed_epsilon=decode_number(document["allowed_epsilon"]),
            distance=document["distance"],
            features=tuple(document["features"]),
            label_changes=document["label_changes"],
            promised=document["promised"],
        )


@dataclass(frozen=True)
class LeakageClaim:
    """Where the distances came from.

    Parameters
    ----------
    source : str
        ``declared``, ``public``, ``private`` or ``in_sample``.
    values : mapping of str to float
        Leakage used per feature, or ``block`` for the whole insensitive block.
    failure_probability : float
        Probability beta with which an estimated upper bound may be too small. Shown
        beside delta, never added to it.
    metric : str
        Distance between distributions that the values are in.
    """

    source: str
    values: Mapping[str, float]
    failure_probability: float = 0.0
    metric: str = "total_variation"

    def __post_init__(self) -> None:
        check_real(
            "failure_probability", self.failure_probability, lower=0.0, upper=1.0
        )

    @property
    def assumption(self) -> str:
        """What declared distances rest on; nothing where all of them are 1."""
        if self.source != "declared" or all(v >= 1 for v in self.values.values()):
            return ""
        return "leakage is at most what was declared, which nothing here has checked"

    @classmethod
    def declared(
        cls, policy: Policy, leakage: Mapping[str, float] | float | None = None
    ) -> "LeakageClaim":
        """Return the leakage that was declared, by the policy or beside it.

        Parameters
        ----------
        policy : Policy
            Whose declarations count if nothing else is given.
        leakage : mapping of str to float, or float, optional
            One value per feature, or one for the whole insensitive block.
        """
        if leakage is not None:
            if isinstance(leakage, Mapping):
                return cls("declared", dict(leakage))
            return cls("declared", {BLOCK: leakage})
        if policy.relation is NeighborRelation.ALL_INSENSITIVE:
            block = policy.block_leakage
            return cls("declared", {} if block is None else {BLOCK: block})
        known = {f.name: f.known_leakage for f in policy.features}
        return cls("declared", {n: v for n, v in known.items() if v is not None})

    def distances(self, policy: Policy) -> Mapping[str, float] | float | None:
        """Return the values as `neighbor_classes` takes them for a policy.

        Its relation says what ``block`` is: all insensitive features together, or one
        that is called so. Values of single features, where the block is asked for, are
        returned as they are: `neighbor_classes` refuses them.
        """
        if not policy.insensitive:
            return None
        if policy.relation is NeighborRelation.ALL_INSENSITIVE:
            return self.values.get(BLOCK, self.values or None)
        return self.values

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "source": self.source,
            "values": dict(self.values),
            "failure_probability": self.failure_probability,
            "metric": self.metric,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "LeakageClaim":
        """Read what `to_json` wrote."""
        return cls(
            document["source"],
            document["values"],
            document["failure_probability"],
            document["metric"],
        )


@dataclass(frozen=True)
class Component:
    """One part of a release, with what it costs each class.

    Either a noise plan, from which the cost follows, or the events themselves. A
    class that the events do not name is charged the whole-record cost.

    Parameters
    ----------
    name : str
        What was released, for example ``training`` or ``leakage``.
    plan : NoisePlan, optional
        All noise of the part, decided before data was touched.
    events : mapping of str to tuple of events, optional
        Cost per class where no plan applies.
    scope : mapping of str to set of str, optional
        Columns that each priced class may change, for a part that may be certified
        under another policy than it was released for; see `restated`.
    """

    name: str
    plan: NoisePlan | None = None
    events: Mapping[str, tuple[PrivacyEvent, ...]] = field(default_factory=dict)
    scope: Mapping[str, frozenset[str]] | None = None

    def __post_init__(self) -> None:
        if (self.plan is None) == (not self.events):
            raise CorrDPError(
                f"component {self.name!r} needs a plan or events, and not both. "
                "Pass plan=... or events=...."
            )
        if self.plan is None and WHOLE_RECORD not in self.events:
            raise UnsupportedEventError(
                f"component {self.name!r} does not price {WHOLE_RECORD!r}. "
                "Add its cost: every certificate shows it."
            )

    def events_of(self, class_name: str) -> tuple[PrivacyEvent, ...] | None:
        """Return the cost of a class, or None if some of it is without noise.

        A class that the part does not name pays the whole-record cost.
        """
        if self.plan is None:
            return self.events.get(class_name, self.events[WHOLE_RECORD])
        known = class_name in self.plan.table.class_names
        priced = class_name if known else WHOLE_RECORD
        return (self.plan.event(priced),) if self.plan.covers(priced) else None

    @staticmethod
    def joint_events(
        parts: Iterable["Component"], class_name: str
    ) -> tuple[PrivacyEvent, ...] | None:
        """Return the cost of several parts to a class; None if one is without noise."""
        events: list[PrivacyEvent] = []
        for part in parts:
            cost = part.events_of(class_name)
            if cost is None:
                return None
            events.extend(cost)
        return tuple(events)

    def restated(self, policy: Policy) -> "Component":
        """Return the part priced for the classes of another policy.

        Policies name their classes alike although different columns may change in
        them. Columns decide: a class pays what the smallest class costs that may
        change at least its columns.

        Raises
        ------
        GuaranteeVoidError
            If no priced class covers some class of `policy`.

        Guarantee
        ---------
        Neighbors that differ in some columns are neighbors of every class that may
        change at least these (`docs/theory/neighbors.md`, step 1 of the proof).
        """
        if self.scope is None:  # not priced for one policy alone
            return self
        asked = class_columns(policy)
        if dict(self.scope) == asked:
            return self
        by_size = sorted(self.scope.items(), key=lambda item: len(item[1]))
        events = {}
        for name, columns in asked.items():
            covering = [priced for priced, reach in by_size if columns <= reach]
            cost = self.events_of(covering[0]) if covering else None
            if cost is None:
                raise GuaranteeVoidError(
                    f"{self.name!r} was released for a policy under which class "
                    f"{name!r} has no price (columns {', '.join(sorted(columns))}). "
                    "Release it again under the policy that is certified."
                )
            events[name] = cost
        return Component(self.name, events=events, scope=asked)

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "name": self.name,
            "plan": None if self.plan is None else self.plan.to_json(),
            "events": {
                name: [event.to_json() for event in events]
                for name, events in self.events.items()
            },
            "scope": (
                None
                if self.scope is None
                else {name: sorted(columns) for name, columns in self.scope.items()}
            ),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Component":
        """Read what `to_json` wrote."""
        shape = {"name": str, "scope": ({...: [str]}, None)}
        check_shape(document, shape, "component")
        return cls(
            name=document["name"],
            plan=(
                None
                if document["plan"] is None
                else NoisePlan.from_json(document["plan"])
            ),
            events={
                name: tuple(event_from_json(event) for event in events)
                for name, events in document["events"].items()
            },
            scope=(
                None
                if document["scope"] is None
                else {n: frozenset(c) for n, c in document["scope"].items()}
            ),
        )


def proved_epsilons(
    components: tuple[Component, ...],
    allowed_epsilon: Mapping[str, float],
    *,
    delta: float,
) -> dict[str, float]:
    """Return the epsilon that the components together prove for every class.

    Classes with the same events and limit have the same price, which is found once.

    Guarantee
    ---------
    Composition of releases whose parameters were all fixed in advance
    (`docs/theory/composition.md`).
    """
    found: dict[tuple[tuple[PrivacyEvent, ...] | None, float], float] = {}
    proved = {}
    for name, allowed in allowed_epsilon.items():
        events = Component.joint_events(components, name)
        alike = events, allowed
        if alike not in found:
            found[alike] = (
                math.inf
                if events is None
                else epsilon_within(events, delta=delta, allowed_epsilon=allowed)
            )
        proved[name] = found[alike]
    return proved

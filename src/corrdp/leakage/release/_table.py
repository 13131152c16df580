"""The leakage of a policy's features: numbers, where they came from, what they cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from corrdp._display import html_card
from corrdp._json import check_shape, decoding, digest, read_json
from corrdp._names import BLOCK
from corrdp._typing import JSONObject
from corrdp.accounting import PrivacyEvent
from corrdp.certificate import Calibration, Component, LeakageClaim
from corrdp.exceptions import (
    CorrDPError,
    GuaranteeVoidError,
    MissingBoundError,
    PolicyError,
)
from corrdp.leakage._joining import joined_policy, joined_words, refuse_joined_anew
from corrdp.leakage._margins import LevelSizes
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage._targets import count_layout, leakage_targets, telling_shapes
from corrdp.policy import Conditioning, NeighborRelation, Policy

SCHEMA = "corrdp.leakage/2"
JOINED_SCHEMA = "corrdp.leakage/3"
"""Of tables with joined levels; the others are written as they always were."""

_WITHOUT_DIGEST = "corrdp.leakage/1"

NOTICES = {
    "declared": "declared by the policy: an input, nothing was computed",
    "public": "computed from data declared public: costs nothing; the bound supposes "
    "that its rows are draws from the private rows' distribution",
    "private": "computed from noisy counts: the cost is part of every certificate",
    "in_sample": "asymptotic: Theorem 4.4 of the paper charges (epsilon, 2 delta) "
    "under Assumptions 4.1 and 4.2; no certified release accepts it",
}

_SHAPE = {
    "features": {...: {}},
    "components": [{}],
    "declared_fingerprint": str,
    "margins": {...: {}},
}
_PLAIN = {
    "source": frozenset(NOTICES),
    "relation": frozenset(map(str, NeighborRelation)),
    "conditioning": frozenset(map(str, Conditioning)),
    "metric": str,
    "failure_probability": float,
    "delta_factor": int,
    "research": bool,
    "replayable_noise": bool,
    "policy_fingerprint": str,
}
"""Fields that are written as they are."""


@dataclass(frozen=True, kw_only=True)
class LeakageTable:
    """Leakage per insensitive feature, or of their block, ready for plans.

    Parameters
    ----------
    features : mapping of str to FeatureLeakage
        By feature under ``one_insensitive``; ``block`` under ``all_insensitive``.
    source : str
        ``declared``, ``public``, ``private`` or ``in_sample``.
    relation, conditioning, metric : str
        What the numbers mean; stated on certificates.
    failure_probability : float
        Probability beta with which some bound may be too small. Shown beside delta,
        never added to it.
    components : tuple of Component
        What the estimate cost; pass them on to `certify`.
    delta_factor : int
        How many delta the paper charges: 2 for ``in_sample``.
    research : bool
        Whether exact private numbers are shown: the table is then not private.
    replayable_noise : bool
        Whether noise came from a fixed seed.
    policy_fingerprint : str
        SHA-256 of the policy that the numbers are about: see `policy_for`.
    declared_fingerprint : str
        SHA-256 of the policy as declared; the same if no levels are joined.
    margins : mapping of str to LevelSizes
        Rows per level that a private release tells, in the order of the codes of
        `policy_for`; none from other sources.

    Guarantee
    ---------
    `distances` are upper bounds on the leakage except with `failure_probability`, if
    rows are independent draws (docs/theory/leakage.md). `components` price every
    neighbor class, so nothing computed from private rows is unpaid.
    """

    features: Mapping[str, FeatureLeakage]
    source: str
    relation: str
    conditioning: str
    metric: str = "total_variation"
    failure_probability: float = 0.0
    components: tuple[Component, ...] = ()
    delta_factor: int = 1
    research: bool = False
    replayable_noise: bool = False
    policy_fingerprint: str = ""
    declared_fingerprint: str = ""
    margins: Mapping[str, LevelSizes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.declared_fingerprint:
            object.__setattr__(self, "declared_fingerprint", self.policy_fingerprint)
        for name, fields in self.joined.items():
            refuse_joined_anew(name, fields)
        if self.source == "private" and not self.components:
            unpaid = [name for name, f in self.features.items() if f.upper != 0.0]
            if unpaid:
                raise _unpaid(unpaid)

    def _repr_html_(self) -> str:
        notes = [f"{self.source}, {self.metric.replace('_', ' ')}"]
        if self.research:
            notes.append("research: not private")
        if self.failure_probability > 0:
            notes.append(
                f"some bound may be too small with probability "
                f"{self.failure_probability:g}"
            )
        return html_card(
            "Leakage",
            notes,
            ("feature", "estimate", "upper bound", "method"),
            [(n, f.estimate, f.upper, f.method) for n, f in self.features.items()],
        )

    @property
    def spent(self) -> Mapping[str, tuple[PrivacyEvent, ...]]:
        """What the estimate cost each neighbor class, as events."""
        names = {
            name
            for part in self.components
            for name in (
                part.events if part.plan is None else part.plan.table.class_names
            )
        }
        spent = {}
        for name in sorted(names):
            events = Component.joint_events(self.components, name)
            if events is None:
                raise GuaranteeVoidError(
                    f"the leakage table has no noise where class {name!r} moves, so "
                    "its cost is unbounded. Release the leakage again."
                )
            spent[name] = events
        return spent

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the bounds rest on, without repetition; for `certify`."""
        told = [a for value in self.features.values() for a in value.assumptions]
        if self.source in {"public", "private"} and self.features:
            told.insert(
                0,
                "leakage bounds suppose independent rows and fail with probability "
                f"{self.failure_probability:g}",
            )
        return tuple(dict.fromkeys(told))

    def distances(
        self,
        calibration: Calibration | str = Calibration.CERTIFIED,
        *,
        policy: Policy | None = None,
    ) -> Mapping[str, float] | float:
        """Return the leakages as `neighbor_classes` takes them.

        Parameters
        ----------
        calibration : Calibration
            ``certified``: upper bounds with explicit constants; an estimate without
            one is refused. ``theorem``: the paper's adjusted estimates where there
            are any.
        policy : Policy, optional
            By which rows are read. Features with joined levels are at distance 1
            unless it is that of `policy_for`.

        Guarantee
        ---------
        Nothing bounds what a change inside a joined level tells, so distances of
        joined levels are given only with a policy that has them joined
        (docs/theory/leakage.md, 2.2).
        """
        as_read = policy is not None and policy.fingerprint() == self.policy_fingerprint
        values = {
            name: self._value(name, Calibration(calibration))
            if found.joined is None or as_read
            else 1.0
            for name, found in self.features.items()
        }
        if self.relation == NeighborRelation.ALL_INSENSITIVE and values:
            return values[BLOCK]
        return values

    def claim(
        self,
        calibration: Calibration | str = Calibration.CERTIFIED,
        *,
        policy: Policy | None = None,
    ) -> LeakageClaim:
        """Return what a certificate says of where the `distances` came from."""
        values = self.distances(calibration, policy=policy)
        return LeakageClaim(
            self.source,
            values if isinstance(values, Mapping) else {BLOCK: values},
            self.failure_probability,
            self.metric,
        )

    def margins_as_read(self, policy: Policy) -> dict[str, LevelSizes]:
        """Return the released rows per level, as far as `policy` has those levels.

        Guarantee
        ---------
        What `components` has paid for, and nothing else: a table that states no cost
        has none (docs/theory/leakage.md, Theorem 7).
        """
        if self.source != "private" or not self.components:
            return {}
        as_read = policy.fingerprint() == self.policy_fingerprint
        return {
            name: margin
            for name, margin in self.margins.items()
            if as_read or name not in self.joined
        }

    def is_for(self, policy: Policy) -> bool:
        """Return whether the table was computed for this policy, joined or not."""
        return policy.fingerprint() in (
            self.policy_fingerprint,
            self.declared_fingerprint,
        )

    def require_policy(self, policy: Policy) -> None:
        """Raise `PolicyError` unless the table was computed for this policy.

        Other roles, domains or conditioning give other leakages. A private table that
        states no cost is refused too, unless the policy leaves nothing to tell apart.

        Both the declared policy and that with joined levels are accepted: `distances`
        tells them apart.
        """
        if not self.is_for(policy):
            raise PolicyError(
                f"the leakage table was computed for policy "
                f"{self.declared_fingerprint[:12] or 'unknown'}, got "
                f"{policy.fingerprint()[:12]}. Estimate it again under this policy."
            )
        if self.source == "private" and not self.components:
            view = policy.leakage_view()  # a sensitive label is told of too
            layout = count_layout(view, leakage_targets(view))
            unpaid = [shape.name for shape in telling_shapes(layout)]
            if unpaid:
                raise _unpaid(unpaid)

    @property
    def joined(self) -> Mapping[str, JSONObject]:
        """Domain fields of the features whose thin levels are joined."""
        return {n: f.joined for n, f in self.features.items() if f.joined is not None}

    def policy_for(self, policy: Policy) -> Policy:
        """Return the policy that the numbers are about: its thin levels joined.

        Parameters
        ----------
        policy : Policy
            As it was declared; the joined one is returned as it is.

        Guarantee
        ---------
        Whatever encodes rows by the returned policy sees joined levels as one
        (docs/theory/leakage.md, 2.2). Another policy than that of the estimate is
        refused by `require_policy`, to which it is left.
        """
        if not self.joined or policy.fingerprint() != self.declared_fingerprint:
            return policy
        return joined_policy(policy, self.joined)

    def joined_text(self, policy: Policy) -> dict[str, str]:
        """Return what is joined, in words; `policy` is that of `policy_for`."""
        return {name: joined_words(policy.feature(name).domain) for name in self.joined}

    def to_text(self) -> str:
        """Return the table in plain words."""
        width = max([7, *map(len, self.features)])
        lines = [f"{'feature':<{width}}  {'estimate':>8}  {'upper':>6}  reason"]
        for name, value in self.features.items():
            upper = "none" if value.upper is None else f"{value.upper:.4f}"
            lines.append(
                f"{name:<{width}}  {value.estimate:8.4f}  {upper:>6}  "
                f"{value.method}: {value.reason}"
            )
        lines += [
            "",
            f"source {self.source}: {NOTICES[self.source]}",
            f"relation {self.relation}, conditioning {self.conditioning}, metric "
            f"{self.metric}, failure probability {self.failure_probability:g}",
        ]
        uppers = [value.upper for value in self.features.values()]
        if uppers and all(upper == 1.0 for upper in uppers):
            lines.append(
                "no bound is below 1, so every column is protected like a sensitive "
                "one and counts gain nothing: declare what you know (leakage in the "
                "policy), merge rare values (groups), or use a public table, more rows "
                "or a larger epsilon"
            )
        if self.research:
            lines.append("NOT PRIVATE: research mode shows exact numbers")
        return "\n".join(lines)

    @property
    def digest(self) -> str:
        """SHA-256 of all that `to_dict` says: a ledger knows a release by it."""
        return digest(self._document())

    def to_dict(self) -> JSONObject:
        """Return a JSON-able description that `from_dict` reads back equal."""
        document = self._document()
        return document | {"digest": digest(document)}

    def _document(self) -> JSONObject:
        document: JSONObject = {
            "schema": JOINED_SCHEMA if self.joined else SCHEMA,
            "features": {name: v.to_dict() for name, v in self.features.items()},
            **{name: getattr(self, name) for name in _PLAIN},
            "notice": NOTICES[self.source],
            "spent": {
                name: [event.to_json() for event in events]
                for name, events in self.spent.items()
            },
            "components": [part.to_json() for part in self.components],
        }
        # Fields that only some tables have.
        if self.joined:
            document["declared_fingerprint"] = self.declared_fingerprint
        if self.margins:
            document["margins"] = {n: m.to_json() for n, m in self.margins.items()}
        return document

    @classmethod
    def from_dict(cls, document: Any) -> "LeakageTable":
        """Read what `to_dict` wrote, and nothing else.

        Raises
        ------
        CorrDPError
            If it is not a leakage table, or one without a digest.
        GuaranteeVoidError
            If a field is not what was written, or a private table states no cost.
        """
        check_digest(document)
        document = {"declared_fingerprint": "", "margins": {}} | document
        check_shape(document, _SHAPE | _PLAIN, "leakage table")
        with decoding("leakage table"):
            features, margins = document["features"], document["margins"]
            return cls(
                features=MappingProxyType(
                    {name: FeatureLeakage.from_dict(v) for name, v in features.items()}
                ),
                components=tuple(map(Component.from_json, document["components"])),
                declared_fingerprint=document["declared_fingerprint"],
                margins={name: LevelSizes.from_json(v) for name, v in margins.items()},
                **{name: document[name] for name in _PLAIN},
            )

    @classmethod
    def from_file(cls, path: str | Path) -> "LeakageTable":
        """Read a table that ``corrdp leakage --out`` wrote; see `from_dict`."""
        document = read_json(Path(path), "leakage table", "corrdp leakage --out")
        return cls.from_dict(document)

    def _value(self, name: str, calibration: Calibration) -> float:
        found = self.features[name]
        if calibration is Calibration.THEOREM:
            value = found.upper if found.paper_upper is None else found.paper_upper
            if self.source == "in_sample":
                value = found.paper_upper
        elif self.source == "in_sample":
            raise GuaranteeVoidError(
                "source='in_sample' gives asymptotic values only, and calibration is "
                "'certified'. Use source='private', 'public' or 'declared', or "
                "calibration='theorem'."
            )
        else:
            value = found.upper
        if value is None:
            raise MissingBoundError(
                f"the leakage of {name!r} has no upper bound ({found.method}). Declare "
                "bins so that it can be counted, declare the leakage, or pass delta "
                "for the paper's asymptotic value."
            )
        return value


def check_digest(document: Any) -> None:
    """Raise unless a leakage document is as it was written.

    Guarantee
    ---------
    The digest covers every field, so an edited bound or price is found unless the
    digest was computed anew. It is a check against edits, not a signature: a ledger,
    which records the digest of what it paid for, is what a forger cannot satisfy
    (`docs/theory/ledger.md`, Claim 4).
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema == _WITHOUT_DIGEST:
        raise CorrDPError(
            f"the leakage table has schema {schema!r}, which carries no digest: an "
            "edited table cannot be told from a sound one. Estimate the leakage again."
        )
    if schema not in (SCHEMA, JOINED_SCHEMA):
        raise CorrDPError(
            f"the leakage schema must be {SCHEMA!r} or {JOINED_SCHEMA!r}, got "
            f"{schema!r}. "
            "Pass what LeakageTable.to_dict wrote."
        )
    fields = {name: value for name, value in document.items() if name != "digest"}
    try:
        found = digest(fields)
    except (RecursionError, TypeError, ValueError):  # nothing that was ever written
        found = None
    if found is None or document.get("digest") != found:
        raise GuaranteeVoidError(
            "the leakage table is not as it was written: its digest does not match its "
            "fields. Use the file that was released, or estimate the leakage again."
        )


def _unpaid(names: Sequence[str]) -> GuaranteeVoidError:
    return GuaranteeVoidError(
        f"a leakage table with source='private' states no cost, and tells something of "
        f"{', '.join(names)}. Use the table that was released, or estimate again."
    )


def declared_table(policy: Policy) -> LeakageTable:
    """Return the leakage that a policy declares itself."""
    known = LeakageClaim.declared(policy).values
    asked = leakage_targets(policy)
    absent = [name for name in asked if name not in known]
    if absent:
        raise MissingBoundError(
            f"The policy declares no leakage of {', '.join(absent)}. Declare it "
            "(features.<name>.leakage, or block_leakage), or choose another source."
        )
    return LeakageTable(
        features={
            name: FeatureLeakage(
                estimate=float(known[name]),
                upper=float(known[name]),
                method="declared",
                reason="declared by the policy",
            )
            for name in asked
        },
        source="declared",
        relation=str(policy.relation),
        conditioning=str(policy.conditioning),
        policy_fingerprint=policy.fingerprint(),
    )

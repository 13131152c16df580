"""The certificate of a release: every claim, and all that is needed to check it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from corrdp._display import html_card
from corrdp._json import (
    Infinite,
    canonical_text,
    check_shape,
    decode_number,
    decoding,
    digest,
    encode_number,
    parse_json,
)
from corrdp._random import noise_source
from corrdp._typing import JSONObject
from corrdp._validate import check_flag
from corrdp.accounting import Risk
from corrdp.certificate._claims import (
    Calibration,
    ClassClaim,
    Component,
    LeakageClaim,
    proved_epsilons,
)
from corrdp.certificate._text import (
    certificate_short_text,
    certificate_table,
    certificate_text,
    class_risk,
)
from corrdp.certificate._verify import policy_terms, verify_certificate
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.policy import Budget, Policy, allowed_epsilons, neighbor_classes

SCHEMA = "corrdp.certificate/1"

THEOREM_ASSUMPTION = (
    "asymptotic: Assumptions 3.1-3.4 of the paper and unstated constants; "
    "the epsilon shown per class is what the accountant proves for the same noise"
)
CHOSEN_DISTANCES = (
    "leakage was released from the same rows, so the epsilons shown for insensitive "
    "classes and the whole record are budgets that this release chose; proved in "
    "advance is the CorrDP epsilon: the target divided by the true distance of each "
    "class, except with the failure probability of the leakage, and never above the cap"
)
DOMAIN_ASSUMPTION = (
    "every record lies in the domain that the policy declares, which the encoder "
    "enforces; the number of rows is public"
)

# Fields that a file holds as they are, in its order, and those that older ones lack.
_TERMS = {
    "delta": float,
    "target_epsilon": float,
    "relation": str,
    "conditioning": str,
    "distance_floor": float,
    "epsilon_cap": float,
    "label_protected": bool,
}
_LATER = {"noise_source": str, "research": bool}
_SHAPE = {
    **_TERMS,
    "epsilon": Infinite,
    "classes": {
        ...: {
            "epsilon": Infinite,
            "allowed_epsilon": Infinite,
            "distance": float,
            "features": [str],
            "label_changes": bool,
            "promised": bool,
        }
    },
    "leakage": {
        "source": str,
        "values": {...: float},
        "failure_probability": float,
        "metric": str,
    },
    "assumptions": [str],
    "policy_fingerprint": str,
    "replayable_noise": bool,
    "software": {...: str},
}


@dataclass(frozen=True, eq=False)
class Certificate:
    """What a release proves for each neighbor class of its policy.

    Build one with `certify`; read one back with `from_json` or `from_file`.

    Parameters
    ----------
    calibration : Calibration
        ``certified`` or ``theorem``.
    target_epsilon, delta : float
        The budget that was asked for.
    relation, conditioning : str
        The neighbor relation and how leakage is conditioned.
    distance_floor, epsilon_cap : float
        Bounds of the policy that only strengthen the promise.
    label_protected : bool
        Whether the label may change between neighbors at all.
    classes : mapping of str to ClassClaim
        One claim per neighbor class, ``whole_record`` included.
    leakage : LeakageClaim
        Where the distances came from.
    components : tuple of Component
        Plans or events of everything that was released.
    assumptions : tuple of str
        What the proof needs.
    policy_fingerprint : str
        SHA-256 of the policy.
    replayable_noise : bool
        True if a fixed seed was used: whoever knows it can subtract the noise.
    software : mapping of str to str
        Versions of what computed it.
    noise_source : str, optional
        The generator of the noise; None in files of versions that did not say.
    research : bool, optional
        True if the release was made in research mode, in which rows may have been
        disclosed; None in files of versions that did not say.

    Guarantee
    ---------
    Under ``certified``, outputs on neighbors of class ``c`` are
    ``(classes[c].epsilon, delta)``-indistinguishable; proofs in `docs/theory/`.
    """

    calibration: Calibration
    target_epsilon: float
    delta: float
    relation: str
    conditioning: str
    distance_floor: float
    epsilon_cap: float
    label_protected: bool
    classes: Mapping[str, ClassClaim]
    leakage: LeakageClaim
    components: tuple[Component, ...]
    assumptions: tuple[str, ...]
    policy_fingerprint: str
    replayable_noise: bool
    software: Mapping[str, str]
    noise_source: str | None = None
    research: bool | None = None

    @property
    def epsilon(self) -> float:
        """The CorrDP epsilon that is proved: the largest distance times epsilon."""
        return max(
            claim.distance * claim.epsilon
            for claim in self.classes.values()
            if claim.promised
        )

    @property
    def label_is_sensitive(self) -> bool:
        """Whether a protected label changes along with sensitive features only."""
        return self.label_protected and not any(
            claim.label_changes
            for name, claim in self.classes.items()
            if name.startswith("insensitive")
        )

    def verify(self, policy: Policy | None = None) -> tuple[str, ...]:
        """Recompute every number; return the checks made, or raise.

        Raises
        ------
        GuaranteeVoidError
            If any number cannot be reproduced from the plan, or if `policy` is
            given and is not the one the certificate was issued for.
        """
        return verify_certificate(self, policy)

    def risk(self, class_name: str) -> Risk:
        """Return what an attacker gains, at most, if a class is what changed.

        Guarantee
        ---------
        Read off the trade-off curve of all components (``docs/theory/risk.md``), so it
        is recomputed, never stored. It speaks of an attacker who knows all the rest.
        """
        if class_name not in self.classes:
            raise CorrDPError(
                f"class_name must be one of {', '.join(self.classes)}, got "
                f"{class_name!r}. Name a class of the certificate."
            )
        return class_risk(self, class_name)

    def to_text(self) -> str:
        """Return the certificate in plain words."""
        return certificate_text(self)

    def to_short_text(self) -> str:
        """Return the certificate in some ten lines; `to_text` says the rest."""
        return certificate_short_text(self)

    def _repr_html_(self) -> str:
        notes, headers, rows = certificate_table(self)
        return html_card("Certificate", notes, headers, rows)

    def to_dict(self) -> JSONObject:
        """Return a JSON-able description, with a digest of all else in it."""
        document: JSONObject = {
            "schema": SCHEMA,
            "calibration": str(self.calibration),
            "epsilon": encode_number(self.epsilon),
            **{name: getattr(self, name) for name in _TERMS},
            "classes": {name: c.to_json() for name, c in self.classes.items()},
            "leakage": self.leakage.to_json(),
            "components": [component.to_json() for component in self.components],
            "assumptions": list(self.assumptions),
            "policy_fingerprint": self.policy_fingerprint,
            "replayable_noise": self.replayable_noise,
            "software": dict(self.software),
        }
        # Absent where a file of an earlier version is read, so that its digest holds.
        later = {name: getattr(self, name) for name in _LATER}
        document |= {key: value for key, value in later.items() if value is not None}
        return document | {"digest": digest(document)}

    def to_json(self) -> str:
        """Return the certificate as one JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read what `to_json` wrote; anything changed since is refused."""
        return cls.from_dict(parse_json(text, "certificate"))

    @classmethod
    def from_dict(cls, document: Any) -> "Certificate":
        """Read what `to_dict` wrote; anything changed since is refused."""
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != SCHEMA:
            raise CorrDPError(
                f"the certificate schema must be {SCHEMA!r}, got {schema!r}. "
                "Read it with the version of corrdp that wrote it."
            )
        with decoding("certificate"):
            return cls._decoded(document)

    @classmethod
    def _decoded(cls, document: JSONObject) -> "Certificate":
        rest = {key: value for key, value in document.items() if key != "digest"}
        if document.get("digest") != digest(rest):
            raise GuaranteeVoidError(
                "the certificate was changed after it was issued: its digest does not "
                "match its content. Ask for the original."
            )
        check_shape(document, _SHAPE, "certificate")
        for name, kind in _LATER.items():
            check_shape(document.get(name), (kind, None), f"certificate.{name}")
        later: dict[str, Any] = {name: document.get(name) for name in _LATER}
        certificate = cls(
            calibration=Calibration(document["calibration"]),
            **{name: document[name] for name in _TERMS},
            classes=MappingProxyType(
                {n: ClassClaim.from_json(c) for n, c in document["classes"].items()}
            ),
            leakage=LeakageClaim.from_json(document["leakage"]),
            components=tuple(Component.from_json(c) for c in document["components"]),
            assumptions=tuple(document["assumptions"]),
            policy_fingerprint=document["policy_fingerprint"],
            replayable_noise=document["replayable_noise"],
            software=MappingProxyType(document["software"]),
            **later,
        )
        if decode_number(document["epsilon"]) != certificate.epsilon:
            raise GuaranteeVoidError(
                f"the certificate states epsilon={document['epsilon']!r}, its classes "
                f"imply {certificate.epsilon!r}. Ask for the original."
            )
        return certificate

    @classmethod
    def from_file(cls, path: str | Path) -> "Certificate":
        """Read a certificate from a JSON file."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise CorrDPError(
                f"cannot read the certificate {str(path)!r} ({type(error).__name__}). "
                "Check the path."
            ) from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Certificate):
            return NotImplemented
        return canonical_text(self.to_dict()) == canonical_text(other.to_dict())

    def __reduce__(self) -> tuple[Any, tuple[JSONObject]]:
        return type(self).from_dict, (self.to_dict(),)

    def __hash__(self) -> int:
        return hash(canonical_text(self.to_dict()))


def certify(
    policy: Policy,
    components: Sequence[Component],
    *,
    budget: Budget,
    leakage: LeakageClaim,
    calibration: Calibration = Calibration.CERTIFIED,
    assumptions: Sequence[str] = (),
    replayable_noise: bool = False,
    research: bool = False,
    whole_units: bool = False,
) -> Certificate:
    """Price every neighbor class of a policy and issue the certificate.

    Parameters
    ----------
    policy : Policy
        Names the classes; `leakage` gives their distances.
    components : sequence of Component
        Everything that is released, each with its plan or events.
    budget : Budget
        The epsilon and delta that were asked for.
    leakage : LeakageClaim
        Leakage per feature, or of the block, and where it came from.
    calibration : Calibration
        Under ``certified`` a class above its allowed epsilon is refused; under
        ``theorem`` it is shown.
    assumptions : sequence of str
        What the proof needs beyond the declared domain.
    replayable_noise : bool
        Whether noise came from a fixed seed.
    research : bool
        Whether rows may have been disclosed along with the release.
    whole_units : bool
        Whether the events price a change of all rows of a unit. A policy with a unit
        is refused otherwise.

    Raises
    ------
    GuaranteeVoidError
        Under ``certified``, if a promised class exceeds its allowed epsilon.

    Guarantee
    ---------
    Each claim is the composition of the components for that class
    (`docs/theory/composition.md`), so nothing is promised that is not priced.
    """
    if not whole_units:
        policy.require_single_rows("this release")
    parts = tuple(component.restated(policy) for component in components)
    if not parts:
        raise CorrDPError(
            "components is empty: a certificate speaks of a release. Pass the plan or "
            "the events of everything that is released."
        )
    classes = neighbor_classes(policy, leakage.distances(policy))
    limits = allowed_epsilons(
        classes, epsilon=budget.epsilon, epsilon_cap=policy.epsilon_cap
    )
    proved = proved_epsilons(parts, limits, delta=budget.delta)
    claims = {}
    for neighbor in classes:
        allowed = limits[neighbor.name]
        claim = ClassClaim(
            epsilon=proved[neighbor.name],
            allowed_epsilon=allowed,
            distance=neighbor.distance,
            features=neighbor.features,
            label_changes=neighbor.label_changes,
            promised=neighbor.promised,
        )
        if calibration is Calibration.CERTIFIED and not claim.holds:
            raise GuaranteeVoidError(
                f"class {neighbor.name!r} has epsilon {claim.epsilon!r}, the policy "
                f"allows {allowed!r}. Add noise to every group that moves under this "
                "class, or plan the noise with plan_noise."
            )
        claims[neighbor.name] = claim
    grounds = [DOMAIN_ASSUMPTION, *assumptions]
    if leakage.source == "private":
        grounds.append(CHOSEN_DISTANCES)
    if calibration is Calibration.THEOREM:
        grounds.insert(0, THEOREM_ASSUMPTION)
    return Certificate(
        calibration=calibration,
        target_epsilon=budget.epsilon,
        delta=budget.delta,
        **policy_terms(policy),
        classes=MappingProxyType(claims),
        leakage=leakage,
        components=parts,
        assumptions=tuple(grounds),
        policy_fingerprint=policy.fingerprint(),
        replayable_noise=check_flag("replayable_noise", replayable_noise),
        software=MappingProxyType(
            {n: version(n) for n in ("corrdp", "numpy", "scipy", "randomgen")}
        ),
        noise_source=noise_source(replayable=replayable_noise),
        research=check_flag("research", research),
    )

"""Recompute every number of a certificate from what it contains."""

import math
from typing import TYPE_CHECKING, Any

from corrdp._names import BLOCK, WHOLE_RECORD
from corrdp._random import noise_source
from corrdp.certificate._claims import Calibration, ClassClaim, proved_epsilons
from corrdp.exceptions import GuaranteeVoidError
from corrdp.policy import NeighborClass, Policy, allowed_epsilon, neighbor_classes

if TYPE_CHECKING:
    from corrdp.certificate._certificate import Certificate

# Other versions of numpy or scipy may round the last digits differently.
RELATIVE_TOLERANCE = 1e-9


def verify_certificate(
    certificate: "Certificate", policy: Policy | None
) -> tuple[str, ...]:
    """Return the checks that passed, or raise `GuaranteeVoidError` at the first."""
    checks = []
    _check_classes(certificate)
    proved = proved_epsilons(
        certificate.components,
        {name: claim.allowed_epsilon for name, claim in certificate.classes.items()},
        delta=certificate.delta,
    )
    for name, claim in certificate.classes.items():
        if claim.distance < certificate.distance_floor:
            _refuse(name, "distance", claim.distance, certificate.distance_floor)
        allowed = allowed_epsilon(
            claim,
            epsilon=certificate.target_epsilon,
            epsilon_cap=certificate.epsilon_cap,
        )
        if not _same(claim.allowed_epsilon, allowed):
            _refuse(name, "allowed_epsilon", claim.allowed_epsilon, allowed)
        if not _same(claim.epsilon, proved[name]):
            _refuse(name, "epsilon", claim.epsilon, proved[name])
        if certificate.calibration is Calibration.CERTIFIED and not claim.holds:
            _refuse(name, "epsilon above its limit", claim.epsilon, allowed)
        checks.append(f"class {name}: epsilon {claim.epsilon:.6g} recomputed")
    checks.append(_check_noise_source(certificate))
    checks.append(
        "no policy given: what classes change, and how far, is as the certificate says"
        if policy is None
        else _check_policy(certificate, policy)
    )
    checks.append(f"implied CorrDP epsilon {certificate.epsilon:.6g} recomputed")
    return tuple(checks)


def policy_terms(policy: Policy) -> dict[str, Any]:
    """Return what a certificate repeats of its policy, by the names of its fields."""
    return {
        "relation": str(policy.relation),
        "conditioning": str(policy.conditioning),
        "distance_floor": policy.distance_floor,
        "epsilon_cap": policy.epsilon_cap,
        "label_protected": policy.label_is_protected,
    }


def _check_classes(certificate: "Certificate") -> None:
    """Refuse classes that no policy has, whichever it is.

    All is promised but the whole record; sensitive features are at distance 1, and
    nothing is nearer than what it leaks.
    """
    if WHOLE_RECORD not in certificate.classes:
        raise GuaranteeVoidError(
            f"the certificate does not price {WHOLE_RECORD!r}, which every certificate "
            "shows. Do not rely on this certificate; issue it again."
        )
    leakage = certificate.leakage.values
    for name, claim in certificate.classes.items():
        if claim.promised == (name == WHOLE_RECORD):
            _refuse(name, "promised", claim.promised, not claim.promised)
        kind, _, feature = name.partition(":")
        least = 0.0  # of a label: its score, which the policy knows
        if kind in (WHOLE_RECORD, "sensitive"):
            least = 1.0
        elif kind == "insensitive":
            least = leakage.get(feature or BLOCK, 0.0)
        if claim.distance < least and not _same(claim.distance, least):
            _refuse(name, "distance", claim.distance, least)


def _check_noise_source(certificate: "Certificate") -> str:
    """Return what drew the noise; only known generators are relied on."""
    stated = certificate.noise_source
    if stated is None:
        return "noise source not recorded: the certificate is of an earlier version"
    expected = noise_source(replayable=certificate.replayable_noise)
    if stated != expected:
        raise GuaranteeVoidError(
            f"the certificate names the noise source {stated!r}, where noise is drawn "
            f"by {expected!r}. Do not rely on this certificate; issue it again."
        )
    return f"noise source: {stated}"


def _check_policy(certificate: "Certificate", policy: Policy) -> str:
    if policy.fingerprint() != certificate.policy_fingerprint:
        raise GuaranteeVoidError(
            f"the certificate was issued for policy "
            f"{certificate.policy_fingerprint[:12]}, got {policy.fingerprint()[:12]}. "
            "Verify it with the policy it names: policy.toml beside the certificate, "
            "where bounds of numbers are those that the release found."
        )
    for name, declared in policy_terms(policy).items():
        stated = getattr(certificate, name)
        if stated != declared:
            raise GuaranteeVoidError(
                f"the certificate states {name}={stated!r}, its policy declares "
                f"{declared!r}. Do not rely on this certificate; issue it again."
            )
    expected = neighbor_classes(policy, certificate.leakage.distances(policy))

    def facts(c: ClassClaim | NeighborClass) -> tuple[object, ...]:
        return c.features, c.label_changes, c.distance, c.promised

    claimed = {name: facts(claim) for name, claim in certificate.classes.items()}
    derived = {neighbor.name: facts(neighbor) for neighbor in expected}
    if claimed != derived:
        differing = sorted(
            name
            for name in claimed.keys() | derived.keys()
            if claimed.get(name) != derived.get(name)
        )
        raise GuaranteeVoidError(
            f"the certificate's classes {differing} are not those of its policy. "
            "Issue it again."
        )
    return "neighbor classes derived again from the policy"


def _same(left: float, right: float) -> bool:
    return left == right or math.isclose(left, right, rel_tol=RELATIVE_TOLERANCE)


def _refuse(class_name: str, quantity: str, stated: float, recomputed: float) -> None:
    raise GuaranteeVoidError(
        f"class {class_name!r}: {quantity} is stated as {stated!r}, recomputed as "
        f"{recomputed!r}. Do not rely on this certificate; issue it again."
    )

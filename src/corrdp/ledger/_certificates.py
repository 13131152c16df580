"""What a certificate costs a ledger, and how it is charged."""

from pathlib import Path
from typing import Any

from corrdp._json import digest
from corrdp.accounting import PrivacyEvent
from corrdp.certificate import Certificate
from corrdp.exceptions import GuaranteeVoidError
from corrdp.ledger._ledger import Ledger, Receipt
from corrdp.policy import Policy


def charge_certificate(
    ledger: Ledger | str | Path,
    certificate: Certificate,
    *,
    policy: Policy,
    purpose: str,
    leakage: Any = None,
) -> Receipt:
    """Charge all that a certificate prices and that was not paid before.

    Parameters
    ----------
    ledger : Ledger or path
        An existing one.
    certificate : Certificate
        Of a release that has not been computed yet.
    policy : Policy
        Of the release.
    purpose : str
        What is released, in words.
    leakage : leakage table, optional
        Not charged again if the ledger has paid for it.

    Raises
    ------
    BudgetError
        If the budget does not allow it; nothing may be computed then.

    Guarantee
    ---------
    That of `Ledger.charge` (`docs/theory/ledger.md`).
    """
    opened = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    distances = certificate.leakage.distances() if policy.insensitive else None
    opened.add_policy(policy, leakage=distances)
    paid = paid_components(opened, leakage, policy)
    return opened.charge(
        certificate_events(certificate, paid), policy=policy, purpose=purpose
    )


def certificate_events(
    certificate: Certificate, paid: list[Any]
) -> dict[str, list[PrivacyEvent]]:
    """Return what every class is charged, without components that are paid for."""
    parts, left = [], list(paid)
    for part in certificate.components:
        if part.to_json() in left:
            left.remove(part.to_json())
        else:
            parts.append(part)
    events: dict[str, list[PrivacyEvent]] = {}
    for name in certificate.classes:
        costs = [part.events_of(name) for part in parts]
        if any(cost is None for cost in costs):
            raise GuaranteeVoidError(
                f"class {name!r} has no bound, so the release cannot be charged to a "
                "ledger. Use method corr or standard with the certified calibration."
            )
        events[name] = [event for cost in costs for event in cost or ()]
    return events


def paid_components(ledger: Ledger, leakage: Any, policy: Policy) -> list[Any]:
    """Return the components of a leakage table that the ledger has paid for."""
    if not hasattr(leakage, "components") or not hasattr(leakage, "to_dict"):
        return []
    if not ledger.has_paid(release_digest(leakage)):
        return []
    return [part.restated(policy).to_json() for part in leakage.components]


def release_digest(table: Any) -> str:
    """Return the digest by which a ledger knows a leakage table."""
    return digest(table.to_dict())

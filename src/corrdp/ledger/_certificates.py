"""What a certificate costs a ledger, and how it is charged."""

from pathlib import Path
from typing import Any

from corrdp._typing import JSONObject
from corrdp.accounting import PrivacyEvent
from corrdp.certificate import Certificate, Component
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
    rows: Any = None,
    accept_new_data: bool = False,
) -> Receipt:
    """Charge all that a certificate prices and that was not paid before.

    Parameters
    ----------
    ledger : Ledger or path
        An existing one.
    certificate : Certificate
        Of a release that has not been computed yet.
    leakage : leakage table, optional
        Not charged again if the ledger has paid for it; refused if it is private and
        the ledger has not.
    rows, policy, purpose, accept_new_data
        As in `Ledger.charge_for_rows`.

    Guarantee
    ---------
    That of `Ledger.charge` (`docs/theory/ledger.md`).
    """
    opened = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    distances = certificate.leakage.distances(policy)
    events = unpaid_events(certificate, policy=policy, ledger=opened, leakage=leakage)
    opened.introduce(policy, leakage=distances)
    return opened.charge_for_rows(
        rows, events, policy=policy, purpose=purpose, accept_new_data=accept_new_data
    )


def require_recorded(ledger: Ledger | None, leakage: Any) -> None:
    """Raise `GuaranteeVoidError` if a ledger does not know a private leakage table.

    A private one is known by the digest that was recorded when its release was
    charged; a ledger that is yet to be created (None) has recorded nothing. Declared
    and public tables cost nothing. One that shows exact numbers (``research``) is never
    recorded; whoever accepts it has stamped the result "not private".
    """
    if not _is_table(leakage) or leakage.source != "private" or leakage.research:
        return
    if leakage.components and not _has_paid(ledger, leakage):
        name = "the ledger" if ledger is None else f"the ledger {str(ledger.path)!r}"
        raise GuaranteeVoidError(
            f"{name} has not paid for the leakage table, which was computed from "
            "private rows. Release it with this ledger (corrdp leakage --ledger), or "
            "declare the leakage."
        )


def unpaid_events(
    certificate: Certificate,
    *,
    policy: Policy,
    ledger: Ledger | None,
    leakage: Any = None,
) -> dict[str, list[PrivacyEvent]]:
    """Return what every class is charged for a release: all that is not paid yet.

    `leakage` is what the release was planned with; a ledger that is yet to be created
    is None.

    Raises
    ------
    GuaranteeVoidError
        If a class has no bound, if the certificate is of another policy, if the ledger
        has not recorded a private table, or if a certificate rests on one that is not
        given.

    Guarantee
    ---------
    The charges of the ledger cover all releases (`docs/theory/ledger.md`, Claim 4):
    components are left out only if the ledger recorded the digest of their table.
    """
    if certificate.policy_fingerprint != policy.fingerprint():
        raise GuaranteeVoidError(
            f"the certificate was issued for policy "
            f"{certificate.policy_fingerprint[:12]}, got {policy.fingerprint()[:12]}: "
            "classes of the same name may change other columns. Pass the policy that "
            "the release keeps."
        )
    if certificate.leakage.source == "private" and not _is_table(leakage):
        raise GuaranteeVoidError(
            "the certificate rests on a private leakage table, which was not given. "
            "Pass the table, so that its payment can be looked up."
        )
    require_recorded(ledger, leakage)
    paid: list[JSONObject] = []
    if _is_table(leakage) and _has_paid(ledger, leakage):
        paid = [part.restated(policy).to_json() for part in leakage.components]
    parts = []
    for part in certificate.components:
        if part.to_json() in paid:
            paid.remove(part.to_json())
        else:
            parts.append(part)
    events: dict[str, list[PrivacyEvent]] = {}
    for name in certificate.classes:
        cost = Component.joint_events(parts, name)
        if cost is None:
            raise GuaranteeVoidError(
                f"class {name!r} has no bound, so the release cannot be charged to a "
                "ledger. Use method corr or standard with the certified calibration."
            )
        events[name] = list(cost)
    return events


def _has_paid(ledger: Ledger | None, leakage: Any) -> bool:
    return ledger is not None and ledger.has_paid(leakage.digest)


def _is_table(leakage: Any) -> bool:
    """Return whether leakage is a table with a cost, not plain numbers."""
    return hasattr(leakage, "components") and hasattr(leakage, "digest")

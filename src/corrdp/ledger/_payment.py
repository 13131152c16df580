"""What a release costs a ledger, and how it is charged before it leaves."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corrdp._names import NUMBER_COUNTS
from corrdp._typing import JSONObject
from corrdp.accounting import NoisePlan, PrivacyEvent
from corrdp.certificate import Certificate, Component
from corrdp.exceptions import BudgetError, GuaranteeVoidError
from corrdp.ledger._ledger import Ledger, Receipt
from corrdp.ledger._store import is_there
from corrdp.policy import Budget, Policy


@dataclass(frozen=True)
class LedgerChoice:
    """What a user said of the ledger that pays for a release."""

    path: Path
    budget: Budget | None  # of a ledger that does not exist yet
    accept_new_data: bool  # the table may be another than that of earlier charges


def check_ledger(path: Path, budget: Budget | None) -> Ledger | None:
    """Raise, before any work, what a payment would raise about the ledger itself.

    Return the ledger, or None if it is yet to be created with the budget.
    """
    if is_there(path):
        ledger = Ledger.open(path)
        if budget is not None:
            raise BudgetError(
                f"the ledger {str(path)!r} exists and has its budget, got "
                f"--ledger-epsilon={budget.epsilon!r}. Leave the option out."
            )
        return ledger
    if budget is None:
        raise BudgetError(
            f"there is no ledger {str(path)!r} yet. Give the total budget for the life "
            "of the data with --ledger-epsilon and --ledger-delta."
        )
    return None


@dataclass(eq=False)
class Payment:
    """Pays for a training run before it begins, and holds the result to it.

    Guarantee
    ---------
    What training releases is charged before a row is used, and a result whose
    certificate is another than the one charged does not leave
    (`docs/theory/ledger.md`, Claim 4).
    """

    choice: LedgerChoice
    table: Any  # private rows, for the fingerprint
    leakage: Any  # what training was given
    purpose: str
    _charged: tuple[Certificate, Policy] | None = None

    def charge(self, certificate: Certificate, policy: Policy) -> None:
        """Charge what a certificate prices, as `charge_certificate` does."""
        charge_certificate(
            self.choice,
            certificate,
            policy=policy,
            purpose=self.purpose,
            leakage=self.leakage,
            rows=self.table,
        )
        self._charged = certificate, policy

    def settle(self, certificate: Certificate, policy: Policy) -> Ledger:
        """Return the ledger, or raise if a release is not what was charged.

        Bounds of numbers that were released after the charge, as a part of what it
        paid for, make another policy and are named among the assumptions; all else is
        the same.
        """
        paid, declared = self._charged or (None, None)
        if paid is not None and declared is not None and policy != declared:
            counted = any(part.name == NUMBER_COUNTS for part in paid.components)
            if counted and policy.is_within(declared):
                paid = replace(
                    paid,
                    policy_fingerprint=policy.fingerprint(),
                    assumptions=certificate.assumptions,
                )
        if certificate != paid:
            raise GuaranteeVoidError(
                "training issued another certificate than was charged before it began. "
                "Nothing is written; report this as a defect."
            )
        return Ledger.open(self.choice.path)


@dataclass(frozen=True, eq=False)
class LeakagePayment:
    """A leakage release that is paid for, and not yet made."""

    ledger: Ledger
    receipt: Receipt
    plan: NoisePlan

    def settle(self, table: Any) -> None:
        """Record the release, so that training with it does not pay once more.

        A table that shows exact numbers is not recorded: its digest would be one of
        private rows.
        """
        spent = table.spent
        charged = {name: (self.plan.event(name),) for name in spent}
        if spent != charged:
            raise GuaranteeVoidError(
                "the leakage release costs something else than was charged for it. "
                "Nothing is written; report this as a defect."
            )
        if not table.research:
            self.ledger.record_release(self.receipt, table.digest)


def pay_for_leakage(
    choice: LedgerChoice,
    plan: NoisePlan,
    policy: Policy,
    rows: Any,
    *,
    known: Any = None,
) -> LeakagePayment:
    """Charge a leakage release before its noise is drawn.

    `known` is the table of an earlier release. Otherwise nothing is known of the
    leakage yet: a new ledger takes what the policy declares, or distance 1, which only
    makes its accounts smaller.

    Guarantee
    ---------
    The noise plan is charged in full before a row is counted; only what was charged
    is recorded as paid (`docs/theory/ledger.md`, Claim 4).
    """
    ledger = open_ledger(
        choice,
        policy,
        leakage=_declared_or_one(policy) if known is None else known.distances(),
        promises=known is not None,
    )
    told = {name for group in plan.table.groups for name in group.features}
    receipt = ledger.charge_for_rows(
        rows,
        {name: (plan.event(name),) for name in plan.table.class_names},
        policy=policy,
        purpose="leakage",
        columns=told.union(policy.leakage_view().sensitive),
        accept_new_data=choice.accept_new_data,
    )
    return LeakagePayment(ledger, receipt, plan)


def _declared_or_one(policy: Policy) -> Any:
    """Return None if the policy declares its leakage, else distance 1 throughout."""
    if policy.relation == "all_insensitive":
        unknown = policy.block_leakage is None
        ones: Any = 1.0
    else:
        features = [policy.feature(name) for name in policy.insensitive]
        unknown = any(feature.known_leakage is None for feature in features)
        ones = dict.fromkeys(policy.insensitive, 1.0)
    return ones if unknown and policy.insensitive else None


def open_ledger(
    choice: LedgerChoice, policy: Policy, *, leakage: Any = None, promises: bool = True
) -> Ledger:
    """Return the ledger that will be charged for a release under a policy.

    A release that `promises` nothing by its distances, as one of leakage does, leaves
    the accounts of a policy that the ledger knows as they are. The file is made, or the
    policy added to it, with the charge: what is refused leaves it as it was.
    """
    ledger = check_ledger(choice.path, choice.budget)
    if ledger is None:
        assert choice.budget is not None  # as was checked
        return Ledger.draft(choice.path, policy, budget=choice.budget, leakage=leakage)
    if promises or not ledger.knows(policy):
        ledger.introduce(policy, leakage=leakage)
    return ledger


def refuse_unrecorded(choice: LedgerChoice, leakage: Any) -> None:
    """Raise if a private leakage table was not paid for with this ledger."""
    if leakage is not None:  # to open a ledger is to check all of its entries
        require_recorded(check_ledger(choice.path, choice.budget), leakage)


def charge_certificate(
    ledger: Ledger | LedgerChoice | str | Path,
    certificate: Certificate,
    *,
    policy: Policy,
    purpose: str,
    leakage: Any = None,
    rows: Any = None,
) -> Receipt:
    """Charge all that a certificate prices and that was not paid before.

    Parameters
    ----------
    ledger : Ledger, LedgerChoice or path
        An existing one, unless a choice has the budget of a new one.
    certificate : Certificate
        Of a release that has not been computed yet.
    leakage : leakage table, optional
        Not charged again if the ledger has paid for it; refused if it is private and
        the ledger has not.
    rows : table, optional
        As in `Ledger.charge_for_rows`; none is read if none is given.
    policy, purpose
        As in `Ledger.charge`.

    Guarantee
    ---------
    That of `Ledger.charge` (`docs/theory/ledger.md`).
    """
    distances = certificate.leakage.distances(policy)
    accept_new_data = False
    if isinstance(ledger, LedgerChoice):
        opened = open_ledger(ledger, policy, leakage=distances)
        accept_new_data = ledger.accept_new_data
    else:
        opened = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    events = unpaid_events(certificate, policy=policy, ledger=opened, leakage=leakage)
    if not isinstance(ledger, LedgerChoice):
        # Not before: a certificate that is refused leaves nothing in an open handle.
        opened.introduce(policy, leakage=distances)
    if rows is None:  # estimators fit folds, and each is a table of its own
        return opened.charge(events, policy=policy, purpose=purpose)
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

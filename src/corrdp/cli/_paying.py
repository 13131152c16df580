"""Charge a release to a ledger, after it was computed and before it leaves."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrdp.exceptions import BudgetError, GuaranteeVoidError

if TYPE_CHECKING:
    from corrdp.certificate import Certificate
    from corrdp.ledger import Ledger
    from corrdp.policy import Budget, Policy


def check_ledger(path: Path, budget: "Budget | None") -> None:
    """Raise, before any work, what `pay` would raise about the ledger itself."""
    from corrdp.ledger import Ledger

    if path.exists():
        Ledger.open(path)
        if budget is not None:
            raise BudgetError(
                f"the ledger {str(path)!r} exists and has its budget, got "
                f"--ledger-epsilon={budget.epsilon!r}. Leave the option out."
            )
    elif budget is None:
        raise BudgetError(
            f"there is no ledger {str(path)!r} yet. Give the total budget for the life "
            "of the data with --ledger-epsilon and --ledger-delta."
        )


def pay(
    path: Path,
    certificate: "Certificate",
    policy: "Policy",
    table: Any,
    *,
    budget: "Budget | None",
    purpose: str,
) -> "Ledger":
    """Charge everything that a certificate prices; raise if the budget does not allow.

    Parameters
    ----------
    path : Path
        Ledger file; created if `budget` is given.
    certificate : Certificate
        What the release costs each class of `policy`.
    policy : Policy
        The policy that the release keeps.
    table : table
        Private rows, for the fingerprint.
    budget : Budget or None
        Of a ledger that does not exist yet.
    purpose : str
        What is released, in words.
    """
    from corrdp.ledger import Ledger

    check_ledger(path, budget)
    leakage = certificate.leakage.distances() if policy.insensitive else None
    if budget is None:
        ledger = Ledger.open(path)
        ledger.add_policy(policy, leakage=leakage)
    else:
        ledger = Ledger.create(path, policy, budget=budget, leakage=leakage)
    events: dict[str, list[Any]] = {}
    for name in certificate.classes:
        costs = [part.events_of(name) for part in certificate.components]
        if any(cost is None for cost in costs):
            raise GuaranteeVoidError(
                f"class {name!r} has no bound, so the release cannot be charged to a "
                "ledger. Use method corr or standard with the certified calibration."
            )
        events[name] = [event for cost in costs for event in cost or ()]
    ledger.charge(
        events,
        policy=policy,
        purpose=purpose,
        fingerprint=ledger.fingerprint(table),
    )
    return ledger

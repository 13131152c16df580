"""Charge a release to a ledger before it leaves."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrdp.exceptions import BudgetError, GuaranteeVoidError

if TYPE_CHECKING:
    from corrdp.accounting import NoisePlan
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
    accept_new_data: bool = False,
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
    accept_new_data : bool
        Whether the table may be another than that of earlier charges.
    """
    leakage = certificate.leakage.distances() if policy.insensitive else None
    ledger = open_ledger(path, policy, budget=budget, leakage=leakage)
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
        accept_new_data=accept_new_data,
    )
    return ledger


def pay_for_leakage(
    path: Path,
    plan: "NoisePlan",
    policy: "Policy",
    data: str,
    *,
    budget: "Budget | None",
) -> None:
    """Charge a leakage release before its noise is drawn.

    Nothing is known of the leakage yet, so a new ledger takes what the policy
    declares, or distance 1, which only makes its accounts smaller. Training with the
    released table pays for it once more: its certificate stands alone.
    """
    from corrdp.cli._data import read_data

    if policy.relation == "all_insensitive":
        unknown = policy.block_leakage is None
        ones: Any = 1.0
    else:
        unknown = any(policy.feature(n).leakage is None for n in policy.insensitive)
        ones = dict.fromkeys(policy.insensitive, 1.0)
    leakage = ones if unknown and policy.insensitive else None
    ledger = open_ledger(path, policy, budget=budget, leakage=leakage)
    ledger.charge(
        {name: (plan.event(name),) for name in plan.table.class_names},
        policy=policy,
        purpose="leakage",
        fingerprint=ledger.fingerprint(read_data(data, policy)),
    )


def total_budget(epsilon: float | None, delta: float | None) -> "Budget | None":
    """Return the budget of a ledger that does not exist yet, if one was given."""
    from corrdp.policy import Budget

    return None if epsilon is None else Budget(epsilon=epsilon, delta=delta or 0.0)


def open_ledger(
    path: Path, policy: "Policy", *, budget: "Budget | None", leakage: Any = None
) -> "Ledger":
    """Open a ledger and let it know the policy, or create it with its budget."""
    from corrdp.ledger import Ledger

    check_ledger(path, budget)
    if budget is not None:
        return Ledger.create(path, policy, budget=budget, leakage=leakage)
    ledger = Ledger.open(path)
    ledger.add_policy(policy, leakage=leakage)
    return ledger

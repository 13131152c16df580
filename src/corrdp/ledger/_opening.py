"""Open accounts for the neighbor classes of a policy."""

import math
from collections.abc import Mapping, Sequence

from corrdp.exceptions import BudgetError
from corrdp.ledger._accounts import Account
from corrdp.ledger._rules import Rule, fixed_order, limit_units
from corrdp.policy import (
    Budget,
    NeighborClass,
    Policy,
    allowed_epsilon,
    class_columns,
    neighbor_classes,
)


def open_accounts(
    policy: Policy,
    *,
    budget: Budget,
    rule: Rule,
    leakage: Mapping[str, float] | float | None,
    existing: Sequence[Account],
) -> list[Account]:
    """Return the accounts that a policy needs and that do not exist yet.

    Raises
    ------
    BudgetError
        If the policy promises a class less epsilon than its account may spend.
    """
    policy.require_confirmed()
    known = {account.identity: account for account in existing}
    columns = class_columns(policy)
    opened = []
    for neighbor in neighbor_classes(policy, leakage):
        allowed = allowed_epsilon(
            neighbor, epsilon=budget.epsilon, epsilon_cap=policy.epsilon_cap
        )
        account = _account(neighbor, columns[neighbor.name], allowed, budget, rule)
        present = known.get(account.identity)
        if present is None:
            opened.append(account)
        elif present.epsilon > allowed:
            raise BudgetError(
                f"the policy promises class {neighbor.name!r} epsilon {allowed:.6g}, "
                f"its account may spend {present.epsilon:.6g}. Keep the leakage the "
                "ledger was opened with, or open a new ledger."
            )
    return opened


def _account(
    neighbor: NeighborClass,
    columns: frozenset[str],
    allowed: float,
    budget: Budget,
    rule: Rule,
) -> Account:
    # A class that is only tracked pays at the order of the sensitive budget.
    epsilon = budget.epsilon if math.isinf(allowed) else allowed
    order = fixed_order(rule, epsilon=epsilon, delta=budget.delta)
    limit = (
        limit_units(rule, order, epsilon=epsilon, delta=budget.delta)
        if neighbor.promised
        else None
    )
    return Account(
        name=neighbor.name,
        columns=tuple(sorted(columns)),
        epsilon=allowed,
        delta=budget.delta,
        rule=rule,
        order=order,
        limit=limit,
    )

"""``--leakage auto``: buy distances before training, if they are worth their price."""

from typing import TYPE_CHECKING, Any

from corrdp.exceptions import CorrDPError

if TYPE_CHECKING:
    from corrdp.accounting import NoisePlan
    from corrdp.ledger import LedgerChoice


def buy_leakage(
    estimator: Any, rows: Any, choice: "LedgerChoice | None", *, seed: int | None
) -> tuple[Any, dict[str, Any]]:
    """Return the leakage to train with, and the decision as a document.

    Parameters
    ----------
    estimator : estimator
        A linear one, as it will be trained but for its leakage.
    rows : table
        Private rows.
    choice : LedgerChoice or None
        Which ledger pays for the release, before a row is counted.
    seed : int, optional
        For research: noise becomes replayable.

    Guarantee
    ---------
    Whether and how much is bought depends on public numbers
    (`docs/theory/default_rule.md`, 6); what is bought is a component of the
    certificate of the model.
    """
    from corrdp.leakage import declared_or_one, estimate_leakage
    from corrdp.ledger import LeakagePayment, pay_for_leakage

    if not hasattr(estimator, "plan_leakage"):
        raise CorrDPError(
            f"--leakage auto predicts the loss of linear models, and the model is a "
            f"{type(estimator).__name__}. Buy a table with corrdp leakage --out."
        )
    policy = estimator.policy
    purchase = estimator.plan_leakage(rows.num_rows)
    if not purchase.buys:
        known: Any = declared_or_one(policy)
        if policy.relation == "all_insensitive":
            known = known.get("block")
        return known or None, purchase.to_json()
    payments: list[LeakagePayment] = []

    def charge(plan: "NoisePlan") -> None:
        if choice is not None:
            payments.append(pay_for_leakage(choice, plan, policy, rows))

    table = estimate_leakage(
        rows,
        policy,
        epsilon=purchase.epsilon,
        delta=purchase.delta,
        random_state=seed,
        charge=charge,
    )
    for paid in payments:
        paid.settle(table)
    return table, purchase.to_json()

"""How a command pays: the ledger it charges, and what ``--leakage auto`` buys."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any

from corrdp._names import BLOCK
from corrdp.cli import _options as options
from corrdp.cli._models import refuse_unstamped
from corrdp.exceptions import BudgetError, CorrDPError

if TYPE_CHECKING:
    from corrdp.accounting import NoisePlan
    from corrdp.leakage import LeakageTable
    from corrdp.ledger import LedgerChoice
    from corrdp.policy import Policy
    from corrdp.queries import QueryPlan, QueryResult


@dataclass(frozen=True)
class LedgerOptions:
    """What a command line says of the ledger that pays for its release."""

    ledger: options.LedgerOption = None
    ledger_epsilon: options.LedgerEpsilonOption = None
    ledger_delta: options.LedgerDeltaOption = None
    accept_new_data: options.AcceptNewDataOption = False

    def refuse_without_ledger(self) -> None:
        """Raise for a word about a ledger if none is named."""
        given = {
            "--ledger-epsilon": self.ledger_epsilon is not None,
            "--ledger-delta": self.ledger_delta is not None,
            "--accept-new-data": self.accept_new_data,
        }
        for option in (name for name, was_given in given.items() if was_given):
            raise BudgetError(
                f"{option} was given without --ledger, so nothing would be "
                f"charged. Name the ledger, or leave {option} out."
            )

    def choice(
        self,
        *,
        delta: float | None,
        leakage: "LeakageTable | None" = None,
        research: bool = False,
    ) -> "LedgerChoice | None":
        """Return the ledger that is charged, or None if nothing is.

        A word about a ledger that is not there would be silently ignored, and somebody
        would believe that a budget is kept: it is refused. What a payment would raise
        about the ledger itself is raised here, before any work. The total delta of a
        new ledger is that of the release, `delta`, unless one is given.

        A leakage table that tells distances is one that the ledger has paid for, if it
        comes from private rows; one of exact private numbers serves `research` alone.
        """
        from corrdp.ledger import LedgerChoice, check_ledger, refuse_unrecorded
        from corrdp.policy import Budget

        refuse_unstamped(leakage, research=research)
        if self.ledger is None:
            self.refuse_without_ledger()
            return None
        if self.ledger_epsilon is None and self.ledger_delta is not None:
            raise BudgetError(
                f"--ledger-delta={self.ledger_delta!r} was given without "
                "--ledger-epsilon. Give both for a new ledger, neither for one that "
                "exists."
            )
        total = None
        if self.ledger_epsilon is not None:
            total_delta = delta if self.ledger_delta is None else self.ledger_delta
            total = Budget(epsilon=self.ledger_epsilon, delta=total_delta or 0.0)
        check_ledger(self.ledger, total)
        choice = LedgerChoice(self.ledger, total, self.accept_new_data)
        refuse_unrecorded(choice, leakage)
        return choice


NO_LEDGER = LedgerOptions()


def takes_ledger(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a ledger, which it takes as one: `paying`."""
    own = signature(LedgerOptions).parameters
    taken = signature(command).parameters.values()

    @wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        said = {name: given.pop(name) for name in own if name in given}
        command(*arguments, **given, paying=LedgerOptions(**said))

    run.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            shown
            for parameter in taken
            for shown in (own.values() if parameter.name == "paying" else [parameter])
        ]
    )
    return run


def buy_leakage(
    estimator: Any, rows: Any, choice: "LedgerChoice | None", *, seed: int | None
) -> tuple[Any, dict[str, Any]]:
    """Return the leakage to train with, and the decision as a document.

    The estimator is as it will be trained but for its leakage; a ledger pays before a
    row is counted.

    Guarantee
    ---------
    Whether and how much is bought depends on public numbers
    (`docs/theory/default_rule.md`, 6); what is bought is a component of the
    certificate of the model.
    """
    from corrdp.leakage import declared_or_one

    if not hasattr(estimator, "plan_leakage"):
        raise CorrDPError(
            "--leakage auto predicts the loss of linear and additive models, not of "
            "--model mlp. Buy a table with corrdp leakage --out, and pass it."
        )
    policy = estimator.policy
    purchase = estimator.plan_leakage(rows.num_rows)
    if not purchase.buys:
        known: Any = declared_or_one(policy)
        if policy.relation == "all_insensitive":
            known = known.get(BLOCK)
        return known or None, purchase.to_json()
    table = paid_leakage(
        rows,
        policy,
        choice,
        epsilon=purchase.epsilon,
        delta=purchase.delta,
        random_state=seed,
    )
    return table, purchase.to_json()


def paid_leakage(
    rows: Any,
    policy: "Policy",
    choice: "LedgerChoice | None",
    known: "LeakageTable | None" = None,
    **settings: Any,
) -> "LeakageTable":
    """Return a leakage table, charged before a row is counted if there is a ledger.

    `known` is an earlier one, whose distances the accounts take; `settings` are
    those of `estimate_leakage`.
    """
    from corrdp.leakage import estimate_leakage
    from corrdp.ledger import LeakagePayment, pay_for_leakage

    payments: list[LeakagePayment] = []

    def charge(plan: "NoisePlan") -> None:
        if choice is not None:
            payments.append(pay_for_leakage(choice, plan, policy, rows, known=known))

    table = estimate_leakage(rows, policy, charge=charge, **settings)
    for paid in payments:
        paid.settle(table)
    return table


def paid_answers(
    rows: Any,
    plan: "QueryPlan",
    choice: "LedgerChoice | None",
    distances: "Mapping[str, float] | float | None" = None,
    *,
    failure_probability: float = 0.05,
    seed: int | None,
) -> "QueryResult":
    """Return the answers of a plan, charged first if there is a ledger.

    A new ledger opens its accounts by the distances; None for those that the policy
    declares.
    """
    from corrdp.ledger import open_ledger
    from corrdp.queries import answer_plan

    paying: dict[str, Any] = {}
    if choice is not None:
        paying["ledger"] = open_ledger(choice, plan.policy, leakage=distances)
        paying["accept_new_data"] = choice.accept_new_data
    return answer_plan(
        rows,
        plan,
        failure_probability=failure_probability,
        random_state=seed,
        **paying,
    )

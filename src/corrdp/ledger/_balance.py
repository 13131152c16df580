"""What a class has paid and what it can still pay."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

from corrdp._json import encode_number
from corrdp._typing import JSONObject
from corrdp.exceptions import BudgetError, GuaranteeVoidError
from corrdp.ledger._accounts import Account
from corrdp.ledger._rules import (
    UNITS,
    Rule,
    largest_gaussian_mu,
    largest_pure_epsilon,
)

_WIDTH = 80
_MEASURES = {
    Rule.RENYI: "Renyi divergence, which adds up over releases as epsilons do not",
    Rule.GAUSSIAN: "the square of mu, which adds up over releases as epsilons do not",
    Rule.PURE: "epsilon",
}


@dataclass(frozen=True)
class Balance:
    """State of one account.

    Parameters
    ----------
    account : Account
        The class and its budget.
    spent : int, optional
        Units paid so far; None if unbounded, which only a tracked class can be.
    """

    account: Account
    spent: int | None

    @property
    def epsilon_spent(self) -> float:
        """Epsilon proved so far at the account's delta."""
        return self.account.epsilon_spent(self.spent)

    @property
    def share_left(self) -> float:
        """Share of the budget that is left; 1 if the class is only tracked."""
        left, limit = self.units_left, self.account.limit
        return 1.0 if left is None or limit is None else left / limit

    @property
    def units_left(self) -> int | None:
        """Units left; None if the class is only tracked."""
        if self.account.limit is None or self.spent is None:
            return None
        return self.account.limit - self.spent

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        account, left = self.account, self.units_left
        known = None if left is None else (account.rule, account.order, left)
        return {
            "class": account.name,
            "columns": list(account.columns),
            "promised": account.limit is not None,
            "epsilon": encode_number(account.epsilon),
            "delta": account.delta,
            "rule": str(account.rule),
            "order": account.order,
            "epsilon_spent": encode_number(self.epsilon_spent),
            "cost_spent": None if self.spent is None else self.spent / UNITS,
            "cost_limit": None if account.limit is None else account.limit / UNITS,
            "share_left": self.share_left,
            "largest_pure_epsilon": known and largest_pure_epsilon(*known),
            "largest_gaussian_mu": known and largest_gaussian_mu(*known),
        }


@dataclass(frozen=True)
class Remaining:
    """State of all accounts.

    Parameters
    ----------
    balances : tuple of Balance
        One per account, in the order in which they were opened.
    """

    balances: tuple[Balance, ...]

    @property
    def share_left(self) -> float:
        """Share of the budget left in the account that has least."""
        return min(balance.share_left for balance in self.balances)

    @property
    def largest_pure_epsilon(self) -> float:
        """Largest epsilon, on every class, of one more pure release."""
        return min(
            largest_pure_epsilon(b.account.rule, b.account.order, b.units_left)
            for b in self.balances
            if b.units_left is not None
        )

    def __getitem__(self, class_name: str) -> Balance:
        """Return the balance of the latest account of that name."""
        return {balance.account.name: balance for balance in self.balances}[class_name]

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "overall": {
                "share_left": self.share_left,
                "largest_pure_epsilon": self.largest_pure_epsilon,
            },
            "classes": [balance.to_json() for balance in self.balances],
        }

    def to_text(self) -> str:
        """Return the balances as a plain table, and what its columns measure."""
        width = max(12, *(len(b.account.name) for b in self.balances))
        lines = [
            f"{'class':<{width}}  {'promised':>9}  {'spent':>9}  {'left':>7}  "
            f"{'next pure':>9}"
        ]
        for balance in self.balances:
            row = balance.to_json()
            promised = balance.account.epsilon
            follow = row["largest_pure_epsilon"]
            lines.append(
                f"{balance.account.name:<{width}}  "
                + (f"{promised:9.4g}  " if math.isfinite(promised) else "  tracked  ")
                + f"{balance.epsilon_spent:9.4g}  "
                + (
                    f"{balance.share_left:7.1%}  "
                    if follow is not None
                    else "      -  "
                )
                + (f"{follow:9.4g}" if follow is not None else "        -")
            )
        account = self.balances[0].account  # rule and delta are those of the ledger
        legend = (
            f"promised, spent and next pure are epsilons, at delta {account.delta:g}; "
            "next pure is the largest that one more release with Laplace noise can "
            f"have; left is a share of {_MEASURES[account.rule]}."
        )
        if account.rule is Rule.RENYI:
            legend += (
                " After small releases spent is above what was asked for, because each "
                "account has one order, that of its whole budget: go by left."
            )
        return "\n".join([*lines, "", fill(legend, _WIDTH)])


def check_no_overdraft(balances: Sequence[Balance]) -> str | None:
    """Return the name of an account that has paid more than its limit, if any."""
    for balance in balances:
        left = balance.units_left
        unbounded = balance.spent is None and balance.account.limit is not None
        if unbounded or (left is not None and left < 0):
            return balance.account.name
    return None


def refuse_overdraft(account: Account, cost: int | None, spent: int | None) -> None:
    """Raise if a cost is more than an account has left, and say what to do."""
    if account.limit is None:
        return
    if cost is None:
        rows = "" if account.unit is None else f" in all rows of one {account.unit!r}"
        raise GuaranteeVoidError(
            f"class {account.name!r} has no bound for a release: it changes "
            f"{', '.join(account.columns)}{rows}, and the release does not protect all "
            "of it. Price the class, or add noise."
        )
    left = account.limit - (spent or 0)
    if cost > left:
        raise BudgetError(
            f"class {account.name!r} has {left / UNITS:.6g} left of "
            f"{account.limit / UNITS:.6g} in units of {account.rule} cost (epsilon "
            f"{account.epsilon:.4g} in all), the release costs {cost / UNITS:.6g}. "
            + _remedy(account, cost)
        )


def _remedy(account: Account, cost: int) -> str:
    """Return what to do, also about a release that no full account could pay."""
    why = "a spent budget does not come back"
    if account.limit is not None and cost > account.limit:
        why = (
            "it costs more than the whole account, which may have been opened with "
            "larger distances, or before they were known"
        )
        if account.rule is Rule.RENYI:
            why += (
                "; if its noise is pure (Laplace), an account with a delta can pay "
                "about half its epsilon of it, where Gaussian noise fits"
            )
    words = f"Ask for less (a smaller epsilon, fewer queries); {why}."
    if not account.name.startswith("insensitive"):
        return words
    return (
        f"{words} One release may spend up to the policy's epsilon_cap on a class with "
        "a small distance: a lower cap, declared before a ledger is opened, leaves "
        "room for several."
    )

"""What an estimator and all its copies have spent together.

An estimator's budget is that of its whole family: of every clone, deep copy and
unpickled copy. Theory: ``docs/theory/composition.md``, section 9.
"""

import math
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from corrdp.exceptions import BudgetError
from corrdp.policy import Budget

_REMEDIES = """
- several fits that share the budget: declare their number, for example fits=10;
- releases that a ledger pays for, restarts included: ledger='rows.ledger';
- fits whose rows have no person in common: declare disjoint=True;
- rows that may be disclosed: research=True."""


@dataclass(frozen=True)
class Spending:
    """The cost of one fit: its share of the family's budget.

    Rows of a `disjoint` one were declared to have no person in common with those of the
    other disjoint fits.
    """

    epsilon: Fraction
    delta: Fraction
    disjoint: bool

    @classmethod
    def of(cls, budget: Budget, *, disjoint: bool) -> "Spending":
        """Return the cost of a fit with a budget."""
        return cls(Fraction(budget.epsilon), Fraction(budget.delta), disjoint)


class Family:
    """The record of what all copies of an estimator have spent.

    Copies and deep copies of the record are the record itself. A pickle of it is the
    record in the process that made it, and cannot be in any other, where it refuses
    whatever nobody else pays for.

    Guarantee
    ---------
    Fits that were not paid for elsewhere cost at most the budget together, by basic
    composition; fits declared disjoint cost as much as the dearest of them
    (`docs/theory/composition.md`). Not covered: estimators built anew, and processes
    that end.
    """

    def __init__(
        self, key: str | None = None, spent: tuple[Spending, ...] = ()
    ) -> None:
        self._key = uuid.uuid4().hex if key is None else key
        self._process = os.getpid() if key is None else None
        self._spent = list(spent)
        self._lock = threading.RLock()
        _FAMILIES[self._key] = self

    def __copy__(self) -> "Family":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Family":
        return self

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _known_family, (self._key, tuple(self._spent))

    @property
    def n_fits(self) -> int:
        """Number of fits so far."""
        return len(self._spent)

    def total(self, *more: Spending) -> tuple[Fraction, Fraction]:
        """Return the epsilon and delta spent, with some more fits."""
        spent = [*self._spent, *more]
        apart = [fit for fit in spent if fit.disjoint]
        epsilon = sum((fit.epsilon for fit in spent if not fit.disjoint), Fraction(0))
        delta = sum((fit.delta for fit in spent if not fit.disjoint), Fraction(0))
        return (
            epsilon + max((fit.epsilon for fit in apart), default=Fraction(0)),
            delta + max((fit.delta for fit in apart), default=Fraction(0)),
        )

    def require(self, fit: Spending, budget: Budget) -> None:
        """Raise `BudgetError` unless the family's budget covers one more fit."""
        if self._process != os.getpid():
            raise BudgetError(
                "this estimator came from another process, with which it cannot share "
                f"the record of what was spent (fits seen there: {self.n_fits}). Run "
                "the fits in one process (n_jobs=1), or pay from a ledger, which all "
                "processes share: ledger='rows.ledger'. On rows that may be disclosed: "
                "research=True."
            )
        epsilon, delta = self.total()
        after = self.total(fit)
        if after[0] > Fraction(budget.epsilon) or after[1] > Fraction(budget.delta):
            raise BudgetError(
                f"the budget epsilon={budget.epsilon!r}, delta={budget.delta!r} is "
                "that of the estimator and all its clones and copies together, "
                f"whatever their rows (folds overlap). Spent: {self.n_fits} fit"
                f"{'' if self.n_fits == 1 else 's'}, epsilon {float(epsilon):g}, delta "
                f"{float(delta):g}; this fit would add epsilon {float(fit.epsilon):g}, "
                f"delta {float(fit.delta):g}. Choose one:{_REMEDIES}"
            )

    @contextmanager
    def spending(self, fit: Spending, budget: Budget | None) -> Iterator[None]:
        """Record a fit around its payment; a payment that raises leaves no record.

        The budget is the family's; None if somebody else pays, or if nothing is
        promised.
        """
        with self._lock:
            if budget is not None:
                self.require(fit, budget)
            self._spent.append(fit)
        try:
            yield
        except BaseException:
            with self._lock:
                self._spent.remove(fit)
            raise


_FAMILIES: dict[str, Family] = {}


def _known_family(key: str, spent: tuple[Spending, ...]) -> Family:
    """Return this process's record, or one that knows it is not shared."""
    family = _FAMILIES.get(key)
    return Family(key, spent) if family is None else family


def share_of(total: float, fits: int) -> float:
    """Return the largest number of which `fits` do not exceed the total."""
    share = total / fits
    if Fraction(share) * fits > Fraction(total):
        share = math.nextafter(share, 0.0)
    return share

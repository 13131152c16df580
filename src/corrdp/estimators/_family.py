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
from weakref import WeakKeyDictionary

from corrdp.exceptions import BudgetError
from corrdp.policy import Budget

_REMEDIES = """
- several fits that share the budget: declare their number, for example fits=10;
- releases that a ledger pays for, restarts included: ledger='rows.ledger';
- fits whose rows have no person in common: declare disjoint=True;
- rows that may be disclosed: research=True."""


@dataclass(frozen=True)
class Spending:
    """A budget, or the cost of one fit: its share of the family's budget.

    `ceiling` is the largest epsilon of any class: the cap on epsilons is shared, too.
    Rows of a `disjoint` fit were declared to have no person in common with those of the
    other disjoint fits.
    """

    epsilon: Fraction
    delta: Fraction
    ceiling: Fraction
    disjoint: bool = False

    @classmethod
    def of(
        cls, budget: Budget, *, ceiling: float, disjoint: bool = False
    ) -> "Spending":
        """Return what is spent with a budget, if no class has more than `ceiling`."""
        return cls(
            Fraction(budget.epsilon),
            Fraction(budget.delta),
            Fraction(max(budget.epsilon, ceiling)),
            disjoint,
        )


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
        self,
        key: str | None = None,
        spent: tuple[Spending, ...] = (),
        *,
        process: int | None = None,
    ) -> None:
        self._key = uuid.uuid4().hex if key is None else key
        home = os.getpid() if process is None else process
        self._process = home if key is None else None
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

    def total(self, *more: Spending) -> Spending:
        """Return what was spent, with some more fits."""

        def added(name: str) -> Fraction:
            costs: dict[bool, list[Fraction]] = {False: [], True: [Fraction(0)]}
            for fit in (*self._spent, *more):
                costs[fit.disjoint].append(getattr(fit, name))
            return sum(costs[False], max(costs[True]))

        return Spending(added("epsilon"), added("delta"), added("ceiling"))

    def require(self, fit: Spending, whole: Spending) -> None:
        """Raise `BudgetError` unless the family's budget covers one more fit."""
        if self._process != os.getpid():
            raise BudgetError(
                "this estimator came from another process, with which it cannot share "
                f"the record of what was spent (fits seen there: {self.n_fits}). Run "
                "the fits in one process (n_jobs=1), or pay from a ledger, which all "
                "processes share: ledger='rows.ledger'. On rows that may be disclosed: "
                "research=True."
            )
        before, after = self.total(), self.total(fit)
        if after.epsilon > whole.epsilon or after.delta > whole.delta:
            raise BudgetError(
                f"the budget epsilon={float(whole.epsilon)!r}, delta="
                f"{float(whole.delta)!r} is that of the estimator and all its clones "
                "and copies together, whatever their rows (folds overlap). Spent: "
                f"{self.n_fits} fit{'' if self.n_fits == 1 else 's'}, epsilon "
                f"{float(before.epsilon):g}, delta {float(before.delta):g}; this fit "
                f"would add epsilon {float(fit.epsilon):g}, delta "
                f"{float(fit.delta):g}. Choose one:{_REMEDIES}"
            )
        if after.ceiling > whole.ceiling:
            raise BudgetError(
                f"the cap {float(whole.ceiling):g} on the epsilon of any class is "
                "that of the estimator and all its clones and copies together. Spent: "
                f"{float(before.ceiling):g}; this fit would add "
                f"{float(fit.ceiling):g}. Divide it from the first fit on (fits=...), "
                f"or choose one:{_REMEDIES}"
            )

    @contextmanager
    def spending(self, fit: Spending, whole: Spending | None) -> Iterator[None]:
        """Record a fit around its payment; a payment that raises leaves no record.

        The budget is the family's; None if somebody else pays, or if nothing is
        promised.
        """
        with self._lock:
            if whole is not None:
                self.require(fit, whole)
            self._spent.append(fit)
        try:
            yield
        except BaseException:
            with self._lock:
                self._spent.remove(fit)
            raise


_FAMILIES: dict[str, Family] = {}
_BIRTHPLACES: WeakKeyDictionary[object, int] = WeakKeyDictionary()


def note_birthplace(estimator: object) -> None:
    """Remember in which process an estimator was built."""
    _BIRTHPLACES[estimator] = os.getpid()


def new_family(estimator: object) -> Family:
    """Return the first record of an estimator, of the process that built it.

    A forked process holds the estimator as well. It must not begin a record of its
    own there: each of its siblings would do the same and spend the whole budget.
    """
    return Family(process=_BIRTHPLACES.get(estimator, os.getpid()))


def _known_family(key: str, spent: tuple[Spending, ...]) -> Family:
    """Return this process's record, or one that knows it is not shared."""
    family = _FAMILIES.get(key)
    return Family(key, spent) if family is None else family


def share_of(total: float, fits: int) -> float:
    """Return the largest number of which `fits` do not exceed the total."""
    share = total / fits
    # In exact numbers: a quotient that is rounded up, taken `fits` times, would be more
    # than the whole, and the last fit would be refused.
    if Fraction(share) * fits > Fraction(total):
        share = math.nextafter(share, 0.0)
    return share

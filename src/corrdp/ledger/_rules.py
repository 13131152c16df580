"""Filters: what an event costs, and how much a class can pay in total.

Costs are whole numbers of units, rounded up; limits are rounded down. Sums are then
exact, whatever their order and however many processes add to them.
Theory: ``docs/theory/ledger.md``.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar

from scipy.optimize import brentq, minimize_scalar

from corrdp._validate import check_delta, check_epsilon, check_real
from corrdp.accounting import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    event_from_json,
    gaussian_epsilon,
    gaussian_mu,
    renyi_divergence,
    renyi_epsilon,
)
from corrdp.exceptions import BudgetError, UnsupportedEventError

UNITS = 10**12
LARGEST_COST = 2.0**20  # of a release; no account holds more
_ROUND_OFF = 1.0 + 1e-12  # of the floating-point price of one event
_LOG_ORDER_RANGE = (-12.0, 14.0)


@dataclass(frozen=True)
class ConcentratedEvent(PrivacyEvent):
    """A release whose Renyi divergence is at most `rho` times the order.

    Parameters
    ----------
    rho : float
        Non-negative. Discrete Gaussian noise has half the squared movement in units
        of the noise (`docs/theory/discrete_noise.md`).
    """

    kind: ClassVar[str] = "concentrated"
    rho: float

    def __post_init__(self) -> None:
        rho = check_real("rho", self.rho, lower=0.0, remedy="Add noise first.")
        object.__setattr__(self, "rho", rho)


def read_event(document: Mapping[str, Any]) -> PrivacyEvent:
    """Return the event that ``to_json`` described.

    Raises
    ------
    UnsupportedEventError
        If the kind, or a field of it, is not known to this version.
    """
    if document.get("kind") == ConcentratedEvent.kind:
        if set(document) != {"kind", "rho"}:
            raise UnsupportedEventError(
                "an event of kind 'concentrated' has the field 'rho', got "
                f"{sorted(map(str, set(document) - {'kind'}))}. Pass what to_json() "
                "returned."
            )
        return ConcentratedEvent(document["rho"])
    return event_from_json(document)


class Rule(StrEnum):
    """Which quantity adds up, and therefore which events can be paid."""

    RENYI = "renyi"
    GAUSSIAN = "gaussian"
    PURE = "pure"


def fixed_order(rule: Rule, *, epsilon: float, delta: float) -> float | None:
    """Return the Renyi order at which a class pays, fixed before its first event.

    It is the order at which Gaussian noise of least variance fills the budget.
    """
    if rule is not Rule.RENYI:
        return None
    check_delta(delta)
    found = minimize_scalar(
        lambda log_excess: -_renyi_limit(1.0 + math.exp(log_excess), epsilon, delta),
        bounds=_LOG_ORDER_RANGE,
        method="bounded",
        options={"xatol": 1e-6},
    )
    return 1.0 + math.exp(float(found.x))


def limit_units(
    rule: Rule, order: float | None, *, epsilon: float, delta: float
) -> int:
    """Return how many units a class can pay and still be (epsilon, delta).

    Guarantee
    ---------
    An interaction that stops before its total cost passes the limit is
    (epsilon, delta)-indistinguishable, however its events were chosen
    (`docs/theory/ledger.md`).
    """
    check_epsilon(epsilon)
    check_delta(delta, allow_zero=rule is Rule.PURE)
    if rule is Rule.PURE:
        limit = math.floor(_as_printed(epsilon) * UNITS)
    elif rule is Rule.GAUSSIAN:
        mu = gaussian_mu(epsilon=epsilon, delta=delta)
        limit = math.floor(mu**2 / _ROUND_OFF * UNITS)
    else:
        assert order is not None
        fits = max(_renyi_limit(order, epsilon, delta), 0.0)
        limit = math.floor(order * fits * UNITS)
        while limit > 0 and epsilon_of(rule, order, limit, delta=delta) > epsilon:
            limit -= max(1, limit >> 50)  # less would be lost in a float
    if limit == 0:
        raise BudgetError(
            f"epsilon={epsilon!r} is too small for delta={delta!r}: no release fits. "
            "Choose a larger epsilon, or delta=0 and pure releases."
        )
    return limit


def cost_units(
    rule: Rule, order: float | None, events: Iterable[PrivacyEvent]
) -> int | None:
    """Return the cost of events under a rule; None if it is unbounded.

    Raises
    ------
    UnsupportedEventError
        If the rule cannot price a kind of event at all.

    Guarantee
    ---------
    Never below the exact cost: each event is rounded up to a unit, after a margin
    for floating-point round-off (`docs/theory/ledger.md`).
    """
    total = 0
    for event in events:
        price = _price(rule, order, event)
        if not price < LARGEST_COST:
            return None
        if isinstance(price, Fraction):  # exact, so that ten tenths are one
            total += math.ceil(price * UNITS)
        else:
            total += math.ceil(price * _ROUND_OFF * UNITS)
    # A file holds whole numbers below 2**63; nothing this large is ever promised.
    return total if total < LARGEST_COST * UNITS else None


def epsilon_of(rule: Rule, order: float | None, units: int, *, delta: float) -> float:
    """Return the epsilon at `delta` that a total cost proves."""
    spent = units / UNITS
    if units == 0 or rule is Rule.PURE:
        return spent
    if rule is Rule.GAUSSIAN:
        return gaussian_epsilon(mu=math.sqrt(spent), delta=delta)
    assert order is not None
    return renyi_epsilon([order], [spent], delta)


def largest_pure_epsilon(rule: Rule, order: float | None, units: int) -> float:
    """Return the largest epsilon of one more pure release that costs at most this."""
    if rule is Rule.GAUSSIAN:
        return 0.0
    if rule is Rule.PURE or units <= 0:
        return max(units, 0) / UNITS

    def excess(epsilon: float) -> float:
        price = _price(rule, order, ApproximateEvent(epsilon, 0.0))
        return float(price) - units / UNITS

    # Randomized response has divergence at least epsilon * tanh(epsilon / 2).
    high = 2.0 * units / UNITS + 2.0
    return float(brentq(excess, 0.0, high, xtol=1e-12))


def largest_gaussian_mu(rule: Rule, order: float | None, units: int) -> float:
    """Return the largest mu of one more Gaussian release that costs at most this."""
    left = max(units, 0) / UNITS
    if rule is Rule.PURE:
        return 0.0
    return math.sqrt(left if order is None else 2.0 * left / order)


def _renyi_limit(order: float, epsilon: float, delta: float) -> float:
    """Return the divergence that fits, per unit of order."""
    conversion = math.log1p(-1.0 / order) - (math.log(delta) + math.log(order)) / (
        order - 1.0
    )
    return (epsilon - conversion) / order


def _price(rule: Rule, order: float | None, event: PrivacyEvent) -> float | Fraction:
    if rule is Rule.RENYI and order is not None:
        if isinstance(event, ConcentratedEvent):
            return order * event.rho
        return renyi_divergence(event, order)
    if rule is Rule.GAUSSIAN and isinstance(event, GaussianEvent):
        return event.count * event.mu**2
    if rule is Rule.PURE and isinstance(event, LaplaceEvent | ApproximateEvent):
        pure = isinstance(event, LaplaceEvent) or event.delta == 0.0
        return event.count * _as_printed(event.epsilon) if pure else math.inf
    raise UnsupportedEventError(
        f"a ledger with rule={rule.value!r} cannot price an event of kind "
        f"{event.kind!r}. Open a ledger with rule='renyi', which prices every kind."
    )


def _as_printed(epsilon: float) -> Fraction:
    """Return the decimal number that a float prints as: 0.1 is one tenth."""
    return Fraction(repr(epsilon))

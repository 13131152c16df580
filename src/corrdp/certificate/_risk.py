"""What a certificate means for an attack, in numbers and in words."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from corrdp.accounting import NO_PROTECTION, PrivacyEvent, Risk, attack_risk

if TYPE_CHECKING:
    from corrdp.certificate._certificate import Certificate

RISK_SCOPE = (
    "These bound what the release adds for an attacker who knows all other records and "
    "everything of this one but what changes. They say nothing of what insensitive "
    "columns reveal about sensitive ones by correlation; where the attacker knows none "
    "of the record, whole_record is the row to read."
)


def class_risk(certificate: "Certificate", class_name: str) -> Risk:
    """Return the risk of one class, from all components together."""
    events: list[PrivacyEvent] = []
    for part in certificate.components:
        cost = part.events_of(class_name)
        if cost is None:
            return NO_PROTECTION
        events.extend(cost)
    return attack_risk(events)


def risk_words(risk: Risk) -> str:
    """Return the numbers of a risk as one phrase; all are rounded up."""
    if risk.advantage >= 1.0:
        return "nothing is bounded: an attacker may be certain"
    mu = f"mu {rounded_up(risk.mu)}" if risk.mu_is_exact else _about(risk)
    one, tenth = (percent(value) for value in risk.true_positive_rate.values())
    return (
        f"{mu}; advantage of any attack at most {percent(risk.advantage)}; it finds at "
        f"most {one} of cases at 1 % false alarms, {tenth} at 0.1 %; a value guessed "
        f"with probability 10 % before is guessed with at most "
        f"{percent(risk.guess[0.1])} after, one of two equally likely ones with "
        f"{percent(risk.even_odds)}"
    )


def grouped_by(values: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names that share each value, in order of first appearance."""
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    return groups


def listed(names: Iterable[str], limit: int = 6) -> str:
    """Return names with commas between, and a count instead of the last ones."""
    known = list(names)
    if len(known) <= limit:
        return ", ".join(known)
    return f"{', '.join(known[: limit - 1])} and {len(known) - limit + 1} more"


def percent(share: float) -> str:
    """Return a probability as a percentage of three digits, rounded up."""
    if share >= 1.0:
        return "100 %"
    shown = rounded_up(100.0 * share)
    # 99.97 would round up to certainty.
    return f"{shown} %" if float(shown) < 100.0 else "above 99.9 %"


def rounded_up(value: float, digits: int = 3) -> str:
    """Return a non-negative number with so many significant digits, not below it."""
    if value == 0.0 or math.isinf(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    # A last unit of round-off is no reason to go up by one in the third digit.
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.{digits}g}"


def _about(risk: Risk) -> str:
    return f"at most Gaussian mu {rounded_up(risk.mu)} at rates from 0.01 % up"

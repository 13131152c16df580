"""The one event that only a ledger prices, and reading events back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from corrdp._validate import check_real
from corrdp.accounting import PrivacyEvent, event_from_json
from corrdp.exceptions import UnsupportedEventError


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

"""What is found out about one insensitive feature."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corrdp._json import decode_number, encode_number
from corrdp._typing import JSONObject
from corrdp._validate import check_real
from corrdp.theory import EstimationConstants


@dataclass(frozen=True, kw_only=True)
class PaperInputs:
    """What the constants of the paper's Appendix D need from an estimate.

    Parameters
    ----------
    example : str
        ``discrete``, ``histogram`` or ``gaussian``: Examples D.1, D.2, D.3.
    n_rows : int
        Rows that the estimate used.
    n_sensitive_codes : tuple of int
        Codes of each sensitive feature that has more than one.
    n_values : int
        Values of the insensitive feature.
    smallest_probability : float
        Smallest observed frequency: of a joint cell, or of a value.
    conditional_scale : float
        Standard deviation of the sensitive feature given the insensitive one.
    """

    example: str
    n_rows: int
    n_sensitive_codes: tuple[int, ...] = ()
    n_values: int = 1
    smallest_probability: float = 0.0
    conditional_scale: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PaperConstants(EstimationConstants):
    """Constants of Assumptions 4.1 and 4.2, as Appendix D prints them (E14, E15).

    The first two are infinite if a cell has no rows.
    """

    def to_dict(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "example": self.example,
            "error_constant": encode_number(self.error_constant),
            "stability_constant": encode_number(self.stability_constant),
            "rate_exponent": self.rate_exponent,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any] | None) -> "PaperConstants | None":
        """Read what `to_dict` wrote; None stays None."""
        if document is None:
            return None
        return cls(
            example=document["example"],
            error_constant=decode_number(document["error_constant"]),
            stability_constant=decode_number(document["stability_constant"]),
            rate_exponent=document["rate_exponent"],
        )


@dataclass(frozen=True, kw_only=True)
class FeatureLeakage:
    """Leakage of one insensitive feature, or of the block of all of them.

    Parameters
    ----------
    estimate : float
        Best guess, in [0, 1].
    upper : float or None
        Bound that holds except with the stated failure probability; None if the
        method has none, which certified releases refuse.
    method : str
        Estimator and resolution.
    reason : str
        In words: which values differ most, how much data they have, why a bound is 1.
    lower : float, optional
        Lower bound, where the method gives one.
    paper_upper : float, optional
        Definition 4.3 of the paper: asymptotic, for the ``theorem`` calibration.
    paper_constants : PaperConstants, optional
        The constants behind `paper_upper`.
    assumptions : tuple of str
        What the estimate and the bound rest on besides independent rows.
    paper_inputs : PaperInputs, optional
        What the constants are computed from; exact, so never written down.
    joined : JSON object, optional
        Fields of the feature's domain in which thin levels are joined: what the
        numbers are about, and what whoever uses them must read.
    """

    estimate: float
    upper: float | None
    method: str
    reason: str
    lower: float | None = None
    paper_upper: float | None = None
    assumptions: tuple[str, ...] = ()
    paper_constants: PaperConstants | None = None
    paper_inputs: PaperInputs | None = field(default=None, compare=False, repr=False)
    joined: JSONObject | None = None

    def __post_init__(self) -> None:
        check_real("estimate", self.estimate, lower=0.0, upper=1.0)
        for name in ("upper", "lower", "paper_upper"):
            value = getattr(self, name)
            if value is not None:
                check_real(name, value, lower=0.0, upper=1.0)

    def to_dict(self) -> JSONObject:
        """Return a JSON-able description."""
        document: JSONObject = {
            "estimate": self.estimate,
            "upper": self.upper,
            "method": self.method,
            "reason": self.reason,
        }
        if self.lower is not None:
            document["lower"] = self.lower
        if self.paper_upper is not None:
            document["paper_upper"] = self.paper_upper
        if self.paper_constants is not None:
            document["paper_constants"] = self.paper_constants.to_dict()
        if self.assumptions:
            document["assumptions"] = list(self.assumptions)
        if self.joined is not None:
            document["joined"] = self.joined
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "FeatureLeakage":
        """Read what `to_dict` wrote."""
        return cls(
            estimate=document["estimate"],
            upper=document["upper"],
            method=document["method"],
            reason=document["reason"],
            lower=document.get("lower"),
            paper_upper=document.get("paper_upper"),
            paper_constants=PaperConstants.from_dict(document.get("paper_constants")),
            assumptions=tuple(document.get("assumptions", ())),
            joined=document.get("joined"),
        )

"""What is found out about one insensitive feature."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from corrdp._json import Infinite, check_shape, decode_number, encode_number
from corrdp._typing import JSONObject
from corrdp._validate import check_real
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.theory import EstimationConstants

INDEPENDENT_PARTS = (
    "the parts of the sensitive features are independent of each other given the "
    "insensitive feature (declared, not tested)"
)


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
        written = {name: encode_number(getattr(self, name)) for name in _NUMBERS}
        return {"example": self.example, **written}

    @classmethod
    def from_dict(cls, document: JSONObject) -> "PaperConstants":
        """Read what `to_dict` wrote."""
        read = {name: decode_number(document[name]) for name in _NUMBERS}
        return cls(example=document["example"], **read)


_NUMBERS = ("error_constant", "stability_constant", "rate_exponent")
_SHAPE = {"estimate": float, "upper": (float, None), "method": str, "reason": str}
_SHAPE_OF_OTHERS: dict[str, Any] = {
    "lower": float,
    "paper_upper": float,
    "paper_constants": {
        "example": str,
        **dict.fromkeys(_NUMBERS, Infinite),
    },
    "assumptions": [str],
    "joined": {...: ([str], [[float]], bool)},
}
"""Fields that only some features have."""


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
        document: JSONObject = {name: getattr(self, name) for name in _SHAPE}
        for name in _SHAPE_OF_OTHERS:
            value = getattr(self, name)
            if value is not None and value != ():
                document[name] = value
        if self.paper_constants is not None:
            document["paper_constants"] = self.paper_constants.to_dict()
        if self.assumptions:
            document["assumptions"] = list(self.assumptions)
        return document

    @classmethod
    def from_dict(cls, document: JSONObject) -> "FeatureLeakage":
        """Read what `to_dict` wrote."""
        check_shape(document, _SHAPE, "leakage of a feature")
        others = {n: s for n, s in _SHAPE_OF_OTHERS.items() if n in document}
        check_shape(document, others, "leakage of a feature")
        fields = {name: document[name] for name in [*_SHAPE, *others]}
        if "paper_constants" in others:
            fields["paper_constants"] = PaperConstants.from_dict(
                fields["paper_constants"]
            )
        if "assumptions" in others:
            fields["assumptions"] = tuple(fields["assumptions"])
        return cls(**fields)


def combine_parts(
    parts: Sequence[FeatureLeakage], *, conditionally_independent: bool
) -> FeatureLeakage:
    r"""Return the leakage about all parts of the sensitive set together.

    Parameters
    ----------
    parts : sequence of FeatureLeakage
        What one feature tells about disjoint parts of the sensitive features, in
        total variation; failure probabilities of the bounds add up.
    conditionally_independent : bool
        Whether the parts are declared independent given the feature.

    Returns
    -------
    leakage : FeatureLeakage
        :math:`1 - \prod_i (1 - TV_i)`, never above the sum.

    Raises
    ------
    GuaranteeVoidError
        Without the declaration: parts that tell nothing each may tell everything
        together (E2). And if levels are joined in a part: parts that are independent
        given a level need not be so given several levels at once.

    Guarantee
    ---------
    An upper bound if the parts' bounds hold and the declaration is true
    (docs/theory/leakage.md, section 8).

    Examples
    --------
    >>> half = FeatureLeakage(estimate=0.5, upper=0.5, method="declared", reason="")
    >>> combine_parts([half, half], conditionally_independent=True).upper
    0.75
    """
    if not conditionally_independent:
        raise GuaranteeVoidError(
            "leakages of parts of the sensitive features do not bound the leakage of "
            "the whole. Estimate them jointly, or declare "
            "conditionally_independent=True."
        )
    if not parts:
        raise CorrDPError(
            "parts is empty: there is nothing to combine. Pass one leakage per part."
        )
    if any(part.joined is not None for part in parts):
        raise GuaranteeVoidError(
            "levels of the feature are joined in some part, and parts that are "
            "independent given its levels are not so given joined ones. Estimate the "
            "parts with join_levels=False."
        )
    uppers = [part.upper for part in parts if part.upper is not None]
    assumptions = [text for part in parts for text in part.assumptions]
    return FeatureLeakage(
        estimate=_joint([part.estimate for part in parts]),
        upper=_joint(uppers) if len(uppers) == len(parts) else None,
        method="parts combined: " + "; ".join(part.method for part in parts),
        reason="; ".join(part.reason for part in parts),
        assumptions=tuple(dict.fromkeys([INDEPENDENT_PARTS, *assumptions])),
    )


def _joint(values: Sequence[float]) -> float:
    return min(1.0, 1.0 - math.prod(1.0 - value for value in values))

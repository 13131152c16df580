"""Combining what parts of the sensitive set tell, under a declared independence."""

import math
from collections.abc import Sequence

from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.leakage._result import FeatureLeakage

INDEPENDENT_PARTS = (
    "the parts of the sensitive features are independent of each other given the "
    "insensitive feature (declared, not tested)"
)


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
        together (E2).

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

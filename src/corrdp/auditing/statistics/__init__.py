"""What outputs on two neighbors prove about a claim, with stated confidence."""

from corrdp.auditing.statistics._attacks import (
    Attack,
    FittedScore,
    LikelihoodAttack,
    LinearAttack,
)
from corrdp.auditing.statistics._bounds import (
    EventBounds,
    clopper_pearson,
    event_bounds,
)
from corrdp.auditing.statistics._claims import Claim, claims_of

__all__ = [
    "Attack",
    "Claim",
    "EventBounds",
    "FittedScore",
    "LikelihoodAttack",
    "LinearAttack",
    "claims_of",
    "clopper_pearson",
    "event_bounds",
]

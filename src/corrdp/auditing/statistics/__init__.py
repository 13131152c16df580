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
    roc_points,
)
from corrdp.auditing.statistics._claims import Claim, claims_of
from corrdp.auditing.statistics._trade_off import is_too_many_correct, least_chance

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
    "is_too_many_correct",
    "least_chance",
    "roc_points",
]

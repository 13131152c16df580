"""Losses of linear models."""

from corrdp.training.losses._logistic import LogisticLoss, MultinomialLoss
from corrdp.training.losses._loss import (
    LARGEST_RESIDUAL_BOUND,
    SMALLEST_RESIDUAL_BOUND,
    Loss,
    check_residual_bound,
)
from corrdp.training.losses._regression import (
    HuberLoss,
    SquaredLoss,
    UnclippedSquaredLoss,
)

__all__ = [
    "LARGEST_RESIDUAL_BOUND",
    "SMALLEST_RESIDUAL_BOUND",
    "HuberLoss",
    "LogisticLoss",
    "Loss",
    "MultinomialLoss",
    "SquaredLoss",
    "UnclippedSquaredLoss",
    "check_residual_bound",
]

"""Assumption 3.4: which column moves which coordinate of the gradient."""

from corrdp.theory.gradients._model import (
    BoxModel,
    GradientConstants,
    gradient_constants,
    printed_least_squares_constants,
    printed_logistic_constants,
)
from corrdp.theory.gradients._search import (
    AssumptionReport,
    check_gradient_assumption,
    check_relaxed_assumption,
)

__all__ = [
    "AssumptionReport",
    "BoxModel",
    "GradientConstants",
    "check_gradient_assumption",
    "check_relaxed_assumption",
    "gradient_constants",
    "printed_least_squares_constants",
    "printed_logistic_constants",
]

"""Discrete noise: exact samplers, scales per neighbor class, vector releases."""

from corrdp.mechanisms.noise._concentrated import concentrated_epsilon, concentrated_rho
from corrdp.mechanisms.noise._discrete import (
    LARGEST_MU,
    ROUNDING_PART,
    ROUNDING_REACH,
    covering_scale,
    discrete_gaussian,
    discrete_laplace,
    gaussian_part,
    grid_scale,
    grid_scales,
)
from corrdp.mechanisms.noise._exponential import (
    exponential_choice,
    flipped_choice,
    flipped_choices,
    grid_rate,
)
from corrdp.mechanisms.noise._laplace_scales import (
    Objective,
    Variant,
    correlated_sensitivity,
    laplace_scales,
)
from corrdp.mechanisms.noise._movement import LARGEST_MOVEMENT, Movement
from corrdp.mechanisms.noise._planning import plan_vector, weighted_variance
from corrdp.mechanisms.noise._vector import NoiseKind, VectorPlan, round_to_grid

__all__ = [
    "LARGEST_MOVEMENT",
    "LARGEST_MU",
    "ROUNDING_PART",
    "ROUNDING_REACH",
    "Movement",
    "NoiseKind",
    "Objective",
    "Variant",
    "VectorPlan",
    "concentrated_epsilon",
    "concentrated_rho",
    "correlated_sensitivity",
    "covering_scale",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential_choice",
    "flipped_choice",
    "flipped_choices",
    "gaussian_part",
    "grid_rate",
    "grid_scale",
    "grid_scales",
    "laplace_scales",
    "plan_vector",
    "round_to_grid",
    "weighted_variance",
]

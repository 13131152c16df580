"""What CorrDP costs in utility: dimensions, upper bounds, lower bound."""

from corrdp.theory.utility._bounds import (
    UtilityBound,
    convex_utility_upper,
    dimension_upper,
    improvement_factor,
    network_dimension,
    network_improvement_factor,
    network_utility_rate,
    noise_dimension,
    nonconvex_utility_upper,
    pl_utility_upper,
    printed_dimension,
    utility_lower_rate,
)

__all__ = [
    "UtilityBound",
    "convex_utility_upper",
    "dimension_upper",
    "improvement_factor",
    "network_dimension",
    "network_improvement_factor",
    "network_utility_rate",
    "noise_dimension",
    "nonconvex_utility_upper",
    "pl_utility_upper",
    "printed_dimension",
    "utility_lower_rate",
]

"""Distances between distributions that the paper writes in closed form."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf

from corrdp._validate import check_nonnegative_array, check_real
from corrdp.exceptions import CorrDPError
from corrdp.theory._checks import check_positive


def discrete_total_variation(first: ArrayLike, second: ArrayLike) -> float:
    """Return the total variation between two distributions on the same points.

    Half the sum of absolute differences, equal to the supremum over events in
    Definition 2.5. Both are probabilities, shape (n_points,).

    Examples
    --------
    Example 2.6 of the paper:

    >>> round(discrete_total_variation([2 / 3, 1 / 3], [1 / 3, 2 / 3]), 12)
    0.333333333333
    """
    masses = {
        name: check_nonnegative_array(name, values, ndim=1)
        for name, values in (("first", first), ("second", second))
    }
    for name, mass in masses.items():
        if mass.size == 0 or not math.isclose(mass.sum(), 1.0, abs_tol=1e-9):
            raise CorrDPError(
                f"{name} must sum to 1, got a sum of {mass.sum():.12g}. "
                "Pass probabilities, not counts."
            )
    one, other = masses.values()
    if one.shape != other.shape:
        raise CorrDPError(
            f"first and second must have equal lengths, got {one.size} and "
            f"{other.size}. List both on the same points."
        )
    return min(1.0, 0.5 * float(np.abs(one - other).sum()))


def gaussian_total_variation(
    *, slope: float, conditional_scale: float, width: float
) -> float:
    r"""Return TV(u) when the sensitive column is Gaussian given column u.

    Example D.3: :math:`2 \Phi(|\phi| |u_1 - u_2| / (2 \eta)) - 1`, with regression
    slope phi of the sensitive column on u and its standard deviation eta given u.
    `width` is that of the declared range of u; an unbounded range gives 1 (E24).
    """
    slope = check_real("slope", slope)
    scale = check_positive("conditional_scale", conditional_scale)
    width = check_real("width", width, lower=0.0, allow_infinite=True)
    if slope == 0.0:  # nothing shifts, however wide the range: 0 times infinity is none
        return 0.0
    # 2 Phi(t) - 1 = erf(t / sqrt 2)
    return float(erf(abs(slope) * width / (2 * scale) / math.sqrt(2)))


def critic_total_variation_lower(expectation_gap: float) -> float:
    """Return the lower bound on total variation that one bounded critic gives.

    Half the absolute difference, in [-2, 2], of the critic's means under the two
    distributions. The supremum over critics with values in [-1, 1] is twice the total
    variation, not the total variation as Appendix D.2 prints, and any one critic gives
    less (E18).
    """
    return abs(check_real("expectation_gap", expectation_gap, lower=-2, upper=2)) / 2


def bounded_wasserstein(distance: float, *, diameter: float) -> float:
    """Return a Wasserstein-1 distance in [0, 1]: divided by the domain's diameter.

    Definition 2.3 wants a distance in [0, 1]; Wasserstein (Appendix B.3) has no such
    bound until it is divided by the diameter of the declared sensitive domain (E19).
    It is then never above the total variation.
    """
    diameter = check_positive("diameter", diameter)
    distance = check_real(
        "distance",
        distance,
        lower=0.0,
        upper=diameter,
        remedy="A distance above the diameter means that the declared domain is wrong.",
    )
    return distance / diameter

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
    Definition 2.5.

    Parameters
    ----------
    first, second : array of float, shape (n_points,)
        Probabilities; each sums to 1.

    Returns
    -------
    distance : float
        Total variation in [0, 1].

    Examples
    --------
    Example 2.6 of the paper:

    >>> round(discrete_total_variation([2 / 3, 1 / 3], [1 / 3, 2 / 3]), 12)
    0.333333333333
    """
    masses = [
        check_nonnegative_array(name, values, ndim=1)
        for name, values in (("first", first), ("second", second))
    ]
    for name, mass in zip(("first", "second"), masses, strict=True):
        if mass.size == 0 or not math.isclose(mass.sum(), 1.0, abs_tol=1e-9):
            raise CorrDPError(
                f"{name} must sum to 1, got a sum of {mass.sum():.12g}. "
                "Pass probabilities, not counts."
            )
    if masses[0].shape != masses[1].shape:
        raise CorrDPError(
            f"first and second must have equal lengths, got {masses[0].size} and "
            f"{masses[1].size}. List both on the same points."
        )
    return min(1.0, 0.5 * float(np.abs(masses[0] - masses[1]).sum()))


def gaussian_total_variation(
    *, slope: float, conditional_scale: float, width: float
) -> float:
    r"""Return TV(u) when the sensitive column is Gaussian given column u.

    Example D.3: :math:`2 \Phi(|\phi| |u_1 - u_2| / (2 \eta)) - 1`.

    Parameters
    ----------
    slope : float
        Regression slope phi of the sensitive column on u.
    conditional_scale : float
        Standard deviation eta of the sensitive column given u.
    width : float
        Width of the declared range of u. An unbounded range gives 1 (E24).

    Returns
    -------
    distance : float
        Total variation in [0, 1].
    """
    slope = check_real("slope", slope)
    scale = check_positive("conditional_scale", conditional_scale)
    width = check_real("width", width, lower=0.0, allow_infinite=True)
    if slope == 0.0:
        return 0.0
    # 2 Phi(t) - 1 = erf(t / sqrt 2)
    return float(erf(abs(slope) * width / (2 * scale) / math.sqrt(2)))


def critic_total_variation_lower(expectation_gap: float) -> float:
    """Return the lower bound on total variation that one bounded critic gives.

    The supremum over critics with values in [-1, 1] is twice the total variation, not
    the total variation as Appendix D.2 prints, and any one critic gives less (E18).

    Parameters
    ----------
    expectation_gap : float
        Difference in [-2, 2] of the critic's means under the two distributions.

    Returns
    -------
    distance_lower : float
        Half the absolute gap.
    """
    return abs(check_real("expectation_gap", expectation_gap, lower=-2, upper=2)) / 2


def bounded_wasserstein(distance: float, *, diameter: float) -> float:
    """Return a Wasserstein distance brought into [0, 1] by the domain's diameter.

    Definition 2.3 wants a distance in [0, 1]; Wasserstein (Appendix B.3) has no such
    bound until it is divided by the diameter of the sensitive domain (E19).

    Parameters
    ----------
    distance : float
        Wasserstein-1 distance, at most `diameter`.
    diameter : float
        Largest distance between two sensitive values of the declared domain.

    Returns
    -------
    distance : float
        Never above the total variation on the same domain.
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

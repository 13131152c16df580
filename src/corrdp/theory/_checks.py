"""Checks shared by the calculators."""

import numpy as np
from numpy.typing import ArrayLike

from corrdp._typing import FloatArray
from corrdp._validate import check_nonnegative_array, check_real
from corrdp.exceptions import CorrDPError


def check_positive(name: str, value: float) -> float:
    """Return a positive finite number, or raise."""
    return check_real(name, value, lower=0.0, open_lower=True)


def check_probability(name: str, value: float) -> float:
    """Return a number in (0, 1], or raise."""
    return check_real(name, value, lower=0.0, upper=1.0, open_lower=True)


def check_distances(leakage: ArrayLike) -> FloatArray:
    """Return a vector, possibly empty, with entries in [0, 1], or raise."""
    array = check_nonnegative_array("leakage", leakage, ndim=1)
    n_above = int(np.count_nonzero(array > 1.0))
    if n_above:
        # A distance may have been estimated from rows, so it is counted, not shown.
        raise CorrDPError(
            f"leakage must hold numbers in [0, 1], got {n_above} of {array.size} "
            "above 1. Pass one total variation distance per insensitive column."
        )
    return array


def check_vector(
    name: str, values: ArrayLike, *, size: int | None = None
) -> FloatArray:
    """Return a finite non-empty vector, of length `size` if given, or raise."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    fits = array.ndim == 1 and array.size > 0 and bool(np.all(np.isfinite(array)))
    if not fits or (size is not None and array.size != size):
        length = "at least one entry" if size is None else f"length {size}"
        raise CorrDPError(
            f"{name} must be a vector of finite numbers with {length}, got shape "
            f"{np.shape(values)}. Pass one number per coordinate."
        )
    return array

"""One update of `OnlineAllocator`, compiled: the same arithmetic as there, in loops."""

import math
from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def follow(
    moves: Any,
    budget: Any,
    allowed: Any,
    root_cost: Any,
    dual: Any,
    n_iterations: int,
    dual_floor: Any,
    load_floor: float,
    margin: float,
) -> Any:
    """Update the dual variables in place; return the noise scale and whether it fits.

    Groups that do not move get the noise of the floor, for the caller to take away.
    """
    n_rows, n_groups = moves.shape
    load = np.empty((n_rows, n_groups))
    for r in range(n_rows):
        for g in range(n_groups):
            ratio = moves[r, g] / budget[r]
            load[r, g] = max(ratio * ratio, load_floor)
    largest = dual.max()
    for r in range(n_rows):
        dual[r] = max(dual[r] / largest, dual_floor[r])
    precision = np.empty(n_groups)
    peak = 0.0
    for _ in range(n_iterations):
        for g in range(n_groups):
            pull = 0.0
            for r in range(n_rows):
                pull += dual[r] * load[r, g]
            precision[g] = root_cost[g] / math.sqrt(pull)
        peak = 0.0
        for r in range(n_rows):
            spent = 0.0
            for g in range(n_groups):
                spent += load[r, g] * precision[g]
            dual[r] *= spent * spent
            peak = max(peak, spent)
    noise_scale = np.sqrt(peak * margin / precision)
    fits = True
    for r in range(n_rows):
        price = 0.0
        for g in range(n_groups):
            ratio = moves[r, g] / noise_scale[g]
            price += ratio * ratio
        fits = fits and price <= allowed[r]
    return noise_scale, fits

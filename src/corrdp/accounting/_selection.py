r"""What it costs to release the best of a random number of Gaussian runs.

Theory: ``docs/theory/selection.md``. A run of mu-Gaussian DP that scores better than a
share x of all runs under one table does so under its neighbor for a share of at least
Phi(Phi^-1(x) - mu). Both shares, weighted by the law of the number of runs, are a curve
in the plane; all prices are read off its lower convex hull.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from corrdp._typing import FloatArray
from corrdp._validate import check_delta, check_epsilon, check_real
from corrdp.accounting._gaussian import gaussian_epsilon, gaussian_mu
from corrdp.accounting._sampled import log_sampled_delta

LARGEST_SELECTED_MU = 1e3
"""A run beyond it has no epsilon that is worth a name, and its curve no numbers."""

_REACH = 9.0  # deviations beyond which the curve has reached its ends
_STEPS = (2e-4, 5e-3)  # between points of the curve
_STEPS_PER_MU = 20.0
_LINES = 800  # that support the hull in a profile
_KNOTS = 1500  # of a profile
_SMALLEST_DELTA = 1e-295
_SMALLEST_LOG = -1e300
_LARGEST_EPSILON = 700.0  # whose exponential is a number
_ROUND_OFF = 1e-12
_MU_TOLERANCE = 1e-4
_MARGIN = 1e-3
_MOST_RUNS = 1e12  # beyond which numbers underflow, and nobody waits


def selected_renyi(mu: float, mean_runs: float, order: float) -> float:
    """Return a bound on the Renyi divergence of the best of several runs.

    Guarantee
    ---------
    The smaller of two bounds, both in both directions: that of a hidden number of
    runs (Theorem 2 of ``docs/theory/selection.md``) and that of one that is told
    (Proposition 4).
    """
    if mu == 0.0:
        return 0.0
    if mu > LARGEST_SELECTED_MU:
        return math.inf
    single = 0.5 * order * mu**2
    weights, others = hull(mu, mean_runs)
    gain = float(np.max(order * np.log(weights) - (order - 1.0) * np.log(others)))
    hidden = single + gain / (order - 1.0)
    exponent = (order - 1.0) * single
    left_over = 1.0 - (1.0 - 1.0 / mean_runs) * math.exp(min(exponent, 700.0))
    if left_over <= 0.0:
        return hidden
    told = exponent - math.log(mean_runs) - math.log(left_over)
    return min(hidden, (told + _ROUND_OFF) / (order - 1.0))


def selected_log_delta(epsilons: FloatArray, mu: float, mean_runs: float) -> FloatArray:
    """Return the logarithm of a bound on delta at non-negative `epsilons`.

    Guarantee
    ---------
    Theorem 1 of ``docs/theory/selection.md``; not yet symmetric, and may exceed 0.
    """
    widths, log_slopes = _lines(mu, mean_runs)
    found = np.empty(epsilons.size)
    for place, epsilon in enumerate(epsilons.ravel().tolist()):
        shifted = epsilon + log_slopes
        log_delta = log_sampled_delta(
            np.abs(shifted), rate=1.0, contribution=mu, change=mu
        )
        below = shifted < 0.0
        if below.any():
            negative = shifted[below]
            log_delta[below] = np.log(
                -np.expm1(negative) + np.exp(negative + log_delta[below])
            )
        top = max(float(log_delta.max()), _SMALLEST_LOG)
        total = float(widths @ np.exp(log_delta - top))
        found[place] = top + math.log(total) if total > 0.0 else -math.inf
    return found.reshape(epsilons.shape) + _ROUND_OFF


@lru_cache(maxsize=64)
def selected_profile(mu: float, mean_runs: float) -> tuple[FloatArray, FloatArray]:
    """Return knots of a profile: epsilons from 0 on, and logarithms of deltas.

    Between knots a profile is linear in exp(epsilon), beyond the last one constant.

    Guarantee
    ---------
    The lower convex hull of valid points and of their mirror images, so it is convex,
    symmetric, and above the divergence in both directions
    (``docs/theory/selection.md``, section 4).
    """
    farthest = gaussian_epsilon(mu=mu, delta=_SMALLEST_DELTA / mean_runs)
    end = min(farthest - float(_lines(mu, mean_runs)[1].min()), _LARGEST_EPSILON)
    epsilons = end * np.linspace(0.0, 1.0, _KNOTS) ** 1.5
    log_deltas = selected_log_delta(epsilons, mu, mean_runs)
    ratios, deltas = np.exp(epsilons), np.exp(log_deltas)
    mirrored = 1.0 - 1.0 / ratios + deltas / ratios
    kept = _lower_hull(
        np.concatenate([[0.0], (1.0 / ratios)[:0:-1], ratios]),
        np.concatenate([[1.0], mirrored[:0:-1], deltas]),
    )
    at_or_above = kept[kept >= epsilons.size] - epsilons.size
    first = int(at_or_above[0])
    epsilons, log_deltas = epsilons[at_or_above], log_deltas[at_or_above]
    if first == 0:
        return epsilons, log_deltas
    # The hull passes below the point at epsilon 0: by symmetry it is straight between
    # the first knot and its mirror image.
    share = 1.0 / (1.0 + ratios[first])
    middle = share * deltas[first] + (1.0 - share) * mirrored[first]
    log_middle = math.log(min(middle * (1.0 + _ROUND_OFF), 1.0))
    return np.append(0.0, epsilons), np.append(log_middle, log_deltas)


def selected_mu(epsilon: float, *, delta: float, mean_runs: float) -> float:
    """Return the largest mu of a run whose best of several is (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : float
        What the release of the best run may cost.
    mean_runs : float
        Mean of the geometric number of runs, at least 1.

    Guarantee
    ---------
    Theorem 1 of ``docs/theory/selection.md``, rounded down: about a thousandth of
    epsilon is left, so that the knots of `selected_profile` allow it, too.

    Examples
    --------
    >>> round(selected_mu(1.0, delta=1e-5, mean_runs=20.0), 3)
    0.162
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    mean_runs = check_mean_runs(mean_runs)
    point = np.array([epsilon * (1.0 - _MARGIN)])
    upper = gaussian_mu(epsilon=epsilon, delta=delta)
    if mean_runs == 1.0:
        return upper
    upper = min(upper, LARGEST_SELECTED_MU)
    limit, lower = math.log(delta), 0.0
    while upper - lower > _MU_TOLERANCE * upper:
        middle = 0.5 * (lower + upper)
        if float(selected_log_delta(point, middle, mean_runs)[0]) <= limit:
            lower = middle
        else:
            upper = middle
    return lower


def check_mean_runs(mean_runs: float) -> float:
    """Return the mean of a number of runs, or raise."""
    return check_real(
        "mean_runs",
        mean_runs,
        lower=1.0,
        upper=_MOST_RUNS,
        remedy="There is at least one run; 20 is a common mean.",
    )


@lru_cache(maxsize=256)
def hull(mu: float, mean_runs: float) -> tuple[FloatArray, FloatArray]:
    """Return the vertices of the lower hull of the weights of a run and its neighbor.

    Guarantee
    ---------
    Below the curve between its points, too: weights are raised and those of the
    neighbor lowered by the curvature of a cell (``docs/theory/selection.md``,
    section 5).
    """
    step = min(max(mu / _STEPS_PER_MU, _STEPS[0]), _STEPS[1])
    n_cells = math.ceil((2.0 * _REACH + mu) / step)
    places = np.linspace(-_REACH, _REACH + mu, n_cells + 1)
    step = float(places[1] - places[0])
    weights = _weight(places, mean_runs) * (1.0 + _curvature(places, step))
    others = _weight(places - mu, mean_runs) * (1.0 - _curvature(places - mu, step))
    stop = 1.0 / mean_runs  # the weight of a run that is better than none
    # To the left of all cells the neighbor has at least its least weight, to the
    # right the run at most its largest.
    weights = np.concatenate([[weights[0]], weights, [mean_runs]])
    others = np.concatenate([[stop], others, [others[-1]]])
    order = np.lexsort((others, weights))
    weights, others = weights[order], others[order]
    first = np.concatenate([[True], weights[1:] > weights[:-1]])  # least of equals
    weights, others = weights[first], others[first]
    kept = _lower_hull(
        np.concatenate([[0.0], weights]), np.concatenate([[0.0], others])
    )
    kept = kept[kept > 0] - 1
    return weights[kept], others[kept]


def _weight(places: FloatArray, mean_runs: float) -> FloatArray:
    """Return the derivative of the generating function where Phi(place) runs lose."""
    stop = 1.0 / mean_runs
    return np.asarray(stop / (stop + (1.0 - stop) * ndtr(-places)) ** 2)


def _curvature(places: FloatArray, step: float) -> FloatArray:
    """Bound the part of a weight by which it bends within a cell beside a place."""
    far = np.abs(places) + step
    # Density over tail of the normal law: 0.798 at 0, rising, below x + 1 from there.
    hazard = np.where(places > -step, far + 1.0, 0.8)
    bend = 2.0 * hazard * (3.0 * hazard + far)
    return np.asarray(step**2 / 8.0 * bend * np.exp(2.0 * hazard * step) + _ROUND_OFF)


@lru_cache(maxsize=256)
def _lines(mu: float, mean_runs: float) -> tuple[FloatArray, FloatArray]:
    """Return some lines that support the hull: over which width, and log slopes.

    The largest of some supporting lines is below the hull, so bounds stay valid.
    """
    weights, others = hull(mu, mean_runs)
    weights = np.concatenate([[0.0], weights])
    others = np.concatenate([[0.0], others])
    slopes = np.diff(others) / np.diff(weights)
    n_lines = min(_LINES, slopes.size)
    chosen = np.unique(np.linspace(0, slopes.size - 1, n_lines).round().astype(int))
    slopes = slopes[chosen]
    at, value = weights[chosen], others[chosen]
    steeper = np.diff(slopes) > 1e-9 * slopes[1:]
    keep = np.concatenate([[True], steeper])
    slopes, at, value = slopes[keep], at[keep], value[keep]
    meet = (
        value[:-1] - value[1:] + slopes[1:] * at[1:] - slopes[:-1] * at[:-1]
    ) / np.diff(slopes)
    ends = np.concatenate([[0.0], np.clip(meet, 0.0, weights[-1]), [weights[-1]]])
    ends = np.maximum.accumulate(ends)
    return np.diff(ends), np.log(slopes) - _ROUND_OFF


def _lower_hull(x: FloatArray, y: FloatArray) -> np.ndarray:
    """Return the positions of the vertices of the lower convex hull; x increases."""
    kept: list[int] = []
    xs, ys = x.tolist(), y.tolist()
    for place in range(len(xs)):
        while len(kept) > 1:
            left, middle = kept[-2], kept[-1]
            turn = (xs[middle] - xs[left]) * (ys[place] - ys[left]) - (
                ys[middle] - ys[left]
            ) * (xs[place] - xs[left])
            if turn > 0.0:
                break
            kept.pop()
        kept.append(place)
    return np.array(kept)

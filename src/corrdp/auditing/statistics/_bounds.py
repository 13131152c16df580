"""Lower bounds on privacy loss from how often one event happened on each neighbor."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from corrdp._typing import FloatArray
from corrdp._validate import check_failure_probability

_ROC_POINTS = 30
_LARGEST_EXPONENT = 700.0  # beyond it does not fit, and nothing is proved anyway


def clopper_pearson(
    successes: FloatArray | int, n_trials: int, *, failure_probability: float
) -> tuple[FloatArray, FloatArray]:
    """Return exact lower and upper bounds on a probability, from independent trials.

    Each of the two fails with `failure_probability` at most.

    Examples
    --------
    >>> lower, upper = clopper_pearson(0, 100, failure_probability=0.01)
    >>> float(lower), round(float(upper), 4)
    (0.0, 0.045)
    """
    check_failure_probability(failure_probability)
    count = np.asarray(successes, dtype=np.float64)
    missed = n_trials - count
    lower = np.where(
        count > 0,
        betaincinv(np.maximum(count, 1), missed + 1, failure_probability),
        0.0,
    )
    upper = np.where(
        missed > 0,
        betaincinv(count + 1, np.maximum(missed, 1), 1.0 - failure_probability),
        1.0,
    )
    return lower, upper


@dataclass(frozen=True, slots=True)
class EventBounds:
    """Bounds on the probability of one event on two neighbors.

    It is likely on the second neighbor, rare on the first. They differ in `n_records`:
    of several only `mu_lower`, which is for one of them, says more than nothing.

    Guarantee
    ---------
    If both bounds hold, so does every method: the complement of the event gives
    bounds in the other direction from the same two numbers
    (`docs/theory/audit.md`).
    """

    likely_lower: float
    rare_upper: float
    n_records: int = 1

    def epsilon_lower(self, delta: float) -> float:
        """Return the epsilon below which no mechanism with `delta` explains them."""
        if self.n_records > 1:
            return 0.0
        return max(0.0, *(_log_ratio(p - delta, q) for p, q in self.directions))

    def mu_lower(self) -> float:
        """Return the mu below which no Gaussian-DP mechanism explains them."""
        mu = ndtri(self.likely_lower) - ndtri(self.rare_upper)
        return max(0.0, float(mu) / self.n_records)

    def hockey_stick_lower(self, epsilon: float) -> float:
        """Return a lower bound on the delta that holds at `epsilon`."""
        if self.n_records > 1:
            return 0.0
        growth = math.exp(min(epsilon, _LARGEST_EXPONENT))
        return max(p - growth * q for p, q in self.directions)

    @property
    def directions(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Lower and upper bound of the event, and of its complement, swapped."""
        return (
            (self.likely_lower, self.rare_upper),
            (1.0 - self.rare_upper, 1.0 - self.likely_lower),
        )


def event_bounds(
    rare: FloatArray,
    likely: FloatArray,
    threshold: float,
    *,
    failure_probability: float,
    n_records: int = 1,
) -> EventBounds:
    """Bound the probabilities that a score exceeds a threshold.

    Scores are those of independent runs on the first (`rare`) and the second neighbor
    (`likely`), and the threshold was chosen without looking at them. Either bound may
    be wrong with `failure_probability`, in all.
    """
    each = failure_probability / 2.0
    hits = int(np.count_nonzero(likely > threshold))
    lower, _ = clopper_pearson(hits, likely.size, failure_probability=each)
    hits = int(np.count_nonzero(rare > threshold))
    _, upper = clopper_pearson(hits, rare.size, failure_probability=each)
    return EventBounds(float(lower), float(upper), n_records)


def roc_points(rare: FloatArray, likely: FloatArray) -> tuple[tuple[float, float], ...]:
    """Return rates of false and of true alarms of a score, from strict to lenient.

    Some thirty points from (0, 0) to (1, 1), from scores of runs, or canaries, of the
    first and of the second neighbor: estimates, not bounds.

    Examples
    --------
    >>> roc_points(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    ((0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0))
    """
    if rare.size == 0 or likely.size == 0:
        return ()
    both = np.concatenate([rare, likely])
    levels = np.unique(np.quantile(both, np.linspace(0.0, 1.0, _ROC_POINTS)))[::-1]
    alarms = [
        (float(np.mean(rare > level)), float(np.mean(likely > level)))
        for level in levels
    ]
    return tuple(dict.fromkeys([(0.0, 0.0), *alarms, (1.0, 1.0)]))


def _log_ratio(likely: float, rare: float) -> float:
    if likely <= 0.0:
        return -math.inf
    return math.inf if rare <= 0.0 else math.log(likely / rare)

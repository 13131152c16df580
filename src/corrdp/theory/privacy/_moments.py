r"""The moments accountant in the proof of Theorem 3.7.

The proof bounds the log-moment of the privacy loss at one order and turns it into
delta by a tail bound. `corrdp.accounting` prices the same Gaussians exactly; these
functions are the paper's route, kept to see what it gives away.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from corrdp._typing import FloatArray
from corrdp._validate import (
    check_count,
    check_delta,
    check_epsilon,
    check_nonnegative_array,
    check_real,
)
from corrdp.exceptions import CorrDPError
from corrdp.theory._checks import check_positive, check_probability


def gaussian_log_moment(
    shift: ArrayLike, *, noise_scale: ArrayLike, order: float
) -> float:
    r"""Return the log-moment of one Gaussian step.

    Parameters
    ----------
    shift : array of float, shape (n_coordinates,)
        How far each coordinate of the mean moves, in absolute value.
    noise_scale : array of float, shape (n_coordinates,)
        Standard deviations.
    order : float
        lambda > 0.

    Returns
    -------
    log_moment : float
        :math:`\alpha(\lambda) = \frac{\lambda (\lambda + 1)}{2} \sum_i
        (\Delta_i / \sigma_i)^2 = \lambda D_{\lambda + 1}`; infinite when a coordinate
        moves without noise.

    Guarantee
    ---------
    Exact, and adds up over adaptive steps: Lemma A.4, first part. Note:
    `docs/theory/paper_bounds.md`.
    """
    order = check_positive("order", order)
    moves = check_nonnegative_array("shift", shift, ndim=1)
    scales = check_nonnegative_array("noise_scale", noise_scale, ndim=1)
    if scales.shape != moves.shape:
        raise CorrDPError(
            f"noise_scale must have shape {moves.shape} as shift has, got "
            f"{scales.shape}. Pass one standard deviation per coordinate."
        )
    moving = moves > 0.0
    if np.any(scales[moving] == 0.0):
        return math.inf
    ratios = moves[moving] / scales[moving]
    return order * (order + 1) / 2 * float(ratios @ ratios)


def tail_delta(
    log_moment: float, *, epsilon: float, order: float, distance: float = 1.0
) -> float:
    r"""Return the delta that a log-moment proves at a given epsilon.

    Lemma A.4, second part: :math:`\exp(\alpha(\lambda) - \lambda \epsilon / d)`.

    Parameters
    ----------
    log_moment : float
        Total log-moment over all steps, at this order.
    epsilon : float
        CorrDP epsilon; neighbors at distance d may differ by epsilon / d.
    order : float
        lambda > 0.
    distance : float, default 1.0
        d in (0, 1].

    Returns
    -------
    delta : float
        Capped at 1.

    Guarantee
    ---------
    Every mechanism with this log-moment is (epsilon / distance, delta)-private:
    Markov's inequality on the privacy loss. Note: `docs/theory/paper_bounds.md`.
    """
    moment = check_real("log_moment", log_moment, lower=0.0, allow_infinite=True)
    order = check_positive("order", order)
    distance = check_probability("distance", distance)
    return math.exp(min(0.0, moment - order * check_epsilon(epsilon) / distance))


def moments_epsilon(squared_ratio: float, *, delta: float) -> float:
    r"""Return the epsilon of composed Gaussian steps at the best order.

    Minimizing the tail bound over real orders gives
    :math:`s/2 + \sqrt{2 s \log(1/\delta)}`.

    Parameters
    ----------
    squared_ratio : float
        s, the sum over steps and coordinates of (shift / noise_scale)^2.
    delta : float
        Target delta.

    Returns
    -------
    epsilon : float
        Per-class epsilon; divide by nothing: the class's distance is not applied.

    Guarantee
    ---------
    Valid and never below the exact Gaussian epsilon. Note:
    `docs/theory/paper_bounds.md`.
    """
    total = check_real("squared_ratio", squared_ratio, lower=0.0, allow_infinite=True)
    return total / 2 + math.sqrt(2 * total * -math.log(check_delta(delta)))


def proof_order(*, epsilon: float, delta: float) -> float:
    r"""Return the order :math:`\lambda = 2 \log(1/\delta) / \epsilon` of the proof.

    Parameters
    ----------
    epsilon, delta : float
        Budget.

    Returns
    -------
    order : float
        Positive.
    """
    return -2 * math.log(check_delta(delta)) / check_epsilon(epsilon)


def proof_noise_variance(
    shift: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    n_steps: int,
    distance: float = 1.0,
) -> FloatArray:
    r"""Return the noise that the proof of Theorem 3.7 really asks for.

    The log-moment is shared equally among coordinates at `proof_order`:
    :math:`\sigma_i^2 = (\lambda + 1) m T d \Delta_i^2 / \epsilon`.

    Parameters
    ----------
    shift : array of float, shape (n_coordinates,)
        How far each coordinate of the mean gradient moves between neighbors.
    epsilon, delta : float
        Budget.
    n_steps : int
        T.
    distance : float, default 1.0
        d of the class, in (0, 1].

    Returns
    -------
    noise_variance : array of float, shape (n_coordinates,)
        Zero where the coordinate does not move.

    Guarantee
    ---------
    T full-batch steps are (epsilon / distance, delta)-private for neighbors that
    move the mean by at most `shift`. The paper prints epsilon^2 in the denominator
    right after deriving epsilon, which is too little noise when epsilon > 1, and then
    drops constants (E5). Proof: `docs/theory/paper_bounds.md`.
    """
    moves = check_nonnegative_array("shift", shift, ndim=1)
    distance = check_probability("distance", distance)
    steps = check_count("n_steps", n_steps)
    order = proof_order(epsilon=epsilon, delta=delta)
    return (order + 1) * moves.size * steps * distance / epsilon * moves**2

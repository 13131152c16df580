r"""The moments accountant in the proof of Theorem 3.7.

The proof bounds the log-moment of the privacy loss at one order and turns it into
delta by a tail bound. `corrdp.accounting` prices the same Gaussians exactly; these
functions are the paper's route, kept to see what it gives away. Lemma A.3, last, is the
Renyi divergence between Gaussians whose covariances differ.
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
from corrdp.theory._checks import check_positive, check_probability, check_vector


def gaussian_log_moment(
    shift: ArrayLike, *, noise_scale: ArrayLike, order: float
) -> float:
    r"""Return the log-moment of one Gaussian step.

    :math:`\alpha(\lambda) = \frac{\lambda (\lambda + 1)}{2} \sum_i
    (\Delta_i / \sigma_i)^2 = \lambda D_{\lambda + 1}`, where coordinate i of the mean
    moves by `shift`; infinite when one moves without noise.

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
    r"""Return the delta that a log-moment proves at a given epsilon, at most 1.

    Lemma A.4, second part: :math:`\exp(\alpha(\lambda) - \lambda \epsilon / d)`, with
    the log-moment of all steps at this order; neighbors at distance d in (0, 1] may
    differ by epsilon / d.

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
    :math:`s/2 + \sqrt{2 s \log(1/\delta)}`, s being the sum over steps and coordinates
    of (shift / noise_scale)^2. It is that of a class: its distance is not applied.

    Guarantee
    ---------
    Valid and never below the exact Gaussian epsilon. Note:
    `docs/theory/paper_bounds.md`.
    """
    total = check_real("squared_ratio", squared_ratio, lower=0.0, allow_infinite=True)
    return total / 2 + math.sqrt(2 * total * -math.log(check_delta(delta)))


def proof_order(*, epsilon: float, delta: float) -> float:
    r"""Return the order :math:`\lambda = 2 \log(1/\delta) / \epsilon` of the proof."""
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
    :math:`\sigma_i^2 = (\lambda + 1) m T d \Delta_i^2 / \epsilon`, where coordinate i
    of the mean gradient moves by `shift` between neighbors at distance d in (0, 1].

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


def gaussian_renyi_divergence(
    first_mean: ArrayLike,
    first_covariance: ArrayLike,
    second_mean: ArrayLike,
    second_covariance: ArrayLike,
    *,
    order: float,
) -> float:
    r"""Return the Renyi divergence :math:`D_\alpha(P \| Q)` of Gaussians.

    Of order alpha > 0, 1 being the Kullback-Leibler divergence; covariances are
    positive definite. Infinite when alpha > 1 and :math:`\Sigma_\alpha = (1-\alpha)
    \Sigma_1 + \alpha \Sigma_2` is not positive definite.

    Guarantee
    ---------
    The value of Definition A.2, for all orders. The lemma's final formula is right
    where :math:`\Sigma_\alpha` is positive definite, which the paper does not ask,
    and its determinant identity has a wrong sign (E17). Proof:
    `docs/theory/paper_bounds.md`.

    Examples
    --------
    >>> gaussian_renyi_divergence([0.0], [[1.0]], [2.0], [[1.0]], order=3.0)
    6.0
    >>> gaussian_renyi_divergence([0.0], [[2.0]], [0.0], [[1.0]], order=2.0)
    inf
    """
    order = check_positive("order", order)
    first = check_vector("first_mean", first_mean)
    second = check_vector("second_mean", second_mean, size=first.size)
    narrow = _check_covariance("first_covariance", first_covariance, first.size)
    wide = _check_covariance("second_covariance", second_covariance, first.size)
    shift = first - second
    log_first = 2 * np.log(np.diag(np.linalg.cholesky(narrow))).sum()
    log_second = 2 * np.log(np.diag(np.linalg.cholesky(wide))).sum()
    if order == 1.0:
        trace = np.trace(np.linalg.solve(wide, narrow))
        distance = shift @ np.linalg.solve(wide, shift)
        return float((log_second - log_first + trace + distance - first.size) / 2)
    mixed = (1 - order) * narrow + order * wide
    try:
        factor = np.linalg.cholesky(mixed)
    except np.linalg.LinAlgError:
        return math.inf
    log_mixed = 2 * np.log(np.diag(factor)).sum()
    log_integral = (order * log_second + (1 - order) * log_first - log_mixed) / 2
    whitened = np.linalg.solve(factor, shift)
    return float(log_integral / (order - 1) + order / 2 * (whitened @ whitened))


def _check_covariance(name: str, values: ArrayLike, size: int) -> FloatArray:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.shape != (size, size) or not np.all(np.isfinite(matrix)):
        raise CorrDPError(
            f"{name} must be a finite matrix of shape {(size, size)}, got shape "
            f"{matrix.shape}. Pass one row and column per coordinate."
        )
    symmetric = np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0)
    smallest = float(np.linalg.eigvalsh(matrix)[0]) if symmetric else math.nan
    if not smallest > 0.0:
        raise CorrDPError(
            f"{name} must be symmetric and positive definite, got smallest eigenvalue "
            f"{smallest:g} (nan: not symmetric). Drop coordinates without noise."
        )
    return matrix

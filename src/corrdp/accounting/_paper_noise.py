r"""The closed forms for noise that the paper prints.

"The paper" is *Integrating Feature Correlation in Differential Privacy with
Applications in DP-ERM* (Wang, Zhang, Cummings); numbers of theorems, equations and
definitions are those it prints, numbers E1, E2, ... are rows of the errata.

Every function takes `leakage` with one entry per column, 1 on sensitive columns, and
none of them proves an epsilon: see `docs/theory/paper_noise.md`.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

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

ExperimentMethod: TypeAlias = Literal["corr", "semi", "standard"]


@dataclass(frozen=True, kw_only=True)
class NetworkNoiseVariance:
    """Noise variances of a fully connected network, as in Eq. (5).

    Attributes
    ----------
    first_layer : array of float, shape (n_columns, first_layer_width)
        Variance of each weight that reads an input column.
    other : float
        Variance of every other parameter: later layers and all biases (E21).
    """

    first_layer: FloatArray
    other: float


def paper_noise_variance(
    leakage: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    lipschitz: float,
    n_steps: int,
    n_rows: int,
    n_sensitive: int,
    floor: bool = True,
    label_score: float = 0.0,
) -> FloatArray:
    r"""Return the noise variance per column in the closed form of Eq. (4).

    Parameters
    ----------
    leakage : array of float, shape (n_columns,)
        TV(i) in [0, 1]; 1 on sensitive columns.
    epsilon, delta : float
        Nominal budget.
    lipschitz : float
        Bound L on the norm of one record's gradient.
    n_steps, n_rows, n_sensitive : int
        T, n and m_s.
    floor : bool, default True
        Keep the term m_s^2 / m^2. The experiments drop it (E3).
    label_score : float, default 0.0
        Score s_l of the label in [0, 1]; 1 protects it fully (Appendix C.2).

    Returns
    -------
    noise_variance : array of float, shape (n_columns,)
        Variance of the noise on the mean gradient, in squared units of `lipschitz`.

    Guarantee
    ---------
    Asymptotic: Assumptions 3.1-3.4 and unstated constants (Theorem 3.7; E5, E7). With
    ``floor=False`` a change of a sensitive column is not covered at all (E3). What the
    noise proves is found by the accountant: `docs/theory/paper_noise.md`.

    Notes
    -----
    .. math::

        \sigma_i^2 = \frac{(\log(1/\delta) + 1) L^2 T}{n^2 \epsilon^2}
            \max\{TV(i), m_s^2 / m^2, s_l\}.

    Examples
    --------
    >>> paper_noise_variance(
    ...     [1.0, 0.22, 0.0], epsilon=1.0, delta=1e-5, lipschitz=1.0,
    ...     n_steps=100, n_rows=1000, n_sensitive=1,
    ... ).round(6)
    array([0.001251, 0.000275, 0.000139])
    """
    leakage = check_leakage(leakage)
    n_sensitive = check_sensitive_columns(n_sensitive, leakage=leakage)
    label_score = check_real("label_score", label_score, lower=0.0, upper=1.0)
    lipschitz = check_real("lipschitz", lipschitz, lower=0.0, open_lower=True)
    n_steps = check_count("n_steps", n_steps)
    n_rows = check_count("n_rows", n_rows)
    share = (n_sensitive / leakage.size) ** 2 if floor else 0.0  # m_s^2 / m^2
    base = _budget_factor(epsilon, delta) * lipschitz**2 * n_steps / n_rows**2
    return base * np.maximum(leakage, max(share, label_score))


def paper_network_noise_variance(
    leakage: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    lipschitz: float,
    n_steps: int,
    n_rows: int,
    n_sensitive: int,
    first_layer_width: int,
    floor: bool = True,
    label_score: float = 0.0,
) -> NetworkNoiseVariance:
    """Return the noise variances of a fully connected network, Eq. (5).

    Rows of the first layer follow Eq. (4) by column; everything else gets full noise.

    Parameters
    ----------
    leakage, epsilon, delta, lipschitz, n_steps, n_rows, n_sensitive, floor, label_score
        As in `paper_noise_variance`.
    first_layer_width : int
        Number d_0 of neurons in the first hidden layer.

    Returns
    -------
    noise_variance : NetworkNoiseVariance
        Variances of the first layer's weights and of all other parameters.

    Guarantee
    ---------
    Asymptotic: Assumptions 3.1-3.3, Assumption 3.11 and unstated constants (E5, E7).
    The experiments also lower the noise of the first bias, which no assumption covers
    (E21); here it stays full. See `docs/theory/paper_noise.md`.
    """
    width = check_count("first_layer_width", first_layer_width)
    by_column = paper_noise_variance(
        leakage,
        epsilon=epsilon,
        delta=delta,
        lipschitz=lipschitz,
        n_steps=n_steps,
        n_rows=n_rows,
        n_sensitive=n_sensitive,
        floor=floor,
        label_score=label_score,
    )
    full = _budget_factor(epsilon, delta) * lipschitz**2 * n_steps / n_rows**2
    return NetworkNoiseVariance(
        first_layer=np.repeat(by_column[:, np.newaxis], width, axis=1), other=full
    )


def experiment_noise_variance(
    leakage: ArrayLike, *, epsilon: float, delta: float, constant: float
) -> FloatArray:
    r"""Return the noise variance per column that the experiments use (Section 5).

    Parameters
    ----------
    leakage : array of float, shape (n_columns,)
        Multiplier in [0, 1], for instance from `experiment_leakage`.
    epsilon, delta : float
        Nominal budget.
    constant : float
        The paper's "some constant C"; no value is printed (E4).

    Returns
    -------
    noise_variance : array of float, shape (n_columns,)
        :math:`C (\log(1/\delta) + 1) / \epsilon^2 \cdot TV(i)`.

    Guarantee
    ---------
    None by itself: no epsilon follows from an unstated constant (E4), and the floor
    that covers sensitive changes is dropped (E3). See `docs/theory/paper_noise.md`.
    """
    leakage = check_leakage(leakage)
    constant = check_real("constant", constant, lower=0.0, open_lower=True)
    return constant * _budget_factor(epsilon, delta) * leakage


def experiment_leakage(
    leakage: ArrayLike, *, sensitive: ArrayLike, method: ExperimentMethod
) -> FloatArray:
    """Return the multiplier per column of one method of Section 5.

    Parameters
    ----------
    leakage : array of float, shape (n_columns,)
        TV(i) in [0, 1]; ignored on sensitive columns.
    sensitive : array of bool, shape (n_columns,)
        True on sensitive columns.
    method : {"corr", "semi", "standard"}
        CorrDP, noise on sensitive columns only, or equal noise.

    Returns
    -------
    multiplier : array of float, shape (n_columns,)
        1 on sensitive columns; TV(i), 0 or 1 on the others.

    Guarantee
    ---------
    Reproduction only: "semi" leaves insensitive coordinates bare although they move
    with the sensitive ones, so its real epsilon is infinite (E3). See
    `docs/theory/paper_noise.md`.
    """
    leakage = check_leakage(leakage)
    mask = np.asarray(sensitive)
    if mask.dtype != np.bool_ or mask.shape != leakage.shape:
        raise CorrDPError(
            f"sensitive must be a boolean array of shape {leakage.shape}, got dtype "
            f"{mask.dtype} and shape {mask.shape}. Pass one flag per column."
        )
    insensitive: dict[Any, FloatArray] = {
        "corr": leakage,
        "semi": np.zeros_like(leakage),
        "standard": np.ones_like(leakage),
    }
    if method not in insensitive:
        raise CorrDPError(
            f"method must be one of {sorted(insensitive)}, got method={method!r}. "
            "Choose the column of the paper's figures to reproduce."
        )
    return np.where(mask, 1.0, insensitive[method])


def scored_leakage(leakage: ArrayLike, *, score: ArrayLike) -> FloatArray:
    """Return the leakage of columns that are sensitive to a degree (Appendix C.2).

    Parameters
    ----------
    leakage : array of float, shape (n_columns,)
        TV(i) in [0, 1].
    score : array of float, shape (n_columns,)
        s_i in [0, 1]; 1 is fully sensitive (the text of the paper says the reverse of
        its formula, E20).

    Returns
    -------
    leakage : array of float, shape (n_columns,)
        ``(1 - score) * leakage + score``: it replaces TV(i) in the *variance*; the
        paper prints it as a standard deviation (E20).

    Guarantee
    ---------
    A larger distance is a stronger promise, so scores only strengthen what the
    unscored leakage gives. See `docs/theory/paper_noise.md`.
    """
    leakage = check_leakage(leakage)
    score = check_leakage(score, name="score")
    if score.shape != leakage.shape:
        raise CorrDPError(
            f"score must have shape {leakage.shape} as leakage has, got "
            f"{score.shape}. Pass one score per column."
        )
    return (1.0 - score) * leakage + score


def in_sample_leakage_upper(
    estimate: ArrayLike,
    *,
    delta: float,
    n_rows: int,
    error_constant: float,
    rate_exponent: float,
) -> FloatArray:
    r"""Return the adjusted in-sample leakage of Definition 4.3.

    Parameters
    ----------
    estimate : array of float, shape (n_insensitive,)
        Estimates of TV(i) for the insensitive columns only; their number is m - m_s.
    delta : float
        Budget's delta, used as the failure probability of the estimate.
    n_rows : int
        Rows behind the estimate; those of the public table under Remark 4.5.
    error_constant, rate_exponent : float
        c_2 > 0 and gamma in (0, 1/2] of Assumption 4.1: `corrdp.theory` has them for
        each example of the paper.

    Returns
    -------
    leakage_upper : array of float, shape (n_insensitive,)
        :math:`\min\{1, \widehat{TV}(i) + 2 c_2 \sqrt{\log((m - m_s)/\delta)}
        / n^\gamma\}`. The cap is not printed; total variation cannot exceed 1.

    Guarantee
    ---------
    Asymptotic: Theorem 4.4 charges (epsilon, 2 delta) under Assumptions 4.1 and 4.2,
    whose constants depend on unknown probabilities and whose failure probability is
    over the data, which delta is not (E14, E15). See `docs/theory/paper_noise.md`.
    """
    estimate = check_leakage(estimate, name="estimate")
    delta = check_delta(delta)
    n_rows = check_count("n_rows", n_rows)
    error_constant = check_real(
        "error_constant", error_constant, lower=0.0, open_lower=True
    )
    rate_exponent = check_real(
        "rate_exponent", rate_exponent, lower=0.0, upper=0.5, open_lower=True
    )
    log_union = math.log(estimate.size) - math.log(delta)  # log((m - m_s) / delta)
    margin = 2 * error_constant * math.sqrt(log_union) / n_rows**rate_exponent
    adjusted: FloatArray = np.minimum(1.0, estimate + margin)
    return adjusted


def check_leakage(values: ArrayLike, *, name: str = "leakage") -> FloatArray:
    """Return a non-empty vector with entries in [0, 1], or raise."""
    array = check_nonnegative_array(name, values, ndim=1)
    if array.size == 0 or array.max() > 1.0:
        # An estimate comes from data, so its entries are counted and not shown.
        n_above = np.count_nonzero(array > 1.0)
        raise CorrDPError(
            f"{name} must hold at least one entry, all in [0, 1], got {array.size} "
            f"with {n_above} above 1. Pass one number per column."
        )
    return array


def check_sensitive_columns(n_sensitive: int, *, leakage: FloatArray) -> int:
    """Return `n_sensitive` if so many entries of `leakage` can be sensitive."""
    n_sensitive = check_count("n_sensitive", n_sensitive, lower=0)
    n_full = int(np.count_nonzero(leakage == 1.0))
    if n_sensitive > n_full:
        raise CorrDPError(
            f"n_sensitive={n_sensitive} columns must have leakage 1, got {n_full} of "
            f"{leakage.size}. Set leakage to 1 on every sensitive column."
        )
    return n_sensitive


def _budget_factor(epsilon: float, delta: float) -> float:
    """Return (log(1/delta) + 1) / epsilon^2, common to all closed forms."""
    return (1 - math.log(check_delta(delta))) / check_epsilon(epsilon) ** 2

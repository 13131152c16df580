r"""What CorrDP costs in utility: effective dimensions, upper bounds, a lower rate.

The noise of Eq. (4) has total variance proportional to
:math:`m_s + \sum_{i \in U} \max\{TV(i), m_s^2/m^2\}`, where plain DP has m. Each upper
bound has an explicit value `upper`, proved for that noise in
`docs/theory/paper_bounds.md`, and the `rate` of the paper, without constants and powers
of log n.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from corrdp._typing import FloatArray
from corrdp._validate import check_count, check_delta, check_epsilon, check_real
from corrdp.exceptions import CorrDPError
from corrdp.theory._checks import check_distances, check_positive


def noise_dimension(leakage: ArrayLike, *, n_sensitive: int) -> float:
    """Return the total noise variance of Eq. (4) in units of a sensitive column's.

    m_s plus the sum of max(TV(i), m_s^2 / m^2), the leakage being that of the
    insensitive columns only.
    """
    distances, columns = _checked(leakage, n_sensitive)
    share = (n_sensitive / columns) ** 2
    return n_sensitive + float(np.maximum(distances, share).sum())


def dimension_upper(leakage: ArrayLike, *, n_sensitive: int) -> float:
    """Return the bound on `noise_dimension` that the proof of Theorem 3.9 may use.

    The sum 1.25 m_s + sum TV(i), never below `noise_dimension`. The paper prints
    ``min`` where its own inequality gives the sum (E16).
    """
    distances, _ = _checked(leakage, n_sensitive)
    return n_sensitive + float(distances.sum()) + n_sensitive / 4


def printed_dimension(leakage: ArrayLike, *, n_sensitive: int) -> float:
    """Return the dimension that Theorem 3.9 prints, which is not an upper bound.

    m_s plus the smaller of sum TV(i) and m_s / 4, kept for comparison with the paper;
    see E16 and `dimension_upper`.
    """
    distances, _ = _checked(leakage, n_sensitive)
    return n_sensitive + min(float(distances.sum()), n_sensitive / 4)


def improvement_factor(leakage: ArrayLike, *, n_sensitive: int) -> float:
    """Return by how much the convex bound shrinks against plain DP-SGD.

    The square root of m over `noise_dimension`: at least 1, at most the sqrt(m / m_s)
    of the introduction, equal to it in order when sum TV(i) is (Corollary 3.10).
    """
    _, columns = _checked(leakage, n_sensitive)
    return math.sqrt(columns / noise_dimension(leakage, n_sensitive=n_sensitive))


def network_dimension(
    *, n_parameters: int, n_columns: int, n_sensitive: int, first_layer_width: int
) -> int:
    """Return the dimension of a fully connected network, m_theta - (m - m_s) d_0.

    Section 3.1, when sum TV(i) is of order m_s: rows of the first layer that read
    insensitive columns no longer count. Their own noise, d_0 times the sum of
    max(TV(i), m_s^2 / m^2), is then of the order of the d_0 m_s that do count.
    """
    columns = check_count("n_columns", n_columns)
    sensitive = check_count("n_sensitive", n_sensitive)
    width = check_count("first_layer_width", first_layer_width)
    if sensitive > columns:
        raise CorrDPError(
            f"n_sensitive={sensitive} must not exceed n_columns={columns}. "
            "Count sensitive columns among all columns."
        )
    parameters = check_count(
        "n_parameters",
        n_parameters,
        lower=columns * width,
        remedy="The first layer alone has n_columns * first_layer_width weights.",
    )
    return parameters - (columns - sensitive) * width


def network_improvement_factor(
    *, n_parameters: int, n_columns: int, n_sensitive: int, first_layer_width: int
) -> float:
    """Return the square root of m_theta over `network_dimension` (Section 3.1)."""
    reduced = network_dimension(
        n_parameters=n_parameters,
        n_columns=n_columns,
        n_sensitive=n_sensitive,
        first_layer_width=first_layer_width,
    )
    return math.sqrt(n_parameters / reduced)


def _checked(leakage: ArrayLike, n_sensitive: int) -> tuple[FloatArray, int]:
    """Return the distances and the number of columns."""
    distances = check_distances(leakage)
    return distances, check_count("n_sensitive", n_sensitive) + distances.size


@dataclass(frozen=True, kw_only=True)
class UtilityBound:
    """Loss of utility under the noise of Eq. (4), and how to run to get it."""

    upper: float  # of `measure`, in units of the loss (or its squared gradient)
    rate: float  # the paper's, constants and powers of log n left out
    n_steps: int  # T
    initial_step_size: float  # alpha_1
    decaying: bool  # falls the step size like 1 / sqrt(t)?
    measure: str  # what is bounded
    theorem: str  # where the paper states it

    def step_size(self, step: int) -> float:
        """Return alpha_t for step t = 1, 2, ..."""
        step = check_count("step", step)
        return self.initial_step_size / (math.sqrt(step) if self.decaying else 1.0)


def convex_utility_upper(
    leakage: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    lipschitz: float,
    parameter_radius: float,
    n_rows: int,
    n_sensitive: int,
    n_steps: int | None = None,
) -> UtilityBound:
    r"""Return the bound of Theorem 3.9: convex loss, last iterate.

    :math:`5 D G (2 + \log T) / \sqrt{T}` with :math:`G^2 = L^2 + \sum_i \sigma_i^2`
    and steps :math:`D / (G \sqrt{t})`, coefficients projected on the ball of radius D.
    `leakage` has TV(i) of the insensitive columns only; T is n^2, as in the theorem,
    unless `n_steps` is given.

    Notes
    -----
    Theorem 2 of Shamir and Zhang (2013) is stated for the diameter of the domain,
    here 2 D: hence 5 and not 2. The rate uses the sum of E16, not the printed ``min``.
    """
    rows = check_count("n_rows", n_rows)
    steps = check_count("n_steps", rows**2 if n_steps is None else n_steps)
    radius = check_positive("parameter_radius", parameter_radius)
    lipschitz = check_positive("lipschitz", lipschitz)
    noise = _Noise(leakage, n_sensitive, epsilon, delta, lipschitz, rows)
    size = math.sqrt(lipschitz**2 + noise.total_variance(steps))  # G
    dimension = dimension_upper(leakage, n_sensitive=n_sensitive)
    return UtilityBound(
        upper=5 * radius * size * (2 + math.log(steps)) / math.sqrt(steps),
        rate=math.sqrt(dimension * -math.log(delta)) / (rows * epsilon),
        n_steps=steps,
        initial_step_size=radius / size,
        decaying=True,
        measure="expected excess empirical risk",
        theorem="3.9",
    )


def pl_utility_upper(
    leakage: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smoothness: float,
    pl_constant: float,
    initial_gap: float,
    n_rows: int,
    n_sensitive: int,
) -> UtilityBound:
    r"""Return the bound of Corollary C.1 under the Polyak-Lojasiewicz condition.

    :math:`q^T R_1 + \frac{\sum_i \sigma_i^2}{2 G} \frac{1 - q^T}{1 - q}`,
    :math:`q = 1 - \mu/G`, after
    :math:`T = \lceil (G/\mu) \log(n^2 \epsilon^2 / (d \log(1/\delta))) \rceil` steps of
    size 1/G, d being `noise_dimension`; mu is at most G.

    Notes
    -----
    The paper sums the noise T times where the geometric series is smaller, and hides
    G/mu in its choice of T. It also forgets the projection: the bound assumes that
    iterates stay inside the parameter ball.
    """
    smoothness = check_positive("smoothness", smoothness)
    pl_constant = check_real(
        "pl_constant", pl_constant, lower=0.0, upper=smoothness, open_lower=True
    )
    gap = check_real("initial_gap", initial_gap, lower=0.0)
    rows = check_count("n_rows", n_rows)
    noise = _Noise(leakage, n_sensitive, epsilon, delta, lipschitz, rows)
    rate = noise.squared_rate
    steps = max(1, math.ceil(smoothness / pl_constant * -math.log(rate)))
    total = noise.total_variance(steps)
    shrink = (1 - pl_constant / smoothness) ** steps  # q^T
    return UtilityBound(
        upper=shrink * gap + total * (1 - shrink) / (2 * pl_constant),
        rate=rate,
        n_steps=steps,
        initial_step_size=1 / smoothness,
        decaying=False,
        measure="expected excess empirical risk",
        theorem="C.1, first part",
    )


def nonconvex_utility_upper(
    leakage: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smoothness: float,
    initial_gap: float,
    n_rows: int,
    n_sensitive: int,
) -> UtilityBound:
    r"""Return the bound of Corollary C.1 for general smooth losses.

    :math:`2 G R_1 / T + \sum_i \sigma_i^2` on the squared gradient norm at a step drawn
    at random among :math:`T = \lceil n \epsilon / \sqrt{d \log(1/\delta)} \rceil` steps
    of size 1/G, d being `noise_dimension`. As in `pl_utility_upper`, iterates are
    assumed to stay inside the parameter ball.
    """
    smoothness = check_positive("smoothness", smoothness)
    gap = check_real("initial_gap", initial_gap, lower=0.0)
    rows = check_count("n_rows", n_rows)
    noise = _Noise(leakage, n_sensitive, epsilon, delta, lipschitz, rows)
    rate = math.sqrt(noise.squared_rate)
    steps = max(1, math.ceil(1 / rate))
    return UtilityBound(
        upper=2 * smoothness * gap / steps + noise.total_variance(steps),
        rate=rate,
        n_steps=steps,
        initial_step_size=1 / smoothness,
        decaying=False,
        measure="expected squared gradient norm",
        theorem="C.1, second part",
    )


def network_utility_rate(
    *,
    epsilon: float,
    n_rows: int,
    n_parameters: int,
    n_columns: int,
    n_sensitive: int,
    first_layer_width: int,
) -> float:
    """Return the rate sqrt(m_theta - (m - m_s) d_0) / (n epsilon) of Section 3.1.

    Constants and logarithms are left out. It instantiates Theorem 3.9, which is about
    convex losses; a network's is not, so read it as the growth of the noise.
    """
    dimension = network_dimension(
        n_parameters=n_parameters,
        n_columns=n_columns,
        n_sensitive=n_sensitive,
        first_layer_width=first_layer_width,
    )
    return math.sqrt(dimension) / (
        check_count("n_rows", n_rows) * check_epsilon(epsilon)
    )


class _Noise(NamedTuple):
    """The noise of Eq. (4), by what its total variance is in units of a column's."""

    leakage: ArrayLike
    n_sensitive: int
    epsilon: float
    delta: float
    lipschitz: float
    n_rows: int

    @property
    def squared_rate(self) -> float:
        """The dimension times log(1/delta) / (n epsilon)^2."""
        dimension = noise_dimension(self.leakage, n_sensitive=self.n_sensitive)
        log_inverse_delta = -math.log(check_delta(self.delta))
        scale = self.n_rows * check_epsilon(self.epsilon)
        return dimension * log_inverse_delta / scale**2

    def total_variance(self, n_steps: int) -> float:
        """Return the sum over columns of the variances."""
        dimension = noise_dimension(self.leakage, n_sensitive=self.n_sensitive)
        factor = 1 - math.log(check_delta(self.delta))
        factor /= check_epsilon(self.epsilon) ** 2
        squared = check_positive("lipschitz", self.lipschitz) ** 2
        return factor * squared * n_steps / self.n_rows**2 * dimension


def utility_lower_rate(
    leakage: ArrayLike, *, epsilon: float, n_rows: int, n_sensitive: int
) -> float:
    r"""Return the rate of Theorem 3.12, below which no CorrDP algorithm gets.

    :math:`\min\{1, \sqrt{m_s + \max_k k (TV^{(k)})^2} / (n \epsilon)\}`, with TV of the
    insensitive columns in descending order.

    Not called tight: the proof pads m_s - k* coordinates where m - m_s - k* are
    meant, loses a factor 1/n, and changes several columns under a distance that
    allows one (E25). Constants are unstated; delta is assumed to be o(1/n).
    """
    descending = np.sort(check_distances(leakage))[::-1]
    ranks = np.arange(1, descending.size + 1)
    hardest = float((ranks * descending**2).max(initial=0.0))
    sensitive = check_count("n_sensitive", n_sensitive)
    rows = check_count("n_rows", n_rows)
    return min(1.0, math.sqrt(sensitive + hardest) / (rows * check_epsilon(epsilon)))

"""Constants of Assumptions 4.1 and 4.2 for each example of Appendix D.

All are asymptotic and certify nothing: the smallest probability is unknown, and the
numbers of rows in groups are random (E14). Several sensitive columns as in Appendix
D.2: their cells multiply.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from corrdp._validate import check_count, check_delta
from corrdp.theory._checks import check_positive, check_probability


@dataclass(frozen=True, kw_only=True)
class EstimationConstants:
    """What the paper says of one estimator of the leakage."""

    error_constant: float  # c_2 of Assumption 4.1
    stability_constant: float  # c_3 of Assumption 4.2
    rate_exponent: float  # gamma of Assumption 4.1
    example: str  # its number

    def minimum_rows(self, *, order: float, n_insensitive: int, delta: float) -> int:
        r"""Return the fewest rows that the proof of Theorem 4.4 asks for.

        :math:`n^{2(1-\gamma)} \ge \lambda^2 c_3^2 / (c_2^2 \log((m - m_s)/\delta))`,
        with order lambda of the moment and m - m_s insensitive columns; at least 1.
        """
        order = check_positive("order", order)
        columns = check_count("n_insensitive", n_insensitive)
        log_union = math.log(columns) - math.log(check_delta(delta))
        ratio = order * self.stability_constant / self.error_constant
        root = ratio / math.sqrt(log_union)
        return max(1, math.ceil(math.pow(root, 1 / (1 - self.rate_exponent))))


def discrete_estimation_constants(
    *,
    n_sensitive_categories: int | Sequence[int],
    n_insensitive_categories: int,
    smallest_probability: float,
) -> EstimationConstants:
    r"""Return the constants of Example D.1: both columns discrete.

    :math:`c_2 = \sqrt{\log(K_S K_U)/p_{\min}}`, :math:`c_3 = 1/p_{\min}`,
    :math:`\gamma = 1/2`, with the smallest cell probability of the joint distribution.

    Guarantee
    ---------
    Asymptotic: the proof's sum over K_S cells is lost in c_2 (E15) and
    `smallest_probability` is unknown, so c_3 certifies nothing (E14). Note:
    `docs/theory/paper_bounds.md`.
    """
    log_cells = _log_cells(n_sensitive_categories, n_insensitive_categories)
    smallest = check_probability("smallest_probability", smallest_probability)
    return EstimationConstants(
        error_constant=math.sqrt(log_cells / smallest),
        stability_constant=1 / smallest,
        rate_exponent=0.5,
        example="D.1",
    )


def histogram_estimation_constants(
    *,
    n_bins: int | Sequence[int],
    n_insensitive_categories: int,
    smallest_probability: float,
    bound: float,
) -> EstimationConstants:
    r"""Return the constants of Example D.2: histogram of numeric sensitive columns.

    :math:`c_2 = B \sqrt{\log(K_S K_U)/\min_j p_j}`, :math:`c_3 = B/\min_j p_j`,
    :math:`\gamma = 1/(m_s + 2)`. Bins are those of every sensitive column, the smallest
    probability is one of insensitive categories, B bounds the sensitive columns.

    Guarantee
    ---------
    Asymptotic: total variation has no unit but these constants carry that of `bound`
    (E15). Note: `docs/theory/paper_bounds.md`.
    """
    n_sensitive = 1 if isinstance(n_bins, int) else len(n_bins)
    log_cells = _log_cells(n_bins, n_insensitive_categories, name="n_bins")
    smallest = check_probability("smallest_probability", smallest_probability)
    bound = check_positive("bound", bound)
    return EstimationConstants(
        error_constant=bound * math.sqrt(log_cells / smallest),
        stability_constant=bound / smallest,
        rate_exponent=1 / (n_sensitive + 2),
        example="D.2",
    )


def histogram_bin_width(*, n_rows: int, n_sensitive: int = 1) -> float:
    """Return the bin width n^(-1 / (m_s + 2)) of Appendix D, up to a constant.

    In units of the sensitive range.
    """
    columns = check_count("n_sensitive", n_sensitive)
    return float(check_count("n_rows", n_rows) ** (-1 / (columns + 2)))


def gaussian_estimation_constants(
    *, conditional_scale: float, n_rows: int, constant: float = 1.0
) -> EstimationConstants:
    r"""Return the constants of Example D.3: jointly Gaussian columns.

    :math:`c_2 = C \sqrt{\log n}/\eta`, :math:`c_3 = C/\eta`, :math:`\gamma = 1/2` for
    two rows or more; unchanged for several sensitive columns. C is the paper's "some
    constant C", for which no value is printed.

    Guarantee
    ---------
    Asymptotic: the constant is unstated and the stability claim needs bounded columns
    (E14, E24). Note: `docs/theory/paper_bounds.md`.
    """
    scale = check_positive("conditional_scale", conditional_scale)
    constant = check_positive("constant", constant)
    rows = check_count("n_rows", n_rows, lower=2)
    return EstimationConstants(
        error_constant=constant * math.sqrt(math.log(rows)) / scale,
        stability_constant=constant / scale,
        rate_exponent=0.5,
        example="D.3",
    )


def _log_cells(
    sensitive: int | Sequence[int],
    n_insensitive_categories: int,
    *,
    name: str = "n_sensitive_categories",
) -> float:
    """Return the logarithm of the number of joint cells, at least two of them."""
    counts = [sensitive] if isinstance(sensitive, int) else list(sensitive)
    check_count(f"number of entries in {name}", len(counts))
    total = sum(math.log(check_count(name, count, lower=2)) for count in counts)
    return total + math.log(
        check_count("n_insensitive_categories", n_insensitive_categories)
    )

"""The cost of noise whose variance depends on the data (Lemma A.9)."""

import math

from corrdp.exceptions import GuaranteeVoidError
from corrdp.theory._checks import check_positive


def variability_loss(
    variance: float, *, neighbor_variance: float, order: float
) -> float:
    r"""Return the part of the log-moment that unequal variances cause.

    Parameters
    ----------
    variance : float
        u, the variance on one database.
    neighbor_variance : float
        v, the variance on its neighbor.
    order : float
        lambda > 0.

    Returns
    -------
    loss : float
        :math:`(\lambda + 1) \log u - \lambda \log v - \log((\lambda + 1) u -
        \lambda v)`, which is twice the log-moment of one coordinate; infinite when the
        last argument is not positive (E17).

    Guarantee
    ---------
    Exact. Note: `docs/theory/paper_bounds.md`.
    """
    here = check_positive("variance", variance)
    there = check_positive("neighbor_variance", neighbor_variance)
    order = check_positive("order", order)
    change = (there - here) / here
    if order * change >= 1.0:
        return math.inf
    # Written with u factored out: the three logarithms cancel badly near u = v.
    return -order * math.log1p(change) - math.log1p(-order * change)


def variability_loss_upper(
    variance: float, *, stability_constant: float, n_rows: int, order: float
) -> float:
    r"""Return the bound of Lemma A.9 on `variability_loss`.

    Parameters
    ----------
    variance : float
        u > 0.
    stability_constant : float
        C such that neighbors' variances differ by at most C / n.
    n_rows : int
        n, at least 10 C max(lambda, 1) / u.
    order : float
        lambda > 0.

    Returns
    -------
    loss_upper : float
        :math:`2 \lambda (\lambda + 1) C^2 / (3 n^2 u^2)`.

    Guarantee
    ---------
    Holds for every neighbor variance within C / n of `variance`; raises
    `GuaranteeVoidError` when there are too few rows for the proof. Note:
    `docs/theory/paper_bounds.md`.
    """
    here = check_positive("variance", variance)
    constant = check_positive("stability_constant", stability_constant)
    order = check_positive("order", order)
    needed = 10 * constant * max(order, 1.0) / here
    if n_rows < needed:
        raise GuaranteeVoidError(
            f"Lemma A.9 needs n_rows of at least {needed:.6g}, got n_rows={n_rows!r}. "
            "Use variability_loss, which is exact for given variances."
        )
    return 2 * order * (order + 1) / 3 * (constant / (n_rows * here)) ** 2

"""How CorrDP guarantees combine: Proposition B.4, Lemma A.1, and what is missing.

Lemma A.9, last, is the cost of noise whose variance depends on the data.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from corrdp._validate import check_delta, check_epsilon, check_real
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.theory._checks import check_positive, check_probability


@dataclass(frozen=True, kw_only=True)
class CorrDPGuarantee:
    """An (epsilon, delta)-CorrDP statement, as in Definition 2.2.

    Neighbors at distance d are (epsilon / d, delta)-indistinguishable; at delta 1
    nothing is promised.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_real("delta", self.delta, lower=0.0, upper=1.0)

    def epsilon_at(self, distance: float) -> float:
        """Return epsilon / d, the epsilon between neighbors at distance d."""
        return self.epsilon / check_probability("distance", distance)


def post_processed(guarantee: CorrDPGuarantee) -> CorrDPGuarantee:
    """Return the guarantee of any function of a release: the same one.

    Guarantee
    ---------
    Proposition B.4, first part, deterministic and randomized functions alike: proof in
    `docs/theory/paper_bounds.md`.
    """
    return guarantee


def composed(guarantees: Iterable[CorrDPGuarantee]) -> CorrDPGuarantee:
    """Return the guarantee of several releases about the same rows: epsilons add.

    All of them are for the same sensitive columns and the same distance.

    Guarantee
    ---------
    Proposition B.4, second part (basic composition at every distance). The paper says
    "independent mechanisms": their noise must be, their choice need not be. Note:
    `docs/theory/paper_bounds.md`.
    """
    parts = list(guarantees)
    if not parts:
        raise CorrDPError(
            "guarantees must hold at least one entry, got 0. Pass every release made."
        )
    return CorrDPGuarantee(
        epsilon=math.fsum(part.epsilon for part in parts),
        delta=min(1.0, math.fsum(part.delta for part in parts)),
    )


def high_probability_composed(
    guarantee: CorrDPGuarantee, *, failure_probability: float
) -> CorrDPGuarantee:
    """Return the guarantee of a mechanism that may fail to be private.

    (epsilon, delta_1 + delta_2), with what holds outside the failure event and its
    probability delta_2 in [0, 1) over the mechanism's own coins.

    Guarantee
    ---------
    Lemma A.1, if the failure event is decided by coins that do not depend on the
    rows. The paper also allows randomness of the data, for which the proof's two
    conditional probabilities are about different events (E14). Note:
    `docs/theory/paper_bounds.md`.
    """
    failure = check_delta(
        failure_probability, name="failure_probability", allow_zero=True
    )
    return CorrDPGuarantee(
        epsilon=guarantee.epsilon, delta=min(1.0, guarantee.delta + failure)
    )


def subsampled(
    guarantee: CorrDPGuarantee, *, distance_is_preserved: bool
) -> CorrDPGuarantee:
    """Return the guarantee of a mechanism run on a subsample: the same one.

    The stability condition is that the distance between subsampled databases equals
    that between the full ones, almost surely: true when distances are declared or come
    from other rows, false when leakage is estimated on the subsample.

    Guarantee
    ---------
    Proposition B.4, third part. Raises `GuaranteeVoidError` without the stability
    condition. Amplification is another matter: `corrdp.theory.amplified_epsilon`.
    Note: `docs/theory/paper_bounds.md`.
    """
    if not distance_is_preserved:
        raise GuaranteeVoidError(
            "Subsampling keeps the guarantee only under the stability condition, got "
            f"distance_is_preserved={distance_is_preserved!r}. Fix the leakage before "
            "sampling, on other rows or by declaration."
        )
    return guarantee


def whole_record(guarantee: CorrDPGuarantee, *, distance: float) -> CorrDPGuarantee:
    """Return what CorrDP implies when sensitive and insensitive columns both change.

    Ordinary DP (distance 1) with epsilon + epsilon / d and delta * (1 + e^epsilon), for
    an insensitive change at distance d. Remark 2.4 says that the constraint "becomes
    exactly DP"; what follows by going through the record with only its sensitive
    columns changed is weaker (E12).

    Guarantee
    ---------
    Group privacy over two steps; epsilon cannot be improved in general. Note:
    `docs/theory/paper_bounds.md`.
    """
    return CorrDPGuarantee(
        epsilon=guarantee.epsilon + guarantee.epsilon_at(distance),
        # Large epsilons would overflow exp; delta is 1 long before.
        delta=min(1.0, guarantee.delta * (1 + math.exp(min(guarantee.epsilon, 700)))),
    )


def variability_loss(
    variance: float, *, neighbor_variance: float, order: float
) -> float:
    r"""Return the part of the log-moment that unequal variances cause.

    With variance u on one database and v on its neighbor it is
    :math:`(\lambda + 1) \log u - \lambda \log v - \log((\lambda + 1) u - \lambda v)`,
    twice the log-moment of one coordinate; infinite when the last argument is not
    positive (E17).

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

    :math:`2 \lambda (\lambda + 1) C^2 / (3 n^2 u^2)`, for variances of neighbors that
    differ by at most C / n, and n at least 10 C max(lambda, 1) / u.

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

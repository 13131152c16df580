r"""Amplification by sampling: what Lemma A.5 claims and what is true.

A sampled mechanism mixes three distributions: outputs without the record, P_0, with
it, P_1, and with its neighbor, P_1'. CorrDP bounds the ratio of P_1 to P_1' alone.
"""

import math
from dataclasses import dataclass

import numpy as np

from corrdp._validate import check_epsilon, check_real
from corrdp.theory._checks import check_probability


@dataclass(frozen=True, kw_only=True)
class AmplificationClaim:
    """Lemma A.5 beside the truth, for one distance."""

    claimed_epsilon: float  # zeta * epsilon / d, which the lemma promises
    true_epsilon: float  # the smallest that covers every mechanism of the kind

    @property
    def holds(self) -> bool:
        """Whether the lemma's claim is large enough."""
        return self.claimed_epsilon >= self.true_epsilon


def amplified_epsilon(
    *, class_epsilon: float, presence_epsilon: float, sampling_rate: float
) -> float:
    r"""Return the epsilon between neighbors of a mechanism run on a sample.

    :math:`\log \frac{1 - \zeta + \zeta e^a}{1 - \zeta + \zeta e^{a - b}}` with
    :math:`b \le 2 a`. At a = b it is the :math:`\log(1 + \zeta (e^b - 1))` of Balle,
    Barthe and Gaboardi (2018).

    Parameters
    ----------
    class_epsilon : float
        b, bound on the log-ratio of P_1 to P_1': epsilon / d under CorrDP.
    presence_epsilon : float
        a, bound on the log-ratios of P_1 and of P_1' to P_0. CorrDP does not imply
        one. Infinity means no bound, and then sampling does not help.
    sampling_rate : float
        zeta in (0, 1], of independent (Poisson) sampling.

    Guarantee
    ---------
    Exact for pure DP: holds for every such mechanism and is attained by one. Proof:
    `docs/theory/paper_bounds.md`.

    Examples
    --------
    >>> round(amplified_epsilon(
    ...     class_epsilon=10.0, presence_epsilon=10.0, sampling_rate=0.01), 2)
    5.4
    """
    rate = check_probability("sampling_rate", sampling_rate)
    presence = check_real(
        "presence_epsilon",
        presence_epsilon,
        lower=0.0,
        open_lower=True,
        allow_infinite=True,
    )
    between = min(check_epsilon(class_epsilon, name="class_epsilon"), 2 * presence)
    if rate == 1.0 or math.isinf(presence):
        return between
    absent, present = math.log1p(-rate), math.log(rate)
    return float(
        np.logaddexp(absent, present + presence)
        - np.logaddexp(absent, present + presence - between)
    )


def amplification_claim(
    *,
    epsilon: float,
    distance: float,
    sampling_rate: float,
    presence_epsilon: float | None = None,
) -> AmplificationClaim:
    r"""Return the claim of Lemma A.5, flagged: true only if nothing is sampled away.

    The lemma replaces epsilon by epsilon / d in a theorem that reads
    :math:`\log(1 + \zeta (e^\epsilon - 1))` and keeps only its first-order term, which
    is too small at every epsilon and absurd at large epsilon / d (E8). Without a
    `presence_epsilon` it is epsilon / d, what the cited theorem would assume.

    Guarantee
    ---------
    Only `true_epsilon` may be relied on. Note: `docs/theory/paper_bounds.md`.
    """
    between = check_epsilon(epsilon) / check_probability("distance", distance)
    return AmplificationClaim(
        claimed_epsilon=check_probability("sampling_rate", sampling_rate) * between,
        true_epsilon=amplified_epsilon(
            class_epsilon=between,
            presence_epsilon=between if presence_epsilon is None else presence_epsilon,
            sampling_rate=sampling_rate,
        ),
    )

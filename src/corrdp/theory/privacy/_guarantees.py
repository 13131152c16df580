"""How CorrDP guarantees combine: Proposition B.4, Lemma A.1, and what is missing."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from corrdp._validate import check_delta, check_epsilon, check_real
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.theory._checks import check_probability


@dataclass(frozen=True, kw_only=True)
class CorrDPGuarantee:
    """An (epsilon, delta)-CorrDP statement, as in Definition 2.2.

    Attributes
    ----------
    epsilon : float
        Neighbors at distance d are (epsilon / d, delta)-indistinguishable.
    delta : float
        In [0, 1]; at 1 nothing is promised.
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

    Parameters
    ----------
    guarantee : CorrDPGuarantee
        Of the release.

    Returns
    -------
    guarantee : CorrDPGuarantee
        Unchanged.

    Guarantee
    ---------
    Proposition B.4, first part, deterministic and randomized functions alike: proof in
    `docs/theory/paper_bounds.md`.
    """
    return guarantee


def composed(guarantees: Iterable[CorrDPGuarantee]) -> CorrDPGuarantee:
    """Return the guarantee of several releases about the same rows.

    Parameters
    ----------
    guarantees : iterable of CorrDPGuarantee
        At least one, all for the same sensitive columns and the same distance.

    Returns
    -------
    guarantee : CorrDPGuarantee
        Sums of epsilons and deltas.

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

    Parameters
    ----------
    guarantee : CorrDPGuarantee
        What holds outside the failure event, (epsilon, delta_1).
    failure_probability : float
        delta_2 in [0, 1), over the mechanism's own coins.

    Returns
    -------
    guarantee : CorrDPGuarantee
        (epsilon, delta_1 + delta_2).

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

    Parameters
    ----------
    guarantee : CorrDPGuarantee
        Of the mechanism, for the distance between subsampled databases.
    distance_is_preserved : bool
        The stability condition: that distance equals the distance between the full
        databases, almost surely. True when distances are declared or come from other
        rows; false when leakage is estimated on the subsample.

    Returns
    -------
    guarantee : CorrDPGuarantee
        Unchanged: no amplification.

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

    Remark 2.4 says that the constraint "becomes exactly DP"; what follows by going
    through the record with only its sensitive columns changed is weaker (E12).

    Parameters
    ----------
    guarantee : CorrDPGuarantee
        Of the mechanism.
    distance : float
        d in (0, 1] of the insensitive change.

    Returns
    -------
    guarantee : CorrDPGuarantee
        Ordinary DP (distance 1) with epsilon + epsilon / d and
        delta * (1 + e^epsilon).

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

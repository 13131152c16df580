"""Methods: what a model protects, as a policy; and where its leakage comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from corrdp.certificate import Calibration, Component, LeakageClaim
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import ColumnRole, NeighborRelation, Policy


class Method(StrEnum):
    """What is protected, from the most to the least.

    ``standard`` protects every feature alike (ordinary DP); ``corr`` protects
    insensitive features by what they leak; ``semi`` protects sensitive features only;
    ``partial`` leaves sensitive features out and ``nonprivate`` protects nothing.
    """

    STANDARD = "standard"
    CORR = "corr"
    SEMI = "semi"
    PARTIAL = "partial"
    NONPRIVATE = "nonprivate"

    @property
    def is_private(self) -> bool:
        """Whether anything about the rows it reads is protected."""
        return self not in (Method.PARTIAL, Method.NONPRIVATE)


_TABLE = ("assumptions", "claim", "components", "distances", "require_policy")


@dataclass(frozen=True, eq=False)
class LeakageInput:
    """Leakage in the form that plans and certificates take.

    Parameters
    ----------
    claim : LeakageClaim
        Values and where they came from.
    distances : mapping of str to float, or float, optional
        As `neighbor_classes` takes them; None for the policy's own.
    spent : tuple of Component
        What estimating it on the same rows has cost, priced for the policy that is
        kept.
    assumptions : tuple of str
        What the leakage rests on.
    replayable_noise : bool
        Whether it was released with a fixed seed.
    """

    claim: LeakageClaim
    distances: Mapping[str, float] | float | None
    spent: tuple[Component, ...] = ()
    assumptions: tuple[str, ...] = ()
    replayable_noise: bool = False


def protected_policy(policy: Policy, method: Method) -> Policy:
    """Return the policy that a method keeps.

    Guarantee
    ---------
    ``standard``: a change of any set of features is a sensitive one, so what is
    proved is ordinary replace-one DP. ``semi``: insensitive features count as public
    and nothing is promised about them (`docs/theory/neighbors.md`).
    """
    role = {Method.STANDARD: ColumnRole.SENSITIVE, Method.SEMI: ColumnRole.PUBLIC}
    if method not in role:
        return policy
    return replace(
        policy,
        features=tuple(
            replace(feature, role=role[method], leakage=None, score=0.0)
            if feature.role is ColumnRole.INSENSITIVE
            else feature
            for feature in policy.features
        ),
        block_leakage=None,
    )


def policy_read(policy: Policy, leakage: Any) -> Policy:
    """Return the policy that rows are read by: thin levels joined as the table says.

    Guarantee
    ---------
    What a leakage table counts as one level is one level in everything that is
    computed with its distances (`docs/theory/leakage.md`, 2.2).
    """
    if hasattr(leakage, "policy_for"):
        joined: Policy = leakage.policy_for(policy)
        return joined
    return policy


def partial_policy(policy: Policy) -> Policy:
    """Return the policy without its sensitive features."""
    kept = tuple(f for f in policy.features if f.role is not ColumnRole.SENSITIVE)
    if not kept:
        raise PolicyError(
            "method='partial' leaves the sensitive features out, and the policy has no "
            "others. Choose another method."
        )
    return replace(policy, features=kept)


def resolve_leakage(
    policy: Policy, leakage: Any, *, declared: Policy, calibration: Calibration
) -> LeakageInput:
    """Return the leakage to use: declared, a mapping, a number, or a table.

    Parameters
    ----------
    policy : Policy
        The policy that is kept.
    leakage : None, mapping, float, or table
        A table has ``distances()``, ``claim()`` and ``components``.
    declared : Policy
        The policy as it was declared, for which a table must have been computed.
    calibration : Calibration
        Which of a table's values are used.
    """
    if leakage is None:
        return LeakageInput(LeakageClaim.declared(policy), None)
    if isinstance(leakage, Mapping | int | float):
        if not policy.insensitive:
            return LeakageInput(LeakageClaim.declared(policy), None)
        if isinstance(leakage, Mapping):
            return LeakageInput(LeakageClaim("declared", dict(leakage)), leakage)
        claim = LeakageClaim("declared", {"block": float(leakage)})
        return LeakageInput(claim, float(leakage))
    if not all(hasattr(leakage, name) for name in _TABLE):
        raise CorrDPError(
            f"leakage must be None, a mapping from feature to leakage, a number for "
            f"the block, or a leakage table, got {type(leakage).__name__}. "
            "Estimate it, or declare it in the policy."
        )
    _refuse_other_relation(declared, leakage)
    leakage.require_policy(declared)
    kept = bool(policy.insensitive)
    return LeakageInput(
        claim=leakage.claim(calibration, policy=declared)
        if kept
        else LeakageClaim.declared(policy),
        distances=leakage.distances(calibration, policy=declared) if kept else None,
        spent=tuple(part.restated(policy) for part in leakage.components),
        assumptions=tuple(leakage.assumptions) if kept else (),
        replayable_noise=leakage.replayable_noise,
    )


def _refuse_other_relation(policy: Policy, leakage: Any) -> None:
    if NeighborRelation(leakage.relation) is not policy.relation:
        raise PolicyError(
            f"the leakage table was computed for relation={str(leakage.relation)!r}, "
            f"the policy has relation={policy.relation.value!r}. Estimate it again "
            "under the policy's relation."
        )

"""What a leakage argument means: the claim, the distances and what it has cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corrdp.certificate import Calibration, Component, LeakageClaim
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.leakage._margins import LevelSizes
from corrdp.leakage._targets import leakage_targets
from corrdp.policy import NeighborRelation, Policy

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
    margins : mapping of str to LevelSizes
        Rows per level that `spent` has paid for, of the levels as they are read.
    """

    claim: LeakageClaim
    distances: Mapping[str, float] | float | None
    spent: tuple[Component, ...] = ()
    assumptions: tuple[str, ...] = ()
    replayable_noise: bool = False
    margins: Mapping[str, LevelSizes] = field(default_factory=dict)


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


def declared_or_one(policy: Policy) -> dict[str, float]:
    """Return known leakages, and 1 where none is known."""
    known = LeakageClaim.declared(policy).values
    return {name: known.get(name, 1.0) for name in leakage_targets(policy)}


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
        distances = leakage if isinstance(leakage, Mapping) else float(leakage)
        return LeakageInput(LeakageClaim.declared(policy, distances), distances)
    if not all(hasattr(leakage, name) for name in _TABLE):
        raise CorrDPError(
            f"leakage must be None, a mapping from feature to leakage, a number for "
            f"the block, or a leakage table, got {type(leakage).__name__}. "
            "Estimate it, or declare it in the policy."
        )
    if NeighborRelation(leakage.relation) is not declared.relation:
        raise PolicyError(
            f"the leakage table was computed for relation={str(leakage.relation)!r}, "
            f"the policy has relation={declared.relation.value!r}. Estimate it again "
            "under the policy's relation."
        )
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
        margins=leakage.margins_as_read(declared)
        if hasattr(leakage, "margins_as_read")
        else {},
    )

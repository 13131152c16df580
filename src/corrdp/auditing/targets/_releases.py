"""Challenges for one-shot releases: column means, vectors with discrete noise."""

from collections.abc import Mapping, Sequence

import numpy as np

from corrdp._typing import FloatArray
from corrdp.accounting import NoisePlan
from corrdp.auditing._challenge import Challenge
from corrdp.auditing.statistics import Claim, LikelihoodAttack, LinearAttack
from corrdp.auditing.statistics._attacks import gaussian_score
from corrdp.auditing.targets._neighbors import craft_pair
from corrdp.mechanisms.noise import (
    NoiseKind,
    VectorPlan,
    discrete_gaussian,
    discrete_laplace,
    round_to_grid,
)
from corrdp.policy import Block, NeighborClass


def column_sum_challenges(
    plan: NoisePlan,
    blocks: Sequence[Block],
    classes: Sequence[NeighborClass],
    *,
    claims: Mapping[str, Claim] | None = None,
    name: str = "column sums",
    random_state: int = 0,
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge a noisy release of the sums of encoded columns, class by class.

    Parameters
    ----------
    plan : NoisePlan
        Noise per block.
    blocks : sequence of Block
        Blocks of the encoder.
    classes : sequence of NeighborClass
        Classes to attack.
    claims : mapping of str to Claim, optional
        What is stated per class; what the plan states by default.
    name : str
        Name of the mechanism in the report.
    random_state : int
        Seed of the search for neighbors.

    Guarantee
    ---------
    Neighbors of the class they are named for, whatever the plan says
    (`docs/theory/audit.md`).
    """
    widths = [block.stop - block.start for block in blocks]
    noise_scale = np.repeat(plan.noise_scale, widths)
    # a coordinate without noise must not hide how far it moves
    unit = np.where(noise_scale > 0.0, noise_scale, 1e-3)

    def distance(
        first: FloatArray, _: FloatArray, second: FloatArray, __: FloatArray
    ) -> FloatArray:
        return np.asarray(np.linalg.norm((first - second) / unit, axis=1))

    def sample(total: FloatArray, n_runs: int, rng: np.random.Generator) -> FloatArray:
        return total + rng.standard_normal((n_runs, total.size)) * noise_scale

    rng = np.random.default_rng(random_state)
    challenges = []
    for neighbor in classes:
        pair = craft_pair(blocks, neighbor, distance, rng=rng)
        score = gaussian_score(pair.first, pair.second, noise_scale)
        challenges.append(
            Challenge(
                target=name,
                class_name=neighbor.name,
                claim=(claims or {}).get(neighbor.name)
                or plan_claim(plan, neighbor.name),
                first=pair.first,
                second=pair.second,
                sample=sample,
                attacks=(LikelihoodAttack(score), LinearAttack()),
            )
        )
    return tuple(challenges)


def plan_claim(plan: NoisePlan, class_name: str) -> Claim:
    """Return what a noise plan states for a class."""
    events = (plan.event(class_name),) if plan.covers(class_name) else None
    return Claim(events, plan.delta)


def vector_challenges(
    plan: VectorPlan,
    neighbors: Mapping[str, tuple[FloatArray, FloatArray]],
    *,
    grid: float,
    name: str = "vector",
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge a release with exact discrete noise.

    Parameters
    ----------
    plan : VectorPlan
        Noise and what it states per class.
    neighbors : mapping of str to pair of arrays
        True answers on two neighbors of each class to attack.
    grid : float
        Step of the release.
    name : str
        Name of the mechanism in the report.

    Guarantee
    ---------
    As the neighbors are given (`docs/theory/audit.md`): only a true pair of its class
    can contradict a claim.
    """
    draw = discrete_laplace if plan.kind is NoiseKind.LAPLACE else discrete_gaussian

    def sample(values: FloatArray, n_runs: int, rng: np.random.Generator) -> FloatArray:
        noise = [
            draw(scale, size=n_runs * group.size, generator=rng)
            if scale
            else np.zeros(n_runs * group.size, dtype=np.int64)
            for group, scale in zip(plan.movement.groups, plan.scales, strict=True)
        ]
        steps = np.hstack([part.reshape(n_runs, -1) for part in noise])
        return (round_to_grid(values, grid=grid) + steps).astype(np.float64) * grid

    events = plan.claimed_events()
    return tuple(
        Challenge(
            target=name,
            class_name=class_name,
            claim=Claim(events[class_name], plan.delta),
            first=np.asarray(first, dtype=np.float64),
            second=np.asarray(second, dtype=np.float64),
            sample=sample,
            n_runs=4000,
        )
        for class_name, (first, second) in neighbors.items()
    )

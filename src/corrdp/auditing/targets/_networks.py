"""Network estimators as challenges: the loop that trains them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Challenge, Deadline
from corrdp.auditing.statistics import Claim, claims_of
from corrdp.auditing.targets._besides_steps import reference_challenges
from corrdp.auditing.targets._descent import both_claims, runs_to_refute
from corrdp.auditing.targets._loop import (
    TrainingLoop,
    challenges_of_loop,
    label_values,
)
from corrdp.auditing.targets._steps import central_table
from corrdp.estimators import PrivateNetwork
from corrdp.policy import (
    NeighborClass,
    Policy,
    neighbor_classes,
    policy_blocks,
    require_policy,
)
from corrdp.training import central_reference, standardizing_scale

_MOST_RUNS = 20_000  # every one is a training


def network_loop(training: Any) -> TrainingLoop:
    """Return the loop of `network_training`, which codes as the estimators do."""
    blocks = policy_blocks(training.module.terms.policy)
    scale = standardizing_scale(blocks)
    return TrainingLoop(training, scale, np.zeros_like(scale))


def network_challenges(
    estimator: PrivateNetwork,
    *,
    n_rows: int,
    n_steps: int = 2,
    n_runs: int = 2000,
    nominal: Mapping[str, float] | None = None,
    random_state: int | None = 0,
    deadline: Deadline | None = None,
) -> tuple[Challenge[Any], ...]:
    """Challenge the loop that trains a network estimator, class by class.

    The estimator need not be fitted; training is planned for `n_rows`, and the budget
    divided among `n_steps`. Under ``theorem``, `nominal` is the epsilon that the
    formula of the paper is meant to give. Seed and deadline as in `descent_challenges`.

    Guarantee
    ---------
    Neighbors of the class they are named for, at parameters of the adversary's choice,
    which training is certified for (`docs/theory/audit.md`).
    """
    # Of the estimator's own seed noise would be the same in every audit.
    seeded_copy = type(estimator)(
        **estimator.get_params(deep=False) | {"random_state": random_state}
    )
    training, policy = network_training(seeded_copy, n_rows, n_steps=n_steps)
    claims = claims_of(training.module.certificate())

    def stated(class_name: str) -> Mapping[str, Claim]:
        if nominal is None:
            return {"": claims[class_name]}
        return both_claims(nominal, claims[class_name], class_name)

    classes = network_classes(estimator, policy)
    reference = training.module.plan.reference
    first: tuple[Challenge[Any], ...] = ()
    if reference is not None:
        first = reference_challenges(
            reference, classes, n_rows, random_state=random_state
        )
    return first + challenges_of_loop(
        network_loop(training),
        classes,
        stated,
        n_runs=max(n_runs, min(runs_to_refute(nominal or {}), _MOST_RUNS)),
        random_state=random_state,
        deadline=deadline,
    )


def network_training(
    estimator: PrivateNetwork,
    n_rows: int,
    *,
    n_steps: int | None = None,
    rows: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[Any, Policy]:
    """Return the private training of an estimator, and the policy that it keeps.

    On codes and labels that are given, or on central rows.
    """
    remedy = "Audit an estimator with the policy of its table."
    policy = require_policy(estimator.policy, remedy=remedy)
    blocks, labels = policy_blocks(policy), label_values(policy)
    codes, y = rows or central_table(blocks, labels, n_rows)
    training = estimator.private_training(
        (codes - central_reference(blocks)) * standardizing_scale(blocks),
        y,
        n_outputs=1 if labels[0] < 0 else len(labels),
        n_steps=n_steps,
    )
    return training, training.module.terms.policy


def network_classes(
    estimator: PrivateNetwork, policy: Policy
) -> tuple[NeighborClass, ...]:
    """Return the classes that the training of an estimator protects."""
    leakage = estimator.leakage if policy.insensitive else None
    if leakage is None or isinstance(leakage, Mapping | float | int):
        return neighbor_classes(policy, leakage)
    return neighbor_classes(policy, leakage.distances())

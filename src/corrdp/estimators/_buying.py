"""``leakage="auto"``: distances are bought from the rows, if they are worth it.

Whether, and with how much of the budget, is decided by public numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from corrdp._typing import JSONObject
from corrdp.certificate import Component, LeakageClaim
from corrdp.exceptions import (
    BudgetError,
    PolicyError,
)
from corrdp.leakage import (
    BLOCK,
    LeakageInput,
    LevelSizes,
    count_layout,
    declared_or_one,
    leakage_targets,
    plan_leakage_release,
    planned_margins,
    predicted_excess,
    telling_shapes,
)
from corrdp.policy import (
    Budget,
    Conditioning,
    NeighborRelation,
    Policy,
    class_columns,
)

SHARES = (0.05, 0.1, 0.2, 0.3)
"""Parts of epsilon that are tried."""

WORTH_BUYING = 0.7
"""A purchase must lower the predicted loss at least to this part of it."""

# Before anything is released: what a feature tells, and its thinnest levels.
_TYPICAL_LEAKAGE = 0.3
_THIN_LEVEL = 0.1
_USEFUL = 0.9
_FAILURE_PROBABILITY = 1e-3

PredictedLoss: TypeAlias = Callable[[LeakageInput], float]


@dataclass(frozen=True)
class LeakagePurchase:
    """What to spend on the leakage, and why.

    Guarantee
    ---------
    A function of the policy, the budget and the public number of rows
    (`docs/theory/default_rule.md`, 6).
    """

    # What the release may spend; epsilon 0 if it is not worth it.
    epsilon: float
    delta: float
    share: float  # part of the budget's epsilon
    # Predicted excess risk with the purchase, and with all distances at 1.
    loss: float
    loss_without: float
    distances: Mapping[str, float]  # predicted bounds; no promise rests on them
    reason: str  # the decision in words

    @property
    def buys(self) -> bool:
        """Whether a release is worth its price."""
        return self.epsilon > 0.0

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "share": self.share,
            "predicted_loss": self.loss,
            "predicted_loss_without": self.loss_without,
            "predicted_distances": dict(self.distances),
            "reason": self.reason,
        }


def plan_purchase(
    policy: Policy, *, budget: Budget, n_rows: int, predicted_loss: PredictedLoss
) -> LeakagePurchase:
    """Return how much of the budget to spend on the leakage; reads no rows.

    The budget is that of leakage and training together; `predicted_loss` tells the
    excess risk of training with distances and what they cost.
    """
    known = declared_or_one(policy)
    without = predicted_loss(known_leakage(policy, known))

    def no(reason: str) -> LeakagePurchase:
        said = f"leakage not bought, all distances as declared or 1: {reason}"
        return LeakagePurchase(0.0, 0.0, 0.0, without, without, known, said)

    if not policy.insensitive or all(value < 1.0 for value in known.values()):
        return no("there is nothing that the policy does not declare")
    if policy.conditioning is Conditioning.DEFINITION:
        return no("conditioning='definition' has no private release of useful bounds")
    best = None
    for share in SHARES:
        epsilon = share * budget.epsilon
        try:
            spent, distances, margins = _predicted(
                policy, epsilon, budget.delta, n_rows
            )
        except (PolicyError, BudgetError) as error:
            return no(str(error))
        usable = {
            name: min(value, known[name]) for name, value in distances.items()
        } | {name: value for name, value in known.items() if name not in distances}
        loss = predicted_loss(known_leakage(policy, usable, spent, margins))
        if best is None or loss < best.loss:
            best = LeakagePurchase(
                epsilon, budget.delta, share, loss, without, usable, ""
            )
    assert best is not None
    if not best.loss <= WORTH_BUYING * without:
        return no(
            f"with {best.share:g} of the budget the predicted loss would be "
            f"{best.loss:.3g} after {without:.3g}, too little to pay for"
        )
    said = (
        f"leakage bought with {best.share:g} of epsilon: the predicted loss falls from "
        f"{without:.3g} to {best.loss:.3g}"
    )
    return LeakagePurchase(**(vars(best) | {"reason": said}))


def known_leakage(
    policy: Policy,
    values: Mapping[str, float],
    spent: tuple[Component, ...] = (),
    margins: Mapping[str, LevelSizes] | None = None,
) -> LeakageInput:
    """Return distances, and what they cost, in the form that plans take."""
    if not policy.insensitive:
        return LeakageInput(LeakageClaim.declared(policy), None)
    distances: Any = dict(values)
    if policy.relation is NeighborRelation.ALL_INSENSITIVE:
        distances = values[BLOCK]
    return LeakageInput(
        LeakageClaim.declared(policy, values), distances, spent, margins=margins or {}
    )


def _predicted(
    policy: Policy, epsilon: float, delta: float, n_rows: int
) -> tuple[tuple[Component, ...], dict[str, float], dict[str, LevelSizes]]:
    """Return the cost of a release, bounds to expect of it, and which means it tells.

    How many rows each level will have is not known: all alike, with the noise that
    they will have.
    """
    plan = plan_leakage_release(policy, epsilon=epsilon, delta=delta)
    if plan is None:
        return (), {}, {}
    view = policy.leakage_view()
    layout = count_layout(view, leakage_targets(view))
    shapes = telling_shapes(layout)
    single = policy.relation is NeighborRelation.ONE_INSENSITIVE
    distances = {}
    for shape in shapes:
        level = max(_THIN_LEVEL if single else 0.0, 1 / shape.n_values)
        excess = predicted_excess(
            np.full(2, n_rows * level),
            n_cells=shape.n_cells,
            noise_scale=plan.scale_of_group[shape.name],
            failure_probability=_FAILURE_PROBABILITY / len(shapes),
        )
        value = _TYPICAL_LEAKAGE + excess
        distances[shape.name] = value if value <= _USEFUL else 1.0
    component = Component("leakage", plan=plan, scope=class_columns(policy))
    margins = planned_margins(layout, plan, n_rows)
    return (component.restated(policy),), distances, margins

r"""The rule of additive models: which noise, which steps, how many knots.

Everything is a function of public numbers: rows, domains, roles, leakage, budget. What
is nominal about it is explained in `docs/theory/additive.md`, section 4.
"""

import math
from dataclasses import replace

import numpy as np

from corrdp.accounting import allocate_noise
from corrdp.policy import BlockKind
from corrdp.training._budget_split import BudgetSplit
from corrdp.training._expectations import Prediction, typical_sizes
from corrdp.training._layout import GradientLayout
from corrdp.training._plan import TrainingPlan
from corrdp.training._plan_inputs import NUMBER_RADIUS, PlanInputs, noise_terms
from corrdp.training._step_sizes import ColumnSteps
from corrdp.training.sensitivity._gradient import GradientSensitivity

KNOT_CHOICES = (16, 12, 8, 6, 4)
LEGIBLE = 0.05  # noise at a knot, in units of the distance over the root of knots
AFFORDABLE = 0.1  # of what there is to gain, that fitting so many weights may cost
STEPS = 200
STEPS_PER_GROUP = 2  # for stability, docs/theory/additive.md, section 3
MOMENTUM = 0.9
_NUMBER_DEVIATION = math.sqrt(1.0 / 3.0)  # nominal, as in the default rule


def additive_plan(
    facts: PlanInputs, ordinary: BudgetSplit | None = None
) -> TrainingPlan:
    """Return the plan of an additive model: one group per feature and per curve.

    Parameters
    ----------
    facts : PlanInputs
        Numbers that are known without the data; blocks with the hats of curves.
    ordinary : BudgetSplit, optional
        As for `default_plan`: the budget under which whole records are as well hidden
        as sensitive features is compared too, and taken where it means less noise.

    Guarantee
    ---------
    A function of public numbers; whatever is chosen, training holds every class to its
    `BudgetSplit` (`docs/theory/additive.md`, section 2).
    """
    plans = [_planned(facts)]
    if ordinary is not None:
        plans.append(_planned(replace(facts, spending=ordinary)))
    return min(plans, key=lambda plan: plan.noise_deviation)


def curves_pay(plan: TrainingPlan) -> bool:
    """Return whether noise leaves the curves of an additive plan legible.

    Guarantee
    ---------
    A function of public numbers (`docs/theory/additive.md`, section 4).
    """
    sizes = typical_sizes(plan.loss, plan.label_deviation)
    n_weights = plan.layout.n_columns * plan.loss.n_free_outputs
    if n_weights * sizes.coefficient_risk > AFFORDABLE * sizes.gain * plan.n_rows:
        return False
    knots = [len(b.positions) for b in plan.layout.blocks if b.kind is BlockKind.HATS]
    if not knots:
        return False
    return knot_deviation(plan) <= LEGIBLE * plan.expected_distance / math.sqrt(
        max(knots)
    )


def knot_deviation(plan: TrainingPlan) -> float:
    """Return how far noise would move a curve at a knot, were curves fitted freely.

    The root mean square over all knots, at equal shares of the rows; with several
    labels, all of their scores together.
    """
    noise = plan.column_noise
    slope = plan.loss.lipschitz_of_two
    free = math.sqrt(plan.loss.n_free_outputs)
    squares = [
        (free * float(noise[block.start]) * len(block.positions) / slope) ** 2
        for block in plan.layout.blocks
        if block.kind is BlockKind.HATS
    ]
    return math.sqrt(float(np.mean(squares))) if squares else math.inf


def _planned(facts: PlanInputs) -> TrainingPlan:
    numbers = {
        block.part
        for block in facts.blocks
        if block.kind is BlockKind.NUMBER and not block.boolean
    }
    layout = GradientLayout.by_role(
        facts.blocks,
        joint_sensitive=False,
        joint_public=False,
        # Noise is in proportion to the radius, and curves see the whole range.
        feature_radii=dict.fromkeys(numbers, NUMBER_RADIUS * _NUMBER_DEVIATION),
        column_scale=facts.column_scale,
        column_offset=facts.column_offset,
    )
    # Labels in a range can be missed by any distance, so all columns share how far
    # noise may go; where residuals are bounded, features and curves do.
    n_shared = layout.n_columns if facts.bounds_residuals else len(layout.groups)
    loss = facts.first_loss
    sensitivity = GradientSensitivity(loss, layout, facts.spending.classes)
    scale = allocate_noise(
        sensitivity.bounds(facts.nominal_coef),
        **noise_terms(sensitivity, facts.spending.gradient_mu),
    ).noise_scale
    noise = scale[layout.column_groups] / facts.n_rows
    deviation = math.sqrt(facts.loss.n_free_outputs * float(noise @ noise))
    walking = facts.nominal.noise_cost * facts.nominal.expected_distance * deviation / 2
    return TrainingPlan(
        noise="corr",
        layout=layout,
        loss=loss,
        spending=facts.spending,
        n_rows=facts.n_rows,
        label_deviation=facts.label_deviation,
        n_steps=max(STEPS, STEPS_PER_GROUP * len(layout.groups)),
        momentum=MOMENTUM,
        expected_distance=facts.nominal.expected_distance,
        smoothness=facts.smoothness,
        column_noise=noise,
        noise_deviation=deviation,
        prediction=Prediction(walking, facts.gain),
        column_steps=ColumnSteps(
            distance=facts.nominal.expected_distance / math.sqrt(n_shared)
        ),
    )

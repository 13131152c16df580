"""What a certificate promises, and what a plan costs: in words, and as noise.

Noise is a function of the plan alone, evaluated at parameters of nominal size, so that
showing it costs nothing.
"""

import math
from collections.abc import Sequence

import numpy as np

from corrdp._json import encode_number
from corrdp._names import WHOLE_RECORD
from corrdp._typing import FloatArray, JSONObject
from corrdp.certificate import (
    Calibration,
    Certificate,
    ClassClaim,
    Component,
    LeakageClaim,
    certify,
)
from corrdp.leakage import LeakageTable
from corrdp.policy import BlockKind, Budget, Policy
from corrdp.training import TrainingPlan, noise_gains

# In short, and in a sentence.
NOT_COVERED = {
    "inference from insensitive columns": "What insensitive columns reveal about "
    "sensitive ones by correlation. Leakage bounds how far probabilities shift by "
    "adding, not how many times larger they get.",
    "sensitive and other columns changing together": "Sensitive and other columns of a "
    "record changing together: the row 'whole record' prices that, it is not promised.",
    "the number of rows": "The number of rows, which counts as public.",
    "other releases outside a ledger": "Anything else that is published from the same "
    "rows and not charged to a ledger.",
}
_LABEL_FREE = {
    "changes of the label": "The label: whether it changes is not protected."
}
_LABEL_ALONG = {
    "the label changing along with an insensitive feature": "A change of the label "
    "along with an insensitive feature: the label is one more sensitive feature here, "
    "and such a change is priced, not promised."
}
ROWS_PER_COEFFICIENT = 5  # with fewer, fits are bad for want of rows, protected or not


def promise_section(certificate: Certificate) -> JSONObject:
    """Return headline, one sentence per class, assumptions, and what is not covered."""
    not_covered = NOT_COVERED
    if not certificate.label_protected:
        not_covered = _LABEL_FREE | NOT_COVERED
    elif certificate.label_is_sensitive:
        not_covered = _LABEL_ALONG | NOT_COVERED
    return {
        "headline": _headline(certificate),
        "certified": certificate.calibration is Calibration.CERTIFIED,
        "epsilon": encode_number(certificate.epsilon),
        "target_epsilon": certificate.target_epsilon,
        "delta": certificate.delta,
        "relation": certificate.relation,
        "conditioning": certificate.conditioning,
        "classes": [
            {
                "name": "whole record" if name == WHOLE_RECORD else name,
                "sentence": _sentence(claim),
                "features": list(claim.features),
                "times": _times(claim.epsilon),
                "risk": certificate.risk(name).to_json(),
                "distance": claim.distance,
                "proved": encode_number(claim.epsilon),
                "allowed": encode_number(claim.allowed_epsilon),
                "promised": claim.promised,
            }
            for name, claim in certificate.classes.items()
        ],
        "assumptions": [
            *certificate.assumptions,
            *filter(None, [certificate.leakage.assumption]),
        ],
        "not_covered": list(not_covered.values()),
        "not_covered_short": list(not_covered),
    }


def _headline(certificate: Certificate) -> str:
    if certificate.calibration is Calibration.THEOREM:
        return (
            "Noise follows the paper's formulas, which hold up to unstated constants. "
            f"What can be proved for this noise is epsilon {certificate.epsilon:.3g}."
        )
    return (
        "Whatever is published here would have been almost as likely if the sensitive "
        f"values of any one record had been different: {_times(certificate.epsilon)}, "
        f"up to an added probability of {certificate.delta:g}."
    )


def _sentence(claim: ClassClaim) -> str:
    changed = ", ".join(claim.features)
    if claim.label_changes:
        changed = f"{changed} and the label" if changed else "the label"
    several = len(claim.features) + claim.label_changes > 1
    who = f"any or all of {changed}" if several else changed
    return f"If {who} of one record were different: {_times(claim.epsilon)}."


def _times(epsilon: float) -> str:
    if math.isinf(epsilon):
        return "nothing is proved"
    if epsilon > 50:
        return f"at most e^{epsilon:.0f} times as likely, which means nothing"
    return f"at most {math.exp(epsilon):.3g} times as likely, or as unlikely"


def plan_certificate(
    policy: Policy,
    plan: TrainingPlan,
    *,
    budget: Budget,
    leakage: LeakageTable | None,
    counts: Sequence[Component] = (),
) -> Certificate:
    """Return what a training will prove, with what its leakage has cost.

    `counts` tell where numbers lie, before the training.

    Guarantee
    ---------
    That of `certify` (`docs/theory/composition.md`): a function of the plan.
    """
    return certify(
        policy,
        [
            *(() if leakage is None else leakage.components),
            *counts,
            *plan.components(),
        ],
        budget=budget,
        leakage=LeakageClaim.declared(policy)
        if leakage is None
        else leakage.claim(policy=policy),
    )


def plan_verdict(
    plan: TrainingPlan, ordinary: TrainingPlan, *, epsilon: float, delta: float
) -> str:
    """Return one honest sentence on a plan, from public numbers alone.

    `ordinary` is the plan of the same model and budget under ordinary privacy.
    """
    n_coefficients = plan.layout.n_columns
    if plan.n_rows < ROWS_PER_COEFFICIENT * n_coefficients:
        return (
            f"{plan.n_rows:,} rows are too few for {n_coefficients:,} coefficients, "
            "with any protection or none, and what the plan expects is too good. "
            f"It takes some {ROWS_PER_COEFFICIENT * n_coefficients:,} rows, or fewer "
            "columns and categories."
        )
    if plan.prediction.learns_little:
        needed = "" if plan.needed is None else plan.needed.text
        return (
            f"{plan.n_rows:,} rows are too few for epsilon {epsilon:g}, delta "
            f"{delta:g}: most of what a model can gain would be lost. {needed}"
        )
    if plan.noise == "standard":
        return (
            "Use ordinary differential privacy here: protecting every column fully is "
            "expected to cost no more. The plan does so already."
        )
    better = ordinary.predicted_error / plan.predicted_error
    return (
        f"CorrDP is worth it here: ordinary differential privacy is expected to lose "
        f"{better:.2g} times as much to noise."
    )


_RESIDUAL_SLOPE = 0.2  # of a logistic loss, averaged over typical scores


def gradient_noise(plan: TrainingPlan) -> dict[str, float]:
    """Return the standard deviation of the noise on the mean gradient, by feature.

    As if the gradient were released once with the budget of all steps, per coordinate,
    at parameters of nominal size. The last entry is the intercept.

    Guarantee
    ---------
    A description of `plan`; it adds and prices nothing. What is added is decided by
    the same allocation (`docs/theory/allocation.md`).
    """
    per_column = plan.column_noise
    noise: dict[str, float] = {}
    for block in plan.layout.blocks:  # a curve follows the number that it bends
        noise.setdefault(block.feature, float(per_column[block.start]))
    if plan.layout.has_intercept:
        noise["intercept"] = float(per_column[-1])
    return noise


def coefficient_deviation(plan: TrainingPlan) -> FloatArray:
    r"""Return roughly how far noise alone moves each coefficient.

    The loss is taken for quadratic with nominal, uncoupled curvature; noise then
    passes through descent with momentum and averaging as through a linear filter.
    It describes noise only, not how far a coefficient is off for want of rows: a
    standard deviation per encoded column, of each output if there are several.
    """
    scale = plan.layout.column_scale
    deviation = np.zeros(plan.layout.n_columns)
    for walk in plan.walks:
        walks = ~walk.layout.held_columns
        deviation[walks] = _deviation_of_walk(walk)[walks]
    return deviation[: scale.size] * scale


def _deviation_of_walk(plan: TrainingPlan) -> FloatArray:
    """Return how far noise moves the weight of every column, scaled."""
    n_steps = plan.n_steps
    step_noise = plan.column_noise * math.sqrt(n_steps)
    curvature = _curvatures(plan)
    if plan.column_steps is not None:
        sizes = plan.column_steps.sizes(curvature, plan.column_noise, n_steps)
    else:
        walking = step_noise[~plan.layout.held_columns]
        total = math.hypot(
            float(np.sqrt(np.sum(walking**2))), math.sqrt(n_steps) * plan.own_noise
        )
        size = 2 / ((1 - plan.momentum) * plan.smoothness)
        if total > 0:
            size = min(size, plan.expected_distance / (math.sqrt(n_steps) * total))
        sizes = np.full(curvature.size, size)
    gains = noise_gains(curvature, sizes, plan.momentum, n_steps, plan.averaged_part)
    return np.asarray(step_noise * gains)


def _curvatures(plan: TrainingPlan) -> FloatArray:
    """Return the nominal curvature of the loss along every column."""
    variance = np.ones(plan.layout.n_columns)
    for block in plan.layout.blocks:
        share = 1 / (block.stop - block.start)
        number = block.kind is BlockKind.NUMBER
        variance[block.columns] = 1 / 3 if number else share * max(1 - share, 0.25)
    return (_RESIDUAL_SLOPE if plan.loss.is_likelihood else 1.0) * variance

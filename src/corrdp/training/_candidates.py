"""What a plan is chosen from: layouts, what each is predicted to cost, its plan.

A walk over all groups, with the influence of sensitive features bounded or not; plain
noise; and two walks, of which the first holds the weights of sensitive features at 0
and so costs their class nothing.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from corrdp._names import INTERCEPT
from corrdp._typing import FloatArray
from corrdp.accounting import NoiseAllocation, allocate_noise, least_variance
from corrdp.policy import ColumnRole
from corrdp.training._budget_split import head_start_parts
from corrdp.training._expectations import NOTHING_LEARNED, Prediction
from corrdp.training._layout import GradientLayout
from corrdp.training._plan import TrainingPlan
from corrdp.training._plan_inputs import FEATURE_RADIUS, PlanInputs, noise_terms
from corrdp.training.losses import Loss
from corrdp.training.sensitivity._gradient import GradientSensitivity

MOMENTUM = 0.9
CLIPPED_DISTANCE = 0.6  # where one norm clips the whole gradient
CLIPPING_COST = 1.5  # of clipping the whole gradient, relative to noise alone
AVERAGED_PART = 0.75  # of the iterates: noise of what is found early averages out
AVERAGED_DISTANCE = 1.25  # for an average, which lags behind the last iterate
FREE_GROWTH = 8.0  # of a residual bound where a norm bounds gradients as well
LABELS_NOT_LEARNED_FLAT = 0.75  # of what there is to gain, with one norm: a constant
NUMBERS_NOT_LEARNED = 0.25  # of what there is to gain: beyond it a constant,
NUMBERS_NOT_LEARNED_FLAT = 0.35  # and with one norm for the whole gradient
LITTLE_NOISE = 0.1  # of what there is to gain: a walk may grow from the start
DAMPING = 2.0  # of the distance, in units of what one noisy gradient can gain
SAMPLING_SHARE = 0.5  # of the deviation of sampling, by which a head start is stopped
STOPPED_COST = 0.5  # of that, in units of what noise of its size costs
FIRST_NOISE = 0.85  # of the noise of a head start, where sensitive weights are 0
MOST_SENSITIVE = 0.5  # of the nominal variance: beyond it they are not learned last
STEPS = (200, 1000)


def flat_candidate(facts: PlanInputs) -> "Candidate":
    """Return plain noise: one norm for the whole gradient."""
    features = (*facts.variance, INTERCEPT)
    layout = GradientLayout.flat(
        facts.blocks,
        clip_norm=facts.clip_norm(facts.norm(features)),
        feature_radius=math.hypot(facts.radius(tuple(facts.variance)), FEATURE_RADIUS),
        column_scale=facts.column_scale,
        column_offset=facts.column_offset,
    )
    return Candidate(facts, layout, math.inf, noise="standard")


def group_candidate(facts: PlanInputs, influence: float, *, joint: bool) -> "Candidate":
    """Return noise by groups with the radii and bounds of the rule.

    Gradients are not clipped: a norm per group would weigh a record differently in
    every group, and the fixed point of such steps minimizes no loss at all. Influence
    is bounded in units of the residual.
    """
    radii = facts.group_radii(joint=joint)
    bound = influence * facts.nominal.residual
    layout = GradientLayout.by_role(
        facts.blocks,
        joint_insensitive=joint,
        joint_public=joint,
        influence_bounds={
            name: bound for name in radii if name != ColumnRole.SENSITIVE.value
        },
        feature_radii=radii,
        column_scale=facts.column_scale,
        column_offset=facts.column_offset,
    )
    return Candidate(facts, layout, influence)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A walk that a plan may choose, with what choosing it would mean.

    Parameters
    ----------
    facts : PlanInputs
        What the rule may know; the budget is that of this walk.
    layout : GradientLayout
        Groups.
    influence : float
        Bound on the influence of sensitive features, in units of a residual.
    noise : str
        ``corr`` or ``standard``.
    like : Candidate, optional
        From which it takes what they share.
    share : float
        Part of the expected distance that lies in the groups which walk.
    at : array of float, optional
        Parameters at which noise is predicted, if not the nominal ones.
    own_noise : float
        Deviation of a mean gradient that its walk is stopped by, besides noise.
    """

    facts: PlanInputs
    layout: GradientLayout
    influence: float
    noise: str = "corr"
    like: "Candidate | None" = None
    share: float = 1.0
    at: FloatArray | None = None
    own_noise: float = 0.0

    @property
    def is_flat(self) -> bool:
        """Whether one norm clips the whole gradient, which bounds residuals too."""
        return self.noise == "standard"

    @property
    def loss(self) -> Loss:
        return self.facts.first_loss if self.is_flat else self.facts.bounded_loss

    @property
    def noiseless_error(self) -> float:
        """The predicted error if there were no noise."""
        return self.predicted(0.0).compared

    @property
    def least_error(self) -> float:
        """A number below the predicted error, found without allocating noise."""
        return self.predicted(self.least_deviation).compared

    @cached_property
    def least_deviation(self) -> float:
        """A number below the deviation of the noise, from multipliers alone.

        What means cost is not asked where it would have to be found for this
        candidate alone: all that a class may spend is more than gradients may.
        """
        spending = self.facts.spending
        allowed = spending.total_mu if self.is_flat else spending.gradient_mu
        terms = noise_terms(self.sensitivity, allowed)
        return self._deviation(least_variance(self._bounds, **terms))

    @cached_property
    def _allocation(self) -> NoiseAllocation:
        terms = noise_terms(self.sensitivity, self.facts.spending.gradient_mu)
        return allocate_noise(self._bounds, **terms)

    @property
    def deviation(self) -> float:
        """Deviation of the noise on one mean gradient, all coordinates together."""
        return self._deviation(self._allocation.objective)

    @cached_property
    def plan(self) -> TrainingPlan:
        """The plan with this layout."""
        return self.plan_for(self.predicted(self.deviation))

    def plan_for(self, prediction: Prediction) -> TrainingPlan:
        """Return the plan of this walk in a training of which so much is predicted."""
        facts, flat, deviation = self.facts, self.is_flat, self.deviation
        distance, damping = facts.nominal.expected_distance, DAMPING
        # Noise by groups on numbers lets a walk go farther only where it is little.
        if flat or not facts.bounds_residuals or facts.farther > 1:
            distance *= AVERAGED_DISTANCE
        if flat and not facts.bounds_residuals:
            # One norm cuts long gradients: what is left leads less far, gains less.
            distance, damping = CLIPPED_DISTANCE * distance, 1.0
        distance *= self.share
        if deviation > 0:
            gain = facts.gain * self.share**2
            distance = min(distance, damping * 2 * gain / deviation)
        reach = distance / deviation if deviation > 0 else math.inf
        wanted = min(reach * facts.smoothness * (1 - MOMENTUM) / 2, STEPS[1])
        scale = self._allocation.noise_scale
        return TrainingPlan(
            noise=self.noise,
            layout=self.layout,
            loss=self.loss,
            spending=facts.spending,
            n_rows=facts.n_rows,
            label_deviation=facts.label_deviation,
            n_steps=max(STEPS[0], math.ceil(wanted)),
            momentum=MOMENTUM,
            expected_distance=distance,
            smoothness=facts.smoothness,
            column_noise=scale[self.layout.column_groups] / facts.n_rows,
            noise_deviation=deviation,
            prediction=prediction,
            own_noise=self.own_noise,
            averaged_part=AVERAGED_PART,
            bound_growth=self._bound_growth,
            bound_price=self._bound_price(deviation),
            patience=self._patience(prediction),
        )

    def predicted(self, deviation: float, apart: float = 0.0) -> Prediction:
        """Return what a deviation of the noise costs: the more noise, the more.

        `apart` is what it costs besides that groups walk one after the other.
        """
        facts = self.facts
        error = facts.nominal.expected_distance * deviation / 2 + apart
        error += facts.influence_bias(self.influence)
        if self.is_flat and not facts.bounds_residuals:
            error *= CLIPPING_COST
        walking = facts.nominal.noise_cost * error
        if facts.bounds_residuals:
            limit = NUMBERS_NOT_LEARNED_FLAT if self.is_flat else NUMBERS_NOT_LEARNED
            return Prediction(
                walking, facts.gain, nothing_beyond=limit, bend=facts.nominal.bend
            )
        ridge = deviation / (AVERAGED_DISTANCE * facts.nominal.expected_distance)
        left = ridge / (ridge + facts.column_curvature)
        limit = LABELS_NOT_LEARNED_FLAT if self.is_flat else NOTHING_LEARNED
        own = facts.own_gain
        return Prediction(
            walking, facts.gain, own, left * own, limit, facts.nominal.bend
        )

    def _patience(self, prediction: Prediction) -> float:
        """Return the part of the steps before which the walk is not made longer.

        Where one norm cuts gradients, the expected distance is short. With little
        noise nothing is lost by asking at once whether the optimum is farther.
        """
        short = self.is_flat and not self.facts.bounds_residuals
        if short and prediction.compared_part < LITTLE_NOISE:
            return 0.0
        return self.facts.nominal.patience

    @property
    def _bound_growth(self) -> float:
        """How far an adapted residual bound may grow, in units of the first one."""
        if self.is_flat or not self.loss.adapts_residual_bound:
            return FREE_GROWTH
        return max(1.0, self.facts.largest_residual / self.loss.residual_limit)

    def _bound_price(self, deviation: float) -> float:
        """Return what noise costs per unit of the residual bound, if there is one."""
        bound = self.loss.clips_residuals_at
        if bound is None:
            return math.inf
        sizes = self.facts.nominal
        return sizes.noise_cost * sizes.expected_distance * deviation / 2 / bound

    def _deviation(self, variance: float) -> float:
        """Return the deviation of the noise on one mean gradient, from its variance."""
        free = self.facts.loss.n_free_outputs / self.facts.loss.n_outputs
        return math.sqrt(free * variance) / self.facts.n_rows

    @cached_property
    def sensitivity(self) -> GradientSensitivity:
        """How far one record moves a gradient under the layout."""
        classes = self.facts.spending.classes
        like = None if self.like is None else self.like.sensitivity
        return GradientSensitivity(self.loss, self.layout, classes, like=like)

    @cached_property
    def _bounds(self) -> FloatArray:
        at = self.facts.nominal_coef if self.at is None else self.at
        return self.sensitivity.bounds(at)


def head_start_candidate(like: Candidate) -> "HeadStart | None":
    """Return two walks over the groups of a candidate.

    None if nothing could be held, if nothing else walks or less than what is held, if
    a class changes labels, and so every residual, or if labels are numbers: what bounds
    their residuals is found on the way, and would be found without the features that
    tell most.
    """
    facts, groups = like.facts, like.layout.groups
    sensitive = {b.feature for b in facts.blocks if b.role is ColumnRole.SENSITIVE}
    held = {g.name for g in groups if sensitive & set(g.features)}
    walking = {g.name for g in groups} - held - {INTERCEPT}
    parts = head_start_parts(facts.spending, sensitive)
    if facts.bounds_residuals or facts.sensitive_share >= MOST_SENSITIVE:
        return None
    if not held or not walking or parts is None:
        return None
    others = facts.norm(tuple(set(facts.variance) - sensitive))
    at_start = facts.nominal_coef.copy()
    at_start[np.isin(like.layout.column_groups, _places(like.layout, held))] = 0.0
    first, last = (replace(facts, spending=spending) for spending in parts)
    return HeadStart(
        replace(
            like,
            facts=first,
            layout=like.layout.holding(held),
            like=like,
            share=others / facts.norm(tuple(facts.variance)),
            at=at_start,
            own_noise=SAMPLING_SHARE * facts.sampling_deviation,
        ),
        replace(
            like,
            facts=last,
            layout=like.layout.holding(walking),
            like=like,
            share=math.sqrt(facts.sensitive_gain / facts.nominal.gain),
        ),
    )


def _places(layout: GradientLayout, names: set[str]) -> list[int]:
    return [i for i, group in enumerate(layout.groups) if group.name in names]


@dataclass(frozen=True, eq=False)
class HeadStart:
    """Two walks: first all that is not sensitive, then sensitive features alone.

    As long as sensitive weights are 0 no residual depends on sensitive features, so the
    first walk costs their class nothing, and they need not be hidden in the gradient
    of other features in the second, which releases none of it
    (`docs/theory/default_rule.md`, section 8).
    """

    first: Candidate
    last: Candidate

    @property
    def layout(self) -> GradientLayout:
        return self.last.layout

    @property
    def noiseless_error(self) -> float:
        """The predicted error if there were no noise."""
        return self._predicted(0.0, 0.0).compared

    @property
    def least_error(self) -> float:
        """A number below the predicted error, found without allocating noise."""
        least = self.first.least_deviation, self.last.least_deviation
        return self._predicted(*least).compared

    @cached_property
    def plan(self) -> TrainingPlan:
        """The plan of both walks."""
        prediction = self._predicted(self.first.deviation, self.last.deviation)
        first, last = (c.plan_for(prediction) for c in (self.first, self.last))
        held = last.layout.held_columns
        noise = np.where(held, first.column_noise, last.column_noise)
        return replace(
            last,
            column_noise=noise,
            noise_deviation=math.hypot(first.noise_deviation, last.noise_deviation),
            head_start=first,
        )

    def _predicted(self, first: float, last: float) -> Prediction:
        """Return what deviations of the noise of both walks cost."""
        stopped = math.hypot(FIRST_NOISE * first, STOPPED_COST * self.first.own_noise)
        deviation = self.first.share * stopped + self.last.share * last
        return self.first.predicted(deviation, self.first.facts.apart_cost)

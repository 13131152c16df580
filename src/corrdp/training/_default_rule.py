r"""The default rule: norms, bounds, steps and step size from public numbers alone.

Tuning on private rows is itself a release, so nothing here looks at any. The rule
knows the number of rows, the declared domains, the roles, the leakage and the budget;
constants were fixed on a handful of problems and are explained, with the nominal
model behind them, in `docs/theory/default_rule.md`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from corrdp._names import INTERCEPT
from corrdp._typing import FloatArray
from corrdp.accounting import allocate_noise, least_variance
from corrdp.policy import ColumnRole
from corrdp.training._budget_split import BudgetSplit
from corrdp.training._layout import GradientLayout
from corrdp.training._plan import (
    CONSTANT,
    NOTHING_LEARNED,
    Prediction,
    TrainingPlan,
)
from corrdp.training._plan_inputs import FEATURE_RADIUS, PlanInputs, noise_terms
from corrdp.training.losses import Loss
from corrdp.training.sensitivity._gradient import GradientSensitivity

MOMENTUM = 0.9
CLIPPED_DISTANCE = 0.6  # where one norm clips the whole gradient
CLIPPING_COST = 1.5  # of clipping the whole gradient, relative to noise alone
AVERAGED_PART = 0.75  # of the iterates: noise of what is found early averages out
AVERAGED_DISTANCE = 1.25  # for an average, which lags behind the last iterate
FREE_GROWTH = 8.0  # of a residual bound where a norm bounds gradients as well
NO_NOISE = 0.05  # of what there is to gain: numbers are projected farther out
FREE_INFLUENCE = 0.025  # of what there is to gain: influence is not bounded
FARTHEST = 3.0  # radii of numbers, where there is hardly any noise
QUIET = 0.03  # of what there is to gain: ordinary noise on numbers may be taken
SILENT = 0.01  # of what there is to gain: it is taken, whatever groups would save
LEAST_SAVED = 2 / 3  # of ordinary noise that low: groups that save less are left
LABELS_NOT_LEARNED_FLAT = 0.75  # of what there is to gain, with one norm: a constant
NUMBERS_NOT_LEARNED = 0.25  # of what there is to gain: beyond it a constant,
NUMBERS_NOT_LEARNED_FLAT = 0.35  # and with one norm for the whole gradient
LITTLE_NOISE = 0.1  # of what there is to gain: a walk may grow from the start
DAMPING = 2.0  # of the distance, in units of what one noisy gradient can gain
INFLUENCE_CHOICES = (math.inf, 1.0, 0.5, 0.25, 0.1, 0.03)
STEPS = (200, 1000)
FEW_GROUPS = 8  # whose noise is allocated in no time
BOUND_ROUNDING = 1e-9  # far above the rounding of a lower bound on the noise


def default_plan(
    facts: PlanInputs, ordinary: BudgetSplit | None = None
) -> TrainingPlan:
    """Return the plan of least predicted error.

    Parameters
    ----------
    facts : PlanInputs
        Numbers that are known without the data.
    ordinary : BudgetSplit, optional
        The budget under which a change of the whole record is as well hidden as a
        sensitive one. If given, plain noise under it is compared too, and taken where
        it promises less error: it is valid for every class.

    Guarantee
    ---------
    A function of public numbers: choosing costs no privacy. Whatever is chosen,
    training holds every class to its `BudgetSplit` (`docs/theory/default_rule.md`).
    """
    candidates = _candidates(facts, ordinary, INFLUENCE_CHOICES)
    plan = _least_error(candidates)
    noise = plan.prediction.compared_part
    # With little noise, what bounds bend costs more than what they save. How much that
    # is nobody knows before: predictions stay.
    if facts.bounds_residuals:
        return plan if ordinary is None else _or_ordinary(plan, candidates[-1])
    if plan.noise == "standard" or noise >= NO_NOISE:
        return plan
    farther = min(math.sqrt(NO_NOISE / max(noise, 1e-9)), FARTHEST)
    bounds = [group.influence_bound for group in plan.layout.groups]
    influence = min(bounds) / facts.nominal.residual
    choices = (math.inf if noise < FREE_INFLUENCE else influence,)
    freer = _least_error(_candidates(replace(facts, farther=farther), None, choices))
    return replace(freer, prediction=plan.prediction)


def _or_ordinary(plan: TrainingPlan, flat: "_Candidate") -> TrainingPlan:
    """Return the plan, or plain noise where that is low and groups save too little."""
    plain = flat.plan.prediction.compared_part
    saves_little = plan.prediction.compared_part > (1.0 - LEAST_SAVED) * plain
    if not (plain < SILENT or (plain < QUIET and saves_little)):
        return plan
    least = plan.prediction.compared  # it is taken because groups would lose more
    return replace(
        flat.plan, prediction=replace(flat.plan.prediction, least_bound=least)
    )


def _candidates(
    facts: PlanInputs, ordinary: BudgetSplit | None, influences: Sequence[float]
) -> list["_Candidate"]:
    """Return groups with some bounds on influence; plain noise last, if it is one."""
    candidates = [
        _Candidate(facts, _group_layout(facts, influence, joint=joint), influence)
        for joint in (False, True)
        for influence in influences
    ]
    if ordinary is not None:
        candidates.append(_flat_candidate(replace(facts, spending=ordinary)))
    return _sharing(candidates, len(influences))


def _sharing(candidates: Sequence["_Candidate"], n_choices: int) -> list["_Candidate"]:
    """Return the candidates, each with one from which it takes what they share.

    All have the geometry of the joint layout, which has few groups and is looked at
    first. Bounds on influence ask for rows of their own, but not how large they are:
    every bounded layout has the rows of the first of its kind.
    """
    joint = candidates[n_choices]
    shared: list[_Candidate] = []
    for place, candidate in enumerate(candidates):
        if candidate is joint:
            shared.append(joint)
            continue
        first_bounded = place - place % n_choices + 1
        bounded = first_bounded < place < 2 * n_choices
        like = shared[first_bounded] if bounded else joint
        shared.append(replace(candidate, like=like))
    return shared


def _least_error(candidates: Sequence["_Candidate"]) -> TrainingPlan:
    """Return the plan of least predicted error, the first of several.

    Tables and noise of a layout with many groups take long to find, and two lower
    bounds on its error do not: what bounding influence costs without any noise, and
    the least noise that multipliers prove. A candidate whose bound is above the best
    error so far cannot be the best and is left out: the answer is that of evaluating
    all. Layouts with few groups come first, and of these the most promising.
    """
    best: TrainingPlan | None = None
    best_rank = (math.inf, 0)

    def may_be_best(bound: float) -> bool:
        return bound * (1.0 - BOUND_ROUNDING) <= best_rank[0]

    for is_small in (True, False):
        left = [
            (place, candidate)
            for place, candidate in enumerate(candidates)
            if is_small == (len(candidate.layout.groups) <= FEW_GROUPS)
            and (is_small or may_be_best(candidate.noiseless_error))
        ]
        for place, candidate in sorted(left, key=lambda each: each[1].least_error):
            if may_be_best(candidate.least_error):
                rank = (candidate.plan.prediction.compared, place)
                if best is None or rank < best_rank:
                    best, best_rank = candidate.plan, rank
    assert best is not None  # there are candidates
    return best


def standard_plan(facts: PlanInputs) -> TrainingPlan:
    """Return the plan with one noise scale, clipping the whole gradient.

    Guarantee
    ---------
    As `default_plan`; every class is held to its `BudgetSplit`
    (`docs/theory/default_rule.md`).
    """
    return _flat_candidate(facts).plan


def _flat_candidate(facts: PlanInputs) -> "_Candidate":
    features = (*facts.variance, INTERCEPT)
    layout = GradientLayout.flat(
        facts.blocks,
        clip_norm=facts.clip_norm(facts.norm(features)),
        feature_radius=math.hypot(facts.radius(tuple(facts.variance)), FEATURE_RADIUS),
        column_scale=facts.column_scale,
        column_offset=facts.column_offset,
    )
    return _Candidate(facts, layout, math.inf, noise="standard")


def or_constant(plan: TrainingPlan) -> TrainingPlan:
    """Return the plan, or the constant where it is expected to learn nothing.

    Guarantee
    ---------
    A function of public numbers; the constant costs no class more than the plan may
    (`docs/theory/default_rule.md`, Proposition 4).
    """
    return replace(plan, noise=CONSTANT) if plan.prediction.learns_nothing else plan


def _group_layout(
    facts: PlanInputs, influence: float, *, joint: bool
) -> GradientLayout:
    """Return groups by role with the radii and bounds of the rule.

    Gradients are not clipped: a norm per group would weigh a record differently in
    every group, and the fixed point of such steps minimizes no loss at all. Influence
    is bounded in units of the residual.
    """
    radii = facts.group_radii(joint=joint)
    bound = influence * facts.nominal.residual
    return GradientLayout.by_role(
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


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A layout that a plan may choose, with what choosing it would mean."""

    facts: PlanInputs
    layout: GradientLayout
    influence: float
    noise: str = "corr"
    like: "_Candidate | None" = None

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
        return self._predicted(0.0).compared

    @cached_property
    def least_error(self) -> float:
        """A number below the predicted error, found without allocating noise.

        What means cost is not asked where it would have to be found for this
        candidate alone: all that a class may spend is more than gradients may.
        """
        spending = self.facts.spending
        allowed = spending.total_mu if self.is_flat else spending.gradient_mu
        terms = noise_terms(self.sensitivity, allowed)
        variance = least_variance(self._bounds, **terms)
        return self._predicted(self._deviation(variance)).compared

    @cached_property
    def plan(self) -> TrainingPlan:
        """The plan with this layout."""
        facts, flat = self.facts, self.is_flat
        terms = noise_terms(self.sensitivity, facts.spending.gradient_mu)
        noise = allocate_noise(self._bounds, **terms)
        deviation = self._deviation(noise.objective)
        prediction = self._predicted(deviation)
        distance, damping = facts.nominal.expected_distance, DAMPING
        if flat or not facts.bounds_residuals:
            distance *= AVERAGED_DISTANCE
        if flat and not facts.bounds_residuals:
            # One norm cuts long gradients: what is left leads less far, gains less.
            distance, damping = CLIPPED_DISTANCE * distance, 1.0
        if deviation > 0:
            distance = min(distance, damping * 2 * facts.gain / deviation)
        reach = distance / deviation if deviation > 0 else math.inf
        wanted = min(reach * facts.smoothness * (1 - MOMENTUM) / 2, STEPS[1])
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
            column_noise=noise.noise_scale[self.layout.column_groups] / facts.n_rows,
            noise_deviation=deviation,
            prediction=prediction,
            averaged_part=AVERAGED_PART,
            bound_growth=self._bound_growth,
            bound_price=self._bound_price(deviation),
            patience=self._patience(prediction),
        )

    def _predicted(self, deviation: float) -> Prediction:
        """Return what a deviation of the noise costs: the more noise, the more."""
        facts = self.facts
        error = facts.nominal.expected_distance * deviation / 2
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
        return self.sensitivity.bounds(self.facts.nominal_coef)

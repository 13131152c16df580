r"""The default rule: norms, bounds, steps and step size from public numbers alone.

Tuning on private rows is itself a release, so nothing here looks at any. The rule
knows the number of rows, the declared domains, the roles, the leakage and the budget;
constants were fixed on a handful of problems and are explained, with the nominal
model behind them, in `docs/theory/default_rule.md`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from corrdp._typing import FloatArray
from corrdp.accounting import WHOLE_RECORD, allocate_noise, least_variance
from corrdp.policy import Block, BlockKind, ColumnRole
from corrdp.training._budget_split import BudgetSplit
from corrdp.training._layout import (
    INTERCEPT,
    GradientLayout,
    central_reference,
    standardizing_scale,
)
from corrdp.training._plan import CONSTANT, Prediction, TrainingPlan
from corrdp.training._typical_sizes import (
    LABEL_RANGE,
    TypicalSizes,
    nominal_coef,
    typical_sizes,
)
from corrdp.training.losses import Loss
from corrdp.training.sensitivity._gradient import GradientSensitivity

MOMENTUM = 0.9
FEATURE_RADIUS = 1.3  # in units of a group's nominal norm
NUMBER_RADIUS = 0.9  # in units of a number's nominal deviation
CLIPPED_DISTANCE = 0.6  # where one norm clips the whole gradient
CLIPPING_COST = 1.5  # of clipping the whole gradient, relative to noise alone
AVERAGED_PART = 0.75  # of the iterates: noise of what is found early averages out
AVERAGED_DISTANCE = 1.25  # for an average, which lags behind the last iterate
RESIDUAL_BOUND = 0.36  # in units of the label's range, times the factor of norms
FREE_GROWTH = 8.0  # of a residual bound where a norm bounds gradients as well
NO_NOISE = 0.05  # of what there is to gain: numbers are projected farther out
FREE_INFLUENCE = 0.025  # of what there is to gain: influence is not bounded
FARTHEST = 3.0  # radii of numbers, where there is hardly any noise
QUIET = 0.03  # of what there is to gain: ordinary noise on numbers may be taken
LEAST_SAVED = 2 / 3  # of ordinary noise that low: groups that save less are left
NUMBERS_NOT_LEARNED = 0.25  # of what there is to gain: beyond it a constant,
NUMBERS_NOT_LEARNED_FLAT = 0.35  # and with one norm for the whole gradient
LITTLE_NOISE = 0.1  # of what there is to gain: a walk may grow from the start
DAMPING = 2.0  # of the distance, in units of what one noisy gradient can gain
INFLUENCE_CHOICES = (math.inf, 1.0, 0.5, 0.25, 0.1, 0.03)
STEPS = (200, 1000)
FEW_GROUPS = 8  # whose noise is allocated in no time
BOUND_ROUNDING = 1e-9  # far above the rounding of a lower bound on the noise
_CLIP_RANGE = (0.5, 2.0)
_NUMBER_VARIANCE = 1.0 / 3.0
_ONE_HOT_VARIANCE = 2.0 / 3.0


@dataclass(frozen=True, eq=False)
class PlanInputs:
    """What the rule may know.

    Parameters
    ----------
    blocks : tuple of Block
        Blocks of the encoder.
    spending : BudgetSplit
        Neighbor classes and their budgets.
    n_rows : int
        Public number of rows.
    loss : Loss
        The loss, with the residual bound that training begins with; numbers are
        labels in [-1/2, 1/2].
    leakage : mapping of str to float
        What is known of features that no class names, as under ``semi``; 1 otherwise.
    farther : float
        Factor on the radius on which numbers are projected.
    """

    blocks: tuple[Block, ...]
    spending: BudgetSplit
    n_rows: int
    loss: Loss
    leakage: Mapping[str, float] = field(default_factory=dict)
    farther: float = 1.0

    @cached_property
    def nominal(self) -> TypicalSizes:
        """Typical sizes of the loss."""
        return typical_sizes(self.loss)

    @cached_property
    def nominal_coef(self) -> FloatArray:
        """Parameters of typical size."""
        return nominal_coef(self.blocks, self.loss)

    @cached_property
    def variance(self) -> dict[str, float]:
        """Nominal variance of every raw feature, after scaling."""
        total: dict[str, float] = {}
        for block in self.blocks:
            number = block.kind is BlockKind.NUMBER and not block.boolean
            own = _NUMBER_VARIANCE if number else _ONE_HOT_VARIANCE
            total[block.feature] = total.get(block.feature, 0.0) + own
        return total

    @property
    def smoothness(self) -> float:
        """Nominal bound on the curvature."""
        return self.nominal.curvature * (1.0 + sum(self.variance.values()))

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients, intercepts among them."""
        return (self.blocks[-1].stop + 1) * self.loss.n_free_outputs

    def clip_norm(self, norm: float) -> float:
        """Return the clipping norm of a gradient with features of nominal `norm`."""
        return self._tightness / 0.35 * self.nominal.residual * norm

    @cached_property
    def _tightness(self) -> float:
        least = self.spending.smallest_mu
        noise = 2 * math.sqrt(self.n_coefficients) / (self.n_rows * least)
        return float(np.clip(0.2 * noise**-0.25, *_CLIP_RANGE))

    @cached_property
    def bounded_loss(self) -> Loss:
        """The loss with residuals bounded as noise asks for, alike in all groups.

        One bound weighs a record alike everywhere: steps minimize a Huber loss.
        """
        return self.loss.bounded_by(self.largest_residual)

    @property
    def largest_residual(self) -> float:
        """Where residuals of numbers are cut at the latest: the more noise, the lower.

        A gradient of nominal features is as long then as a clipping norm would allow.
        """
        return RESIDUAL_BOUND * LABEL_RANGE * self._tightness

    @property
    def gain(self) -> float:
        """Excess risk of the best constant on these rows, nominally."""
        return self.nominal.gain + self.own_gain

    @property
    def own_gain(self) -> float:
        """What coefficients explain on their own rows, whatever features mean."""
        return self.n_coefficients * self.nominal.coefficient_risk / self.n_rows

    @property
    def column_curvature(self) -> float:
        """Nominal curvature of the loss along one column."""
        variance = sum(self.variance.values()) / self.blocks[-1].stop
        return self.nominal.curvature * variance

    def radius(self, features: Sequence[str]) -> float:
        """Return the radius on which the features of a group are projected.

        Noise is in proportion to it. A number that is cut at 0.9 deviations keeps
        its sign and most of its covariance; the codes of a category lie on a sphere.
        """
        if self.bounds_residuals:
            return FEATURE_RADIUS * self.norm(features)
        squares = [
            self.variance[f]
            * (self._number_radius if f in self._numbers else FEATURE_RADIUS) ** 2
            for f in features
        ]
        return math.sqrt(sum(squares))

    @property
    def _number_radius(self) -> float:
        return self.farther * NUMBER_RADIUS

    def group_radii(self, *, joint: bool) -> Mapping[str, float]:
        """Return the radius of every group of features, by role, by name."""
        return self._group_radii[joint]

    @cached_property
    def _group_radii(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        layouts = (
            GradientLayout.by_role(
                self.blocks, joint_insensitive=joint, joint_public=joint
            )
            for joint in (False, True)
        )
        apart, together = (
            {
                group.name: self.radius(group.features)
                for group in layout.groups
                if group.name != INTERCEPT
            }
            for layout in layouts
        )
        return apart, together

    @property
    def bounds_residuals(self) -> bool:
        """Whether residuals need a bound: those of probabilities have one."""
        return self.loss.clips_residuals_at is not None

    @cached_property
    def _numbers(self) -> frozenset[str]:
        return frozenset(
            block.feature
            for block in self.blocks
            if block.kind is BlockKind.NUMBER and not block.boolean
        )

    def norm(self, features: Sequence[str]) -> float:
        """Return the nominal norm of the features of a group; 1 for an intercept."""
        return math.sqrt(
            sum(1.0 if f == INTERCEPT else self.variance[f] for f in features)
        )

    def features(self, role: ColumnRole) -> tuple[str, ...]:
        """Return the features of a role."""
        return tuple(dict.fromkeys(b.feature for b in self.blocks if b.role is role))


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
    plan = _best_plan(facts, ordinary, INFLUENCE_CHOICES)
    noise = plan.noise_to_signal
    # With little noise, what bounds bend costs more than what they save. How much that
    # is nobody knows before: predictions stay.
    if facts.bounds_residuals:
        return plan if ordinary is None else _or_ordinary(plan, facts, ordinary)
    if plan.noise == "standard" or noise >= NO_NOISE:
        return plan
    farther = min(math.sqrt(NO_NOISE / max(noise, 1e-9)), FARTHEST)
    bounds = [group.influence_bound for group in plan.layout.groups]
    influence = min(bounds) / facts.nominal.residual
    choices = (math.inf if noise < FREE_INFLUENCE else influence,)
    freer = _best_plan(replace(facts, farther=farther), None, choices)
    return replace(freer, prediction=plan.prediction)


def _or_ordinary(
    plan: TrainingPlan, facts: PlanInputs, ordinary: BudgetSplit
) -> TrainingPlan:
    """Return the plan, or plain noise where that is low and groups save too little."""
    flat = standard_plan(replace(facts, spending=ordinary))
    plain = flat.noise_to_signal
    saves_little = plan.noise_to_signal > (1.0 - LEAST_SAVED) * plain
    return flat if plain < QUIET and saves_little else plan


def _best_plan(
    facts: PlanInputs, ordinary: BudgetSplit | None, influences: Sequence[float]
) -> TrainingPlan:
    """Return the plan of least predicted error among some bounds on influence."""
    candidates = [
        _Candidate(facts, _group_layout(facts, influence, joint=joint), influence)
        for joint in (False, True)
        for influence in influences
    ]
    if ordinary is not None:
        candidates.append(_flat_candidate(replace(facts, spending=ordinary)))
    return _least_error(_sharing(candidates, len(influences)))


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
    all. Layouts with few groups come first.
    """
    search = _Search()
    few = [len(c.layout.groups) <= FEW_GROUPS for c in candidates]
    search.look(
        c for c, is_small in zip(enumerate(candidates), few, strict=True) if is_small
    )
    search.look(
        (place, candidate)
        for place, candidate in enumerate(candidates)
        if not few[place] and not search.leaves_out(candidate.noiseless_error)
    )
    assert search.plan is not None  # there are candidates
    return search.plan


class _Search:
    """The best plan so far, and what cannot be better."""

    def __init__(self) -> None:
        self.plan: TrainingPlan | None = None
        self._rank = (math.inf, 0)

    def leaves_out(self, bound: float) -> bool:
        """Return whether an error of at least `bound` is above the best one."""
        return bound * (1.0 - BOUND_ROUNDING) > self._rank[0]

    def look(self, candidates: Iterable[tuple[int, "_Candidate"]]) -> None:
        """Evaluate candidates, named by their places, the most promising first."""
        for place, candidate in sorted(candidates, key=lambda c: c[1].least_error):
            if not self.leaves_out(candidate.least_error):
                plan = candidate.plan()
                rank = (plan.predicted_error, place)
                if self.plan is None or rank < self._rank:
                    self._rank, self.plan = rank, plan


def standard_plan(facts: PlanInputs) -> TrainingPlan:
    """Return the plan with one noise scale, clipping the whole gradient.

    Guarantee
    ---------
    As `default_plan`; every class is held to its `BudgetSplit`
    (`docs/theory/default_rule.md`).
    """
    return _flat_candidate(facts).plan()


def _flat_candidate(facts: PlanInputs) -> "_Candidate":
    features = (*facts.variance, INTERCEPT)
    layout = GradientLayout.flat(
        facts.blocks,
        clip_norm=facts.clip_norm(facts.norm(features)),
        feature_radius=math.hypot(facts.radius(tuple(facts.variance)), FEATURE_RADIUS),
        column_scale=standardizing_scale(facts.blocks),
        column_offset=_central_offset(facts.blocks),
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
        column_scale=standardizing_scale(facts.blocks),
        column_offset=_central_offset(facts.blocks),
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
        return self.facts.loss if self.is_flat else self.facts.bounded_loss

    @property
    def noiseless_error(self) -> float:
        """The predicted error if there were no noise."""
        return self._predicted(0.0).excess

    @cached_property
    def least_error(self) -> float:
        """A number below the predicted error, found without allocating noise.

        What means cost is not asked where it would have to be found for this
        candidate alone: all that a class may spend is more than gradients may.
        """
        spending = self.facts.spending
        allowed = spending.total_mu if self.is_flat else spending.gradient_mu
        variance = least_variance(self._bounds, **self._terms(allowed))
        return self._predicted(self._deviation(variance)).excess

    def plan(self) -> TrainingPlan:
        facts, flat = self.facts, self.is_flat
        terms = self._terms(facts.spending.gradient_mu)
        deviation = self._deviation(allocate_noise(self._bounds, **terms).objective)
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
            n_steps=max(STEPS[0], math.ceil(wanted)),
            momentum=MOMENTUM,
            expected_distance=distance,
            smoothness=facts.smoothness,
            noise_deviation=deviation,
            prediction=prediction,
            averaged_part=AVERAGED_PART,
            bound_growth=_growth(facts, self.loss, flat=flat),
            bound_price=self._bound_price(deviation),
            patience=self._patience(prediction),
        )

    def _predicted(self, deviation: float) -> Prediction:
        """Return what a deviation of the noise costs: the more noise, the more."""
        facts = self.facts
        error = facts.nominal.expected_distance * deviation / 2
        error += _influence_bias(facts, self.influence)
        if self.is_flat and not facts.bounds_residuals:
            error *= CLIPPING_COST
        walking = facts.nominal.noise_cost * error
        if facts.bounds_residuals:
            limit = NUMBERS_NOT_LEARNED_FLAT if self.is_flat else NUMBERS_NOT_LEARNED
            return Prediction(walking, facts.gain, nothing_beyond=limit)
        ridge = deviation / (AVERAGED_DISTANCE * facts.nominal.expected_distance)
        left = ridge / (ridge + facts.column_curvature)
        return Prediction(walking, facts.gain, facts.own_gain, left * facts.own_gain)

    def _patience(self, prediction: Prediction) -> float:
        """Return the part of the steps before which the walk is not made longer.

        Where one norm cuts gradients, the expected distance is short. With little
        noise nothing is lost by asking at once whether the optimum is farther.
        """
        short = self.is_flat and not self.facts.bounds_residuals
        if short and prediction.noise_to_signal < LITTLE_NOISE:
            return 0.0
        return self.facts.nominal.patience

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
        facts = self.facts
        return self.sensitivity.bounds(facts.nominal_coef)

    def _terms(self, allowed: Mapping[str, float]) -> dict[str, FloatArray]:
        """Return what noise is allocated by, besides the bounds."""
        rows, groups = self.sensitivity.row_classes, self.sensitivity.groups
        return {
            "budget_mu": np.array([allowed[name] for name in rows]),
            "sizes": np.array([group.size for group in groups], dtype=float),
        }


def _growth(facts: PlanInputs, loss: Loss, *, flat: bool) -> float:
    """Return how far an adapted residual bound may grow, in units of the first one."""
    if flat or not loss.adapts_residual_bound:
        return FREE_GROWTH
    return max(1.0, facts.largest_residual / loss.residual_limit)


def _influence_bias(facts: PlanInputs, influence: float) -> float:
    """Return what bounding the influence of sensitive features costs, nominally.

    The residual that the bound sees is normal with the sensitive features' share of
    the variance; what the bound cuts off is correlated with the other features as
    far as their leakage says. Of other features nothing is known, so theirs is 1.
    """
    hidden = (
        *facts.features(ColumnRole.INSENSITIVE),
        *facts.features(ColumnRole.PUBLIC),
    )
    total = sum(facts.variance.values())
    share = facts.norm(facts.features(ColumnRole.SENSITIVE)) ** 2 / total
    if math.isinf(influence) or not hidden or share == 0:
        return 0.0
    distance = _distances(facts)
    weight = sum(facts.variance[u] * distance.get(u, 1.0) ** 2 for u in hidden) / sum(
        facts.variance[u] for u in hidden
    )
    x = influence / math.sqrt(share)
    density = math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    cut = density - x * float(ndtr(-x))
    return facts.nominal.influence_bias * share * weight * 2 * math.pi * cut**2


def _distances(facts: PlanInputs) -> dict[str, float]:
    own = {
        feature: neighbor.distance
        for neighbor in facts.spending.classes
        if neighbor.name.startswith("insensitive") and neighbor.name != WHOLE_RECORD
        for feature in neighbor.features
    }
    return {**facts.leakage, **own}


def _central_offset(blocks: Sequence[Block]) -> FloatArray:
    return central_reference(blocks) * standardizing_scale(blocks)

r"""The default rule: norms, bounds, steps and step size from public numbers alone.

Tuning on private rows is itself a release, so nothing here looks at any. The rule
knows the number of rows, the declared domains, the roles, the leakage and the budget;
constants were fixed on a handful of problems and are explained, with the nominal
model behind them, in `docs/theory/default_rule.md`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from corrdp.training._budget_split import BudgetSplit, with_whole_record
from corrdp.training._candidates import (
    Candidate,
    HeadStart,
    flat_candidate,
    group_candidate,
    head_start_candidate,
)
from corrdp.training._expectations import Prediction
from corrdp.training._plan import CONSTANT, TrainingPlan
from corrdp.training._plan_inputs import PlanInputs

NO_NOISE = 0.05  # of what there is to gain: numbers are projected farther out
FREE_INFLUENCE = 0.025  # of what there is to gain: influence is not bounded
FARTHEST = 3.0  # radii of numbers, where there is hardly any noise
FREE_NUMBERS = 0.07  # of what there is to gain: bounds of linear models are let go
MOST_SAVED = 2.0  # times the noise that these leave: what saves more is kept
FARTHER_RESIDUALS = 2.0  # times the largest bound on residuals, where they are
BENT = 0.01  # of what there is to gain: what groups cost linear models besides noise
INFLUENCE_CHOICES = (math.inf, 1.0, 0.5, 0.25, 0.1, 0.03)
FEW_GROUPS = 8  # whose noise is allocated in no time
BOUND_ROUNDING = 1e-9  # far above the rounding of a lower bound on the noise

_Choice: TypeAlias = Candidate | HeadStart


def default_plan(
    facts: PlanInputs,
    ordinary: BudgetSplit | None = None,
    *,
    in_two_walks: bool = True,
) -> TrainingPlan:
    """Return the plan of least predicted error.

    Parameters
    ----------
    facts : PlanInputs
        Numbers that are known without the data.
    ordinary : BudgetSplit, optional
        The budget under which a change of the whole record is as well hidden as a
        sensitive one. If given, plain noise under it is compared too, and taken where
        it promises less error, for numbers also where groups promise little less: it
        is valid for every class.
    in_two_walks : bool
        Whether sensitive weights may be learned after all others (`HeadStart`).

    Guarantee
    ---------
    A function of public numbers: choosing costs no privacy. Whatever is chosen,
    training holds every class to its `BudgetSplit` (`docs/theory/default_rule.md`).
    """
    candidates = _candidates(
        facts, ordinary, INFLUENCE_CHOICES, in_two_walks=in_two_walks
    )
    plan = _least_error(candidates)
    if plan.noise == "standard":
        return plan
    # What bounds bend is in no prediction, since nobody knows how much it is before.
    # With little noise it costs more than what they save: predictions stay.
    if not facts.bounds_residuals:
        groups = _groups_of_labels(facts, plan, in_two_walks=in_two_walks)
        return _with_prediction(groups, plan.prediction)
    groups = _groups_of_numbers(facts, plan)
    if ordinary is not None and not plan.prediction.learns_nothing:
        plain = candidates[-1].plan
        saved = _most_of_ordinary(facts, ordinary, plain)
        saved -= groups.prediction.compared_part
        if saved < BENT:
            least = plan.prediction.compared  # taken because groups would lose more
            prediction = replace(plain.prediction, least_bound=least)
            return replace(plain, prediction=prediction)
    return _with_prediction(groups, plan.prediction)


def _groups_of_labels(
    facts: PlanInputs, plan: TrainingPlan, *, in_two_walks: bool
) -> TrainingPlan:
    """Return the plan, its numbers projected farther out where noise is little."""
    noise = plan.prediction.compared_part
    if noise >= NO_NOISE:
        return plan
    farther = min(math.sqrt(NO_NOISE / max(noise, 1e-9)), FARTHEST)
    bounds = [group.influence_bound for group in plan.layout.groups]
    influence = min(bounds) / facts.nominal.residual
    choices = (math.inf if noise < FREE_INFLUENCE else influence,)
    return _least_error(
        _candidates(
            replace(facts, farther=farther), None, choices, in_two_walks=in_two_walks
        )
    )


def _groups_of_numbers(facts: PlanInputs, plan: TrainingPlan) -> TrainingPlan:
    """Return the plan, or one of freer bounds where that has little noise as well.

    Where distances are small, bounds on influence save most of the noise and bend
    little: they stay.
    """
    bounded = plan.prediction.compared_part
    most = min(FREE_NUMBERS, MOST_SAVED * bounded)
    if bounded >= most:
        return plan
    farther = replace(facts, farther=FARTHER_RESIDUALS)
    freer = _least_error(_candidates(farther, None, (math.inf,), in_two_walks=False))
    return freer if freer.prediction.compared_part < most else plan


def _most_of_ordinary(
    facts: PlanInputs, ordinary: BudgetSplit, plain: TrainingPlan
) -> float:
    """Return what plain noise would lose if it hid all that a stronger promise hides.

    It loses less under a weaker promise, and groups hardly do. Where one keeps groups
    the other has to keep them too, or it may lose more for promising less.
    """
    hidden = {name for changed in ordinary.classes for name in changed.features}
    known = [name for name in facts.leakage if name in facts.variance]
    if hidden.issuperset(known):
        return plain.prediction.compared_part
    all_hidden = with_whole_record(ordinary, (*hidden, *known))
    return flat_candidate(
        replace(facts, spending=all_hidden)
    ).plan.prediction.compared_part


def _with_prediction(plan: TrainingPlan, prediction: Prediction) -> TrainingPlan:
    first = plan.head_start
    if first is not None:
        first = replace(first, prediction=prediction)
    return replace(plan, prediction=prediction, head_start=first)


def _candidates(
    facts: PlanInputs,
    ordinary: BudgetSplit | None,
    influences: Sequence[float],
    *,
    in_two_walks: bool,
) -> Sequence[_Choice]:
    """Return groups with some bounds on influence; plain noise last, if it is one."""
    candidates = [
        group_candidate(facts, influence, joint=joint)
        for joint in (False, True)
        for influence in influences
    ]
    if ordinary is not None:
        candidates.append(flat_candidate(replace(facts, spending=ordinary)))
    shared = _sharing(candidates, len(influences))
    both = None
    if in_two_walks:
        apart = group_candidate(facts, math.inf, joint=False)
        both = head_start_candidate(replace(apart, like=shared[len(influences)]))
    return shared if both is None else [both, *shared]


def _sharing(candidates: Sequence[Candidate], n_choices: int) -> list[Candidate]:
    """Return the candidates, each with one from which it takes what they share.

    All have the geometry of the joint layout, which has few groups and is looked at
    first. Bounds on influence ask for rows of their own, but not how large they are:
    every bounded layout has the rows of the first of its kind.
    """
    joint = candidates[n_choices]
    shared: list[Candidate] = []
    for place, candidate in enumerate(candidates):
        if candidate is joint:
            shared.append(joint)
            continue
        first_bounded = place - place % n_choices + 1
        bounded = first_bounded < place < 2 * n_choices
        like = shared[first_bounded] if bounded else joint
        shared.append(replace(candidate, like=like))
    return shared


def _least_error(candidates: Sequence[_Choice]) -> TrainingPlan:
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
    return flat_candidate(facts).plan


def or_constant(plan: TrainingPlan) -> TrainingPlan:
    """Return the plan, or the constant where it is expected to learn nothing.

    Guarantee
    ---------
    A function of public numbers; the constant costs no class more than the plan may
    (`docs/theory/default_rule.md`, Proposition 4).
    """
    if not plan.prediction.learns_nothing:
        return plan
    return replace(plan, noise=CONSTANT, head_start=None)

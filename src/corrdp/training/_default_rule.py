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

from corrdp.training._budget_split import BudgetSplit
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
QUIET = 0.03  # of what there is to gain: ordinary noise on numbers may be taken
SILENT = 0.01  # of what there is to gain: it is taken, whatever groups would save
LEAST_SAVED = 2 / 3  # of ordinary noise that low: groups that save less are left
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
        it promises less error: it is valid for every class.
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
    noise = plan.prediction.compared_part
    # With little noise, what bounds bend costs more than what they save. How much that
    # is nobody knows before: predictions stay.
    if facts.bounds_residuals:
        flat = candidates[-1]
        assert isinstance(flat, Candidate)
        return plan if ordinary is None else _or_ordinary(plan, flat)
    if plan.noise == "standard" or noise >= NO_NOISE:
        return plan
    farther = min(math.sqrt(NO_NOISE / max(noise, 1e-9)), FARTHEST)
    bounds = [group.influence_bound for group in plan.layout.groups]
    influence = min(bounds) / facts.nominal.residual
    choices = (math.inf if noise < FREE_INFLUENCE else influence,)
    freer = _least_error(
        _candidates(
            replace(facts, farther=farther), None, choices, in_two_walks=in_two_walks
        )
    )
    return _with_prediction(freer, plan.prediction)


def _with_prediction(plan: TrainingPlan, prediction: Prediction) -> TrainingPlan:
    first = plan.head_start
    if first is not None:
        first = replace(first, prediction=prediction)
    return replace(plan, prediction=prediction, head_start=first)


def _or_ordinary(plan: TrainingPlan, flat: Candidate) -> TrainingPlan:
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

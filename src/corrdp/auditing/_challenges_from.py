"""What can be audited: challenges, estimators, and any callable with neighbors."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from corrdp.auditing._challenge import Challenge, Deadline
from corrdp.auditing.statistics import Claim
from corrdp.auditing.targets import (
    constant_challenges,
    count_challenges,
    descent_challenges,
    leakage_challenges,
    loop_challenges,
    mean_challenges,
    model_challenges,
    network_challenges,
    network_training,
    number_count_challenges,
    query_challenges,
    sampled_challenges,
    synthesizer_challenges,
    theorem_challenges,
)
from corrdp.certificate import Calibration
from corrdp.estimators import (
    PrivateEstimator,
    PrivateNetwork,
    is_from_search,
    sampled_budget,
)
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.policy import Budget, allowed_epsilons, neighbor_classes
from corrdp.queries import QueryPlan
from corrdp.synthesis import Synthesizer
from corrdp.training import CONSTANT

_USUAL_ROWS = 1000
_MOST_ROWS = 10_000  # of a model's tables: others only hide the target
_SAMPLED_STEPS = 2  # among which the budget is divided; runs draw all of them

Neighbors = Mapping[str, tuple[Any, Any]]


def challenges_from(
    subject: Any,
    *,
    n_rows: int | None,
    neighbors: Neighbors | None,
    claims: Mapping[str, Claim] | None,
    random_state: int | None,
    deadline: Deadline,
) -> tuple[Challenge[Any], ...]:
    """Return the challenges of whatever is audited; parameters as `audit`."""
    if isinstance(subject, Challenge):
        return (subject,)
    if isinstance(subject, PrivateEstimator):
        return estimator_challenges(
            subject, n_rows=n_rows, random_state=random_state, deadline=deadline
        )
    if isinstance(subject, Synthesizer):
        return synthesizer_challenges(
            subject, n_rows=planned_rows(subject, n_rows), random_state=random_state
        )
    if isinstance(subject, QueryPlan):
        return query_challenges(subject, random_state=random_state, deadline=deadline)
    if _is_training(subject):
        return loop_challenges(subject, random_state=random_state, deadline=deadline)
    if isinstance(subject, Sequence) and all(
        isinstance(part, Challenge) for part in subject
    ):
        return tuple(subject)
    if callable(subject):
        return _of_callable(subject, neighbors or {}, claims or {})
    raise CorrDPError(
        "an audit takes challenges, an estimator, a synthesizer, a plan of queries, a "
        "training of make_private, or a callable with neighbors and claims, got "
        f"{type(subject).__name__}. Pass one of them."
    )


def estimator_challenges(
    estimator: PrivateEstimator,
    *,
    n_rows: int | None = None,
    random_state: int | None = 0,
    deadline: Deadline | None = None,
) -> tuple[Challenge[Any], ...]:
    """Challenge the code that trains an estimator, class by class.

    Parameters
    ----------
    estimator : estimator of the library
        Fitted or not; its rows are never read, it is planned anew for `n_rows`.
    n_rows : int, optional
        Public number of rows; by default that of the fit, 1,000 without one. Tables
        have no more than 10,000: noise is that of sums, in which others only hide the
        target.
    random_state : int, optional
        Seed of the search.
    deadline : Deadline, optional
        Ends the search for neighbors early.

    Guarantee
    ---------
    Neighbors of the class they are named for, for the policy and the budget of the
    estimator (`docs/theory/audit.md`). Under ``theorem`` there are two claims per
    class: the nominal epsilon of the paper's formula, and what is provable.
    """
    if is_from_search(estimator):
        raise CorrDPError(
            "the model is the best of a private search, and an audit repeats one fit: "
            "it would measure another release. Audit an estimator with the budget of "
            "a single fit (plan_.fit_budget of the search)."
        )
    planned: Any = planned_estimator(estimator)
    n_rows = planned_rows(estimator, n_rows)
    most = min(n_rows, _MOST_ROWS)
    deadline = deadline or Deadline()
    if isinstance(planned, PrivateNetwork) and _gives_way(estimator, planned, n_rows):
        planned = planned.linear_model()
    search: dict[str, Any] = {"random_state": random_state}
    if isinstance(planned, PrivateNetwork):
        nominal = _nominal(planned) if _is_theorem(planned) else None
        return network_challenges(
            planned, n_rows=most, nominal=nominal, deadline=deadline, **search
        )
    if _is_theorem(planned):
        return theorem_challenges(
            replace(planned.theorem_plan(n_rows), n_rows=most),
            neighbor_classes(planned.policy, planned.leakage),
            nominal=_nominal(planned),
            deadline=deadline,
            **search,
        )
    delta = float(planned.delta or 0.0)
    told = getattr(estimator, "planned_", {})  # also by labels that no class changes
    plan, counted = planned.plan_with_counts(
        n_rows, label_deviation=told.get("label_deviation")
    )
    plan = plan.with_rows(most)
    search["delta"] = delta
    if planned.sampling_rate is not None and plan.noise != CONSTANT:
        return sampled_challenges(
            plan,
            sampled_budget(
                plan,
                planned.coded_policy(n_rows),
                budget=Budget(epsilon=planned.epsilon / planned.fits, delta=delta),
                rate=planned.sampling_rate,
                n_steps=_SAMPLED_STEPS,
            ),
            deadline=deadline,
            **search,
        )
    counts: tuple[Challenge[Any], ...] = ()
    if counted is not None:
        costs = counted.cost.items()
        counts = number_count_challenges(
            planned.coded_policy(n_rows),
            counted.noise_scale,
            counted.n_bins,
            {name: Claim.gaussian(mu, delta=delta) for name, mu in costs},
            plan.spending.classes,
        )
    bought = _of_leakage(estimator)
    if plan.noise == CONSTANT:
        return bought + counts + constant_challenges(plan, delta=delta)
    return (
        bought
        + counts
        + mean_challenges(plan, deadline=deadline.share(0.1), **search)
        + count_challenges(plan, deadline=deadline.share(0.1), **search)
        + descent_challenges(plan, deadline=deadline.share(0.7), **search)
        + model_challenges(plan, n_steps=2, n_runs=200, deadline=deadline, **search)
    )


def planned_rows(subject: Any, n_rows: int | None) -> int:
    """Return the rows to plan for: as asked, those of the fit, or what is usual."""
    known = getattr(subject, "planned_", {})
    return int(known.get("n_rows", _USUAL_ROWS) if n_rows is None else n_rows)


def _of_leakage(estimator: Any) -> tuple[Challenge[Any], ...]:
    """Challenge the release of the distances that a fitted estimator paid for."""
    certificate = getattr(estimator, "certificate_", None)
    if certificate is None:
        return ()
    policy = estimator.policy_
    classes = neighbor_classes(policy, certificate.leakage.distances(policy))
    return tuple(
        challenge
        for part in certificate.components
        if part.name == "leakage" and part.plan is not None
        for challenge in leakage_challenges(policy, part.plan, classes)
    )


def _is_training(subject: Any) -> bool:
    """Whether this is what `make_private` returned; torch is not loaded to tell."""
    if "corrdp.torch" not in sys.modules:
        return False
    from corrdp.torch import PrivateTraining

    return isinstance(subject, PrivateTraining)


def planned_estimator(estimator: PrivateEstimator) -> Any:
    """Return the estimator before it was fitted, with the leakage that it used."""
    if not hasattr(estimator, "certificate_"):
        return estimator
    certificate = estimator.certificate_
    if certificate is None:
        raise GuaranteeVoidError(
            f"the model protects nothing (method={estimator.method!r}). There is no "
            "claim to audit."
        )
    policy = estimator.policy_  # whose cap is that of one fit
    known = {
        "policy": replace(policy, epsilon_cap=policy.epsilon_cap * estimator.fits),
        "leakage": certificate.leakage.distances(estimator.policy_),
    }
    parameters = estimator.get_params(deep=False) | known
    return type(estimator)(**parameters | estimator.decided_parameters())


def _gives_way(estimator: Any, planned: PrivateNetwork, n_rows: int) -> bool:
    """Return whether a linear model was, or would be, trained in a network's place."""
    if hasattr(estimator, "certificate_"):
        return bool(estimator.is_linear)
    return planned.gives_way(network_training(planned, n_rows)[0].module.plan)


def _nominal(estimator: Any) -> dict[str, float]:
    """Return the epsilon that the paper's formula is meant to give each class."""
    policy = estimator.policy
    nominal = allowed_epsilons(
        neighbor_classes(policy, estimator.leakage),
        epsilon=estimator.epsilon,
        epsilon_cap=policy.epsilon_cap,
    )
    if estimator.method == "semi":  # speaks of sensitive features alone
        nominal = {"sensitive": nominal["sensitive"]}
    return {name: epsilon for name, epsilon in nominal.items() if epsilon < math.inf}


def _is_theorem(estimator: Any) -> bool:
    return bool(estimator.calibration == Calibration.THEOREM)


def _of_callable(
    release: Callable[..., Any], neighbors: Neighbors, claims: Mapping[str, Claim]
) -> tuple[Challenge[Any], ...]:
    unknown = sorted(set(neighbors) ^ set(claims))
    if not neighbors or unknown:
        raise CorrDPError(
            "a callable needs a pair of neighbors and a claim per class; without one "
            f"of them: {', '.join(unknown) or 'all'}. Pass neighbors={{class: (first, "
            "second)}} and claims={class: Claim(...)}."
        )
    name = getattr(release, "__name__", type(release).__name__)
    return tuple(
        Challenge(name, class_name, claims[class_name], first, second, release)
        for class_name, (first, second) in neighbors.items()
    )

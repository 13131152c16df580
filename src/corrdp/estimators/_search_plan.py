"""What a private search will cost every class, decided before a row is read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corrdp._typing import JSONObject
from corrdp._validate import check_real
from corrdp.accounting import (
    GaussianEvent,
    PrivacyEvent,
    SelectedGaussianEvent,
    gaussian_epsilon,
    gaussian_mu,
    selected_mu,
)
from corrdp.certificate import Certificate, Component, certify
from corrdp.estimators._base import PrivateLinearModel
from corrdp.estimators._narrowing import DECLARED
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.leakage import policy_read
from corrdp.policy import (
    Budget,
    NeighborClass,
    Policy,
    allowed_epsilon,
    neighbor_classes,
)
from corrdp.training import TrainingPlan

COMPONENT = "selection"
WORTH_ALL = 0.75
"""Each candidate is run once where that leaves this part of what a hidden number of
runs would leave for a fit: all are tried, and all scores are told."""
_ROUND_OFF = 1.0 + 1e-9
HIDDEN_RUNS = (
    "the number of runs of the search was drawn without looking at rows and is not "
    "told; whoever sees how long the search ran learns about it"
)
HELD_OUT = (
    "which rows were held out was drawn by their places, without looking at values"
)


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """All that a search will cost, and how it will choose.

    Parameters
    ----------
    candidates : tuple of dict
        Settings to choose among.
    mean_runs : float or None
        Mean of the random number of runs, each of a candidate drawn anew; None if
        every candidate is run once.
    fit_budget : Budget
        What the fit of one run may cost.
    fit_policy : Policy
        The policy of one fit, whose cap is lowered where it binds.
    policy : Policy
        The policy that is kept.
    score_noise : float
        Standard deviation of the noise on a sum of scores in [0, 1].
    n_train, n_score : int
        Rows that a run learns from, and rows that it is scored on.
    fit_mu : mapping of str to float
        What a fit costs each class, the dearest candidate's.
    run_mu : mapping of str to float
        What a run costs each class, its score included.
    certificate : Certificate
        Of the whole search.

    Guarantee
    ---------
    A function of policy, budget, candidates and the public number of rows
    (``docs/theory/selection.md``).
    """

    candidates: tuple[dict[str, Any], ...]
    mean_runs: float | None
    fit_budget: Budget
    fit_policy: Policy
    policy: Policy
    score_noise: float
    n_train: int
    n_score: int
    fit_mu: Mapping[str, float]
    run_mu: Mapping[str, float]
    certificate: Certificate

    @property
    def chance_of_each(self) -> float:
        """Probability that a given candidate is run at all."""
        if self.mean_runs is None:
            return 1.0
        missed = 1.0 - 1.0 / len(self.candidates)
        stop = 1.0 / self.mean_runs
        return 1.0 - stop * missed / (1.0 - (1.0 - stop) * missed)

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "candidates": len(self.candidates),
            "runs": "fixed" if self.mean_runs is None else "random",
            "mean_runs": self.mean_runs or len(self.candidates),
            "chance_of_each": self.chance_of_each,
            "fit_epsilon": self.fit_budget.epsilon,
            "score_noise": self.score_noise / self.n_score,
            "rows": {"train": self.n_train, "score": self.n_score},
            "certificate": self.certificate.to_dict(),
        }

    def to_text(self) -> str:
        """Return the cost in words."""
        n_candidates = len(self.candidates)
        runs = (
            f"fixed: each of {n_candidates} candidates once"
            if self.mean_runs is None
            else f"random: {self.mean_runs:g} on average, each of a candidate drawn "
            f"among {n_candidates}; a given one is tried with probability "
            f"{self.chance_of_each:.2f}"
        )
        lines = [
            f"number of runs  {runs}",
            f"one fit         epsilon {self.fit_budget.epsilon:.4g} on {self.n_train} "
            "rows",
            f"its score       noise of deviation {self.score_noise / self.n_score:.2g} "
            f"on {self.n_score} rows",
            "the search costs, whatever it finds:",
        ]
        for name, claim in self.certificate.classes.items():
            lines.append(f"  {name}: epsilon {claim.epsilon:.4g}")
        return "\n".join(lines)


def plan_search(
    template: PrivateLinearModel,
    candidates: Sequence[dict[str, Any]],
    *,
    budget: Budget,
    n_rows: int,
    held_out: float | None,
    runs: str | float,
    score_share: float,
    replayable_noise: bool,
) -> SearchPlan:
    """Plan a search from public numbers alone.

    Parameters are those of `PrivateSearchCV`; `held_out` is its `cv`, and `template` is
    what is fitted, apart from the settings of a candidate.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for the policy: every class is charged the dearest
    candidate's fit and score, and the certificate refuses what exceeds the budget
    (``docs/theory/selection.md``).
    """
    share = check_real(
        "score_share",
        score_share,
        lower=0.0,
        upper=1.0,
        open_lower=True,
        remedy="A tenth is a good choice.",
    )
    if not share < 1.0 or budget.delta == 0.0:
        raise BudgetError(
            "a search adds Gaussian noise to fits and scores, got delta="
            f"{budget.delta!r} and score_share={score_share!r}. Choose a positive "
            "delta and a share below 1."
        )
    n_score = n_rows if held_out is None else max(1, round(held_out * n_rows))
    n_train = n_rows if held_out is None else n_rows - n_score
    policy, leakage = template.searched_promise()
    claim = leakage.claim
    classes = neighbor_classes(policy, claim.distances(policy))
    modes = _modes(runs, len(candidates))
    tried = [
        _shares(policy, classes, budget, mode, len(candidates), held_out, share)
        for mode in modes
    ]
    mean_runs, part = modes[0], tried[0]
    if len(modes) > 1 and part.budget.epsilon < WORTH_ALL * tried[1].budget.epsilon:
        mean_runs, part = modes[1], tried[1]
    assert isinstance(template.policy, Policy)  # checked by the search
    read = policy_read(template.policy, template.leakage)
    fit_policy = replace(read, epsilon_cap=part.epsilon_cap)
    costs = [
        _costs(model.plan(n_train), classes)
        for settings in candidates
        for model in [candidate_of(template, settings, fit_policy, part.budget)]
    ]
    score_mu = _ROUND_OFF / part.score_noise
    fit_mu = {c.name: max(cost[c.name] for cost in costs) for c in classes}
    run_mus = [
        {name: _together(mu, score_mu, held_out) for name, mu in cost.items()}
        for cost in costs
    ]
    events: dict[str, tuple[PrivacyEvent, ...]] = {}
    for neighbor in classes:
        mus = [run[neighbor.name] for run in run_mus]
        events[neighbor.name] = (
            (GaussianEvent(math.hypot(*mus)),)
            if mean_runs is None
            else (SelectedGaussianEvent(max(mus), mean_runs),)
        )
    assumptions = () if mean_runs is None else (HIDDEN_RUNS,)
    certificate = certify(
        policy,
        [Component(COMPONENT, events=events)],
        budget=budget,
        leakage=claim,
        assumptions=assumptions if held_out is None else (*assumptions, HELD_OUT),
        replayable_noise=replayable_noise,
        research=template.research,
    )
    return SearchPlan(
        tuple(candidates),
        mean_runs,
        part.budget,
        fit_policy,
        policy,
        part.score_noise,
        n_train,
        n_score,
        fit_mu,
        {c.name: max(run[c.name] for run in run_mus) for c in classes},
        certificate,
    )


@dataclass(frozen=True)
class _Part:
    """What one run may spend."""

    budget: Budget
    epsilon_cap: float
    score_noise: float


def _modes(runs: str | float, n_candidates: int) -> tuple[float | None, ...]:
    if runs == "auto":
        return (None, float(n_candidates)) if n_candidates > 1 else (None,)
    if runs == "all":
        return (None,)
    if isinstance(runs, str):
        raise CorrDPError(
            f"runs must be 'auto', 'all' or the mean of a random number of runs, got "
            f"runs={runs!r}. Choose one."
        )
    return (check_real("runs", runs, lower=1.0, remedy="At least one run."),)


def _shares(
    policy: Policy,
    classes: Sequence[NeighborClass],
    budget: Budget,
    mean_runs: float | None,
    n_candidates: int,
    held_out: float | None,
    share: float,
) -> _Part:
    """Return the largest part of the budget that a run may spend.

    Every class gets a fit whose Gaussian-DP parameter, with that of the score, stays
    within what the price of the search leaves to a run.
    """
    run_mu = {}
    for neighbor in classes:
        allowed = allowed_epsilon(
            neighbor, epsilon=budget.epsilon, epsilon_cap=policy.epsilon_cap
        )
        if math.isinf(allowed):
            continue
        run_mu[neighbor.name] = (
            gaussian_mu(epsilon=allowed, delta=budget.delta) / math.sqrt(n_candidates)
            if mean_runs is None
            else selected_mu(allowed, delta=budget.delta, mean_runs=mean_runs)
        )
    least = min(run_mu.values()) / _ROUND_OFF**2
    score_mu = least if held_out is not None else math.sqrt(share) * least
    fit_epsilon, cap = math.inf, policy.epsilon_cap
    for neighbor in classes:
        if neighbor.name not in run_mu:
            continue
        mu = run_mu[neighbor.name] / _ROUND_OFF**2
        if held_out is None:
            mu = math.sqrt(mu**2 - score_mu**2)
        epsilon = gaussian_epsilon(mu=mu, delta=budget.delta)
        if budget.epsilon / neighbor.distance > max(budget.epsilon, policy.epsilon_cap):
            cap = min(cap, epsilon)
            fit_epsilon = min(fit_epsilon, epsilon)
        else:
            fit_epsilon = min(fit_epsilon, epsilon * neighbor.distance)
    return _Part(
        Budget(epsilon=fit_epsilon, delta=budget.delta),
        max(cap, fit_epsilon),
        1.0 / score_mu,
    )


def is_from_search(model: Any) -> bool:
    """Return whether a fitted model is what a search released."""
    certificate = getattr(model, "certificate_", None)
    return certificate is not None and any(
        part.name == COMPONENT for part in certificate.components
    )


def candidate_of(
    template: PrivateLinearModel,
    settings: Mapping[str, Any],
    policy: Policy,
    budget: Budget,
) -> PrivateLinearModel:
    """Return an unfitted model with the settings of a candidate, of no family yet."""
    parameters = template.get_params(deep=False) | dict(settings)
    parameters |= {
        "policy": policy,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "ledger": None,
        "fits": 1,
    }
    if hasattr(template.leakage, "policy_for"):  # a table is of a policy with its cap
        parameters["leakage"] = template.searched_promise()[1].distances
    if "bounds" in parameters:  # a search does not pay for others
        parameters["bounds"] = DECLARED
    return type(template)(**parameters)


def gaussian_costs(
    components: Sequence[Component], names: Sequence[str]
) -> dict[str, float]:
    """Return the Gaussian-DP parameter of components for every class.

    Raises
    ------
    GuaranteeVoidError
        If some of it is not Gaussian noise, or has none.
    """
    costs = {}
    for name in names:
        squares = 0.0
        for part in components:
            events = part.events_of(name)
            if events is None or not all(isinstance(e, GaussianEvent) for e in events):
                raise GuaranteeVoidError(
                    f"class {name!r} of a candidate is not priced by Gaussian noise "
                    "alone, which a search needs. Train on full batches with the "
                    "certified calibration."
                )
            squares += sum(
                e.count * e.mu**2 for e in events if isinstance(e, GaussianEvent)
            )
        costs[name] = math.sqrt(squares)
    return costs


def _costs(plan: TrainingPlan, classes: Sequence[NeighborClass]) -> dict[str, float]:
    names = [neighbor.name for neighbor in classes]
    return {
        name: mu * _ROUND_OFF
        for name, mu in gaussian_costs(plan.components(), names).items()
    }


def _together(fit_mu: float, score_mu: float, held_out: float | None) -> float:
    """Return the cost of a fit and of its score (section 6 of the note)."""
    if held_out is None:
        return math.hypot(fit_mu, score_mu)
    return max(fit_mu, score_mu)

"""``leakage="auto"``: distances are bought from the rows, if they are worth it.

Whether, and with how much of the budget, is decided by public numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from corrdp._typing import JSONObject
from corrdp._validate import check_count
from corrdp.accounting import NoisePlan
from corrdp.certificate import Calibration, Component, LeakageClaim
from corrdp.estimators._fitting import Charge
from corrdp.estimators._labels import NO_LABELS, label_column
from corrdp.estimators._private import PrivateEstimator
from corrdp.estimators._tiled import require_readable
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    PolicyError,
    UnsupportedEventError,
)
from corrdp.leakage import (
    BLOCK,
    LeakageInput,
    LevelSizes,
    count_layout,
    declared_or_one,
    estimate_leakage,
    leakage_targets,
    plan_leakage_release,
    planned_margins,
    predicted_excess,
    telling_shapes,
)
from corrdp.policy import (
    Budget,
    Conditioning,
    Method,
    NeighborRelation,
    Policy,
    class_columns,
    protected_policy,
    without_knots,
)
from corrdp.tables import cache_key
from corrdp.training import LABEL_DEVIATION, TrainingPlan

AUTO = "auto"

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

    Parameters
    ----------
    epsilon, delta : float
        What the release may spend; epsilon 0 if it is not worth it.
    share : float
        Part of the budget's epsilon.
    loss, loss_without : float
        Predicted excess risk with the purchase, and with all distances at 1.
    distances : mapping of str to float
        Predicted bounds; no promise rests on them.
    reason : str
        The decision in words.

    Guarantee
    ---------
    A function of the policy, the budget and the public number of rows
    (`docs/theory/default_rule.md`, 6).
    """

    epsilon: float
    delta: float
    share: float
    loss: float
    loss_without: float
    distances: Mapping[str, float]
    reason: str

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

    Parameters
    ----------
    policy : Policy
        As it is kept.
    budget : Budget
        Of leakage and training together.
    n_rows : int
        Public number of rows.
    predicted_loss : callable
        Predicted excess risk of training with distances and what they cost.
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


class BuysLeakage(PrivateEstimator):
    """What estimators share that can predict their loss before they read rows."""

    random_state: int | None
    sampling_rate: float | None
    cache_dir: str | Path | None

    def _method(self) -> Method:
        raise NotImplementedError

    def _plan(
        self,
        policy: Policy,
        n_rows: int,
        budget: Budget,
        leakage: LeakageInput,
        label_deviation: float = LABEL_DEVIATION,
    ) -> TrainingPlan:
        raise NotImplementedError

    def plan_leakage(self, n_rows: int) -> LeakagePurchase:
        """Return what ``leakage="auto"`` would buy for `n_rows` rows, reading no data.

        Guarantee
        ---------
        A function of the policy, the budget and the public number of rows
        (`docs/theory/default_rule.md`, 6).
        """
        declared = self._policy_for("plan_leakage")
        rows = check_count("n_rows", n_rows)
        budget = self._budget()
        kept = protected_policy(declared, self._method())
        policy = without_knots(self._shared(kept))
        return plan_purchase(
            policy,
            budget=budget,
            n_rows=rows,
            predicted_loss=lambda leakage: (
                self._plan(policy, rows, budget, leakage).prediction.compared
            ),
        )

    def _is_to_buy(self) -> bool:
        return isinstance(self.leakage, str) and self.leakage == AUTO

    def _leakage_given(self) -> Any:
        if not self._is_to_buy():
            return self.leakage
        if "leakage_" not in vars(self):
            raise CorrDPError(
                "leakage='auto' is bought from the rows when the model is fitted, so "
                "there is no plan before. plan_leakage(n_rows) says what it will buy."
            )
        return self.leakage_

    def _require_readable(self, X: Any, y: Any, policy: Policy) -> None:
        """Raise what a fit on a table would raise once it is paid for together.

        All cells are read, so that one which is refused costs nothing.
        """
        if self.cache_dir is not None:
            cache_key(Path(self.cache_dir))
        require_readable(X, y, policy)

    def _buy_leakage(self, X: Any, y: Any, pay: Charge) -> Charge:
        """Buy the leakage if it is worth its price; return how the fit is paid.

        Guarantee
        ---------
        The whole fit, leakage and training, is recorded before a row is counted; a
        fit that breaks off afterwards has been paid for
        (`docs/theory/composition.md`).
        """
        if self.ledger is not None or self.calibration != Calibration.CERTIFIED:
            raise BudgetError(
                f"leakage='auto' pays from the estimator's own budget, and is for the "
                f"certified calibration, got ledger={self.ledger!r}, calibration="
                f"{self.calibration!r}. Buy a table first: estimate_leakage, or corrdp "
                "train --leakage auto --ledger."
            )
        self.leakage_: Any
        self.leakage_plan_ = purchase = self.plan_leakage(len(X))
        policy = self._policy_for("leakage='auto'")
        if not purchase.buys:
            self.leakage_ = declared_or_one(policy)
            if policy.relation is NeighborRelation.ALL_INSENSITIVE:
                self.leakage_ = self.leakage_.get(BLOCK)
            return pay
        if self.sampling_rate is not None:
            raise UnsupportedEventError(
                f"leakage='auto' is paid from the budget of the fit, and sampled steps "
                f"after it are not proved, got sampling_rate={self.sampling_rate!r}. "
                "Train on full batches (sampling_rate=None), or declare the leakage."
            )
        policy.require_confirmed()
        if y is None:
            y = label_column(X, policy, NO_LABELS)
        self._require_readable(X, y, policy)
        paid: list[NoisePlan] = []

        def record(plan: NoisePlan) -> None:
            with self._family_record().spending(
                self._spending(), self._unpaid_budget(None)
            ):
                paid.append(plan)

        self.leakage_ = estimate_leakage(
            X,
            policy,
            epsilon=purchase.epsilon,
            delta=purchase.delta,
            research=False,
            random_state=self.random_state,
            charge=record,
        )
        return (lambda certificate: None) if paid else pay

"""``leakage="auto"``: distances are bought from the rows, if they are worth it."""

from typing import Any

from corrdp._validate import check_count
from corrdp.accounting import NoisePlan
from corrdp.certificate import Calibration
from corrdp.estimators._fitting import Charge
from corrdp.estimators._private import PrivateEstimator
from corrdp.estimators._purchase import AUTO, LeakagePurchase, plan_purchase
from corrdp.exceptions import BudgetError, CorrDPError, PolicyError
from corrdp.leakage import BLOCK, LeakageInput, declared_or_one, estimate_leakage
from corrdp.policy import (
    Budget,
    Method,
    NeighborRelation,
    Policy,
    protected_policy,
    without_knots,
)
from corrdp.training import TrainingPlan


class BuysLeakage(PrivateEstimator):
    """What estimators share that can predict their loss before they read rows."""

    random_state: int | None

    def _method(self) -> Method:
        raise NotImplementedError

    def _plan(
        self, policy: Policy, n_rows: int, budget: Budget, leakage: LeakageInput
    ) -> TrainingPlan:
        raise NotImplementedError

    def plan_leakage(self, n_rows: int) -> LeakagePurchase:
        """Return what ``leakage="auto"`` would buy for `n_rows` rows, reading no data.

        Guarantee
        ---------
        A function of the policy, the budget and the public number of rows
        (`docs/theory/default_rule.md`, 6).
        """
        if not isinstance(self.policy, Policy):
            raise PolicyError(
                f"plan_leakage needs a Policy, got policy={self.policy!r}. Pass the "
                "policy of the table."
            )
        rows = check_count("n_rows", n_rows)
        budget = self._budget()
        kept = protected_policy(self.policy, self._method())
        policy = without_knots(self._shared(kept))
        return plan_purchase(
            policy,
            budget=budget,
            n_rows=rows,
            predicted_loss=lambda leakage: (
                self._plan(policy, rows, budget, leakage).predicted_error
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

    def _buy_leakage(self, X: Any, pay: Charge) -> Charge:
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
        if not purchase.buys:
            self.leakage_ = declared_or_one(self._checked_policy())
            if self._checked_policy().relation is NeighborRelation.ALL_INSENSITIVE:
                self.leakage_ = self.leakage_.get(BLOCK)
            return pay
        policy = self._checked_policy()
        policy.require_confirmed()
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
        return lambda certificate: None

    def _checked_policy(self) -> Policy:
        assert isinstance(self.policy, Policy)
        return self.policy

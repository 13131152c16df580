"""What every private estimator checks before it reads a row."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from corrdp.certificate import Calibration
from corrdp.estimators._all_sensitive import AllSensitive, no_values_in_messages
from corrdp.estimators._methods import LeakageInput, Method, resolve_leakage
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    PolicyError,
)
from corrdp.policy import Budget, Policy


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of all estimators: method, budget, policy, table, leakage."""

    policy: Policy | AllSensitive | None
    epsilon: float | None
    delta: float | None
    leakage: Any
    method: str
    calibration: str
    research: bool
    _numeric_label: bool

    def _chosen_method(self, allowed: Sequence[Method]) -> Method:
        if self.method not in list(allowed):
            raise CorrDPError(
                f"method must be one of {', '.join(allowed)}, got "
                f"method={self.method!r}. Choose one."
            )
        method = Method(self.method)
        if not method.is_private and not self.research:
            raise GuaranteeVoidError(
                f"method={self.method!r} protects nothing and research=False. Choose "
                "method='corr', or pass research=True on data that may be disclosed."
            )
        if self.calibration not in list(Calibration):
            raise CorrDPError(
                f"calibration must be one of {', '.join(Calibration)}, got "
                f"calibration={self.calibration!r}. Choose one."
            )
        return method

    def _budget(self) -> Budget:
        if self.epsilon is None or self.delta is None:
            raise BudgetError(
                f"epsilon={self.epsilon!r} and delta={self.delta!r}: a budget is "
                "chosen, never inherited. Pass both, for example epsilon=1.0 and "
                "delta=1e-6."
            )
        return Budget(epsilon=self.epsilon, delta=self.delta)

    def _declared(self, X: Any, y: Any) -> tuple[Policy, Any, Any]:
        """Return the policy, the table, and the labels as a column of their own."""
        if isinstance(self.policy, AllSensitive):
            with no_values_in_messages():
                X, y = validate_data(
                    self, X, y, dtype="numeric", y_numeric=self._numeric_label
                )
            y = self._checked_labels(y)
            policy = self.policy.policy(X.shape[1], y, numeric=self._numeric_label)
            return policy, X, y
        if not isinstance(self.policy, Policy):
            raise PolicyError(
                f"policy must be a Policy, got policy={self.policy!r}. Load one with "
                "Policy.from_file, or pass AllSensitive(lower, upper)."
            )
        if self.policy.label is None:
            raise PolicyError(
                "the policy declares no label (label=None). Declare target and [label]."
            )
        if y is None:
            name = self.policy.label.name
            if isinstance(X, np.ndarray) or name not in list(X.columns):
                raise PolicyError(
                    f"y is None and the table has no column {name!r}. Pass y."
                )
            y = X[name]
        return self.policy, X, y

    def _checked_labels(self, y: NDArray[Any]) -> NDArray[Any]:
        return y

    def _checked_table(self, X: Any) -> Any:
        """Return a table to predict for, as the encoder takes it."""
        check_is_fitted(self, "policy_")
        if not isinstance(self.policy, AllSensitive):
            return X
        with no_values_in_messages():
            return validate_data(self, X, reset=False, dtype="numeric")

    def _leakage(self, policy: Policy, declared: Policy) -> LeakageInput:
        return resolve_leakage(
            policy,
            self.leakage,
            declared=declared,
            calibration=Calibration(self.calibration),
        )

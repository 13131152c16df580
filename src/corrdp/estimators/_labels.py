"""Labels: of the type that the policy declares, whatever the data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from corrdp._typing import FloatArray, IntArray, JSONObject
from corrdp.estimators._all_sensitive import AllSensitive
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import CategoryDomain, NumberDomain, Policy, PolicyEncoder

NO_LABELS = "y is None and the table has no column {}. Pass y."


class DeclaredLabels(ClassifierMixin):  # type: ignore[misc]
    """What all classifiers do with labels: check, name, predict, score."""

    policy: Policy | AllSensitive | None
    policy_: Policy
    classes_: NDArray[Any]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row, as the policy declares it."""
        check_is_fitted(self, "policy_")
        return np.asarray(self.classes_[self.predicted_codes(X)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on rows whose labels are written in any type.

        Guarantee
        ---------
        None: the figure is exact. Pass rows that are public, or may be disclosed.
        """
        check_is_fitted(self, "policy_")
        if isinstance(self.policy, AllSensitive):
            return float(super().score(X, y, sample_weight))
        truth = PolicyEncoder(self.policy_).encode_label(y)
        codes = self.predicted_codes(X)
        return float(accuracy_score(truth, codes, sample_weight=sample_weight))

    def predicted_codes(self, X: Any) -> IntArray:
        """Return the index of the predicted class of every row."""
        raise NotImplementedError

    def _fitted_content(self) -> JSONObject:
        return {"classes": self.classes_.tolist()}

    def _restore_fitted(self, content: JSONObject) -> None:
        self.classes_ = declared_labels(self.policy_)
        if (
            self.classes_.tolist() != content["classes"]
        ):  # written by an earlier version
            self.classes_ = np.asarray(content["classes"])


class DeclaredNumbers(RegressorMixin):  # type: ignore[misc]
    """What all regressors do with labels: encode, and return to their units."""

    policy_: Policy
    _numeric_label = True
    _called: tuple[str, str]  # in messages, and what to use for other labels

    def _label_bounds(self, policy: Policy) -> NumberDomain:
        if policy.label is None or not isinstance(policy.label.domain, NumberDomain):
            raise PolicyError(
                f"label.type is not a number, {self._called[0]} needs bounds. Declare "
                f"them, or use {self._called[1]}."
            )
        return policy.label.domain

    @property
    def _width(self) -> float:
        domain = self._label_bounds(self.policy_)
        return domain.upper - domain.lower

    @property
    def _middle(self) -> float:
        domain = self._label_bounds(self.policy_)
        return domain.lower / 2 + domain.upper / 2

    def _encode_label(self, encoder: PolicyEncoder, y: Any) -> FloatArray:
        self._label_bounds(encoder.policy)
        return np.asarray(encoder.encode_label(y), dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def declared_labels(policy: Policy) -> NDArray[Any]:
    """Return the labels that a policy declares, in its order and in its types.

    Booleans are bool, categories declared as numbers are numbers. All labels are text
    where one of them is (a group, ``other``).
    """
    assert policy.label is not None  # checked when the policy was resolved
    domain = policy.label.domain
    if isinstance(domain, NumberDomain):
        raise PolicyError(
            "label.type is a number, a classifier needs categories. Declare "
            "categories, or use LinearRegression or MLPRegressor."
        )
    if not isinstance(domain, CategoryDomain):
        return np.array([False, True])
    levels = [*domain.levels, *["(other)"] * domain.other]
    if len(levels) < 2:
        raise PolicyError(
            f"label has {len(levels)} level, a classifier needs 2 or more. "
            "Declare all categories."
        )
    if domain.value_type is not str and tuple(levels) == domain.categories:
        return np.asarray(domain.values)
    return np.asarray(levels, dtype=object)


def check_one_label_per_row(rows: Any, labels: Any) -> None:
    """Raise unless there are as many labels as rows."""
    n_labels = count_labels(labels)
    if n_labels != len(rows):
        raise CorrDPError(
            f"X and y must have equally many rows, got {len(rows)} and "
            f"{n_labels}. Pass one label per row."
        )


def count_labels(labels: Any) -> int:
    """Return how many labels there are, or raise if they are no column."""
    try:
        return len(labels)
    except TypeError:
        kind = type(labels).__name__
    raise CorrDPError(
        f"y must be a series, an array or a list, got a {kind}. Pass one label per row."
    )


def label_column(table: Any, policy: Policy, missing: str) -> Any:
    """Return the column of the label, or raise and say what is missing."""
    assert policy.label is not None  # checked when the policy was resolved
    names = getattr(table, "column_names", getattr(table, "columns", ()))
    if policy.label.name not in list(names):
        raise PolicyError(missing.format(repr(policy.label.name)))
    return table[policy.label.name]

"""Least squares under a policy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from corrdp._typing import FloatArray
from corrdp.estimators._base import PrivateLinearModel
from corrdp.estimators._fitting import Charge
from corrdp.exceptions import PolicyError
from corrdp.policy import NumberDomain, Policy, PolicyEncoder
from corrdp.training import SQUARED_LOSS, Loss


class LinearRegression(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    r"""Least squares with clipped residuals, trained under a policy.

    Parameters are those of `LogisticRegression`; the label is a number with declared
    bounds.

    Attributes
    ----------
    certificate_ : Certificate
        What is proved; None for methods that protect nothing.
    plan_ : TrainingPlan
        Everything that was decided before data was read.
    coef_ : array of float, shape (n_codes,)
        Weights of the encoded columns in units of the label; `coef_by_name_` names
        them.
    intercept_ : float
        Constant, in units of the label.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for `policy`: per class what `certificate_` states. The
    bound on residuals is adapted from a noisy fraction that is paid for
    (`docs/theory/solvers.md`). Other proofs as for `LogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from corrdp.estimators import AllSensitive, LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(2000, 2))
    >>> model = LinearRegression(
    ...     AllSensitive(-1, 1), epsilon=1.0, delta=1e-6, random_state=0
    ... ).fit(X, 3 * X[:, 0])
    >>> bool(model.score(X, 3 * X[:, 0]) > 0.9)
    True
    """

    _numeric_label = True

    def fit(
        self, X: Any, y: Any = None, *, charge: Charge | None = None
    ) -> "LinearRegression":
        """Train; `y` may be None if the table holds the policy's target.

        `charge` is called with the certificate before anything is computed from the
        rows, for example to pay a ledger; what it raises stops the training.

        Guarantee
        ---------
        See the class (`docs/theory/solvers.md`).
        """
        self._fit(X, y, charge)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted label of every row, in the units of the label."""
        scores = self._scores(X)
        return self._middle + self._width * scores

    @property
    def coef_(self) -> FloatArray:
        """Weights of the encoded columns, in units of the label."""
        return self._coef * self._width

    @property
    def intercept_(self) -> float:
        """Constant, in units of the label."""
        return float(self._middle + self._width * self._intercept)

    @property
    def _width(self) -> float:
        domain = _label_domain(self.policy_)
        return domain.upper - domain.lower

    @property
    def _middle(self) -> float:
        domain = _label_domain(self.policy_)
        return domain.lower / 2 + domain.upper / 2

    def loss_of(self, policy: Policy) -> Loss:
        return SQUARED_LOSS

    def _encode_label(self, encoder: PolicyEncoder, y: Any) -> NDArray[Any]:
        _label_domain(encoder.policy)
        return np.asarray(encoder.encode_label(y), dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.regressor_tags.poor_score = True
        tags.target_tags.required = True
        return tags


def _label_domain(policy: Policy) -> NumberDomain:
    if policy.label is None or not isinstance(policy.label.domain, NumberDomain):
        raise PolicyError(
            "label.type is not a number, linear regression needs bounds. Declare them, "
            "or use LogisticRegression."
        )
    return policy.label.domain

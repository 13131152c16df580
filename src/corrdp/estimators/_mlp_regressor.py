"""A network that predicts a number, trained under a policy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from corrdp._typing import FloatArray
from corrdp.estimators._fitting import Charge
from corrdp.estimators._linear import LinearRegression
from corrdp.estimators._mlp_base import PrivateNetwork
from corrdp.exceptions import PolicyError
from corrdp.policy import NumberDomain, Policy, PolicyEncoder


class MLPRegressor(RegressorMixin, PrivateNetwork):  # type: ignore[misc]
    r"""Softplus network with squared loss, trained under a policy.

    Parameters and attributes are those of `MLPClassifier`; the label is a number with
    declared bounds.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for `policy`: per class what `certificate_` states. Proof:
    `docs/theory/networks.md`.

    Examples
    --------
    >>> import numpy as np
    >>> from corrdp.estimators import AllSensitive
    >>> from corrdp.estimators._mlp_regressor import MLPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(2000, 2))
    >>> model = MLPRegressor(
    ...     AllSensitive(-1, 1), epsilon=8.0, delta=1e-6, random_state=0
    ... ).fit(X, X[:, 0])
    >>> bool(model.score(X, X[:, 0]) > 0.5)
    True
    """

    _numeric_label = True
    _linear_kind = LinearRegression

    def fit(
        self, X: Any, y: Any = None, *, charge: Charge | None = None
    ) -> "MLPRegressor":
        """Train; `y` may be None if the table holds the policy's target.

        `charge` is called with the certificate before anything is computed from the
        rows, for example to pay a ledger; what it raises stops the training.

        Guarantee
        ---------
        See the class.
        """
        self._fit(X, y, charge)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted label of every row, in the units of the label."""
        domain = self._label_domain(PolicyEncoder(self.policy_))
        middle = domain.lower / 2 + domain.upper / 2
        return middle + (domain.upper - domain.lower) * self._outputs(X)[:, 0]

    def _label_domain(self, encoder: PolicyEncoder) -> NumberDomain:
        label = encoder.policy.label
        if label is None or not isinstance(label.domain, NumberDomain):
            raise PolicyError(
                "label.type is not a number, a regressor needs bounds. Declare them, "
                "or use MLPClassifier."
            )
        return label.domain

    def _encode_label(self, encoder: PolicyEncoder, y: Any) -> tuple[NDArray[Any], int]:
        self._label_domain(encoder)
        return np.asarray(encoder.encode_label(y), dtype=np.float64), 1

    def _n_outputs(self, policy: Policy) -> int:
        self._label_domain(PolicyEncoder(policy))
        return 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

"""Networks that predict categories or a number, trained under a policy."""

from typing import Any

import numpy as np
from scipy.special import softmax

from corrdp._typing import FloatArray, IntArray
from corrdp.estimators._labels import (
    DeclaredLabels,
    DeclaredNumbers,
    declared_labels,
)
from corrdp.estimators._linear import LinearRegression
from corrdp.estimators._logistic import LogisticRegression
from corrdp.estimators._mlp_base import PrivateNetwork
from corrdp.policy import Policy, PolicyEncoder


class MLPClassifier(DeclaredLabels, PrivateNetwork):
    r"""Softplus network with softmax output, trained under a policy.

    The label has declared categories. Parameters that are not described here are those
    of `LogisticRegression`; leakage is declared, or a table, and not bought.

    Parameters
    ----------
    method : {"corr", "standard", "semi", "nonprivate"}
        What is protected; the last one needs ``research=True``.
    calibration : {"certified", "theorem"}
        Proved constants, or Eq. (5) of the paper.
    fall_back : bool
        Let ``corr`` take noise by layer where it predicts less error, and a linear
        model take the place of the network where noise leaves that less than a line
        learns. Settings that only a network has (`batch_size`, `learning_rate`,
        `clip_norm`, `checkpoint`) keep it.
    hidden_units : sequence of int
        Width of every hidden layer.
    n_steps : int
        Number of gradients.
    batch_size : int, optional
        Expected size of a Poisson batch; None for all rows, which needs least noise.
    learning_rate, clip_norm : float, optional
        By default functions of the plan.
    checkpoint : path, optional
        File that a broken-off training resumes from, privacy spent included.
    checkpoint_every : int
        Steps between checkpoints.

    Attributes
    ----------
    certificate_ : Certificate
        What is proved; None for ``nonprivate``.
    plan_ : NetworkPlan or TrainingPlan
        Groups and noise, decided before data was read; of the linear model if one was
        trained.
    linear_ : LogisticRegression or None
        The linear model in the network's place; None for a network, and once loaded.
    is_linear : bool
        Whether a linear model was trained, also once loaded.
    classes_ : array
        Labels in the order of `predict_proba`.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for `policy`: per class what `certificate_` states. Proof:
    `docs/theory/networks.md`.

    Examples
    --------
    >>> import numpy as np
    >>> from corrdp.estimators import AllSensitive
    >>> from corrdp.estimators._mlp import MLPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(2000, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = MLPClassifier(
    ...     AllSensitive(-1, 1),
    ...     epsilon=8.0,
    ...     delta=1e-6,
    ...     fall_back=False,  # a product, of which a line knows nothing
    ...     random_state=0,
    ... ).fit(X, y)
    >>> model.certificate_.epsilon <= 8.0
    True
    """

    _numeric_label = False
    _linear_kind = LogisticRegression

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, shape (n_rows, n_classes)."""
        return np.asarray(softmax(self._outputs(X), axis=1))

    def predicted_codes(self, X: Any) -> IntArray:
        return np.asarray(self._outputs(X).argmax(axis=1), dtype=np.int64)

    def _encode_label(self, encoder: PolicyEncoder, y: Any) -> IntArray:
        self.classes_ = declared_labels(encoder.policy)
        return np.asarray(encoder.encode_label(y), dtype=np.int64)

    def _n_outputs(self, policy: Policy) -> int:
        return len(declared_labels(policy))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class MLPRegressor(DeclaredNumbers, PrivateNetwork):
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
    >>> from corrdp.estimators._mlp import MLPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(2000, 2))
    >>> model = MLPRegressor(
    ...     AllSensitive(-1, 1), epsilon=8.0, delta=1e-6, random_state=0
    ... ).fit(X, X[:, 0])
    >>> bool(model.score(X, X[:, 0]) > 0.5)
    True
    """

    _called = ("a regressor", "MLPClassifier")
    _linear_kind = LinearRegression

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted label of every row, in the units of the label."""
        outputs = self._outputs(X)[:, 0]
        return self._middle + self._width * outputs

    def _n_outputs(self, policy: Policy) -> int:
        self._label_bounds(policy)
        return 1

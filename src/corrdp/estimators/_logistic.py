"""Logistic regression under a policy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from corrdp._typing import FloatArray, IntArray
from corrdp.estimators._labels import DeclaredLabels, declared_labels
from corrdp.estimators._linear_model import PrivateLinearModel
from corrdp.policy import Policy, PolicyEncoder
from corrdp.training import LogisticLoss, Loss, MultinomialLoss


class LogisticRegression(DeclaredLabels, PrivateLinearModel):
    r"""Logistic regression, trained under a policy with a certificate.

    The label is a boolean or a category; with more than two categories the model is
    multinomial (softmax).

    Parameters
    ----------
    policy : Policy or AllSensitive
        Roles, domains, label.
    epsilon, delta : float
        Budget; refused if None.
    leakage : None, mapping, float, or leakage table
        What insensitive features tell about sensitive ones; None for what the policy
        declares. A table estimated on the same rows is charged to the same budget.
    method : {"corr", "standard", "semi", "partial", "nonprivate"}
        What is protected. The last two protect nothing and need `research`.
    calibration : {"certified", "theorem"}
        Proved constants, or the paper's closed forms, whose certificate says what
        they really prove.
    solver : "gd", "svrg" or Solver
        Full-batch gradient descent by the default rule, with variance reduction, or
        with other options.
    sampling_rate : float, optional
        Probability with which a record takes part in a step (Poisson sampling); None
        for full batches, which need less noise in all but take longer on large tables.
    n_steps : int, optional
        Number of gradients; None for the default rule, 500 for sampled ones, 1000
        under ``theorem``.
    step_size : float, optional
        Constant step under ``theorem``; None for the paper's decreasing one.
    theorem_constant : float, optional
        The paper's unstated constant C under ``theorem`` (E4); None for Eq. (4).
    random_state : int, optional
        Seed, for research: the certificate then says that noise can be replayed.
    fits : int
        Number of fits that share `epsilon` and `delta`, which belong to the estimator
        and all its clones and copies together (`docs/scikit-learn.md`).
    disjoint : bool
        Declares that no person has rows in two of the fits.
    ledger : Ledger or path, optional
        Pays for every fit before it computes anything from rows.
    research : bool
        Allow what is not private; the certificate is stamped.
    n_jobs : int, optional
        Processes that sum over the rows; the model is the same to the last bit
        (`docs/large_tables.md`).
    cache_dir : path, optional
        Private directory that keeps the encoded rows of a file for later fits.
    bounds : {"auto", "declared", "released"}
        Between which bounds numbers are read: those of the policy, or narrower ones
        that a small part of the budget finds. By default the latter, where labels are
        categories, it is proved and counts can be told from noise (`docs/training.md`).

    Attributes
    ----------
    certificate_ : Certificate
        What is proved; None for methods that protect nothing.
    plan_ : TrainingPlan
        Everything that was decided before data was read.
    hindsight_ : Hindsight
        Excess risk that is expected of the model, from what training released: nearer
        to the truth than ``plan_.prediction``. None for other walks than the default
        rule's, with public rows, and after loading.
    coef_ : array of float, shape (1, n_codes) or (n_classes, n_codes)
        Weights of the encoded columns; `coef_by_name_` names them.
    intercept_ : array of float, shape (1,) or (n_classes,)
        Constant.
    classes_ : array, shape (n_classes,)
        Labels, in the policy's order and type.
    n_clipped_rows_ : int
        Rows with a number outside its bounds; counted if `research` is set.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for `policy`: per class what `certificate_` states.
    Proofs: `docs/theory/glm_sensitivity.md`, `docs/theory/influence.md`,
    `docs/theory/allocation.md`, `docs/theory/solvers.md`,
    `docs/theory/default_rule.md`.

    Examples
    --------
    >>> import numpy as np
    >>> from corrdp.estimators import AllSensitive, LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(2000, 2))
    >>> y = X[:, 0] > 0
    >>> model = LogisticRegression(
    ...     AllSensitive(-1, 1), epsilon=1.0, delta=1e-6, random_state=0
    ... ).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.certificate_.epsilon <= 1.0
    True
    """

    _numeric_label = False

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log odds of the second class, or a score per class.

        Returns
        -------
        scores : array of float, shape (n_rows,) or (n_rows, n_classes)
        """
        return self._scores(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, shape (n_rows, n_classes)."""
        scores = self._scores(X)
        if scores.ndim == 2:
            return np.asarray(softmax(scores, axis=1))
        second = expit(scores)
        return np.column_stack([1.0 - second, second])

    def predicted_codes(self, X: Any) -> IntArray:
        scores = self._scores(X)
        best = scores.argmax(axis=1) if scores.ndim == 2 else scores > 0
        return np.asarray(best, dtype=np.int64)

    @property
    def coef_(self) -> FloatArray:
        """Weights of the encoded columns, one row, or one per class."""
        return np.atleast_2d(self._coef.T)

    @property
    def intercept_(self) -> FloatArray:
        """Constant, shape (1,) or (n_classes,)."""
        return np.atleast_1d(self._intercept)

    def as_layer(self) -> tuple[FloatArray, FloatArray]:
        """Return weights and bias of one score per class; two share the log odds."""
        weight, bias = super().as_layer()
        if len(bias) > 1:
            return weight, bias
        return np.vstack([-weight, weight]) / 2.0, np.append(-bias, bias) / 2.0

    def loss_of(self, policy: Policy) -> Loss:
        """Return the loss for the policy's label: logistic, or multinomial."""
        n_classes = len(declared_labels(policy))
        return LogisticLoss() if n_classes == 2 else MultinomialLoss(n_classes)

    def _encode_label(self, encoder: PolicyEncoder, y: Any) -> NDArray[Any]:
        self.classes_ = declared_labels(encoder.policy)
        return np.asarray(encoder.encode_label(y), dtype=np.float64)

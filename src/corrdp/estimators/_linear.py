"""Least squares under a policy."""

from pathlib import Path
from typing import Any

from corrdp._typing import FloatArray
from corrdp._validate import check_choice, check_real
from corrdp.estimators._all_sensitive import AllSensitive
from corrdp.estimators._base import PrivateLinearModel
from corrdp.estimators._labels import DeclaredNumbers
from corrdp.estimators._narrowing import AUTO
from corrdp.exceptions import CorrDPError
from corrdp.ledger import Ledger
from corrdp.policy import Policy
from corrdp.training import SQUARED_LOSS, HuberLoss, Loss, Solver


class LinearRegression(DeclaredNumbers, PrivateLinearModel):
    r"""Least squares or Huber regression, trained under a policy.

    The label is a number with declared bounds. Other parameters are those of
    `LogisticRegression`.

    Parameters
    ----------
    loss : {"squared", "huber"}
        ``squared``: residuals are clipped in the gradient at a bound that adapts to
        the data, which is paid for. ``huber``: squared up to a threshold and linear
        beyond, which is the same gradient with a bound that stays, at no cost.
    huber_threshold : float, optional
        Size of a residual, in units of the label, at which the Huber loss becomes
        linear; a public number. Required for ``huber``, refused for ``squared``.

    Attributes
    ----------
    certificate_, plan_, hindsight_
        As those of `LogisticRegression`.
    coef_ : array of float, shape (n_codes,)
        Weights of the encoded columns in units of the label; `coef_by_name_` names
        them.
    intercept_ : float
        Constant, in units of the label.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for `policy`: per class what `certificate_` states. The
    bound on residuals is public, or adapted from a noisy fraction that is paid for
    (`docs/theory/glm_sensitivity.md`, Lemma 2). Other proofs as for
    `LogisticRegression`.

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

    loss: str
    huber_threshold: float | None
    _called = ("linear regression", "LogisticRegression")

    def __init__(
        self,
        policy: Policy | AllSensitive | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        loss: str = "squared",
        huber_threshold: float | None = None,
        leakage: Any = None,
        method: str = "corr",
        calibration: str = "certified",
        solver: str | Solver = "gd",
        sampling_rate: float | None = None,
        n_steps: int | None = None,
        step_size: float | None = None,
        theorem_constant: float | None = None,
        random_state: int | None = None,
        fits: int = 1,
        disjoint: bool = False,
        ledger: Ledger | str | Path | None = None,
        research: bool = False,
        n_jobs: int | None = None,
        cache_dir: str | Path | None = None,
        bounds: str = AUTO,
    ) -> None:
        self._keep(locals())

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

    def loss_of(self, policy: Policy) -> Loss:
        """Return the loss in units of the encoded label, whose range is 1."""
        domain = self._label_bounds(policy)
        check_choice("loss", self.loss, ("squared", "huber"))
        threshold = self.huber_threshold
        if (self.loss == "huber") != (threshold is not None):
            raise CorrDPError(
                f"huber_threshold belongs to loss='huber', got loss={self.loss!r} and "
                f"huber_threshold={threshold!r}. Pass a public number with 'huber', "
                "and leave it out with 'squared'."
            )
        if threshold is None:
            return SQUARED_LOSS
        check_real("huber_threshold", threshold, lower=0.0, open_lower=True)
        return HuberLoss(threshold / (domain.upper - domain.lower))

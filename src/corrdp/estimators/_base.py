"""What the linear estimators share beside their fit: rows, weights, saving."""

import warnings
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from corrdp._typing import FloatArray, JSONObject
from corrdp.certificate import Calibration, Certificate, certify
from corrdp.estimators._all_sensitive import AllSensitive
from corrdp.estimators._family import Family, Spending
from corrdp.estimators._fitting import Charge
from corrdp.estimators._narrowing import (
    AUTO,
    DECLARED,
    RELEASED,
    declared_numbers,
    with_declared_numbers,
)
from corrdp.estimators._saving import coefficients_from_names
from corrdp.estimators._training import TrainsLinearModel
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    CorrDPWarning,
    GuaranteeVoidError,
)
from corrdp.leakage import LeakageInput, policy_read
from corrdp.ledger import Ledger
from corrdp.policy import (
    Budget,
    Policy,
    PolicyEncoder,
    protected_policy,
    without_knots,
)
from corrdp.training import Solver, central_reference, standardizing_scale


class PrivateLinearModel(TrainsLinearModel):
    """Base of the linear estimators; see `LogisticRegression`."""

    _saved: ClassVar[JSONObject] = {
        "parameters": {"solver": (str, {})},
        "coefficients": {...: (float, [float])},
        "intercept": (float, [float]),
        "fitted": {},
    }

    _fitted_privates = (
        "_encoder",
        "_coef",
        "_intercept",
        "_path",
        "_deviation",
        "_kept",
    )

    def __init__(
        self,
        policy: Policy | AllSensitive | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
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

    def encode(self, X: Any, y: Any = None) -> tuple[FloatArray, NDArray[Any]]:
        """Return rows and labels as encoded by the policy; nothing is protected."""
        policy, X, y = self._declared(X, y)
        method = self._method()
        leakage = self._leakage(policy, policy) if method.is_private else None
        coded = self._coded(policy, len(y), leakage, method)
        encoder = PolicyEncoder(coded).fit(X)
        return encoder.transform(X), self._encode_label(encoder, y)

    def spend_with(self, family: Family) -> None:
        """Share the record of spending of the network whose place it takes.

        Guarantee
        ---------
        One budget for both and all their copies (`docs/theory/composition.md`,
        section 9).
        """
        self._family = family

    def train_for(self, X: Any, y: Any, pay: Charge) -> None:
        """Train in the place of a network, which pays and answers for the promise.

        Guarantee
        ---------
        That of the linear model, if `pay` charges what it is told before rows are used
        (`docs/theory/networks.md`, section 7).
        """
        self._train(X, y, pay)

    def as_layer(self) -> tuple[FloatArray, FloatArray]:
        """Return weights and bias, one row per output, for standardized codes."""
        blocks = self._encoder.blocks_
        weight = np.atleast_2d(self._coef.T) / standardizing_scale(blocks)
        bias = self._intercept + central_reference(blocks) @ self._coef
        return weight, np.atleast_1d(np.asarray(bias, dtype=np.float64))

    def _scores(self, X: Any) -> FloatArray:
        X = self._checked_table(X)
        return np.asarray(self._encoder.transform(X) @ self._coef + self._intercept)

    @property
    def coef_by_name_(self) -> dict[str, Any]:
        """Weight of every encoded column by its name, such as ``race=White``.

        With more than two labels, a list: one weight per label.
        """
        check_is_fitted(self, "policy_")
        names = self._encoder.get_feature_names_out()
        return dict(zip(names.tolist(), self._coef.tolist(), strict=True))

    def score_path(self, X: Any, y: Any) -> tuple[tuple[int, float], ...]:
        """Return the score after growing numbers of steps: a training curve.

        Empty if the model was loaded, or trained without the certified calibration.

        Guarantee
        ---------
        Iterates are post-processing of what training released
        (`docs/theory/solvers.md`). Scores are exact: pass rows that are public, or that
        may be disclosed.
        """
        check_is_fitted(self, "policy_")
        scores = []
        for step, coef, intercept in self._path:
            iterate = copy(self)
            iterate.__dict__ |= {"_coef": coef, "_intercept": intercept}
            scores.append((step, float(iterate.score(X, y))))
        return tuple(scores)

    # --- for a search, which pays for all its fits together

    def require_searchable(self) -> None:
        """Raise unless a search can pay for fits of this estimator."""
        self._policy_for("a search")
        if self.epsilon is not None or self.ledger is not None:
            raise BudgetError(
                f"the budget is that of the search, got an estimator with epsilon="
                f"{self.epsilon!r} and ledger={self.ledger!r}. Pass both to "
                "PrivateSearchCV instead."
            )
        if self.fits != 1 or self.disjoint:
            raise BudgetError(
                f"the search counts its fits itself, got fits={self.fits!r}, disjoint="
                f"{self.disjoint!r}. Leave both at their defaults."
            )
        if self.random_state is not None:
            raise GuaranteeVoidError(
                "every run of a search draws noise of its own, got an estimator with "
                f"random_state={self.random_state!r}, of which all runs would draw the "
                "same. Pass it to PrivateSearchCV instead."
            )
        if isinstance(self.leakage, str):
            raise BudgetError(
                f"leakage={self.leakage!r} would be bought in every run. Declare the "
                "leakage, or estimate it from public rows."
            )
        if self.bounds == RELEASED:
            raise BudgetError(
                f"bounds={self.bounds!r} would be released in every run, which the "
                f"search does not pay for. Leave bounds at {AUTO!r}, which stands for "
                f"{DECLARED!r} in a search, or declare narrower ones."
            )
        certified = self.calibration == Calibration.CERTIFIED
        full = certified and self.sampling_rate is None
        if not self._method().is_private or not full:
            raise CorrDPError(
                "a search is for certified training on full batches, got method="
                f"{self.method!r}, calibration={self.calibration!r}, sampling_rate="
                f"{self.sampling_rate!r}. Leave them at their defaults."
            )

    def searched_promise(self) -> tuple[Policy, LeakageInput]:
        """Return the policy that a search keeps, and its distances."""
        declared = policy_read(self._policy_for("a search"), self._leakage_given())
        kept = without_knots(protected_policy(declared, self._method()))
        leakage = self._leakage(kept, declared)
        if leakage.spent or leakage.claim.source in ("private", "in_sample"):
            raise BudgetError(
                "a search does not share its budget with a leakage table of private "
                f"rows (source {leakage.claim.source!r}). Declare the leakage, or "
                "estimate it from public rows."
            )
        return kept, leakage

    def searched_rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the table, and the labels as a column of their own.

        All cells have been read by then, so that one which is refused costs nothing.
        """
        policy, table, labels = self._declared(X, y)
        self._require_readable(table, labels, policy)
        return table, labels

    def paying_for_search(
        self, budget: Budget, *, elsewhere: bool
    ) -> AbstractContextManager[None]:
        """Record a search around its payment, for this estimator and all its copies.

        Guarantee
        ---------
        That of `Family.spending`: a search is one spending of its whole budget
        (``docs/theory/composition.md``, section 9).
        """
        whole = Spending.of(budget, ceiling=self._cap())
        return self.family.spending(
            whole, None if elsewhere or self.research else whole
        )

    def fit_in_search(self, X: Any, y: Any, check: Charge) -> None:
        """Fit for a search, which pays for all of its fits; `check` is told."""
        if self.bounds == RELEASED:  # an estimator that no search has asked for
            self.require_searchable()
        self._family, self._planned_blind = Family(), True
        with warnings.catch_warnings():
            # A warning per run would tell how many there were.
            warnings.simplefilter("ignore", CorrDPWarning)
            self._fit(X, y, check)

    def release_from_search(
        self, template: "PrivateLinearModel", budget: Budget, certificate: Certificate
    ) -> None:
        """Take on the budget, the family and the certificate of a whole search.

        Guarantee
        ---------
        The model says what the search cost, not what its own fit did, and shares the
        budget of the estimator that was searched with
        (``docs/theory/selection.md``).
        """
        self.policy, self.leakage = template.policy, template.leakage
        self.epsilon, self.delta = budget.epsilon, budget.delta
        self.random_state = template.random_state
        self._family = template.family
        self.policy_ = replace(self.policy_, epsilon_cap=certificate.epsilon_cap)
        self.certificate_ = certify(
            self.policy_,
            certificate.components,
            budget=budget,
            leakage=certificate.leakage,
            assumptions=certificate.assumptions[1:],  # the first is every certificate's
            replayable_noise=certificate.replayable_noise,
            research=self.research,
        )

    # --- files

    @classmethod
    def _arguments(
        cls, content: JSONObject, policy: Policy
    ) -> tuple[Policy, JSONObject]:
        parameters = dict(content["parameters"])
        if "bounds" in cls._get_param_names():  # written unless they are declared
            parameters.setdefault("bounds", DECLARED)
        if not isinstance(parameters["solver"], str):
            parameters["solver"] = Solver.from_json(parameters["solver"])
        declared = with_declared_numbers(policy, content.get("declared_numbers", {}))
        if not policy.is_within(declared):
            raise CorrDPError(
                "model.declared_numbers are narrower than the bounds that the model "
                "reads numbers between. The file is damaged; train it again."
            )
        return declared, parameters

    def _weights_content(self) -> JSONObject:
        content: JSONObject = {
            "coefficients": self.coef_by_name_,
            "intercept": np.asarray(self._intercept).tolist(),
        }
        if declared := declared_numbers(self._kept, self.policy_):
            content["declared_numbers"] = declared
        return content

    def _restore_weights(
        self, content: JSONObject
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        self._kept = self._policy_for("a saved model")
        self._path, self._deviation, self.hindsight_ = (), None, None
        self._encoder = PolicyEncoder(self.policy_)
        self._coef = coefficients_from_names(self.policy_, content["coefficients"])
        self._intercept = np.asarray(content["intercept"], dtype=np.float64)
        return self._coef.shape[1:], self._intercept.shape

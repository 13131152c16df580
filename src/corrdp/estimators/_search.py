"""Choose among settings of a model privately, in the manner of scikit-learn."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import ParameterGrid
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from corrdp._random import noise_generator
from corrdp._validate import check_count
from corrdp.certificate import Certificate
from corrdp.engines import refuse_hosted
from corrdp.estimators._evaluation import LARGEST_LOSS, row_scores
from corrdp.estimators._linear_model import PrivateLinearModel
from corrdp.estimators._promises import Charge
from corrdp.estimators._search_plan import (
    SearchPlan,
    candidate_of,
    gaussian_costs,
    plan_search,
)
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.ledger import Ledger, charge_certificate
from corrdp.policy import Budget
from corrdp.tables import is_source

_SCORINGS = {
    "accuracy": ("(correct)", 1.0),
    "neg_log_loss": ("(loss)", -1.0),
    "neg_mean_squared_error": ("(squared error)", -1.0),
}
_PROMISE = (
    "policy",
    "epsilon",
    "delta",
    "leakage",
    "bounds",
    "method",
    "calibration",
    "sampling_rate",
    "random_state",
    "fits",
    "disjoint",
    "ledger",
    "research",
)


class PrivateSearchCV(BaseEstimator):  # type: ignore[misc]
    """Search over settings of an estimator, paid for as a whole.

    Every run fits a candidate and scores it, both with noise, and only the best run is
    released: settings, model and noisy score. The number of runs is random by default
    (geometric, as many on average as there are candidates), because hiding it makes
    twenty candidates cost less than twice the epsilon of one; few candidates are each
    run once if that costs less. `plan` says which, and the price, before it starts.

    Parameters
    ----------
    estimator : LogisticRegression, LinearRegression or an additive model
        With a policy, and without a budget of its own.
    param_grid : dict or list of dict
        Lists of settings, as in scikit-learn's GridSearchCV. Settings that belong to
        the promise (policy, method, leakage, ...) are not for choice.
    epsilon, delta : float
        Budget of the whole search, the released model included.
    scoring : {"accuracy", "neg_log_loss", "neg_mean_squared_error"}, optional
        What a run is judged by; accuracy, or the squared error over the squared width
        of the label. Probabilities below 0.01 count as 0.01.
    cv : float, optional
        Part of the rows that is held out and judges; None to learn from and judge by
        all rows. Folds are refused: each record would train all but one of them.
    runs : "auto", "all" or float
        ``"all"``: each candidate once, and all noisy scores are released. A number:
        mean of the random number of runs.
    score_share : float
        Part of a run's cost (squared Gaussian-DP parameter) that goes to its score
        when no rows are held out.
    ledger : Ledger or path, optional
        Pays for the search before anything is computed from rows.
    random_state : int, optional
        Seed, for research: noise can then be replayed.
    verbose : int
        1 to print the price before the search starts.

    Attributes
    ----------
    best_params_ : dict
        Settings of the best run.
    best_index_ : int
        Its place among the candidates.
    best_score_ : float
        Its noisy score, which is optimistic: it is the best of several.
    best_estimator_ : estimator
        Its model. The certificate is that of the whole search.
    certificate_ : Certificate
        What the search costs every class.
    plan_ : SearchPlan
        All that was decided before rows were read.
    cv_results_ : dict
        Settings and noisy scores of all runs; only if each candidate was run once,
        when they are paid for.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for the policy of the estimator, per class what
    `certificate_` states: ``docs/theory/selection.md``. The budget is that of the
    estimator and its clones together. A search that is interrupted has been paid for
    and releases nothing. Not covered: who sees how long it ran.
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        scoring: str | None = None,
        cv: Any = None,
        runs: str | float = "auto",
        score_share: float = 0.1,
        ledger: Ledger | str | Path | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        given = locals()
        for name in self._get_param_names():
            setattr(self, name, given[name])

    def plan(self, n_rows: int) -> SearchPlan:
        """Return what a search on `n_rows` rows will cost, reading no data.

        Guarantee
        ---------
        A function of policy, budget, candidates and the public number of rows
        (``docs/theory/selection.md``).
        """
        self._refuse_unusable()
        self._chosen_scoring()
        return plan_search(
            self.estimator,
            self._candidates(),
            budget=self._budget(),
            n_rows=check_count("n_rows", n_rows),
            held_out=self._held_out(),
            runs=self.runs,
            score_share=self.score_share,
            replayable_noise=self.random_state is not None,
        )

    def fit(
        self, X: Any, y: Any = None, *, charge: Charge | None = None
    ) -> "PrivateSearchCV":
        """Search; `y` may be None if the table holds the policy's target.

        `charge` is told the certificate of the whole search before anything is computed
        from rows, and after every cell has been read; what it raises stops the search.
        """
        refuse_hosted(
            X,
            "a search, which holds rows out by their numbers,",
            "Fit one setting there, or bring the rows to one machine and search.",
        )
        if is_source(X):
            raise CorrDPError(
                "a search takes a table in memory, got a source of rows. Read it first."
            )
        plan = self.plan(len(X))
        if self.verbose:
            print(plan.to_text())
        rows = self.estimator.searched_rows(X, y)
        generator = noise_generator(self.random_state, purpose="search")
        self._pay(plan, charge)
        learned, judged = self._split(rows, plan, generator)
        scores: list[float] = []

        def one_run(index: int) -> tuple[float, PrivateLinearModel]:
            model = self._fitted(plan, index, learned, generator)
            scores.append(self._score(plan, model, judged, generator))
            return scores[-1], model

        drawn: Sequence[int] = range(len(plan.candidates))
        if plan.mean_runs is not None:
            drawn = drawn_candidates(plan.mean_runs, len(drawn), generator)
        index, score, model = best_of_runs(one_run, drawn)
        self.__dict__.pop("cv_results_", None)
        if plan.mean_runs is None:  # all scores are paid for
            self.cv_results_ = {
                "params": list(plan.candidates),
                "noisy_score": np.array(scores) / plan.n_score * self._unit(),
            }
        self.best_index_ = index
        self.best_params_ = dict(plan.candidates[index])
        self.best_score_ = score / plan.n_score * self._unit()
        self.plan_ = plan
        model.release_from_search(self.estimator, self._budget(), plan.certificate)
        model.ledger = self.ledger
        self.best_estimator_ = model
        self.certificate_ = model.certificate_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return what the best model predicts."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the best model, if it is a classifier."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict_proba(X))

    def _fitted(
        self,
        plan: SearchPlan,
        index: int,
        rows: tuple[Any, Any],
        generator: np.random.Generator,
    ) -> PrivateLinearModel:
        """Fit one candidate, and hold its cost to what the search was charged for."""

        def check(certificate: Certificate) -> None:
            costs = gaussian_costs(certificate.components, list(plan.fit_mu))
            if any(mu > plan.fit_mu[name] for name, mu in costs.items()):
                raise GuaranteeVoidError(
                    "a fit of the search costs more than the search was charged for. "
                    "Nothing is released; report this as a defect."
                )

        model = candidate_of(
            self.estimator, plan.candidates[index], plan.fit_policy, plan.fit_budget
        )
        if self.random_state is not None:
            model.random_state = int(generator.integers(2**31))
        model.fit_in_search(*rows, check)
        return model

    def _score(
        self,
        plan: SearchPlan,
        model: PrivateLinearModel,
        rows: tuple[Any, Any],
        generator: np.random.Generator,
    ) -> float:
        """Return the sum of scores in [0, 1], with noise; larger is better."""
        column, sign = _SCORINGS[self._chosen_scoring()]
        values, largest = row_scores(model, *rows, column)
        total = float(np.clip(values / largest, 0.0, 1.0).sum())
        return sign * total + plan.score_noise * float(generator.standard_normal())

    def _unit(self) -> float:
        """Return the factor from mean scores in [0, 1] to those of the metric."""
        return LARGEST_LOSS if self._chosen_scoring() == "neg_log_loss" else 1.0

    def _pay(self, plan: SearchPlan, charge: Charge | None) -> None:
        """Record the search with the family of its estimator, and charge it.

        Guarantee
        ---------
        The whole search is paid for before a run is made, whether it ends or not
        (``docs/theory/selection.md``, ``docs/theory/ledger.md``).
        """
        budget = self._budget()
        elsewhere = charge is not None or self.ledger is not None
        with self.estimator.paying_for_search(budget, elsewhere=elsewhere):
            if charge is not None:
                charge(plan.certificate)
            if self.ledger is not None:
                charge_certificate(
                    self.ledger,
                    plan.certificate,
                    policy=plan.policy,
                    purpose=f"search over {len(plan.candidates)} candidates, "
                    f"{type(self.estimator).__name__}",
                    leakage=self.estimator.leakage,
                )

    def _split(
        self, rows: tuple[Any, Any], plan: SearchPlan, generator: np.random.Generator
    ) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Return rows to learn from and to judge by, drawn without looking at rows."""
        if self.cv is None:
            return rows, rows
        drawn = generator.permutation(plan.n_train + plan.n_score)
        return _taken(rows, drawn[plan.n_score :]), _taken(rows, drawn[: plan.n_score])

    def _candidates(self) -> tuple[dict[str, Any], ...]:
        candidates = tuple(ParameterGrid(self.param_grid))
        known = self.estimator.get_params(deep=False)
        for name in {name for settings in candidates for name in settings}:
            if name in _PROMISE or name not in known:
                raise CorrDPError(
                    f"param_grid must hold settings of {type(self.estimator).__name__} "
                    f"that promise nothing, got {name!r}. Choose among "
                    f"{', '.join(sorted(set(known) - set(_PROMISE)))}."
                )
        return candidates

    def _refuse_unusable(self) -> None:
        estimator = self.estimator
        if not isinstance(estimator, PrivateLinearModel):
            raise CorrDPError(
                "a search is for LogisticRegression, LinearRegression and additive "
                f"models, got {type(estimator).__name__}. Their cost is known before a "
                "row is read."
            )
        estimator.require_searchable()

    def _chosen_scoring(self) -> str:
        classifies = hasattr(self.estimator, "predict_proba")
        allowed = (
            ("accuracy", "neg_log_loss") if classifies else ("neg_mean_squared_error",)
        )
        chosen = allowed[0] if self.scoring is None else self.scoring
        if chosen not in allowed:
            raise CorrDPError(
                f"scoring of this estimator must be one of {', '.join(allowed)}, got "
                f"scoring={self.scoring!r}. Others have no price per row."
            )
        return chosen

    def _held_out(self) -> float | None:
        if self.cv is None:
            return None
        if not isinstance(self.cv, float) or not 0.0 < self.cv < 1.0:
            raise CorrDPError(
                f"cv must be None or the part of the rows to hold out, got cv="
                f"{self.cv!r}. In k folds every record trains k - 1 models, which "
                "multiplies the cost by about sqrt(k - 1); hold out 0.2 instead."
            )
        return float(self.cv)

    def _budget(self) -> Budget:
        return Budget.chosen(epsilon=self.epsilon, delta=self.delta)


def drawn_candidates(
    mean_runs: float, n_candidates: int, generator: np.random.Generator
) -> list[int]:
    """Return the candidate of every run; their number is geometric.

    Guarantee
    ---------
    Number and candidates are drawn without looking at rows
    (``docs/theory/selection.md``, section 1).
    """
    n_runs = int(generator.geometric(1.0 / mean_runs))
    return [int(index) for index in generator.integers(n_candidates, size=n_runs)]


def best_of_runs(
    one_run: Callable[[int], tuple[float, Any]], indices: Sequence[int]
) -> tuple[int, float, Any]:
    """Return index, score and result of the best run, the first of equal ones.

    Guarantee
    ---------
    Keeps nothing of the others (``docs/theory/selection.md``, section 1).
    """
    best: tuple[int, float, Any] | None = None
    for index in indices:
        score, result = one_run(index)
        if best is None or score > best[1]:
            best = index, score, result
    assert best is not None  # there is at least one run
    return best


def _taken(rows: tuple[Any, Any], places: NDArray[Any]) -> tuple[Any, Any]:
    """Return the rows and labels at some places, in the order of the table."""
    table, labels = rows
    chosen = np.sort(places)
    return _safe_indexing(table, chosen), _safe_indexing(labels, chosen)

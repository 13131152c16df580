"""What the linear estimators share: training, certificate, saving."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from corrdp._json import check_shape
from corrdp._typing import FloatArray, JSONObject
from corrdp.certificate import Calibration, Certificate
from corrdp.engines import is_elsewhere
from corrdp.estimators._all_sensitive import AllSensitive
from corrdp.estimators._family import Family
from corrdp.estimators._fitting import (
    Charge,
    PrivateFit,
    Rows,
    fit_by_theorem,
    fit_full_batch,
    fit_on_samples,
)
from corrdp.estimators._labels import check_one_label_per_row
from corrdp.estimators._narrowing import (
    AUTO,
    DECLARED,
    declared_numbers,
    with_declared_numbers,
)
from corrdp.estimators._planning import PlansTraining
from corrdp.estimators._public_rows import PublicRows, is_declared, mixed_fit
from corrdp.estimators._saving import (
    check_outputs,
    coefficients_from_names,
    read_model_of,
    write_model,
)
from corrdp.estimators._searchable import Searchable
from corrdp.estimators._tiled import (
    RowsInBatches,
    count_clipped_rows,
    opened_source,
    table_and_host,
)
from corrdp.exceptions import CorrDPError, GuaranteeVoidError, UtilityWarning
from corrdp.leakage import LeakageInput, estimate_leakage, resolve_leakage
from corrdp.ledger import Ledger
from corrdp.policy import (
    Budget,
    Method,
    Policy,
    PolicyEncoder,
    partial_policy,
    protected_policy,
)
from corrdp.training import (
    CONSTANT,
    LABEL_DEVIATION,
    Hindsight,
    Solver,
    TheoremPlan,
    TrainingPlan,
    central_reference,
    is_plain,
    minimize_risk,
    standardizing_scale,
)

_PARAMETERS = [
    "epsilon",
    "delta",
    "method",
    "calibration",
    "solver",
    "sampling_rate",
    "n_steps",
    "step_size",
    "theorem_constant",
    "random_state",
    "fits",
    "disjoint",
    "research",
]
_SAVED = {
    "parameters": {"solver": (str, {})},
    "coefficients": {...: (float, [float])},
    "intercept": (float, [float]),
    "fitted": {},
}


class PrivateLinearModel(PlansTraining, Searchable):
    """Base of the linear estimators; see `LogisticRegression`."""

    _fitted_privates = (
        "_encoder",
        "_coef",
        "_intercept",
        "_path",
        "_deviation",
        "_kept",
    )
    _kept: Policy  # as declared, before bounds were released
    _deviation: FloatArray | None = None  # of the weights, by noise alone
    _path: tuple[tuple[int, FloatArray, Any], ...] = ()
    plain_ridge = 0.0  # of fits that protect nothing
    _streams = True  # whether codes are known before rows are counted
    _coef: FloatArray
    _encoder: PolicyEncoder
    _intercept: Any  # a number, or one per output
    _public: PublicRows | None = None  # while a fit with public rows runs

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

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        public_rows: Any = None,
        charge: Charge | None = None,
    ) -> Self:
        """Train; `y` may be None if the table holds the policy's target.

        `X` is a table in memory, or a path or another source of rows that holds the
        label, too (`docs/large_tables.md`).

        `public_rows` is a table, label included, that you declare public: it is read
        freely, never charged, and the certificate names it (`docs/public_rows.md`).
        `charge` is called with the certificate before anything that a class changes is
        computed from the rows, for example to pay a ledger; what it raises stops the
        training. Labels that no class changes have told how they are spread by then.
        """
        if public_rows is not None:
            self._refuse_unusable_public_rows()
            if public_rows is X:
                raise GuaranteeVoidError(
                    "public_rows is the private table itself, and would be read "
                    "without noise. Pass other rows, which are public, or none."
                )
            self._public = PublicRows.read(public_rows, self.policy)
        try:
            self._fit(X, y, charge)
        finally:
            self.__dict__.pop("_public", None)  # a fitted model holds no rows
        return self

    def _refuse_unusable_public_rows(self) -> None:
        if not self._method().is_private:
            raise CorrDPError(
                f"public_rows help private training, and method={self.method!r} is "
                "not. Leave them out."
            )
        if self.calibration == Calibration.THEOREM or self.sampling_rate is not None:
            raise CorrDPError(
                f"public_rows start full-batch certified training, got calibration="
                f"{self.calibration!r} and sampling_rate={self.sampling_rate!r}. Leave "
                "both at their defaults."
            )

    def _leakage(self, policy: Policy, declared: Policy) -> LeakageInput:
        """Return the leakage; of public rows, where nothing else says what it is."""
        if self._public is None or self.leakage is not None or is_declared(declared):
            return super()._leakage(policy, declared)
        table = estimate_leakage(self._public.table, declared, source="public")
        return resolve_leakage(
            policy,
            table,
            declared=declared,
            calibration=Calibration(self.calibration),
        )

    def _train(self, X: Any, y: Any, pay: Charge) -> None:
        method = self._method()
        private = method.is_private
        budget = self._budget() if private else None
        tiles = private and self._trains_on_tiles()
        if is_elsewhere(X):
            streams = self._streams and not self._is_to_buy()
            X, y = opened_source(self.policy, X, y, whole=not (tiles and streams))
        if private and self._is_to_buy():
            pay = self._buy_leakage(X, y, pay)
        declared, X, y = self._declared(X, y)
        declared.require_confirmed()
        policy = (
            partial_policy(declared)
            if method is Method.PARTIAL
            else declared
            if self.calibration == Calibration.THEOREM
            else protected_policy(declared, method)
        )
        n_rows = 0 if is_elsewhere(X) else len(y)  # which additive models ask for
        policy = self._shared(policy)
        leakage = self._leakage(policy, declared) if private else None
        policy = self._coded(policy, n_rows, leakage, method)
        self._read_by(policy, X)
        self._kept = policy
        names = [feature.name for feature in policy.features]
        if not isinstance(self.policy, AllSensitive):
            self.n_features_in_ = len(names)
            self.feature_names_in_ = np.asarray(names, dtype=object)
        self.plan_: TrainingPlan | TheoremPlan | None = None
        self.certificate_: Certificate | None = None
        self._path, self._deviation = (), None
        self.hindsight_: Hindsight | None = None
        if budget is not None and leakage is not None and tiles:
            self._train_on_tiles(X, y, self._rows(policy, budget, leakage, pay))
            return
        codes = self._encoder.transform(X)
        labels = self._encode_label(self._encoder, y)
        check_one_label_per_row(codes, labels)
        if self.research:
            self.n_clipped_rows_ = count_clipped_rows(policy, X)
        if budget is None or leakage is None:
            self._coef, self._intercept = minimize_risk(
                codes, labels, self.loss_of(policy), ridge=self.plain_ridge
            )
            return
        rows = self._rows(policy, budget, leakage, pay)
        self._finish(replace(rows, codes=codes, labels=labels))

    def _read_by(self, policy: Policy, X: Any) -> None:
        """Encode rows as a policy declares them."""
        self.policy_ = policy
        self._encoder = PolicyEncoder(policy)
        if not is_elsewhere(X):
            self._encoder.fit(X)

    def _rows(
        self, policy: Policy, budget: Budget, leakage: LeakageInput, pay: Charge
    ) -> Rows:
        """Return the promise under which rows are used, which are still to come."""
        told = () if self._public is None else (self._public.assumption,)
        seed = self.random_state
        return Rows(None, None, policy, budget, leakage, seed, pay, told)

    def _train_on_tiles(self, X: Any, y: Any, rows: Rows) -> None:
        """Encode rows and train; anew, if numbers are found between narrower bounds.

        All cells have been read by then, so that one which is refused costs nothing.
        """
        with self._tiled(X, y, rows, self.cache_dir) as tiled:
            if self._narrows(X):
                tiled = self._narrowed(X, tiled)
            if tiled.policy == rows.policy:
                self._finish(tiled)
                return
            n_rows = tiled.n_rows
        self._read_by(tiled.policy, X)
        # Nobody finds them again: the next fit will find other bounds.
        with self._tiled(X, y, tiled, None) as again:
            if again.n_rows != n_rows:
                raise CorrDPError(
                    "the table has another number of rows than when it was read first. "
                    "Train on rows that nobody changes meanwhile; this fit is paid for."
                )
            self._finish(again)

    @contextmanager
    def _tiled(
        self, X: Any, y: Any, rows: Rows, cache_dir: str | Path | None
    ) -> Iterator[Rows]:
        """Encode rows for as long as they are asked for sums."""
        encoded = partial(self._encode_label, self._encoder)
        batches = RowsInBatches(X, y, self._encoder, encoded, self.research)
        sampled = self.sampling_rate is not None
        plain = is_plain(self.loss_of(rows.policy), self._solver())
        with table_and_host(
            batches,
            compiled=plain and not sampled,
            in_order=sampled,
            cache_dir=cache_dir,
            n_jobs=self.n_jobs,
        ) as (table, host):
            if self.research:
                self.n_clipped_rows_ = batches.n_clipped
            yield replace(rows, tiles=table, host=host)

    def _finish(self, rows: Rows) -> None:
        """Fit on rows that are ready, and keep what was released."""
        policy = rows.policy
        fitted, certificate = self._fit_privately(rows)
        if self._public is not None:
            public = self._public.model(policy, self.loss_of(policy))
            self.n_public_rows_, self.public_score_ = public.n_rows, public.score
            self.public_coef_, self.public_intercept_ = public.coef, public.intercept
            assert isinstance(self.plan_, TrainingPlan)  # others were refused
            fitted = mixed_fit(public, fitted, self.plan_.prediction.compared)
        else:
            self.hindsight_ = fitted.hindsight
        self._coef, self._intercept = fitted.coef, fitted.intercept
        self._deviation = fitted.deviation
        self.certificate_ = self._stamped(certificate)
        self._path = fitted.path

    def _trains_on_tiles(self) -> bool:
        """Return whether training asks for sums, of all rows or of samples."""
        return Calibration(self.calibration) is not Calibration.THEOREM

    def _fit_privately(self, rows: Rows) -> PrivateFit:
        if Calibration(self.calibration) is Calibration.THEOREM:
            self.plan_ = self._theorem_plan(
                rows.policy, rows.n_rows, rows.budget, rows.leakage
            )
            return fit_by_theorem(rows, self.plan_)
        self.plan_ = plan = rows.plan or self._chosen_plan(rows)
        if self.sampling_rate is None or plan.noise == CONSTANT:
            return fit_full_batch(rows, plan)
        return fit_on_samples(
            rows,
            plan,
            rate=self.sampling_rate,
            n_steps=self.n_steps,
        )

    def _chosen_plan(self, rows: Rows) -> TrainingPlan:
        """Return the plan of a fit between the bounds that rows are read by."""
        deviation = self._deviation_for(rows)
        plan = self._plan(
            rows.policy, rows.n_rows, rows.budget, rows.leakage, deviation
        )
        return self._chosen(plan, rows)

    def _deviation_for(self, rows: Rows) -> float:
        """Return the deviation of labels that a fit on these rows is planned with."""
        if self._planned_blind:
            return LABEL_DEVIATION
        return self._deviation_of(rows.label_totals, rows.policy, rows.leakage)

    def _chosen(self, plan: TrainingPlan, rows: Rows) -> TrainingPlan:
        """Return the plan; somebody hears of it if it will learn little."""
        if plan.prediction.learns_little and self._public is None:
            constant = plan.noise == CONSTANT
            epsilon, delta = rows.budget.epsilon, rows.budget.delta
            needed = plan.epsilon_needed(epsilon=epsilon, delta=delta)
            warnings.warn(
                f"the plan expects noise to cost {plan.noise_to_signal:.2g} of the "
                f"risk that a model can save at all (n_rows={rows.n_rows}, epsilon="
                f"{epsilon:g}). "
                + ("Labels alone are learned. " if constant else "Expect little. ")
                + f"About {plan.rows_needed()} rows, or epsilon={needed:.2g}, would "
                "do.",
                UtilityWarning,
                stacklevel=8,
            )
        return plan

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

    def _encode_label(self, encoder: PolicyEncoder, y: Any) -> NDArray[Any]:
        raise NotImplementedError

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

    def save(self, directory: str | Path) -> None:
        """Write model, policy and certificate to a directory; see `load`."""
        check_is_fitted(self, "policy_")
        solver = self.solver
        content: JSONObject = {
            "kind": type(self).__name__,
            "parameters": {
                **{name: getattr(self, name) for name in _PARAMETERS},
                **({} if isinstance(solver, str) else {"solver": solver.to_json()}),
                **({} if self.bounds == DECLARED else {"bounds": self.bounds}),
                **self._own_parameters(),
            },
            "coefficients": self.coef_by_name_,
            "intercept": np.asarray(self._intercept).tolist(),
            "fitted": self._fitted_content(),
        }
        if declared := declared_numbers(self._kept, self.policy_):
            content["declared_numbers"] = declared
        write_model(directory, content, self.policy_, self.certificate_)

    @classmethod
    def _loaded(cls, directory: str | Path) -> Self:
        content, policy, certificate = read_model_of(cls.__name__, directory)
        check_shape(content, _SAVED, "model")
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
        model = cls(declared, **parameters)
        model.policy_, model._kept = policy, declared
        model._path, model._deviation = (), None
        model.plan_, model.certificate_ = None, certificate
        model.hindsight_ = None
        model._encoder = PolicyEncoder(policy)
        model._coef = coefficients_from_names(policy, content["coefficients"])
        model._intercept = np.asarray(content["intercept"], dtype=np.float64)
        model._restore_fitted(content["fitted"])
        check_outputs(model, model._coef.shape[1:], model._intercept.shape)
        if certificate is not None:
            model._mark_as_spent()
        return model

    def _own_parameters(self) -> JSONObject:
        return {}

    def _fitted_content(self) -> JSONObject:
        return {}

    def _restore_fitted(self, content: JSONObject) -> None:
        del content  # a regressor has nothing else to restore

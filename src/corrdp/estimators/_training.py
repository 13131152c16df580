"""The fit of a linear model, from the table to what it releases: one walk."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp.accounting import NoisePlan
from corrdp.certificate import Calibration, Certificate
from corrdp.engines import is_elsewhere
from corrdp.estimators._all_sensitive import AllSensitive
from corrdp.estimators._family import share_of
from corrdp.estimators._fitting import (
    Charge,
    Fit,
    Promise,
    fit_by_theorem,
    fit_full_batch,
    fit_on_samples,
)
from corrdp.estimators._labels import (
    NO_LABELS,
    check_one_label_per_row,
    count_labels,
    label_column,
)
from corrdp.estimators._narrowing import AUTO, RELEASED, narrowed_fit
from corrdp.estimators._planning import PlansTraining
from corrdp.estimators._public_rows import PublicRows, is_declared, mixed_fit
from corrdp.estimators._tiled import (
    RowsInBatches,
    count_clipped_rows,
    opened_source,
    require_readable,
    table_and_host,
)
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    UnsupportedEventError,
    UtilityWarning,
)
from corrdp.leakage import (
    BLOCK,
    LeakageInput,
    declared_or_one,
    estimate_leakage,
    resolve_leakage,
)
from corrdp.policy import (
    Method,
    NeighborRelation,
    Policy,
    PolicyEncoder,
    partial_policy,
    protected_policy,
)
from corrdp.tables import cache_key, reads_again
from corrdp.training import (
    CONSTANT,
    LABEL_DEVIATION,
    Hindsight,
    TheoremPlan,
    TrainedModel,
    TrainingPlan,
    is_plain,
    minimize_risk,
)


class TrainsLinearModel(PlansTraining):
    """What a fit does, in the order of its methods.

    The table is opened, leakage bought if it is to be, rows encoded, bounds of numbers
    released if they are to be, gradients taken, and what they made is kept. A release
    is paid for by `pay`, once: by the leakage if that is bought, by the counts if
    numbers are counted, else by the first gradient.
    """

    _kept: Policy  # as declared, before bounds were released
    _deviation: FloatArray | None = None  # of the weights, by noise alone
    _path: tuple[tuple[int, FloatArray, Any], ...] = ()
    plain_ridge = 0.0  # of fits that protect nothing
    _streams = True  # whether codes are known before rows are counted
    _coef: FloatArray
    _encoder: PolicyEncoder
    _intercept: Any  # a number, or one per output
    _public: PublicRows | None = None  # while a fit with public rows runs

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

    def _train(self, X: Any, y: Any, pay: Charge) -> None:
        self._narrows(X)  # refuses what released bounds do not go with
        method = self._method()
        private = method.is_private
        budget = self._budget() if private else None
        tiles = private and self.calibration != Calibration.THEOREM
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
        n_rows = 0  # of a source, where no model asks for it
        if not is_elsewhere(X) and not (n_rows := count_labels(y)):
            raise CorrDPError("the table has no rows. Pass a table with at least one.")
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
        if budget is None or leakage is None:
            self._coef, self._intercept = minimize_risk(
                *self._encoded(X, y), self.loss_of(policy), ridge=self.plain_ridge
            )
            return
        told = () if self._public is None else (self._public.assumption,)
        promise = Promise.of(policy, leakage)
        fit = Fit(promise, budget, self.random_state, pay, told)
        if tiles:
            self._train_on_tiles(X, y, fit)
        else:
            codes, labels = self._encoded(X, y)
            self.plan_ = self._theorem_plan(promise, n_rows)
            self.planned_ = {"n_rows": n_rows}
            self._take_on(policy, *fit_by_theorem(codes, labels, fit, self.plan_))

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

    def _buy_leakage(self, X: Any, y: Any, pay: Charge) -> Charge:
        """Buy the leakage if it is worth its price; return how the fit is paid.

        Guarantee
        ---------
        The whole fit, leakage and training, is recorded before a row is counted; a
        fit that breaks off afterwards has been paid for
        (`docs/theory/composition.md`).
        """
        if self.ledger is not None or self.calibration != Calibration.CERTIFIED:
            raise BudgetError(
                f"leakage='auto' pays from the estimator's own budget, and is for the "
                f"certified calibration, got ledger={self.ledger!r}, calibration="
                f"{self.calibration!r}. Buy a table first: estimate_leakage, or corrdp "
                "train --leakage auto --ledger."
            )
        self.leakage_: Any
        self.leakage_plan_ = purchase = self.plan_leakage(len(X))
        policy = self._policy_for("leakage='auto'")
        if not purchase.buys:
            self.leakage_ = declared_or_one(policy)
            if policy.relation is NeighborRelation.ALL_INSENSITIVE:
                self.leakage_ = self.leakage_.get(BLOCK)
            return pay
        if self.sampling_rate is not None:
            raise UnsupportedEventError(
                f"leakage='auto' is paid from the budget of the fit, and sampled steps "
                f"after it are not proved, got sampling_rate={self.sampling_rate!r}. "
                "Train on full batches (sampling_rate=None), or declare the leakage."
            )
        policy.require_confirmed()
        if y is None:
            y = label_column(X, policy, NO_LABELS)
        self._require_readable(X, y, policy)
        paid: list[NoisePlan] = []

        def record(plan: NoisePlan) -> None:
            spent = self._spending(share_of(self._cap(), self.fits))
            with self.family.spending(spent, self._unpaid_budget(None)):
                paid.append(plan)

        self.leakage_ = estimate_leakage(
            X,
            policy,
            epsilon=purchase.epsilon,
            delta=purchase.delta,
            research=False,
            random_state=self.random_state,
            charge=record,
        )
        return (lambda certificate: None) if paid else pay

    def _require_readable(self, X: Any, y: Any, policy: Policy) -> None:
        """Raise what a fit on a table would raise once it is paid for together.

        All cells are read, so that one which is refused costs nothing.
        """
        if self.cache_dir is not None:
            cache_key(Path(self.cache_dir))
        require_readable(X, y, policy)

    def _read_by(self, policy: Policy, X: Any) -> None:
        """Encode rows as a policy declares them."""
        self.policy_ = policy
        self._encoder = PolicyEncoder(policy)
        if not is_elsewhere(X):
            self._encoder.fit(X)

    def _encoded(self, X: Any, y: Any) -> tuple[FloatArray, NDArray[Any]]:
        """Return rows and labels of a table that is encoded whole."""
        codes = self._encoder.transform(X)
        labels = self._encode_label(self._encoder, y)
        check_one_label_per_row(codes, labels)
        if self.research:
            self.n_clipped_rows_ = count_clipped_rows(self.policy_, X)
        return codes, labels

    def _train_on_tiles(self, X: Any, y: Any, fit: Fit) -> None:
        """Encode rows and train; anew, if numbers are found between narrower bounds.

        All cells have been read by then, so that one which is refused costs nothing.
        """
        policy = fit.promise.policy
        with self._tiled(X, y, fit, self.cache_dir) as tiled:
            planned = self._planned_fit(X, tiled)
            if planned.promise.policy == policy:
                self._descend(planned)
                return
            n_rows = tiled.rows.n_rows
        self._read_by(planned.promise.policy, X)
        # Nobody finds them again: the next fit will find other bounds.
        with self._tiled(X, y, planned, None) as again:
            if again.rows.n_rows != n_rows:
                raise CorrDPError(
                    "the table has another number of rows than when it was read first. "
                    "Train on rows that nobody changes meanwhile; this fit is paid for."
                )
            self._descend(again)

    @contextmanager
    def _tiled(
        self, X: Any, y: Any, fit: Fit, cache_dir: str | Path | None
    ) -> Iterator[Fit]:
        """Encode rows for as long as they are asked for sums."""
        encoded = partial(self._encode_label, self._encoder)
        batches = RowsInBatches(X, y, self._encoder, encoded, self.research)
        sampled = self.sampling_rate is not None
        plain = is_plain(self.loss_of(fit.promise.policy), self._solver())
        with table_and_host(
            batches,
            compiled=plain and not sampled,
            in_order=sampled,
            cache_dir=cache_dir,
            n_jobs=self.n_jobs,
        ) as (table, host):
            if self.research:
                self.n_clipped_rows_ = batches.n_clipped
            yield replace(fit, tiles=table, host=host)

    def _planned_fit(self, X: Any, fit: Fit) -> Fit:
        """Choose the plan; if it counts numbers first, return rows to be read anew."""
        promise, n_rows = fit.promise, fit.rows.n_rows
        deviation = LABEL_DEVIATION
        if not self._planned_blind:
            deviation = self._deviation_of(fit.rows.label_totals, promise)
        counts = self._narrows(X)

        def planned(at: Self, n_rows: int) -> tuple[TrainingPlan, Any]:
            return at._plan_fit(promise, n_rows, deviation, counts=counts)

        plan, counted = planned(self, n_rows)
        if counted is not None and not self._is_read_again(X, promise.policy):
            counts = False
            plan, counted = planned(self, n_rows)
        fit.budget.warn_if_large_delta(n_rows)
        is_silent = self._public is not None or self._planned_blind
        if plan.prediction.learns_little and not is_silent:
            plan = self._advised(plan, planned)
            warnings.warn(self._learns_little(plan), UtilityWarning, stacklevel=6)
        fit = replace(fit, plan=plan)
        return fit if counted is None else narrowed_fit(X, fit, counted)

    def _is_read_again(self, X: Any, policy: Policy) -> bool:
        """Return whether rows are there for counting, before anything is paid."""
        if reads_again(X, policy.features[0].name):
            return True
        if self.bounds == AUTO:
            return False
        raise CorrDPError(
            f"bounds={RELEASED!r} reads rows more than once, and this "
            f"{type(X).__name__} has none left. Pass the file, or a table."
        )

    def _learns_little(self, plan: TrainingPlan) -> str:
        """Return what somebody should hear before a fit that will learn little."""
        assert plan.needed is not None  # the plan was advised
        constant = plan.noise == CONSTANT
        return (
            f"the plan expects noise to cost {plan.noise_to_signal:.2g} of the "
            f"risk that a model can save at all (n_rows={plan.n_rows}, epsilon="
            f"{self.epsilon:g}). "
            + ("Labels alone are learned. " if constant else "Expect little. ")
            + plan.needed.text
        )

    def _descend(self, fit: Fit) -> None:
        """Pay and train as planned, on rows that are ready."""
        policy, plan = fit.promise.policy, fit.plan
        assert plan is not None
        self.plan_ = plan
        self.planned_ = {
            "n_rows": plan.n_rows,
            "label_deviation": plan.label_deviation,
        }
        if self.sampling_rate is None or plan.noise == CONSTANT:
            found = fit_full_batch(fit, plan)
        else:
            found = fit_on_samples(
                fit, plan, rate=self.sampling_rate, n_steps=self.n_steps
            )
        self._take_on(policy, *found)

    def _take_on(
        self, policy: Policy, fitted: TrainedModel, certificate: Certificate
    ) -> None:
        """Keep what was released."""
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

    def _encode_label(self, encoder: PolicyEncoder, y: Any) -> NDArray[Any]:
        raise NotImplementedError

"""What every private estimator checks before it reads a row."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from corrdp._json import check_shape, decoding
from corrdp._random import check_seed
from corrdp._typing import JSONObject
from corrdp._validate import check_choice, check_count, check_flag
from corrdp.certificate import Calibration, Certificate
from corrdp.engines import is_elsewhere, refuse_hosted
from corrdp.estimators._all_sensitive import AllSensitive, checked_numbers
from corrdp.estimators._family import (
    Family,
    Spending,
    new_family,
    note_birthplace,
    share_of,
)
from corrdp.estimators._fitting import Charge
from corrdp.estimators._labels import NO_LABELS, label_column
from corrdp.estimators._narrowing import DECLARED
from corrdp.estimators._saving import check_outputs, read_model, write_model
from corrdp.estimators._tiled import opened_source
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    PolicyError,
)
from corrdp.leakage import LeakageInput, policy_read, resolve_leakage
from corrdp.ledger import Ledger, charge_certificate
from corrdp.policy import Budget, Method, Policy, require_policy

if TYPE_CHECKING:
    from corrdp.queries import QueryResult


_UNSAVED = {"policy", "leakage", "ledger", "n_jobs", "cache_dir", "checkpoint"}


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of all estimators: method, budget, policy, table, leakage."""

    policy: Policy | AllSensitive | None
    epsilon: float | None
    delta: float | None
    leakage: Any
    method: str
    calibration: str
    fits: int
    disjoint: bool
    ledger: Ledger | str | Path | None
    random_state: int | None
    research: bool
    policy_: Policy
    plan_: Any
    planned_: JSONObject  # what a plan takes besides the parameters, to be made again
    certificate_: Certificate | None
    _family: Family
    _saved: ClassVar[JSONObject]  # shape of the content of a file
    _fitted_privates: tuple[str, ...]
    _numeric_label: bool

    def _keep(self, arguments: Mapping[str, Any]) -> None:
        """Keep what a constructor was given, as it is: all that scikit-learn allows.

        These are the names of that constructor: one of a subclass may have others.
        """
        for name in arguments.keys() - {"self", "__class__"}:
            setattr(self, name, arguments[name])
        note_birthplace(self)

    def _fit(self, X: Any, y: Any, charge: Charge | None) -> None:
        """Train, once paid for; a fit that raises leaves the whole earlier fit."""
        # What can be refused without rows is refused first: once a fit is recorded, a
        # refusal would have cost its budget.
        check_seed(self.random_state)
        if charge is not None and isinstance(self.leakage, str):
            raise BudgetError(
                f"leakage={self.leakage!r} is bought before the fit is charged, got "
                "charge. Buy a table first with estimate_leakage and pass it."
            )
        if self.epsilon is not None and self.delta is not None:
            self._require_budget(charge)
        with self._replacing_fit():
            self.planned_ = {}  # of what is not planned
            self._train(X, y, lambda certificate: self._pay(certificate, charge))

    def evaluate(
        self,
        X: Any,
        y: Any = None,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        metrics: Sequence[str] | None = None,
        by: str | tuple[str, ...] | None = None,
        ledger: Ledger | str | Path | None = None,
        leakage: Any = None,
        failure_probability: float = 0.05,
        accept_new_data: bool = False,
        random_state: int | None = None,
    ) -> "QueryResult":
        """Measure the fitted model on private rows, within a budget.

        Parameters
        ----------
        X, y
            As in `fit`; the rows may be those of training, or others.
        epsilon, delta : float
            Budget of all metrics together, beside what training has spent.
        metrics : sequence of str, optional
            Of a classifier ``accuracy`` (default), ``log_loss`` (probabilities below
            0.01 count as 0.01), ``confusion``, and for two classes ``auc``, ``roc``,
            ``calibration``; of a regressor ``r_squared`` (default) and
            ``mean_squared_error`` (over the squared width of the label's bounds).
        by : str or tuple of str, optional
            Columns that split every metric, such as a sensitive group.
        ledger : Ledger or path, optional
            Charged before anything is computed from rows, and after every cell has
            been read, so that one which is refused costs nothing; that of the
            estimator by default.
        leakage : optional
            That of the estimator by default.
        failure_probability, accept_new_data, random_state
            As in `corrdp.queries.answer_queries`.

        Returns
        -------
        result : QueryResult
            One answer per metric, named after it, with radii and a certificate.

        Guarantee
        ---------
        (epsilon, delta)-CorrDP for the policy, for these metrics alone: what training
        cost is in `certificate_` (``docs/theory/queries.md``).
        """
        from corrdp.estimators import _evaluation

        check_is_fitted(self, "policy_")
        refuse_hosted(X, "an evaluation of a model")
        if is_elsewhere(X):
            X, _ = opened_source(self.policy, X, y, whole=True)
        return _evaluation.evaluate(
            self,
            self._checked_table(X),
            y,
            metrics=metrics,
            by=by,
            budget=Budget(epsilon=epsilon, delta=delta),  # type: ignore[arg-type]
            ledger=ledger,
            leakage=leakage,
            failure_probability=failure_probability,
            accept_new_data=accept_new_data,
            random_state=random_state,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.target_tags.required = True
        return tags

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read a saved model; whatever was changed since is refused.

        Raises
        ------
        GuaranteeVoidError
            A file was changed, or the certificate cannot be recomputed.
        """
        with decoding("model"):
            content, policy, certificate = read_model(directory)
            if content["kind"] != cls.__name__:
                raise CorrDPError(
                    f"the model is a {content['kind']!r}, not a {cls.__name__!r}. Load "
                    f"it with {content['kind']}.load."
                )
            check_shape(content, cls._saved, "model")
            declared, parameters = cls._arguments(content, policy)
            # The cap of a file is that of one fit, and a parameter that of all.
            whole = declared.epsilon_cap * parameters.get("fits", 1)
            model = cls(replace(declared, epsilon_cap=whole), **parameters)
            model.policy_, model.plan_, model.certificate_ = policy, None, certificate
            outputs = model._restore_weights(content)
            model._restore_fitted(content["fitted"])
            model.planned_ = content.get("planned", {})  # later than the first files
            check_shape(model.planned_, {...: float}, "model.planned")
            check_outputs(model, *outputs)
            if certificate is not None:
                model._mark_as_spent(certificate)
            return model

    def save(self, directory: str | Path) -> None:
        """Write model, policy and certificate as text files; see `load`."""
        check_is_fitted(self, "policy_")
        content: JSONObject = {
            "kind": type(self).__name__,
            "parameters": {
                name: value
                for name, value in self.get_params(deep=False).items()
                if name not in _UNSAVED and (name, value) != ("bounds", DECLARED)
            },
            **self._weights_content(),
            "fitted": self._fitted_content(),
            "planned": self.planned_,
        }
        write_model(directory, content, self.policy_, self.certificate_)

    @classmethod
    def _arguments(
        cls, content: JSONObject, policy: Policy
    ) -> tuple[Policy, JSONObject]:
        """Return what the estimator of a file was made with."""
        return policy, content["parameters"]

    def _weights_content(self) -> JSONObject:
        raise NotImplementedError

    def _restore_weights(
        self, content: JSONObject
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Take weights of a file; return the shapes of the outputs by both of them."""
        raise NotImplementedError

    def _fitted_content(self) -> JSONObject:
        """Return what a file of the model says beside its weights."""
        return {}

    def _restore_fitted(self, content: JSONObject) -> None:
        del content  # a regressor has nothing else to restore

    def _train(self, X: Any, y: Any, pay: Charge) -> None:
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what notebooks show: the estimator, and its certificate if fitted."""
        with warnings.catch_warnings():
            # scikit-learn scrapes docstrings and knows no section of this name.
            warnings.filterwarnings("ignore", message="Unknown section Guarantee")
            bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        certificate = vars(self).get("certificate_")
        if certificate is not None and "text/html" in bundle:
            bundle["text/html"] += certificate._repr_html_()
        return bundle

    @contextmanager
    def _replacing_fit(self) -> Iterator[None]:
        """Forget the earlier fit, so that nothing of it outlives the next one.

        If the next one raises, the earlier one is put back, all of it.
        """
        earlier = self._take_fit()
        try:
            yield
        except BaseException:
            self._take_fit()
            self.__dict__.update(earlier)
            raise

    def _take_fit(self) -> dict[str, Any]:
        """Remove all that a fit has set, and return it; scikit-learn's own stays."""
        names = [n for n in vars(self) if n.endswith("_") or n in self._fitted_privates]
        return {name: self.__dict__.pop(name) for name in names}

    def decided_parameters(self) -> dict[str, Any]:
        """Return parameters that the rule decided in a fit, to plan the same again."""
        return {}

    @property
    def family(self) -> Family:
        """The record of spending that this estimator shares with its copies."""
        if "_family" not in vars(self):  # threads that ask at once get the same one
            self.__dict__.setdefault("_family", new_family(self))
        return self._family

    def __sklearn_clone__(self) -> Self:
        family = self.family
        copy: Self = super().__sklearn_clone__()
        copy._family = family
        return copy

    def __getstate__(self) -> dict[str, Any]:
        _ = self.family  # a copy of an estimator that was never fitted shares it
        state: dict[str, Any] = super().__getstate__()
        return state

    def _unpaid_budget(self, charge: Charge | None) -> Spending | None:
        """Return the budget of the family, None if it is not what pays."""
        if self.research or charge is not None or self.ledger is not None:
            return None
        return Spending.of(self._family_budget(), ceiling=self._cap())

    def _require_budget(self, charge: Charge | None) -> None:
        """Raise before a row is read, if the family cannot pay for another fit."""
        whole = self._unpaid_budget(charge)
        if whole is not None:
            self.family.require(self._spending(0.0), whole)

    def _cap(self) -> float:
        """Return the policy's cap on the epsilon of any class."""
        return self.policy.epsilon_cap if isinstance(self.policy, Policy) else 0.0

    def _spending(self, ceiling: float) -> Spending:
        """Return the cost of a fit that leaves every class below a ceiling."""
        disjoint = check_flag("disjoint", self.disjoint)
        return Spending.of(self._budget(), ceiling=ceiling, disjoint=disjoint)

    def _pay(self, certificate: Certificate, charge: Charge | None) -> None:
        """Record a fit with its family, and charge it where it is to be charged.

        Guarantee
        ---------
        Called before anything that a class changes is computed from the rows; what it
        raises stops the fit (`docs/theory/composition.md`).
        """
        stamped = self._stamped(certificate)
        with self.family.spending(
            self._spending(highest_epsilon(stamped)), self._unpaid_budget(charge)
        ):
            if charge is not None:
                charge(stamped)
            if self.ledger is not None:
                charge_certificate(
                    self.ledger,
                    stamped,
                    policy=self.policy_,
                    purpose=f"{type(self).__name__}, method {self.method}",
                    leakage=self._leakage_given(),
                )

    def _stamped(self, certificate: Certificate) -> Certificate:
        """Return the certificate, which says so if research was allowed."""
        return replace(certificate, research=self.research)

    def _mark_as_spent(self, certificate: Certificate) -> None:
        """Record the fit of a model that was loaded."""
        spent = self._spending(highest_epsilon(certificate))
        with self.family.spending(spent, None):
            pass

    def _chosen_method(self, allowed: Sequence[Method]) -> Method:
        method = Method(check_choice("method", self.method, allowed))
        research = check_flag("research", self.research)
        if not method.is_private and not research:
            raise GuaranteeVoidError(
                f"method={self.method!r} protects nothing and research=False. Choose "
                "method='corr', or pass research=True on data that may be disclosed."
            )
        check_choice("calibration", self.calibration, Calibration)
        return method

    def _family_budget(self) -> Budget:
        return Budget.chosen(epsilon=self.epsilon, delta=self.delta)

    def _budget(self) -> Budget:
        """Return what one fit may spend: an equal share of the family's budget."""
        whole = self._family_budget()
        fits = check_count("fits", self.fits)
        return Budget(
            epsilon=share_of(whole.epsilon, fits), delta=share_of(whole.delta, fits)
        )

    def _shared(self, policy: Policy) -> Policy:
        """Return the policy of one fit: its cap, too, is that of all fits together."""
        fits = check_count("fits", self.fits)
        if fits == 1:
            return policy
        return replace(policy, epsilon_cap=share_of(policy.epsilon_cap, fits))

    def _declared(self, X: Any, y: Any) -> tuple[Policy, Any, Any]:
        """Return the policy, the table, and the labels as a column of their own."""
        if isinstance(self.policy, AllSensitive):
            X, y = checked_numbers(self, X, y, numeric=self._numeric_label)
            policy = self.policy.policy(X.shape[1], y, numeric=self._numeric_label)
            return policy, X, y
        remedy = "Load one with Policy.from_file, or pass AllSensitive(lower, upper)."
        declared = require_policy(self.policy, remedy=remedy)
        if declared.label is None:
            raise PolicyError(
                "the policy declares no label (label=None). Declare target and [label]."
            )
        if y is None and not is_elsewhere(X):
            y = label_column(X, declared, NO_LABELS)
        return policy_read(declared, self._leakage_given()), X, y

    def _policy_for(self, what: str) -> Policy:
        """Return the policy, which columns that are all sensitive do not have."""
        remedy = f"For {what} pass the policy of the table."
        return require_policy(self.policy, remedy=remedy)

    def _checked_table(self, X: Any) -> Any:
        """Return a table to predict for, as the encoder takes it."""
        check_is_fitted(self, "policy_")
        refuse_hosted(
            X,
            "a prediction",
            "Predict partition by partition where they are: map_partitions, "
            "map_batches, mapInArrow.",
        )
        if not isinstance(self.policy, AllSensitive):
            return X
        return checked_numbers(self, X)

    def _leakage_given(self) -> Any:
        """Return the leakage to use; one that a fit has bought if it was to buy."""
        return self.leakage

    def _leakage(self, policy: Policy, declared: Policy) -> LeakageInput:
        return resolve_leakage(
            policy,
            self._leakage_given(),
            declared=declared,
            calibration=Calibration(self.calibration),
        )


def highest_epsilon(certificate: Certificate) -> float:
    """Return the largest epsilon that a certificate allows any class it promises."""
    claims = certificate.classes.values()
    return max((c.allowed_epsilon for c in claims if c.promised), default=0.0)

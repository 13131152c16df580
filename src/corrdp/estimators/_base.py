"""What the linear estimators share beside their fit: rows, weights, saving."""

from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from corrdp._json import check_shape
from corrdp._typing import FloatArray, JSONObject
from corrdp.estimators._all_sensitive import AllSensitive
from corrdp.estimators._family import Family
from corrdp.estimators._fitting import (
    Charge,
)
from corrdp.estimators._narrowing import (
    AUTO,
    DECLARED,
    declared_numbers,
    with_declared_numbers,
)
from corrdp.estimators._saving import (
    check_outputs,
    coefficients_from_names,
    read_model_of,
    write_model,
)
from corrdp.estimators._searchable import Searchable
from corrdp.exceptions import CorrDPError
from corrdp.ledger import Ledger
from corrdp.policy import (
    Policy,
    PolicyEncoder,
)
from corrdp.training import (
    Solver,
    central_reference,
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


class PrivateLinearModel(Searchable):
    """Base of the linear estimators; see `LogisticRegression`."""

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
            model._mark_as_spent(certificate)
        return model

    def _own_parameters(self) -> JSONObject:
        return {}

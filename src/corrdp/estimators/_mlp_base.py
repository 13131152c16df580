"""What the network estimators share: policy, training, prediction, saving."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import check_count, check_flag, check_real
from corrdp.certificate import Certificate
from corrdp.engines import refuse_hosted
from corrdp.estimators._all_sensitive import AllSensitive
from corrdp.estimators._base import PrivateLinearModel
from corrdp.estimators._fitting import Charge
from corrdp.estimators._labels import check_one_label_per_row
from corrdp.estimators._narrowing import DECLARED
from corrdp.estimators._private import PrivateEstimator
from corrdp.exceptions import CorrDPError, UtilityWarning
from corrdp.leakage import policy_read
from corrdp.ledger import Ledger
from corrdp.policy import Method, Policy, PolicyEncoder, protected_policy, without_knots
from corrdp.training import central_reference, standardizing_scale

_METHODS = (Method.CORR, Method.STANDARD, Method.SEMI, Method.NONPRIVATE)
_NOISE_WARNED = 0.3  # one-step noise on the mean gradient, per clipping norm


class PrivateNetwork(PrivateEstimator):
    """Base of the network estimators; see `MLPClassifier`."""

    _fitted_privates = ("_weights",)
    _saved: ClassVar[JSONObject] = {
        "parameters": {},
        "weights": [[([[float]], [float])]],
        "fitted": {},
    }
    _linear_kind: type[PrivateLinearModel]  # what is trained in a network's place
    fall_back: bool
    hidden_units: Sequence[int]
    n_steps: int
    batch_size: int | None
    learning_rate: float | None
    clip_norm: float | None
    checkpoint: str | Path | None
    checkpoint_every: int

    def __init__(
        self,
        policy: Policy | AllSensitive | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        leakage: Any = None,
        method: str = "corr",
        calibration: str = "certified",
        fall_back: bool = True,
        hidden_units: Sequence[int] = (20,),
        n_steps: int = 200,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        clip_norm: float | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 50,
        random_state: int | None = None,
        fits: int = 1,
        disjoint: bool = False,
        ledger: Ledger | str | Path | None = None,
        research: bool = False,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any = None, *, charge: Charge | None = None) -> Self:
        """Train; `y` may be None if the table holds the policy's target.

        `charge` is called with the certificate before anything is computed from the
        rows, for example to pay a ledger; what it raises stops the training.

        Guarantee
        ---------
        See the class.
        """
        self._fit(X, y, charge)
        return self

    def _train(self, X: Any, y: Any, pay: Charge) -> None:
        refuse_hosted(
            X,
            "a network",
            "Networks on several processes: corrdp.torch.make_private.",
        )
        train = _training()
        method = self._chosen_method(_METHODS)
        widths = self._widths()
        if self.learning_rate is not None:
            check_real("learning_rate", self.learning_rate, lower=0.0, open_lower=True)
        declared, X, y = self._declared(X, y)
        declared.require_confirmed()
        # Networks bend numbers by themselves: knots are for additive models.
        policy = without_knots(self._shared(protected_policy(declared, method)))
        budget = self._budget() if method.is_private else None
        encoder = PolicyEncoder(policy).fit(X)
        features = scaled_codes(encoder, X)
        labels = self._encode_label(encoder, y)
        check_one_label_per_row(features, labels)
        if not isinstance(self.policy, AllSensitive):
            self.n_features_in_ = encoder.n_features_in_
            self.feature_names_in_ = encoder.feature_names_in_
        self.policy_ = policy
        self.plan_: Any = None
        self.certificate_: Certificate | None = None
        self.linear_: PrivateLinearModel | None = None
        shape = {
            "hidden_units": widths,
            "n_outputs": self._n_outputs(policy),
            "random_state": self.random_state,
        }
        if budget is None:
            self._weights = train.train_plainly(features, labels, **shape)
            return
        self.planned_ = {"n_rows": len(features)}
        training = train.private_network(
            features,
            labels,
            **shape,
            **self._terms(policy, declared, len(features), self.n_steps),
        )
        if self.gives_way(training.module.plan):
            self._train_line(X, y, pay, training.module.plan)
            return
        budget.warn_if_large_delta(len(features))
        checkpoint_every = check_count("checkpoint_every", self.checkpoint_every)
        plan, certificate = training.module.plan, training.module.certificate()
        if self.checkpoint is not None:
            _resume(training, Path(self.checkpoint))
        pay(certificate)
        self._weights = train.train_network(
            training,
            n_outputs=shape["n_outputs"],
            learning_rate=self.learning_rate,
            checkpoint=self.checkpoint,
            checkpoint_every=checkpoint_every,
        )
        self.plan_, self.certificate_ = plan, self._stamped(certificate)
        if plan.deviation > _NOISE_WARNED:
            warnings.warn(
                f"noise is {plan.deviation:.2g} of the clipping norm for "
                f"one step on {len(features)} rows at epsilon={budget.epsilon:g}. "
                "Expect little; use more rows, fewer units or a larger epsilon.",
                UtilityWarning,
                stacklevel=4,
            )

    def gives_way(self, plan: Any) -> bool:
        """Return whether a linear model is trained instead of the network of a plan.

        Never if `fall_back` is off, something is set that only a network has, or no
        hidden layer is wanted anyway.

        Guarantee
        ---------
        A function of public numbers (`docs/theory/networks.md`, section 7).
        """
        own = (self.batch_size, self.learning_rate, self.clip_norm, self.checkpoint)
        kept = any(setting is not None for setting in own) or not self._widths()
        if kept or not check_flag("fall_back", self.fall_back):
            return False
        return bool(_training().is_too_noisy(plan))

    def gives_way_text(self, plan: Any) -> str:
        """Return why a linear model is trained instead of the network of a plan."""
        return (
            f"noise would be {plan.deviation:.2g} of the clipping norm for one step of "
            f"the network at epsilon={self._budget().epsilon:g}, in which it learns "
            "less than a line. A linear model is trained instead, under the same "
            "promise. Use more rows, fewer units or a larger epsilon; "
            "fall_back=False (--no-fall-back) keeps the network."
        )

    @property
    def is_linear(self) -> bool:
        """Whether a linear model was fitted in the network's place."""
        check_is_fitted(self, "policy_")
        return len(self._weights) < 1 + len(self.hidden_units)

    def linear_model(self) -> PrivateLinearModel:
        """Return the linear model with the same promise; it shares what was spent."""
        linear = self._linear_kind()
        given = self.get_params(deep=False)
        names = set(given) & set(linear.get_params(deep=False)) - {"n_steps"}
        # A layer reads codes of the network, whose numbers lie between declared bounds.
        taken = {name: given[name] for name in names} | {"bounds": DECLARED}
        linear.set_params(**taken)
        linear.spend_with(self.family)
        return linear

    def _train_line(self, X: Any, y: Any, pay: Charge, plan: Any) -> None:
        """Train the linear model, which is a network without hidden layer."""
        warnings.warn(self.gives_way_text(plan), UtilityWarning, stacklevel=5)
        self.linear_ = linear = self.linear_model()
        linear.train_for(X, y, pay)
        self._weights = (linear.as_layer(),)
        self.plan_, self.certificate_ = linear.plan_, linear.certificate_
        self.planned_ = linear.planned_

    def private_training(
        self,
        features: FloatArray,
        labels: NDArray[Any],
        *,
        n_outputs: int,
        n_steps: int | None = None,
    ) -> Any:
        """Return module, optimizer and loader as `fit` makes them; not trained yet.

        Those of the network, also where `fit` would train a linear model instead.

        Parameters
        ----------
        features : array of float, shape (n, n_columns)
            Scaled codes of the policy.
        labels : array, shape (n,)
            Class indices, or numbers if `n_outputs` is 1.
        n_outputs : int
            Number of classes, or 1 for regression.
        n_steps : int, optional
            Gradients among which the budget is divided; those of `fit` by default.

        Guarantee
        ---------
        That of `fit` (`docs/theory/networks.md`).
        """
        _, terms = self._promised(len(features), n_steps or self.n_steps)
        return _training().private_network(
            features, labels, n_outputs=n_outputs, **terms
        )

    def planned_training(self, n_rows: int) -> Any:
        """Return what `private_training` does for `n_rows` rows, reading none.

        Its ``module`` has the plan and the certificate of a fit on as many rows.

        Guarantee
        ---------
        A function of public numbers (`docs/theory/networks.md`, section 7).
        """
        policy, terms = self._promised(check_count("n_rows", n_rows), self.n_steps)
        return _training().planned_network(
            n_rows,
            PolicyEncoder(policy).blocks_[-1].stop,
            n_outputs=self._n_outputs(policy),
            **terms,
        )

    def _promised(self, n_rows: int, n_steps: int) -> tuple[Policy, dict[str, Any]]:
        """Return the policy that is kept, and the arguments of a private network."""
        method = self._chosen_method(_METHODS)
        declared = policy_read(self._policy_for("planning a network"), self.leakage)
        policy = without_knots(self._shared(protected_policy(declared, method)))
        shape = {"hidden_units": self._widths()}
        seed = {"random_state": self.random_state}
        return policy, shape | seed | self._terms(policy, declared, n_rows, n_steps)

    def _terms(
        self, policy: Policy, declared: Policy, n_rows: int, n_steps: int
    ) -> dict[str, Any]:
        """Return what decides the plan and the certificate, for `make_private`."""
        budget = self._budget()
        leakage = self._leakage(policy, declared)
        blocks = PolicyEncoder(policy).blocks_
        return {
            "clip_norm": self.clip_norm,
            "policy": policy,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "epochs": self._epochs(check_count("n_steps", n_steps), n_rows),
            "batch_size": self.batch_size,
            "leakage": leakage.distances,
            "leakage_claim": leakage.claim,
            "leakage_assumptions": leakage.assumptions,
            "replayable_leakage": leakage.replayable_noise,
            "spent": leakage.spent,
            "method": "layered" if self.method == Method.STANDARD else "corr",
            "calibration": self.calibration,
            "fall_back": self.fall_back,
            "reference": np.zeros(blocks[-1].stop),
            "code_scale": standardizing_scale(blocks),
        }

    def _widths(self) -> tuple[int, ...]:
        units: Any = self.hidden_units
        if not isinstance(units, Sequence | np.ndarray) or isinstance(units, str):
            raise CorrDPError(
                f"hidden_units must be a sequence of widths, got hidden_units="
                f"{units!r}. Pass one per layer, for example (20,)."
            )
        return tuple(check_count("hidden_units", width) for width in units)

    def _epochs(self, n_steps: int, n_rows: int) -> float:
        if self.batch_size is None:
            return n_steps
        if check_count("batch_size", self.batch_size) >= n_rows:
            return n_steps
        return math.nextafter(n_steps * self.batch_size / n_rows, 0.0)

    def _encode_label(self, encoder: PolicyEncoder, y: Any) -> NDArray[Any]:
        raise NotImplementedError

    def _n_outputs(self, policy: Policy) -> int:
        """Return the number of classes, or 1 for regression."""
        raise NotImplementedError

    def _outputs(self, X: Any) -> FloatArray:
        """Return the outputs of the network, shape (n_rows, n_outputs)."""
        X = self._checked_table(X)
        values = scaled_codes(PolicyEncoder(self.policy_), X)
        for index, (weight, bias) in enumerate(self._weights):
            if index > 0:
                values = np.logaddexp(0.0, values)  # softplus
            values = values @ weight.T + bias
        return values

    def _weights_content(self) -> JSONObject:
        return {"weights": [[w.tolist(), b.tolist()] for w, b in self._weights]}

    def _restore_weights(
        self, content: JSONObject
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        self.linear_ = None
        self._weights = tuple(
            (np.array(weight), np.array(bias)) for weight, bias in content["weights"]
        )
        _check_layers(self._weights, PolicyEncoder(self.policy_).blocks_[-1].stop)
        weight, bias = self._weights[-1]
        return weight.shape[:1], bias.shape


def _resume(training: Any, checkpoint: Path) -> None:
    """Go on from a checkpoint if there is one; refuse before anything is paid."""
    from corrdp.torch import load_checkpoint

    if checkpoint.exists():
        load_checkpoint(training, checkpoint)
    elif not checkpoint.parent.is_dir():
        raise CorrDPError(
            f"checkpoint={str(checkpoint)!r} lies in no directory that exists. Create "
            "it, or choose another place."
        )


def _check_layers(weights: Any, n_inputs: int) -> None:
    """Raise unless every layer of a saved network takes what the one before gives."""
    for weight, bias in weights:
        if weight.shape != (bias.size, n_inputs):
            raise CorrDPError(
                f"the model is damaged: a layer of {weight.shape} weights stands after "
                f"{n_inputs} inputs. Ask for the original."
            )
        n_inputs = bias.size


def _training() -> Any:
    try:
        from corrdp.torch import mlp as _mlp
    except ImportError:
        raise CorrDPError(
            "training a network needs PyTorch, which is not installed. Install "
            "corrdp[torch]."
        ) from None
    return _mlp


def scaled_codes(encoder: PolicyEncoder, X: Any) -> FloatArray:
    """Return codes around their center, numbers with the deviation of a uniform."""
    blocks = encoder.blocks_
    codes = np.asarray(encoder.transform(X), dtype=np.float64)
    return (codes - central_reference(blocks)) * standardizing_scale(blocks)

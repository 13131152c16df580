"""Additive models under a policy: a curve per number, a weight per level."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import check_count
from corrdp.certificate import Calibration
from corrdp.estimators._all_sensitive import AllSensitive
from corrdp.estimators._base import PrivateLinearModel
from corrdp.estimators._fitting import Promise
from corrdp.estimators._linear import LinearRegression
from corrdp.estimators._logistic import LogisticRegression
from corrdp.estimators._public_rows import PublicRows
from corrdp.exceptions import CorrDPError
from corrdp.leakage import LeakageInput
from corrdp.ledger import Ledger
from corrdp.policy import (
    Block,
    BlockKind,
    ColumnRole,
    Method,
    NumberDomain,
    Policy,
    PolicyEncoder,
    even_knots,
    with_knots,
    without_knots,
)
from corrdp.training import (
    KNOT_CHOICES,
    PlanInputs,
    Solver,
    TrainingPlan,
    additive_plan,
    curves_pay,
    whole_record_spending,
)

_PLAIN_KNOTS = 8  # of models that protect nothing
_MOST_KNOTS = 64
BAND = 1.96  # standard deviations of the noise either way


@dataclass(frozen=True, eq=False)
class Shape:
    """What one feature adds to the score at its knots, levels, or ends.

    Parameters
    ----------
    feature : str
        The raw feature.
    role : ColumnRole
        Its role.
    values : tuple of float or of str
        Numbers at which the curve bends, or names of levels; between numbers the
        curve is a straight line.
    effect : array of float, shape (n_values,) or (n_values, n_outputs)
        What the feature adds, minus the mean over `values`: log odds, a score per
        label, or units of the label.
    deviation : array of float, shape (n_values,), optional
        Standard deviation that noise alone gives the effect, roughly; None where it
        is not known, as in models that were trained without noise.

    Guarantee
    ---------
    Released weights and the noise that was planned, nothing else: costs nothing
    (`docs/theory/additive.md`, section 3). A band covers noise, not the chance of
    which rows there were.
    """

    feature: str
    role: ColumnRole
    values: tuple[float, ...] | tuple[str, ...]
    effect: FloatArray
    deviation: FloatArray | None

    @property
    def low(self) -> FloatArray | None:
        """Lower end of the band, 95 % if the model is right."""
        return None if self.deviation is None else self.effect - self._half()

    @property
    def high(self) -> FloatArray | None:
        """Upper end of the band."""
        return None if self.deviation is None else self.effect + self._half()

    def to_json(self) -> JSONObject:
        """Return a JSON-able description, for reports."""
        return {
            "feature": self.feature,
            "role": self.role.value,
            "values": list(self.values),
            "effect": self.effect.tolist(),
            "deviation": None if self.deviation is None else self.deviation.tolist(),
        }

    def _half(self) -> FloatArray:
        assert self.deviation is not None
        half = BAND * self.deviation
        return half if self.effect.ndim == 1 else half[:, None]


class AdditiveModel(PrivateLinearModel):
    """What additive models add to linear ones; see `AdditiveClassifier`."""

    n_knots: int | None
    plain_ridge = 1e-4  # hardly any row may lie near a knot

    def shape(self, feature: str) -> Shape:
        """Return the curve of a feature, with a band for the noise.

        Guarantee
        ---------
        Released weights and planned noise, nothing else: costs nothing
        (`docs/theory/additive.md`, section 3).
        """
        check_is_fitted(self, "policy_")
        unit = self._effect_unit()
        deviation = None if self._deviation is None else unit * self._deviation
        return shape_of(self._encoder, feature, unit * self._coef, deviation)

    def shapes(self) -> tuple[Shape, ...]:
        """Return the shapes of all features."""
        check_is_fitted(self, "policy_")
        return tuple(self.shape(feature.name) for feature in self.policy_.features)

    def decided_parameters(self) -> dict[str, Any]:
        """Return how many knots the rule chose: an audit plans the same model."""
        check_is_fitted(self, "policy_")
        blocks = self._encoder.blocks_
        knots = [len(b.positions) for b in blocks if b.kind is BlockKind.HATS]
        return {"n_knots": max(knots, default=0)}

    def _effect_unit(self) -> float:
        """Return what one unit of the score is in units of an effect."""
        return 1.0

    _streams = False  # the number of knots is that of the rows

    def _coded(
        self, policy: Policy, n_rows: int, leakage: LeakageInput | None, method: Method
    ) -> Policy:
        """Return the policy with as many knots as noise leaves legible, or none."""
        straight = without_knots(policy)
        if self.n_knots is not None:
            count = _checked_knots(self.n_knots)
            return _curved(policy, count, self._public) if count else straight
        if leakage is None:  # nothing is protected
            return _curved(policy, _PLAIN_KNOTS)
        tried = None
        for count in KNOT_CHOICES:
            curved = _curved(policy, count, self._public)
            if curved == tried:
                break  # every number declares its knots
            promise = Promise.of(curved, leakage)
            facts = self._plan_inputs(promise, n_rows)
            if curves_pay(self._planned(facts, method)):
                return curved
            tried = curved
        return straight

    def _planned(self, facts: PlanInputs, method: Method) -> TrainingPlan:
        if not any(block.kind is BlockKind.HATS for block in facts.blocks):
            return super()._planned(facts, method)  # straight lines: the linear model
        if method is Method.STANDARD:
            return additive_plan(facts)
        return additive_plan(facts, whole_record_spending(facts.spending))

    def _method(self) -> Method:
        if self.calibration == Calibration.THEOREM:
            raise CorrDPError(
                "calibration='theorem' is the paper's linear model, and this one is "
                "additive. Choose calibration='certified'."
            )
        if self.sampling_rate is not None:
            raise CorrDPError(
                f"sampling_rate must be None for additive models, got sampling_rate="
                f"{self.sampling_rate!r}: their steps are planned for full batches."
            )
        return super()._method()

    def _fitted_content(self) -> JSONObject:
        deviation = None if self._deviation is None else self._deviation.tolist()
        return {**super()._fitted_content(), "deviation": deviation}

    def _restore_fitted(self, content: JSONObject) -> None:
        super()._restore_fitted(content)
        deviation = content["deviation"]
        if deviation is not None:
            self._deviation = np.array(deviation, dtype=np.float64)
            if self._deviation.shape != self._coef.shape[:1]:
                raise CorrDPError(
                    "the model is damaged: its deviations are not one per weight. Ask "
                    "for the original."
                )


class AdditiveClassifier(AdditiveModel, LogisticRegression):
    r"""Additive logistic regression: log odds are a sum of curves over features.

    A number has a broken line over knots between its declared bounds (or at the knots
    that the policy declares), a category a weight per level. How many knots there are
    follows from public numbers; where noise would drown curves, the model is the
    linear one, bit for bit. Other parameters, attributes and methods are those of
    `LogisticRegression`.

    Parameters
    ----------
    n_knots : int, optional
        Knots per number that declares none: a public number, 0 for straight lines
        everywhere. None for the rule.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for `policy`: per class what `certificate_` states. Hats
    add up to 1, so a number moves its code no further than a category does
    (`docs/theory/additive.md`); other proofs as for `LogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from corrdp.estimators import AdditiveClassifier, AllSensitive
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 2))
    >>> y = np.abs(X[:, 0]) > 0.5
    >>> model = AdditiveClassifier(
    ...     AllSensitive(-1, 1), epsilon=3.0, delta=1e-6, random_state=0
    ... ).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    >>> effect = model.shape("x0").effect
    >>> bool(effect[0] > effect[len(effect) // 2] < effect[-1])
    True
    """

    def __init__(
        self,
        policy: Policy | AllSensitive | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        n_knots: int | None = None,
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
    ) -> None:
        self._keep(locals())


class AdditiveRegressor(AdditiveModel, LinearRegression):
    r"""Additive least squares or Huber regression: the label is a sum of curves.

    As `AdditiveClassifier`, for a label that is a number. Other parameters, attributes
    and methods are those of `LinearRegression`.

    Parameters
    ----------
    n_knots : int, optional
        As for `AdditiveClassifier`.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for `policy`: per class what `certificate_` states
    (`docs/theory/additive.md`; other proofs as for `LinearRegression`).
    """

    def __init__(
        self,
        policy: Policy | AllSensitive | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        loss: str = "squared",
        huber_threshold: float | None = None,
        n_knots: int | None = None,
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
    ) -> None:
        self._keep(locals())

    def _effect_unit(self) -> float:
        return self._width


def shape_of(
    encoder: PolicyEncoder,
    feature: str,
    coef: FloatArray,
    deviation: FloatArray | None,
) -> Shape:
    """Return the shape of a feature under released weights of encoded columns."""
    own = [block for block in encoder.blocks_ if block.feature == feature]
    if not own:
        names = [declared.name for declared in encoder.policy.features]
        raise CorrDPError(
            f"the model has no feature {feature!r}. Its features are "
            f"{', '.join(names)}; name one."
        )
    values, codes = _codes(encoder, own)
    columns = slice(own[0].start, own[-1].stop)
    effect = codes @ coef[columns]
    spread = None
    if deviation is not None:
        middle = codes - codes.mean(axis=0)
        spread = np.sqrt(middle**2 @ deviation[columns] ** 2)
    return Shape(feature, own[0].role, values, effect - effect.mean(axis=0), spread)


def _codes(
    encoder: PolicyEncoder, own: list[Block]
) -> tuple[tuple[float, ...] | tuple[str, ...], FloatArray]:
    """Return the places at which a shape is drawn, and the codes of a record there."""
    first, width = own[0], own[-1].stop - own[0].start
    domain = encoder.policy.feature(first.feature).domain
    if isinstance(domain, NumberDomain):
        knots = domain.knots or (domain.lower, domain.upper)
        codes = np.zeros((len(knots), width))
        span = np.array(knots)
        codes[:, 0] = (span - span[0]) / (span[-1] - span[0]) - 0.5
        if len(own) > 1 and own[1].kind is BlockKind.HATS:
            codes[:, 1 : 1 + len(knots)] = np.eye(len(knots))
        return tuple(knots), codes
    if first.kind is BlockKind.NUMBER:
        names, codes = ["false", "true"], np.zeros((2, width))
        codes[:, 0] = -0.5, 0.5
    else:
        count = first.stop - first.start
        texts = encoder.get_feature_names_out()[first.columns]
        names = [str(text).removeprefix(f"{first.feature}=") for text in texts]
        codes = np.eye(count, width)
    if own[-1].kind is BlockKind.FLAG:
        names.append("(missing)")
        codes = np.vstack([codes, np.eye(1, width, width - 1)])
    return tuple(names), codes


def _checked_knots(n_knots: Any) -> int:
    remedy = f"Pass 0 for straight lines, or 3 to {_MOST_KNOTS}."
    count = check_count("n_knots", n_knots, lower=0, remedy=remedy)
    if count in (1, 2) or count > _MOST_KNOTS:
        raise CorrDPError(f"n_knots={count} makes no curve. {remedy}")
    return count


def _curved(policy: Policy, n_knots: int, public: PublicRows | None = None) -> Policy:
    """Return the policy with knots where it declares none.

    They lie at quantiles of public rows, or at equal distances without such rows.
    """

    def knots(feature: Any) -> tuple[float, ...] | None:
        assert isinstance(feature.domain, NumberDomain)  # asked for numbers only
        if public is not None:
            return public.knots(feature, n_knots)
        return even_knots(feature.domain, n_knots)

    return with_knots(policy, knots)

"""Additive models under a policy: a curve per number, a weight per level."""

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corrdp._typing import JSONObject
from corrdp._validate import check_count
from corrdp.certificate import Calibration
from corrdp.estimators._all_sensitive import AllSensitive
from corrdp.estimators._base import PrivateLinearModel
from corrdp.estimators._linear import LinearRegression
from corrdp.estimators._logistic import LogisticRegression
from corrdp.estimators._public_rows import PublicRows
from corrdp.estimators._shape import Shape, shape_of
from corrdp.exceptions import CorrDPError
from corrdp.leakage import LeakageInput
from corrdp.ledger import Ledger
from corrdp.policy import (
    BlockKind,
    Method,
    NumberDomain,
    Policy,
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
            facts = self._plan_inputs(curved, n_rows, self._budget(), leakage)
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

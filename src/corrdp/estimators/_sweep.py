"""Sweeps: many methods, budgets and seeds trained together on one table."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy.stats import t as student_t

from corrdp._files import PRIVATE_MODE
from corrdp._json import check_shape, decoding, digest, parse_json
from corrdp._random import noise_generator
from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import check_choice, check_count, check_flag
from corrdp.engines import refuse_hosted
from corrdp.estimators._additive import AdditiveClassifier, AdditiveRegressor
from corrdp.estimators._linear import LinearRegression
from corrdp.estimators._linear_model import PrivateLinearModel
from corrdp.estimators._logistic import LogisticRegression
from corrdp.estimators._number_bounds import DECLARED
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.leakage import policy_read
from corrdp.policy import (
    Method,
    NumberDomain,
    Policy,
    PolicyEncoder,
    policy_blocks,
    without_knots,
)
from corrdp.training import (
    CONSTANT,
    Descent,
    GradientLayout,
    PreparedRows,
    TrainingPlan,
    constant_model,
    descend_together,
    minimize_risk,
    prepare_rows,
    standardizing_scale,
)

MODELS_PER_PASS = 64
_Case: TypeAlias = tuple[str, float, int]  # method, epsilon, seed
_Planned: TypeAlias = tuple[TrainingPlan, FloatArray, PreparedRows]
NOT_PRIVATE = "not private: scores were computed from the rows without noise"


@dataclass(frozen=True)
class SweepResult:
    """One row per trained model.

    Parameters
    ----------
    rows : list of dict
        ``method``, ``epsilon``, ``seed``, ``score`` and ``noise``, the kind of noise
        that the plan chose.
    stamp : str
        Says that scores are not private.
    """

    rows: list[JSONObject]
    stamp: str = field(default=NOT_PRIVATE, init=False)

    def summary(self, *, confidence: float = 0.95) -> list[JSONObject]:
        """Return mean, deviation and confidence band per method and epsilon."""
        groups: dict[tuple[str, float], list[float]] = {}
        for row in self.rows:
            groups.setdefault((row["method"], row["epsilon"]), []).append(row["score"])
        return [
            {"method": method, "epsilon": epsilon, **_statistics(scores, confidence)}
            for (method, epsilon), scores in groups.items()
        ]

    def to_frame(self) -> Any:
        """Return the rows as a tidy pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def to_text(self) -> str:
        """Return the summary as a plain table under its stamp."""
        lines = [
            self.stamp,
            f"{'method':<12}{'epsilon':>10}{'mean':>12}{'deviation':>12}"
            f"{'band':>24}{'models':>8}",
        ]
        for row in self.summary():
            band = f"{row['lower']:.5f} to {row['upper']:.5f}"
            lines.append(
                f"{row['method']:<12}{row['epsilon']:>10g}{row['mean']:>12.5f}"
                f"{row['deviation']:>12.5f}{band:>24}{row['n_models']:>8}"
            )
        return "\n".join(lines)


def sweep(
    frame: Any,
    y: Any = None,
    *,
    policy: Policy,
    methods: Sequence[str] = ("corr", "standard"),
    epsilons: Sequence[float],
    delta: float,
    seeds: int = 20,
    model: str = "logistic",
    leakage: Any = None,
    research: bool = False,
    n_steps: int | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SweepResult:
    """Train every method at every epsilon with every seed, and score on the table.

    Parameters
    ----------
    frame : table
        Rows that may be disclosed.
    y : series, optional
        Labels; None if the table holds the policy's target.
    policy : Policy
        Roles, domains, label, leakage.
    methods : sequence of str
        Methods of `LogisticRegression`.
    epsilons : sequence of float
        Budgets, each for every private method.
    delta : float
        Failure probability of every budget.
    seeds : int
        Models per method and epsilon, seeded 0, 1, ...
    model : {"logistic", "linear", "additive"}
        Scored by accuracy, or by R squared.
    leakage : as for `LogisticRegression`
        Leakage to use instead of the declared one.
    research : bool
        Must be True: scores are not private.
    n_steps : int, optional
        Number of gradients instead of the default rule's.
    checkpoint : path, optional
        File of JSON lines to which finished models are added; a sweep that was
        interrupted goes on from there.
    progress : callable, optional
        Called with the number of finished models and of all models.

    Returns
    -------
    result : SweepResult

    Guarantee
    ---------
    None: many models of the same rows and their exact scores are released together.
    Each model by itself is trained as by the estimator, between declared bounds
    (`docs/theory/solvers.md`). Refused without `research`.
    """
    if not check_flag("research", research):
        raise GuaranteeVoidError(
            "a sweep trains many models on the same rows and scores them without "
            "noise (research=False). Pass research=True on data that may be disclosed."
        )
    refuse_hosted(frame, "a sweep")
    check_count("seeds", seeds)
    estimator = _estimator(model, policy)
    policy = policy_read(policy, leakage)
    common = {"delta": delta, "leakage": leakage, "n_steps": n_steps, "research": True}
    if "bounds" in estimator().get_params():  # all models share the rows as coded
        common["bounds"] = DECLARED
    table = _Rows(estimator(policy, method="nonprivate", **common), frame, y)
    wanted = list(_cases(methods, epsilons, seeds))
    key = digest(
        [policy.fingerprint(), delta, model, n_steps, repr(leakage), table.digest]
    )
    store = _Store(checkpoint, key)
    done = _by_case(store.read())
    missing = [case for case in wanted if case not in done]
    plans: dict[tuple[str, float], _Planned] = {}
    for start in range(0, len(missing), MODELS_PER_PASS):
        batch = missing[start : start + MODELS_PER_PASS]
        for method, epsilon, _ in batch:
            if Method(method).is_private and (method, epsilon) not in plans:
                chosen = estimator(policy, epsilon=epsilon, method=method, **common)
                plans[method, epsilon] = table.planned(chosen)
        rows = table.trained(batch, plans)
        store.add(rows)
        done |= _by_case(rows)
        if progress is not None:
            progress(len(done), len(wanted))
    return SweepResult([done[case] for case in wanted])


def _estimator(model: str, policy: Policy) -> type[PrivateLinearModel]:
    """Return the estimator that a name stands for, given the label's type."""
    number = policy.label is not None and isinstance(policy.label.domain, NumberDomain)
    kinds: dict[str, type[PrivateLinearModel]] = {
        "logistic": LogisticRegression,
        "linear": LinearRegression,
        "additive": AdditiveRegressor if number else AdditiveClassifier,
    }
    return kinds[check_choice("model", model, kinds)]


class _Rows:
    """Rows of a sweep, coded and prepared once for every way in which plans need it."""

    def __init__(self, plain: PrivateLinearModel, frame: Any, y: Any) -> None:
        self._frame = frame
        self._plain, self._labels = plain.encode(frame, y)
        policy = plain.coded_policy(len(self._labels))
        self._loss, self._ridge = plain.loss_of(policy), plain.plain_ridge
        self._sensitive = _by_role(policy).sensitive_columns
        self._codes = {_columns(policy): self._plain}
        self._prepared: dict[Any, PreparedRows] = {}

    @property
    def digest(self) -> str:
        """What tells these rows from others."""
        told = sha256()
        for part in (self._plain, self._labels):
            told.update(np.ascontiguousarray(part).data)  # no copy of many rows
        return told.hexdigest()

    def planned(self, model: PrivateLinearModel) -> _Planned:
        """Return the plan of a model, and its rows."""
        n_rows = len(self._labels)
        deviation = model.label_deviation(self._labels)
        plan = model.plan(n_rows, label_deviation=deviation)
        policy = model.coded_policy(n_rows)
        # Models of straight lines share their rows if they order columns alike,
        # whatever their groups are; roles are those of the promise that is kept.
        curved = plan.column_steps is not None
        policy = policy if curved else without_knots(policy)
        layout = plan.layout if curved else _by_role(policy)
        columns = _columns(policy)
        if columns not in self._codes:
            encoder = PolicyEncoder(policy).fit(self._frame)
            self._codes[columns] = encoder.transform(self._frame)
        codes, key = self._codes[columns], (columns, layout.column_groups.tobytes())
        if key not in self._prepared:
            self._prepared[key] = prepare_rows(
                codes, self._labels, layout, compiled=self._loss.n_outputs == 1
            )
        return plan, codes, self._prepared[key]

    def trained(
        self, batch: Sequence[_Case], plans: dict[tuple[str, float], _Planned]
    ) -> list[JSONObject]:
        """Train models together, and return what there is to tell of each."""
        walks: dict[_Case, Descent] = {}
        together: dict[int, list[Descent]] = {}
        for method, epsilon, seed in batch:
            if (method, epsilon) not in plans:
                continue
            plan, codes, prepared = plans[method, epsilon]
            if plan.noise != CONSTANT:
                rng = noise_generator(seed)
                walk = Descent(codes, prepared, plan, rng, self._labels)
                walks[method, epsilon, seed] = walk
                together.setdefault(id(prepared), []).append(walk)
        for sharing in together.values():
            descend_together(sharing)
        rows: list[JSONObject] = []
        for case in batch:
            row = dict(zip(("method", "epsilon", "seed"), case, strict=True))
            method, epsilon, seed = case
            if (method, epsilon) in plans:
                plan, codes, _ = plans[method, epsilon]
                if case in walks:
                    found = walks[case].result()
                else:
                    found = constant_model(self._labels, plan, noise_generator(seed))
                row["score"] = self._score(codes, found.coef, found.intercept)
                row["noise"] = plan.noise
            else:
                row |= {"score": self._plain_score(Method(method)), "noise": "none"}
            rows.append(row)
        return rows

    def _score(self, codes: FloatArray, coef: FloatArray, intercept: Any) -> float:
        """Return the accuracy, or R squared."""
        return self._loss.quality(codes @ coef + intercept, self._labels)

    def _plain_score(self, method: Method) -> float:
        """Return the score of the model of least risk, without any privacy."""
        hidden = self._sensitive & (method is Method.PARTIAL)
        codes = self._plain[:, ~hidden]
        found = minimize_risk(codes, self._labels, self._loss, ridge=self._ridge)
        return self._score(codes, *found)


def _columns(policy: Policy) -> Any:
    return tuple((block.name, block.positions) for block in policy_blocks(policy))


def _by_role(policy: Policy) -> GradientLayout:
    blocks = policy_blocks(policy)
    return GradientLayout.by_role(blocks, column_scale=standardizing_scale(blocks))


def _cases(
    methods: Sequence[str], epsilons: Sequence[float], seeds: int
) -> Iterator[_Case]:
    for method, epsilon in product(methods, epsilons):
        if method not in list(Method):
            raise CorrDPError(
                f"methods must be among {', '.join(Method)}, got {method!r}. "
                "Choose some of them."
            )
        n_models = seeds if Method(method).is_private else 1
        yield from ((method, float(epsilon), seed) for seed in range(n_models))


def _by_case(rows: Sequence[JSONObject]) -> dict[_Case, JSONObject]:
    return {(row["method"], row["epsilon"], row["seed"]): row for row in rows}


_ROW = {"method": str, "epsilon": float, "seed": int, "score": float}


class _Store:
    """Finished models as JSON lines, under a first line that says of what sweep."""

    def __init__(self, path: str | Path | None, key: str) -> None:
        self._path = None if path is None else Path(path)
        self._head = {"sweep": key}
        if self._path is not None and not self._path.parent.is_dir():
            raise CorrDPError(
                f"checkpoint={str(path)!r} lies in no directory that exists. Create "
                "it, or choose another place."
            )

    def read(self) -> list[JSONObject]:
        """Return the models of an interrupted sweep, or raise if it was another.

        A last line that the interruption cut off is left out.
        """
        if self._path is None:
            return []
        if not self._path.exists():
            self._path.touch(mode=PRIVATE_MODE)  # exact scores
        what = f"checkpoint {str(self._path)!r}"
        with decoding(what):
            written = self._path.read_text(encoding="utf-8")
            first = json.dumps(self._head) + "\n"
            is_begun = first.startswith(written)  # other words may be another's file
            whole = first if is_begun else written[: written.rfind("\n") + 1] or written
            head, *rows = [parse_json(line, what) for line in whole.splitlines()]
            check_shape(rows, [_ROW], what)
        if head != self._head:
            raise CorrDPError(
                f"the checkpoint {str(self._path)!r} belongs to another sweep. Choose "
                "another file, or repeat that sweep's policy, rows and parameters."
            )
        if whole != written:
            self._path.write_text(whole, encoding="utf-8")
        return list(rows)

    def add(self, rows: Sequence[JSONObject]) -> None:
        """Append finished models."""
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(row)}\n" for row in rows)


def _statistics(scores: Sequence[float], confidence: float) -> JSONObject:
    n_models = len(scores)
    mean = float(np.mean(scores))
    deviation = float(np.std(scores, ddof=1)) if n_models > 1 else 0.0
    half = 0.0
    if n_models > 1:
        quantile = float(student_t.ppf((1 + confidence) / 2, n_models - 1))
        half = quantile * deviation / math.sqrt(n_models)
    return {
        "mean": mean,
        "deviation": deviation,
        "lower": mean - half,
        "upper": mean + half,
        "n_models": n_models,
    }

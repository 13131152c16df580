"""Does Assumption 3.4 hold? Proved by bounds, refuted by search."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from corrdp._typing import FloatArray
from corrdp._validate import check_count, check_real
from corrdp.theory._checks import check_positive
from corrdp.theory.gradients._model import (
    BoxModel,
    GradientConstants,
    gradient_constants,
)

Verdict: TypeAlias = Literal["proved", "violated", "undecided"]


@dataclass(frozen=True, kw_only=True)
class AssumptionReport:
    """Whether an assumption on gradients holds, and with which constants.

    "violated": a pair of rows breaks the inequality; "undecided": the search found none
    and the bounds were not enough. C_1 and C_2 must reach the lower values, seen at
    changes of a single column.
    """

    verdict: Verdict
    sufficient: GradientConstants  # with which the assumption is proved to hold
    direct_lower: float
    cross_lower: float
    largest_ratio: float  # change of a coordinate over what is allowed


def check_gradient_assumption(
    model: BoxModel,
    *,
    direct: float,
    cross: float,
    lipschitz: float | None = None,
    n_candidates: int = 4096,
    seed: int = 0,
) -> AssumptionReport:
    r"""Check Assumption 3.4 for a model, a domain and a parameter bound.

    :math:`(g(x_1) - g(x_2))_i \le C_1 L |x_1^{(i)} - x_2^{(i)}| + C_2 \frac{L}{m}
    \sum_{j \ne i} |x_1^{(j)} - x_2^{(j)}|`.

    L is the model's own bound unless `lipschitz` is given. The search tries
    `n_candidates` pairs of rows of the box; it touches no data.

    Guarantee
    ---------
    "proved" and "violated" are both certain; the search alone never proves. Note:
    `docs/theory/paper_bounds.md`.
    """
    size = model.lipschitz if lipschitz is None else lipschitz
    check_positive("lipschitz", size)
    own = size * check_real("direct", direct, lower=0.0)
    others = size * check_real("cross", cross, lower=0.0)
    pairs = _candidate_pairs(model, n_candidates=n_candidates, seed=seed)
    change = np.abs(pairs.rows - pairs.neighbors)
    change_of_others = change.sum(axis=1, keepdims=True) - change
    allowed = own * change + others / model.n_columns * change_of_others
    sufficient = gradient_constants(model)
    is_proved = (
        own >= sufficient.direct * sufficient.lipschitz
        and others >= sufficient.cross * sufficient.lipschitz
    )
    return _report(model, pairs, allowed, sufficient, is_proved, size)


def check_relaxed_assumption(
    model: BoxModel,
    *,
    constant: float,
    lipschitz: float | None = None,
    n_candidates: int = 4096,
    seed: int = 0,
) -> AssumptionReport:
    r"""Check Assumption C.2, the relaxed form that counts changed columns.

    :math:`(g(x_1) - g(x_2))_i \le C L (1[x_1^{(i)} \ne x_2^{(i)}] + \frac{1}{m}
    \sum_{j \ne i} 1[x_1^{(j)} \ne x_2^{(j)}])`.

    Otherwise as `check_gradient_assumption`.

    Guarantee
    ---------
    As in `check_gradient_assumption`. Note: `docs/theory/paper_bounds.md`.
    """
    size = model.lipschitz if lipschitz is None else lipschitz
    check_positive("lipschitz", size)
    unit = size * check_real("constant", constant, lower=0.0)
    pairs = _candidate_pairs(model, n_candidates=n_candidates, seed=seed)
    changed = (pairs.rows != pairs.neighbors).astype(np.float64)
    n_others = changed.sum(axis=1, keepdims=True) - changed
    allowed = unit * (changed + n_others / model.n_columns)
    sufficient = gradient_constants(model)
    is_proved = unit >= sufficient.relaxed * sufficient.lipschitz
    return _report(model, pairs, allowed, sufficient, is_proved, size)


@dataclass(frozen=True)
class _Pairs:
    """Candidate pairs: the first half changes one column, the rest several."""

    coef: FloatArray
    rows: FloatArray
    neighbors: FloatArray
    y: FloatArray
    changed_column: np.ndarray[tuple[int], np.dtype[np.int64]]


def _candidate_pairs(model: BoxModel, *, n_candidates: int, seed: int) -> _Pairs:
    rng = np.random.default_rng(check_count("seed", seed, lower=0))
    count = check_count("n_candidates", n_candidates, lower=2)
    columns = model.n_columns
    index = np.arange(count)
    changed_column = rng.integers(columns, size=count)

    # Concentrated on the changed column, where E7 bites, or spread at random.
    direction = rng.normal(size=(count, columns))
    concentrated = rng.random(count) < 0.5
    direction[concentrated] = 0.0
    direction[index[concentrated], changed_column[concentrated]] = rng.choice(
        [-1.0, 1.0], size=concentrated.sum()
    )
    norm = np.linalg.norm(direction, axis=1, keepdims=True)
    coef = np.clip(
        model.parameter_radius * direction / norm,
        -model.coefficient_upper,
        model.coefficient_upper,
    )

    def draw_rows() -> FloatArray:
        position = rng.random((count, columns))
        corner = rng.random(count) < 0.7
        position[corner] = np.round(position[corner])
        drawn: FloatArray = model.box[0] + position * model.width
        return drawn

    rows, fresh = draw_rows(), draw_rows()
    changes = rng.random((count, columns)) < 0.5
    changes[: count // 2] = False
    changes[index, changed_column] = True
    near = rng.random((count, 1)) < 0.3  # small changes see the slope at a point
    target = np.where(near, rows + 0.01 * (fresh - rows), fresh)
    neighbors = np.where(changes, target, rows)
    y = rng.choice(model.label_range, size=count)
    return _Pairs(coef, rows, neighbors, y, changed_column)


def _report(
    model: BoxModel,
    pairs: _Pairs,
    allowed: FloatArray,
    sufficient: GradientConstants,
    is_proved: bool,
    lipschitz: float,
) -> AssumptionReport:
    moved = np.abs(
        model.gradient(pairs.coef, pairs.rows, pairs.y)
        - model.gradient(pairs.coef, pairs.neighbors, pairs.y)
    )
    # Swapping the rows flips the sign, so the one-sided inequality is two-sided.
    rounding = 1e-12 * lipschitz
    ratio = np.zeros_like(moved)
    seen = moved > rounding
    with np.errstate(divide="ignore"):
        ratio[seen] = moved[seen] / allowed[seen]
    largest_ratio = float(ratio.max())
    verdict: Verdict = "undecided"
    if largest_ratio > 1 + 1e-9:
        verdict = "violated"
    elif is_proved:
        verdict = "proved"
    direct_lower, cross_lower = _needed_constants(pairs, moved, lipschitz)
    return AssumptionReport(
        verdict=verdict,
        sufficient=sufficient,
        direct_lower=direct_lower,
        cross_lower=cross_lower,
        largest_ratio=largest_ratio,
    )


def _needed_constants(
    pairs: _Pairs, moved: FloatArray, lipschitz: float
) -> tuple[float, float]:
    """Return the C_1 and C_2 that changes of a single column force."""
    single = np.arange(moved.shape[0] // 2)
    column = pairs.changed_column[single]
    step = np.abs(pairs.rows - pairs.neighbors)[single, column]
    large = step > 1e-6
    single, column, step = single[large], column[large], step[large]
    slopes = moved[single] / (lipschitz * step[:, np.newaxis])
    index = np.arange(single.size)
    own = slopes[index, column].max(initial=0.0)
    slopes[index, column] = 0.0
    return float(own), float(moved.shape[1] * slopes.max(initial=0.0))

"""Estimators without an upper bound: models fitted to the rows of each value.

Every one compares what it fits for all pairs of values of the changed features, and
tells the largest distance (docs/theory/leakage.md, sections 4 and 7). Certified
releases refuse them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import PolicyError
from corrdp.leakage._levels import ground_distances, joint_text
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage.estimators._sample import (
    EstimationContext,
    Sample,
    SampleColumn,
    check_cells,
    joint_codes,
    require_codes,
    require_numbers,
    require_total_variation,
    value_text,
    values_to_compare,
)

MAX_CLASSES = 500
"""Joint sensitive cells that a logistic model is fitted for."""

MAX_NUMBERS = 4
"""Sensitive numbers up to which a kernel estimate means anything."""

OUTER_BINS = 4
"""A critic compares a number by quarters of its bounds: mixtures tell less."""

SMALLEST_GROUP = 50
"""Rows that a value needs for a critic."""


@dataclass(frozen=True)
class MultinomialLogistic:
    """``P(sensitive cell | value)`` by multinomial logistic regression.

    Parameters
    ----------
    n_points : int
        Places between the bounds of a number that are compared.
    inverse_penalty : float
        Scikit-learn's ``C``.
    """

    n_points: int = 9
    inverse_penalty: float = 100.0
    name: str = "logistic"

    def estimate(self, sample: Sample, context: EstimationContext) -> FeatureLeakage:
        """Return the largest distance between fitted conditional distributions."""
        sensitive = require_codes(self.name, sample.sensitive)
        cells, n_cells = joint_codes(sensitive)
        seen = np.unique(cells)
        if seen.size > MAX_CLASSES:
            raise PolicyError(
                f"estimator='logistic' fits one class per joint sensitive cell, and "
                f"more than {MAX_CLASSES} occur. Merge categories by groups or declare "
                "fewer bins."
            )
        values = values_to_compare(sample.changed, self.n_points)
        check_cells(len(values) * n_cells)
        rows = np.zeros((len(values), n_cells))
        rows[:, seen] = self._fitted(cells, sample.changed, values)
        ground = [ground_distances(c.feature, c.n_codes or 1) for c in sensitive]
        return _largest(
            context.metric.pairwise(rows, ground),
            [value_text(sample.changed, value) for value in values],
            method=f"multinomial logistic over {seen.size} sensitive cells",
            assumptions=("the logistic model of the sensitive features holds",),
        )

    def _fitted(
        self,
        cells: IntArray,
        changed: tuple[SampleColumn, ...],
        values: FloatArray,
    ) -> FloatArray:
        """Return probabilities of the seen cells at each value compared."""
        if np.unique(cells).size == 1:
            return np.ones((len(values), 1))
        model = LogisticRegression(C=self.inverse_penalty, max_iter=2000, tol=1e-5)
        observed = np.stack([column.values for column in changed], axis=1)
        model.fit(_one_hot(changed, observed), cells)
        return np.asarray(model.predict_proba(_one_hot(changed, values)))


@dataclass(frozen=True)
class ProductKernel:
    """Kernel density of the sensitive features, weighted by nearness of the value.

    Gaussian kernels for numbers, Aitchison-Aitken kernels for codes, bandwidths
    shrinking with the number of rows as ``n ** (-1 / (4 + d))``.

    Parameters
    ----------
    n_points : int
        Places between the bounds of a number that are compared.
    max_rows : int
        Rows that take part; more are thinned at random.
    n_draws : int
        Points at which two densities are compared.
    """

    n_points: int = 5
    max_rows: int = 4000
    n_draws: int = 1000
    name: str = "kernel"

    def estimate(self, sample: Sample, context: EstimationContext) -> FeatureLeakage:
        """Return the largest total variation between weighted kernel densities."""
        require_total_variation(self.name, context.metric)
        n_numbers = sum(column.is_number for column in sample.sensitive)
        if n_numbers > MAX_NUMBERS:
            raise PolicyError(
                f"estimator='kernel' was asked for {n_numbers} sensitive numbers; "
                f"above {MAX_NUMBERS} a kernel density is noise. Declare bins and use "
                "plug_in."
            )
        if sample.n_rows > self.max_rows:
            sample = sample.rows(
                context.generator.choice(sample.n_rows, self.max_rows, replace=False)
            )
        values = values_to_compare(sample.changed, self.n_points)
        weights = np.ones((len(values), sample.n_rows))
        for index, column in enumerate(sample.changed):
            kernel = _Kernel.of(column, len(sample.changed))
            weights *= kernel.at(values[:, index])
        usable = weights.sum(axis=1) > 0
        weights = weights[usable] / weights[usable].sum(axis=1, keepdims=True)
        distances = np.zeros((len(weights), len(weights)))
        for pair in _pairs(len(weights)):
            distances[pair] = self._distance(
                sample.sensitive, weights[list(pair)], context.generator
            )
        return _largest(
            np.minimum(distances, 1.0),
            [value_text(sample.changed, value) for value in values[usable]],
            method=f"product kernel, {sample.n_rows} rows",
        )

    def _distance(
        self,
        sensitive: tuple[SampleColumn, ...],
        weights: FloatArray,
        generator: np.random.Generator,
    ) -> float:
        """Average |p - q| / (p + q) over draws from the mixture of both densities."""
        mixture = weights.mean(axis=0)
        centers = generator.choice(mixture.size, self.n_draws, p=mixture)
        density = np.ones((self.n_draws, mixture.size))
        for column in sensitive:
            kernel = _Kernel.of(column, len(sensitive))
            density *= kernel.at(kernel.moved(column.values[centers], generator))
        first, second = (density @ weights.T).T
        return float(np.mean(np.abs(first - second) / (first + second)))


@dataclass(frozen=True, eq=False)
class _Kernel:
    """The kernel of one column: a Gaussian width, or the mass of other codes."""

    column: SampleColumn
    width: float

    @classmethod
    def of(cls, column: SampleColumn, n_columns: int) -> "_Kernel":
        shrink = len(column.values) ** (-1 / (4 + n_columns))
        if column.is_number:
            return cls(column, max(1e-6, 1.06 * float(np.std(column.values)) * shrink))
        n_codes = column.n_codes or 1
        return cls(column, (n_codes - 1) / n_codes * shrink**2)

    def moved(self, values: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Return draws from the kernel around each value."""
        if self.column.is_number:
            return np.asarray(values + self.width * generator.normal(size=values.size))
        n_codes = self.column.n_codes or 1
        other = generator.integers(1, max(2, n_codes), size=values.size)
        jump = generator.random(values.size) < self.width
        return np.asarray(np.where(jump, (values + other) % n_codes, values))

    def at(self, points: FloatArray) -> FloatArray:
        """Return kernel heights, shape (n_points, n_rows), up to a constant."""
        if self.column.is_number:
            gaps = (points[:, None] - self.column.values[None, :]) / self.width
            return np.asarray(np.exp(-0.5 * gaps**2))
        same = points[:, None] == self.column.values[None, :]
        n_codes = max(2, self.column.n_codes or 1)
        return np.where(same, 1 - self.width, self.width / (n_codes - 1))


@dataclass(frozen=True)
class MonteCarlo:
    """Gaussian mixtures fitted per value, compared by draws.

    Parameters
    ----------
    n_components : int
        Components of the mixture of each value; 1 allows unequal covariances.
    n_draws : int
        Draws from each of two mixtures.
    """

    n_components: int = 2
    n_draws: int = 10_000
    name: str = "monte_carlo"

    def estimate(self, sample: Sample, context: EstimationContext) -> FeatureLeakage:
        """Return the largest total variation between fitted mixtures."""
        require_total_variation(self.name, context.metric)
        told = require_numbers(self.name, sample.sensitive)
        changed = require_codes(self.name, sample.changed)
        needed = 10 * self.n_components * told.shape[1]
        values, usable, n_values = _usable(
            changed, needed, "estimator='monte_carlo'", ", or lower n_components"
        )
        seed = int(context.generator.integers(2**31))
        models = [
            GaussianMixture(self.n_components, random_state=seed, reg_covar=1e-8).fit(
                told[values == value]
            )
            for value in usable
        ]
        draws = [model.sample(self.n_draws)[0] for model in models]
        distances = np.zeros((usable.size, usable.size))
        errors = np.zeros_like(distances)
        for pair in _pairs(usable.size):
            distances[pair], errors[pair] = monte_carlo_total_variation(
                *(draws[place] for place in pair),
                *(models[place].score_samples for place in pair),
            )
        left_out = n_values - usable.size
        error = errors.flat[np.argmax(distances)]
        return _largest(
            distances,
            _texts(changed, usable),
            method=f"Monte Carlo, mixtures of {self.n_components} Gaussians, "
            f"{self.n_draws} draws",
            note=f", Monte Carlo error {error:.2g}; this method has no bound"
            + (f"; {left_out} values have too few rows" if left_out else ""),
            assumptions=("the fitted mixtures are the conditional distributions",),
        )


def monte_carlo_total_variation(
    first_draws: FloatArray,
    second_draws: FloatArray,
    first_log_density: Callable[[FloatArray], FloatArray],
    second_log_density: Callable[[FloatArray], FloatArray],
) -> tuple[float, float]:
    """Return the total variation of two distributions from draws, and its error.

    The mean of ``|p - q| / (p + q)`` over equally many draws from both, arrays of shape
    (n_draws, n_columns); it lies in [0, 1].
    """
    points = np.concatenate([first_draws, second_draws])
    log_ratio = first_log_density(points) - second_log_density(points)
    terms = np.abs(np.tanh(log_ratio / 2))
    return float(terms.mean()), float(terms.std() / math.sqrt(terms.size))


@dataclass(frozen=True)
class VariationalCritic:
    """A classifier trained on half the rows, judged on the other half.

    Parameters
    ----------
    max_iter : int
        Trees of the classifier.

    Guarantee
    ---------
    A lower bound (E18): `lower` holds except with the failure probability
    (docs/theory/leakage.md, Theorem 4).
    """

    max_iter: int = 50
    name: str = "critic"

    def estimate(self, sample: Sample, context: EstimationContext) -> FeatureLeakage:
        """Return what the best critic on held-out rows proves."""
        require_total_variation(self.name, context.metric)
        changed = tuple(
            column.binned(OUTER_BINS) if column.is_number else column
            for column in sample.changed
        )
        values, usable, _ = _usable(changed, SMALLEST_GROUP, "estimator='critic'")
        inputs = np.stack([c.values.astype(np.float64) for c in sample.sensitive], 1)
        held_out = context.generator.random(sample.n_rows) < 0.5
        n_pairs = usable.size * (usable.size - 1) // 2
        log_term = math.log(n_pairs / context.failure_probability)
        gaps, lower = np.zeros((usable.size, usable.size)), 0.0
        for pair in _pairs(usable.size):
            gap, inverse = self._gap(inputs, values, held_out, usable[list(pair)])
            gaps[pair] = gap
            lower = max(lower, gap - math.sqrt(0.5 * log_term * inverse))
        found = _largest(
            np.clip(gaps, 0.0, 1.0),
            _texts(changed, usable),
            method=f"variational critic, {self.max_iter} trees: a lower bound",
            start="best told apart:",
            note="; a critic bounds from below only",
        )
        return replace(found, lower=min(1.0, lower))

    def _gap(
        self,
        inputs: FloatArray,
        values: IntArray,
        held_out: NDArray[np.bool_],
        pair: IntArray,
    ) -> tuple[float, float]:
        """Return P(critic says first | first) - P(the same | second), held out."""
        train = ~held_out & np.isin(values, pair)
        is_first = values == pair[0]
        n_first, n_second = (int(np.sum(train & (values == v))) for v in pair)
        critic = HistGradientBoostingClassifier(
            max_iter=self.max_iter, random_state=0, early_stopping=False
        )
        weight = np.where(is_first[train], 1 / max(1, n_first), 1 / max(1, n_second))
        critic.fit(inputs[train], is_first[train], sample_weight=weight * train.sum())
        judged = [held_out & (values == value) for value in pair]
        said = [float(np.mean(critic.predict(inputs[rows]))) for rows in judged]
        inverse = sum(1 / int(rows.sum()) for rows in judged)
        return said[0] - said[1], inverse


def _largest(
    distances: FloatArray,
    texts: Sequence[str],
    *,
    method: str,
    start: str = "largest between",
    note: str = "; this method has no bound",
    assumptions: tuple[str, ...] = (),
) -> FeatureLeakage:
    """Return the largest distance, with the texts of the two values in its reason."""
    apart = distances - np.eye(len(distances))  # a value is not told from itself
    first, second = np.unravel_index(np.argmax(apart), distances.shape)
    return FeatureLeakage(
        estimate=float(distances[first, second]),
        upper=None,
        method=method,
        reason=f"{start} {texts[int(first)]} and {texts[int(second)]}{note}",
        assumptions=assumptions,
    )


def _pairs(count: int) -> Iterator[tuple[int, int]]:
    """Yield each pair of places once, the larger one first."""
    return zip(*np.tril_indices(count, -1), strict=True)


def _usable(
    changed: tuple[SampleColumn, ...], needed: int, who: str, or_else: str = ""
) -> tuple[IntArray, IntArray, int]:
    """Return the value of every row, those that enough rows hold, and how many are."""
    values, n_values = joint_codes(changed)
    usable = np.flatnonzero(np.bincount(values, minlength=n_values) >= needed)
    if usable.size < 2:
        raise PolicyError(
            f"{who} needs {needed} rows in at least two values of "
            f"{', '.join(c.feature.name for c in changed)}. Merge values by "
            f"groups{or_else}."
        )
    return values, usable, n_values


def _texts(changed: tuple[SampleColumn, ...], values: IntArray) -> list[str]:
    return [joint_text([c.texts for c in changed], int(value)) for value in values]


def _one_hot(changed: tuple[SampleColumn, ...], values: FloatArray) -> FloatArray:
    """Return numbers as they are and codes one-hot."""
    parts = [
        values[:, [index]]
        if column.is_number
        else np.eye(column.n_codes or 1)[values[:, index].astype(np.int64)]
        for index, column in enumerate(changed)
    ]
    return np.concatenate(parts, axis=1)

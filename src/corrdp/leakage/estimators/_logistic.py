"""Multinomial logistic model of the joint sensitive code given a number."""

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import PolicyError
from corrdp.leakage._levels import ground_distances
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage.estimators._base import (
    EstimationContext,
    largest_pair,
    require_codes,
    value_text,
    values_to_compare,
)
from corrdp.leakage.estimators._sample import Sample, SampleColumn, joint_codes

MAX_CLASSES = 500
"""Joint sensitive cells that a logistic model is fitted for."""


@dataclass(frozen=True)
class MultinomialLogistic:
    """``P(sensitive cell | value)`` by multinomial logistic regression.

    Parameters
    ----------
    n_points : int
        Places between the bounds of a number that are compared.
    inverse_penalty : float
        Scikit-learn's ``C``.

    Guarantee
    ---------
    None: an estimate without upper bound, which certified releases refuse
    (docs/theory/leakage.md, section 7).
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
        rows = np.zeros((len(values), n_cells))
        rows[:, seen] = self._fitted(cells, sample.changed, values)
        ground = [ground_distances(c.feature, c.n_codes or 1) for c in sensitive]
        distances = context.metric.pairwise(rows, ground)
        first, second = largest_pair(distances)
        return FeatureLeakage(
            estimate=float(distances[first, second]),
            upper=None,
            method=f"multinomial logistic over {seen.size} sensitive cells",
            reason=f"largest between {value_text(sample.changed, values[first])} and "
            f"{value_text(sample.changed, values[second])}; this method has no bound",
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
        model.fit(_inputs(changed, observed), cells)
        return np.asarray(model.predict_proba(_inputs(changed, values)))


def _inputs(changed: tuple[SampleColumn, ...], values: FloatArray) -> FloatArray:
    """Return numbers as they are and codes one-hot."""
    parts = [
        values[:, [index]]
        if column.is_number
        else np.eye(column.n_codes or 1)[values[:, index].astype(np.int64)]
        for index, column in enumerate(changed)
    ]
    return np.concatenate(parts, axis=1)

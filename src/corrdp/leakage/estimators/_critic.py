"""Variational estimate: a trained critic bounds total variation from below (E18)."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import PolicyError
from corrdp.leakage._levels import joint_text
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage.estimators._base import EstimationContext, require_total_variation
from corrdp.leakage.estimators._sample import Sample, SampleColumn, joint_codes

OUTER_BINS = 4
"""A number is compared by quarters of its bounds: mixtures tell less, never more."""

SMALLEST_GROUP = 50
"""Rows that a value needs to take part."""


@dataclass(frozen=True)
class VariationalCritic:
    """A classifier trained on half the rows, judged on the other half.

    Parameters
    ----------
    max_iter : int
        Trees of the classifier.

    Guarantee
    ---------
    A lower bound: `lower` holds except with the failure probability
    (docs/theory/leakage.md, Theorem 4). No upper bound, so certified releases
    refuse it.
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
        values, n_values = joint_codes(changed)
        usable = np.flatnonzero(
            np.bincount(values, minlength=n_values) >= SMALLEST_GROUP
        )
        if usable.size < 2:
            raise PolicyError(
                f"estimator='critic' needs {SMALLEST_GROUP} rows in at least two "
                f"values of {', '.join(c.feature.name for c in changed)}. Merge "
                "values by groups."
            )
        inputs = _inputs(sample.sensitive)
        held_out = context.generator.random(sample.n_rows) < 0.5
        n_pairs = usable.size * (usable.size - 1) // 2
        log_term = math.log(n_pairs / context.failure_probability)
        best, best_pair, lower = 0.0, (int(usable[0]), int(usable[1])), 0.0
        for position, first in enumerate(usable):
            for second in usable[:position]:
                gap, inverse = self._gap(
                    inputs, values, held_out, (int(first), int(second))
                )
                lower = max(lower, gap - math.sqrt(0.5 * log_term * inverse))
                if gap > best:
                    best, best_pair = gap, (int(first), int(second))
        texts = [column.texts for column in changed]
        return FeatureLeakage(
            estimate=min(1.0, best),
            upper=None,
            lower=min(1.0, lower),
            method=f"variational critic, {self.max_iter} trees: a lower bound",
            reason=f"best told apart: {joint_text(texts, best_pair[0])} and "
            f"{joint_text(texts, best_pair[1])}; a critic bounds from below only",
        )

    def _gap(
        self,
        inputs: FloatArray,
        values: IntArray,
        held_out: NDArray[np.bool_],
        pair: tuple[int, int],
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


def _inputs(sensitive: tuple[SampleColumn, ...]) -> FloatArray:
    return np.stack([c.values.astype(np.float64) for c in sensitive], axis=1)

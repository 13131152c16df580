"""The noisy constant: a model of the labels alone, for budgets that buy no more.

Where no class changes labels, they are free: a walk starts at their constant, and its
sizes follow their deviation.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import GuaranteeVoidError
from corrdp.policy import NeighborClass
from corrdp.training._means import exact_sums, rounded
from corrdp.training._typical_sizes import LABEL_DEVIATION
from corrdp.training.losses import Loss

LEAST_DEVIATION = 1e-4
"""Of labels, in units of their range; with less they are as good as equal."""


def constant_noise(
    loss: Loss, classes: Sequence[NeighborClass], total_mu: Mapping[str, float]
) -> tuple[float, dict[str, float]]:
    """Return the noise on the sum of labels, and what it costs each class.

    Guarantee
    ---------
    A function of the policy and the budget. A class that leaves labels alone does not
    move the sum; another moves it by at most 1, or by the root of 2 if there is one
    indicator per label (`docs/theory/default_rule.md`, Proposition 4).
    """
    reach = loss.label_reach
    moved = [c.name for c in classes if c.label_changes]
    if not moved:
        return 0.0, dict.fromkeys((c.name for c in classes), 0.0)
    noise_scale = reach / min(total_mu[name] for name in moved)
    return noise_scale, {
        c.name: reach / noise_scale if c.label_changes else 0.0 for c in classes
    }


@dataclass(frozen=True, eq=False)
class LabelTotals:
    """Sum of labels, or one count per label, and the number of rows.

    Parameters
    ----------
    sums : array of float, shape (1,) or (n_classes,)
        Exact, and rounded once (`docs/theory/scale.md`, Proposition 3).
    n_rows : int
        How many labels there are.
    squares : float
        Sum of the squares of labels that are numbers.
    """

    sums: FloatArray
    n_rows: int
    squares: float = 0.0

    @classmethod
    def rounded(cls, exact: IntArray, n_rows: int, loss: Loss) -> "LabelTotals":
        """Return the totals of `n_rows` labels from what `label_sums` says of them."""
        sums = rounded(exact)
        if loss.is_likelihood:
            return cls(sums, n_rows)
        return cls(sums[:1], n_rows, float(sums[1]))

    @classmethod
    def of(cls, labels: "NDArray[Any] | LabelTotals", loss: Loss) -> "LabelTotals":
        """Return the totals of labels, or totals as they are."""
        if isinstance(labels, LabelTotals):
            return labels
        return cls.rounded(label_sums(labels, loss), len(labels), loss)


def label_sums(labels: NDArray[Any], loss: Loss) -> IntArray:
    """Return what the constant is computed from, as an exact sum.

    One count per label if there are several; of numbers the sum, and that of squares;
    else the sum of labels that are 0 or 1.
    """
    if not loss.is_likelihood:
        return exact_sums(np.stack([labels, labels**2], axis=1))
    if loss.n_outputs == 1:
        return exact_sums(labels[:, None])
    counts = np.bincount(labels.astype(np.int64), minlength=loss.n_outputs)
    none = np.zeros_like(counts)
    return np.stack([counts, none, none])


def release_constant(
    labels: NDArray[Any] | LabelTotals,
    loss: Loss,
    noise_scale: float,
    rng: np.random.Generator,
) -> float | FloatArray:
    """Return the intercept of the best constant, from a noisy sum of labels.

    Labels are as encoded, 0 or 1, indices, or numbers in [-1/2, 1/2], or their totals.

    Guarantee
    ---------
    What `constant_noise` states; the rest is a function of the noisy sum
    (`docs/theory/default_rule.md`, Proposition 4).
    """
    totals = LabelTotals.of(labels, loss)
    noise = noise_scale * rng.standard_normal(loss.n_outputs)
    return loss.best_constant(totals.sums + noise, totals.n_rows)


def free_constant(
    labels: NDArray[Any] | LabelTotals, loss: Loss, classes: Sequence[NeighborClass]
) -> float | FloatArray:
    """Return the intercept of the best constant, of labels that no class changes.

    Guarantee
    ---------
    Equal on all neighbors, so it costs nothing and needs no noise; refused if a class
    changes labels (`docs/theory/default_rule.md`, Proposition 4a).
    """
    _refuse_changed_labels(classes)
    totals = LabelTotals.of(labels, loss)
    return loss.best_constant(totals.sums, totals.n_rows)


def labels_are_free(classes: Sequence[NeighborClass]) -> bool:
    """Return whether no class changes labels: what they are is equal on neighbors."""
    return not any(c.label_changes for c in classes)


def free_deviation(
    labels: NDArray[Any] | LabelTotals, loss: Loss, classes: Sequence[NeighborClass]
) -> float:
    """Return the deviation of labels that are numbers and that no class changes.

    Parameters
    ----------
    labels : array of float, shape (n_rows,), or LabelTotals
        Numbers in [-1/2, 1/2], or their totals.
    loss : Loss
        Squared or Huber.
    classes : sequence of NeighborClass
        Classes of the policy.

    Returns
    -------
    deviation : float
        In units of the range; at most what is assumed of labels that are not free.

    Guarantee
    ---------
    Equal on all neighbors, so it costs nothing and needs no noise; refused if a class
    changes labels (`docs/theory/default_rule.md`, Proposition 4b).
    """
    _refuse_changed_labels(classes)
    totals = LabelTotals.of(labels, loss)
    mean = float(totals.sums[0]) / totals.n_rows
    variance = max(totals.squares / totals.n_rows - mean**2, 0.0)
    return min(max(math.sqrt(variance), LEAST_DEVIATION), LABEL_DEVIATION)


def _refuse_changed_labels(classes: Sequence[NeighborClass]) -> None:
    moved = [c.name for c in classes if c.label_changes]
    if moved:
        raise GuaranteeVoidError(
            f"the class {moved[0]!r} changes labels, so nothing about them is free. "
            "Start at 0, or release the constant with noise."
        )

"""The noisy constant: a model of the labels alone, for budgets that buy no more."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from corrdp._typing import FloatArray
from corrdp.policy import NeighborClass
from corrdp.training._losses import LogisticLoss, Loss, MultinomialLoss


def constant_noise(
    loss: Loss, classes: Sequence[NeighborClass], total_mu: Mapping[str, float]
) -> tuple[float, dict[str, float]]:
    """Return the noise on the sum of labels, and what it costs each class.

    Parameters
    ----------
    loss : Loss
        Says what is summed: labels, or one indicator per label.
    classes : sequence of NeighborClass
        Classes of the policy.
    total_mu : mapping of str to float
        What the release may cost each class.

    Guarantee
    ---------
    A function of the policy and the budget. A class that leaves labels alone does not
    move the sum; another moves it by at most 1, or by the root of 2 if there is one
    indicator per label (`docs/theory/default_rule.md`, Proposition 4).
    """
    reach = math.sqrt(2.0) if isinstance(loss, MultinomialLoss) else 1.0
    moved = [c.name for c in classes if c.label_changes]
    if not moved:
        return 0.0, dict.fromkeys((c.name for c in classes), 0.0)
    noise_scale = reach / min(total_mu[name] for name in moved)
    return noise_scale, {
        c.name: reach / noise_scale if c.label_changes else 0.0 for c in classes
    }


def release_constant(
    labels: NDArray[Any], loss: Loss, noise_scale: float, rng: np.random.Generator
) -> float | FloatArray:
    """Return the intercept of the best constant, from a noisy sum of labels.

    Parameters
    ----------
    labels : array of float, shape (n_rows,)
        As encoded: 0 or 1, indices, or numbers in [-1/2, 1/2].
    loss : Loss
        Logistic, multinomial, squared or Huber.
    noise_scale : float
        From `constant_noise`.
    rng : numpy Generator
        Source of the noise.

    Guarantee
    ---------
    What `constant_noise` states; the rest is a function of the noisy sum
    (`docs/theory/default_rule.md`, Proposition 4).
    """
    n_rows = len(labels)
    if isinstance(loss, MultinomialLoss):
        counts = np.bincount(labels.astype(np.int64), minlength=loss.n_classes)
        noisy = counts + noise_scale * rng.standard_normal(loss.n_classes)
        scores = np.log(np.clip(noisy / n_rows, _least(n_rows), None))
        return np.asarray(scores - scores.mean())
    mean = float(labels.sum() + noise_scale * rng.standard_normal()) / n_rows
    if isinstance(loss, LogisticLoss):
        least = _least(n_rows)
        return float(logit(min(max(mean, least), 1.0 - least)))
    return min(max(mean, -0.5), 0.5)


def _least(n_rows: int) -> float:
    """Return the smallest rate that is believed: one in twice the rows and more."""
    return 1.0 / (2.0 * n_rows + 2.0)

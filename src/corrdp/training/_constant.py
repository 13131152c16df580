"""The noisy constant: a model of the labels alone, for budgets that buy no more."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp.policy import NeighborClass
from corrdp.training.losses import Loss


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
    reach = loss.label_reach
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
    noise = noise_scale * rng.standard_normal(loss.n_outputs)
    return loss.best_constant(loss.label_sums(labels) + noise, n_rows)

"""What descent makes of the noise that is added to its gradients."""

import numpy as np

from corrdp._typing import FloatArray
from corrdp.training._solver import first_averaged


def noise_gains(
    curvature: FloatArray,
    size: FloatArray,
    momentum: float,
    n_steps: int,
    averaged_part: float = 0.5,
) -> FloatArray:
    """Return the deviation of averaged parameters per unit of noise in every step.

    Along a column the loss is taken for quadratic and uncoupled; noise passes through
    momentum, steps and the average of iterates as through a linear filter.

    Parameters
    ----------
    curvature, size : array of float, shape (n_columns,)
        Curvature and step size of every column.
    momentum : float
        Weight of the past.
    n_steps : int
        Number of steps.
    averaged_part : float
        Part of the iterates, the last ones, that the result is the average of.

    Guarantee
    ---------
    A forecast from public numbers, for reports: no bound of `docs/theory/solvers.md`
    rests on it.
    """
    # Response of the parameter, j steps later, to noise of size 1 in one step.
    response = np.empty((n_steps, curvature.size))
    velocity, position = np.ones(curvature.size), np.zeros(curvature.size)
    for step in range(n_steps):
        position = position - (1 - momentum) * size * velocity
        response[step] = position
        velocity = momentum * velocity + curvature * position
    reach = np.cumsum(response, axis=0)
    first = first_averaged(n_steps, averaged_part)
    noise_at = np.arange(n_steps)
    until = reach[n_steps - 1 - noise_at]
    before = np.where(
        (noise_at < first)[:, None], reach[np.maximum(first - 1 - noise_at, 0)], 0.0
    )
    weights = (until - before) / (n_steps - first)
    return np.asarray(np.sqrt(np.sum(weights**2, axis=0)))

"""How far to walk: on, while released gradients agree that something is left.

The step size of the default rule makes noise alone move parameters by the expected
distance. If the optimum is farther away, as on a nearly separable table, gradients go
on pointing the same way. Means of adjacent blocks of noisy gradients have independent
noise, so their inner product is an unbiased estimate of how much they agree, and what
it would be by chance is known from the noise that was added.
"""

import math

import numpy as np

from corrdp._typing import FloatArray

N_BLOCKS = 20
GROWTH = 1.5  # of the step size, when two blocks agree
SIGNIFICANCE = 3.0  # standard deviations of the inner product under noise alone


class Walk:
    """Factor on the step size, from released gradients.

    Parameters
    ----------
    n_steps : int
        Number of gradients to come.
    n_free : int
        Dimension of the space in which noise lies.
    patience : float
        Part of the steps before which the factor stays 1.

    Guarantee
    ---------
    A function of noisy gradients and of the variance of their noise, which is public:
    costs nothing (`docs/theory/solvers.md`, section 2).
    """

    def __init__(self, n_steps: int, n_free: int, patience: float = 0.0) -> None:
        self._length = max(1, n_steps // N_BLOCKS)
        self._n_free = n_free
        self._first = patience * n_steps
        self._n_observed = 0
        self.factor = 1.0
        self._sum: FloatArray | float = 0.0
        self._variance = 0.0
        self._count = 0
        self._last: tuple[FloatArray, float] | None = None

    def observe(self, gradient: FloatArray, variance: float) -> None:
        """Take note of a released gradient and the variance of its noise in all."""
        self._sum = self._sum + gradient
        self._variance += variance
        self._count += 1
        self._n_observed += 1
        if self._count < self._length:
            return
        mean = np.asarray(self._sum / self._count)
        own = self._variance / self._count**2
        if self._last is not None:
            other, others = self._last
            chance = math.sqrt(own * others / self._n_free)
            agree = float(np.sum(mean * other)) > SIGNIFICANCE * chance
            if agree and self._n_observed > self._first:
                self.factor *= GROWTH
        self._last = mean, own
        self._sum, self._variance, self._count = 0.0, 0.0, 0

"""How much of a walk noise alone would have made, and how much of it is kept.

A plan assumes that features tell something. Where they tell less than it assumes, a
walk through strong noise ends farther from the best model than the best constant is.
How far noise alone leads is known from the noise that was added, and how far the walk
led is released: the larger the first is in parts of the second, the nearer to the
constant is the model that is returned.
"""

import numpy as np

from corrdp._typing import FloatArray
from corrdp.training._constant import labels_are_free
from corrdp.training._plan import TrainingPlan
from corrdp.training._step_sizes import noise_gains

MOST_LEFT_OUT = 0.75  # of a walk that noise alone would have made
MUCH_NOISE = (0.2, 0.5)  # predicted loss, in parts of the gain: from nothing to all
MUCH_NOISE_ON_NUMBERS = (0.05, 0.2)  # where a constant is returned much earlier
_N_CURVATURES = 33  # at which the effect of noise is computed; others lie between


class Shrinkage:
    """What noise makes of a walk, from what its steps added.

    Parameters
    ----------
    plan : TrainingPlan
        The plan that is followed.
    curvature : array of float, shape (n_columns,)
        Curvature of the loss along every column as far as released means tell; the
        constant last.
    """

    def __init__(self, plan: TrainingPlan, curvature: FloatArray) -> None:
        self._plan, self._curvature = plan, curvature[:-1]
        self._strength = shrinkage(plan)
        self._noise_variance = np.zeros(self._curvature.size)
        self._size = 0.0
        self._n_seen = 0

    def observe(self, noise: FloatArray, size: float) -> None:
        """Take note of a step: the noise on every column of its mean gradient."""
        if self._strength == 0:
            return
        self._noise_variance += noise[:-1] ** 2
        self._size += size
        self._n_seen += 1

    def kept(self, slope: FloatArray) -> float:
        """Return the part of a walk that is kept.

        Parameters
        ----------
        slope : array of float, shape (n_codes,) or (n_codes, n_outputs)
            Weights of centered columns, whose walk began at 0.

        Guarantee
        ---------
        A function of the plan, of released means and of the transcript, at no cost
        (`docs/theory/default_rule.md`, Proposition 4d).
        """
        if self._n_seen == 0:
            return 1.0
        squares = slope**2 if slope.ndim == 1 else (slope**2).sum(axis=1)
        walked = float(self._curvature @ squares)
        if walked == 0:
            return 1.0
        variance = self._noise_variance / self._n_seen * self._gains() ** 2
        made = self._plan.loss.n_free_outputs * float(self._curvature @ variance)
        return 1.0 - self._strength * min(made / walked, 1.0)

    def _gains(self) -> FloatArray:
        """Return the deviation of a weight per unit of noise in every step."""
        plan, curvature = self._plan, self._curvature
        places = np.geomspace(curvature.min(), curvature.max(), _N_CURVATURES)
        gains = noise_gains(
            places,
            np.full(places.size, self._size / self._n_seen),
            plan.momentum,
            plan.n_steps,
            plan.averaged_part,
        )
        return np.interp(curvature, places, gains)


def shrinkage(plan: TrainingPlan) -> float:
    """Return which part is taken off a walk that noise alone would have made.

    Only where no class changes labels, so that their best constant is free, only for
    walks of the rule, and where much of the gain is predicted to be lost.

    Guarantee
    ---------
    A function of public numbers (`docs/theory/default_rule.md`, Proposition 4d).
    """
    if not (plan.walks_by_the_rule and labels_are_free(plan.spending.classes)):
        return 0.0
    least, most = MUCH_NOISE if plan.loss.is_likelihood else MUCH_NOISE_ON_NUMBERS
    part = (plan.prediction.compared_part - least) / (most - least)
    return MOST_LEFT_OUT * min(max(part, 0.0), 1.0)

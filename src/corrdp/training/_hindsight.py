"""What a finished walk says of itself: its excess risk, and how much of it noise made.

A plan knows public numbers. After training, more is known at no cost: how much noise
was really added, how far the walk came, and whether released gradients still agree with
where it went. Only what was released is read here.

A plan assumes that features tell something. Where they tell less than it assumes, a
walk through strong noise ends farther from the best model than the best constant is.
The farther noise alone leads, in parts of how far the walk led, the nearer to the
constant is the model that is returned.
"""

import math
from dataclasses import dataclass

import numpy as np

from corrdp._typing import FloatArray
from corrdp.training._expectations import typical_sizes
from corrdp.training._plan import TrainingPlan
from corrdp.training._solver import first_averaged
from corrdp.training._step_sizes import noise_gains
from corrdp.training._totals import labels_are_free

NUMBERS_TOLD = 0.4  # of the nominal gain, by features, if labels are numbers
BAND = 3.0  # four in five measured models were within it (docs/defaults.md)
MOST_LEFT_OUT = 0.9  # of a walk that noise alone would have made
LUCK = 2.0  # deviations by which noise alone is longer than it is in the mean
SOONER = 1.5  # is all left out that may be, than where noise alone is as long
MOST_LEFT_OUT_OF_NUMBERS = 0.75
MUCH_NOISE_ON_NUMBERS = (0.05, 0.2)  # predicted loss, in parts of the gain: up to all
_N_CURVATURES = 33  # at which the effect of noise is computed; others lie between


@dataclass(frozen=True, slots=True)
class Hindsight:
    """Excess risk that is expected of a model, from what its training released.

    Parameters
    ----------
    noise : float
        Half the expected distance times the deviation of the noise that was added.
    ahead : float
        What the walk, repeated once more, would gain by the slope of the risk along it
        while iterates were averaged; joined with the error of that number.
    gain : float
        Excess risk of the best constant, at nominal scale.
    told : float
        Largest excess that is expected.
    kept : float
        Part of the walk that the model keeps (`Shrinkage`).

    Guarantee
    ---------
    Post-processing of noisy gradients, at no cost (`docs/theory/default_rule.md`,
    Proposition 4c).
    """

    noise: float
    ahead: float
    gain: float
    told: float
    kept: float = 1.0

    @property
    def excess(self) -> float:
        """Expected excess risk."""
        walking = self.noise * math.sqrt(self.ahead / self.gain)
        return 0.0 if walking == 0 else 1.0 / (1.0 / walking + 1.0 / self.told)

    @property
    def noise_to_signal(self) -> float:
        """Expected excess risk, in parts of that of the best constant."""
        return self.excess / self.gain

    @property
    def band(self) -> tuple[float, float]:
        """Bounds within which about four in five measured models were."""
        return self.excess / BAND, self.excess * BAND


class LookingBack:
    """Sums of what steps released, for the estimate at the end of a walk."""

    def __init__(self, plan: TrainingPlan, start: FloatArray) -> None:
        self._plan, self._start = plan, start
        self._first = first_averaged(plan.n_steps, plan.averaged_part)
        self._gradient = np.zeros(start.shape)
        self._noise_variance = np.zeros(start.shape)
        self._n_seen = 0

    def observe(self, step: int, gradient: FloatArray, noise: FloatArray) -> None:
        """Take note of a step, counted from 0, if its iterate is averaged.

        The mean gradient is as it was released; the noise is its deviation per column,
        were it released once for all steps.
        """
        if step < self._first:
            return
        self._gradient += gradient
        self._noise_variance += noise**2 if gradient.ndim == 1 else noise[:, None] ** 2
        self._n_seen += 1

    def at(self, coef: FloatArray, kept: float = 1.0) -> Hindsight | None:
        """Return what is expected of a model, or None for other walks than the rule's.

        The walk ended at `coef`, and the model keeps a part of it.

        Guarantee
        ---------
        A function of the plan and of the transcript (`docs/theory/default_rule.md`,
        Proposition 4c).
        """
        plan = self._plan
        if not plan.walks_by_the_rule or self._n_seen == 0:
            return None
        walked = coef - self._start
        slope = -float(np.sum(self._gradient * walked)) / self._n_seen
        variance = self._noise_variance / self._n_seen
        part = self._n_seen / plan.n_steps  # of the budget, which the mean is of
        error = math.sqrt(float(np.sum(variance * walked**2)) / part)
        free = plan.loss.n_free_outputs / plan.loss.n_outputs
        deviation = math.sqrt(free * float(np.sum(variance)))
        sizes = typical_sizes(plan.loss, plan.label_deviation)
        gain = plan.prediction.gain
        return Hindsight(
            noise=sizes.expected_distance * deviation / 2,
            ahead=math.hypot(max(slope, 0.0), error),
            gain=gain,
            told=gain if plan.loss.is_likelihood else NUMBERS_TOLD * gain,
            kept=kept,
        )


class Shrinkage:
    """What noise makes of a walk, from what its steps added.

    The curvature of the loss is that of every column, the constant last, as far as
    released means tell.
    """

    def __init__(self, plan: TrainingPlan, curvature: FloatArray) -> None:
        self._walking = ~plan.layout.held_columns[:-1]
        self._plan, self._curvature = plan, curvature[:-1][self._walking]
        self._strength = shrinkage(plan)
        self._noise_variance = np.zeros(self._curvature.size)
        self._size = 0.0
        self._n_seen = 0

    def observe(self, noise: FloatArray, size: float) -> None:
        """Take note of a step: the noise on every column of its mean gradient."""
        if self._strength == 0:
            return
        self._noise_variance += noise[:-1][self._walking] ** 2
        self._size += size
        self._n_seen += 1

    def kept(self, slope: FloatArray) -> float:
        """Return the part of a walk that is kept; weights of columns began it at 0.

        Guarantee
        ---------
        A function of the plan, of released means and of the transcript, at no cost
        (`docs/theory/default_rule.md`, Proposition 4d).
        """
        part, loss = self.noise_part(slope), self._plan.loss
        if loss.is_likelihood:
            part = beyond_luck(part, loss.n_free_outputs * self._curvature.size)
        return 1.0 - self._strength * min(part, 1.0)

    def noise_part(self, slope: FloatArray) -> float:
        """Return how far noise alone would have led, in parts of a walk, in risk."""
        slope = slope[self._walking]
        squares = slope**2 if slope.ndim == 1 else (slope**2).sum(axis=1)
        walked = float(self._curvature @ squares)
        if self._n_seen == 0 or walked == 0:
            return 0.0
        variance = self._noise_variance / self._n_seen * self._gains() ** 2
        made = float(self._curvature @ variance)
        return self._plan.loss.n_free_outputs * made / walked

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
        return np.asarray(np.interp(curvature, places, gains))


def beyond_luck(part: float, n_weights: int) -> float:
    """Return the part of a walk that noise made, but 0 if the walk is no luck of noise.

    The square length of noise in `n_weights` directions deviates from its mean by a
    part ``sqrt(2 / n_weights)``. So a wide walk that noise did not make is soon told
    from one that it made, and a narrow one is not
    (`docs/theory/default_rule.md`, Proposition 4d).
    """
    least = max(0.0, 1.0 - LUCK * math.sqrt(2.0 / n_weights))
    return SOONER * max(part - least, 0.0) / (1.0 - least)


def shrinkage(plan: TrainingPlan) -> float:
    """Return which part is taken off a walk that noise alone would have made.

    Only where no class changes labels, so that their best constant is free, and only
    for walks of the rule, the second of two among them; numbers, whose range says
    little of what features tell, where much of the gain is predicted to be lost.

    Guarantee
    ---------
    A function of public numbers (`docs/theory/default_rule.md`, Proposition 4d and
    section 8).
    """
    if plan.head_start is not None:
        return MOST_LEFT_OUT
    if not (plan.walks_by_the_rule and labels_are_free(plan.spending.classes)):
        return 0.0
    if plan.loss.is_likelihood:
        return MOST_LEFT_OUT
    least, most = MUCH_NOISE_ON_NUMBERS
    part = (plan.prediction.compared_part - least) / (most - least)
    return MOST_LEFT_OUT_OF_NUMBERS * min(max(part, 0.0), 1.0)

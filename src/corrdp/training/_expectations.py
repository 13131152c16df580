"""What is expected of training before any row is read.

Sizes that are typical of a loss, the risk that noise is predicted to cost, and how many
rows, or which epsilon, would make training worth its budget. Nothing here is promised:
what rests on it is which plan is chosen, and what people are told to hope for.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from corrdp._typing import FloatArray
from corrdp.policy import Block
from corrdp.training.losses import Loss, SquaredLoss

LABEL_DEVIATION = 1 / 6  # of a normal label whose range has six of them
FIRST_BOUND = 1.5  # on residuals, in deviations of the label
SQUARED_LOSS = SquaredLoss(FIRST_BOUND * LABEL_DEVIATION)
_BINARY_TRAVEL = 2.0
_EXPLAINED = 0.15  # of the entropy of a label, by features
ODDS_POWER = 9 / 8  # between noise (flat directions) and its square (curved ones)
NOTHING_LEARNED = 0.85  # of what a model can gain: beyond it a constant is returned
WORTH_TRAINING = 10 / 17  # of that limit: beyond it `fit` warns, one half for labels
BAND = 3.0  # where nothing was measured
MOST_ROWS = 1e18  # that anybody is told to bring,
MOST_EPSILON = 1e3  # and the largest epsilon
_QUESTIONS = 5  # to the planner, for one of them


@dataclass(frozen=True, slots=True)
class Bend:
    """From the part of the gain that a bound says is lost to the part expected.

    Notes
    -----
    Increasing, so plans that are compared by the bound are in the same order by what
    is expected of them (`docs/theory/default_rule.md`, section 4).
    """

    odds_scale: float  # expected odds of losing, where the odds of the bound are even
    band: float  # factor within which four in five measured cells were

    def expected(self, part: float) -> float:
        """Return the part that is expected to be lost."""
        if part >= 1.0:
            return part
        odds = self.odds_scale * math.pow(part / (1.0 - part), ODDS_POWER)
        return odds / (1.0 + odds)


LABELS_BEND = Bend(odds_scale=0.85, band=3.0)
NUMBERS_BEND = Bend(odds_scale=1.5, band=3.5)


@dataclass(frozen=True, slots=True)
class TypicalSizes:
    """Typical sizes, in the units of scaled features and encoded labels."""

    residual: float  # norm of a residual
    expected_distance: float  # distance between the start and the optimum
    curvature: float  # largest derivative of the residual in the score
    gain: float  # risk that features save, over the best constant
    # Risk that fitting one more coefficient saves on the rows themselves, times the
    # number of rows.
    coefficient_risk: float
    # Measured excess risk, in units of the bound on what noise and the bound on
    # influence cost.
    noise_cost: float
    # Part of the steps before which the walk is not made longer (`Walk`).
    patience: float
    # Excess risk if all that sensitive features explain were cut off, per share of the
    # variance that is theirs.
    influence_bias: float
    bend: Bend  # what is expected to be lost, from what the bound says


def typical_sizes(loss: Loss, label_deviation: float = LABEL_DEVIATION) -> TypicalSizes:
    """Return the typical sizes of a loss (`docs/theory/default_rule.md`, section 2).

    Labels that are numbers have the deviation, in units of their range.
    """
    if loss.is_likelihood:
        # Scores of two classes differ as those of a binary model would; K = 2 is one.
        n_classes = max(2, loss.n_outputs)
        risk = math.log(n_classes)
        several = loss.n_outputs > 1
        return TypicalSizes(
            residual=0.7 * math.sqrt(1.0 - 1.0 / n_classes) if several else 0.35,
            expected_distance=_BINARY_TRAVEL
            * (math.sqrt((n_classes - 1) / 2.0) if several else 1.0),
            curvature=loss.lipschitz,
            gain=_EXPLAINED * risk,
            coefficient_risk=0.5,
            noise_cost=0.75,
            patience=0.0 if several else 0.5,
            influence_bias=0.36 * risk / math.log(2.0),
            bend=LABELS_BEND,
        )
    threshold = loss.linear_beyond
    risk = _huber_risk(threshold, label_deviation)
    return TypicalSizes(
        residual=min(0.75 * label_deviation, threshold),
        expected_distance=1.5 * label_deviation,
        curvature=loss.lipschitz,
        gain=0.5 * risk,
        coefficient_risk=0.5 * risk,
        noise_cost=0.35,
        patience=1.0,
        influence_bias=(0.75 * label_deviation) ** 2,
        bend=NUMBERS_BEND,
    )


def nominal_coef(
    blocks: Sequence[Block], loss: Loss, label_deviation: float = LABEL_DEVIATION
) -> FloatArray:
    """Return parameters of typical size: levels and classes alternate in sign.

    Returns
    -------
    coef : array of float, shape (n_columns,) or (n_columns, n_outputs)
        The intercept is the last row, and 0.
    """
    n_features = len({block.feature for block in blocks})
    distance = typical_sizes(loss, label_deviation).expected_distance
    size = distance / 2 / math.sqrt(n_features)
    coef = np.zeros(blocks[-1].stop + 1)
    for block in blocks:
        level = np.arange(block.stop - block.start)
        coef[block.columns] = np.where(level % 2 == 0, size, -size)
    if loss.n_outputs == 1:
        return coef
    by_class = np.linspace(-1.0, 1.0, loss.n_outputs)
    return np.outer(coef, by_class / np.linalg.norm(by_class))


def _huber_risk(threshold: float, deviation: float) -> float:
    """Return the mean Huber loss of a centered normal label."""
    if math.isinf(threshold):
        return deviation**2 / 2
    ratio = threshold / deviation
    tail = float(ndtr(-ratio))
    density = math.exp(-(ratio**2) / 2) / math.sqrt(2 * math.pi)
    return deviation**2 * (0.5 - tail + ratio * density - ratio**2 * tail)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Excess risk of training, relative to what there is to gain.

    Parameters
    ----------
    walking : float
        Excess risk of noisy descent if there were everything to gain: half the
        expected distance times the deviation of the noise, and what bounding
        influence costs.
    gain : float
        Excess risk of the best constant, at nominal scale.
    own_gain : float
        Part of `gain` that coefficients explain on their own rows alone.
    left : float
        Part of `own_gain` that a walk which noise stops early leaves.
    nothing_beyond : float
        Part of `gain` beyond which, by the bound, a constant is expected to be as good.
    bend : Bend, optional
        What measured tables lost, from what the bound says; None: as much.
    least_bound : float
        The bound of a plan that this one is better than although its bound is lower:
        no more is expected to be lost than that says.

    Notes
    -----
    Noise cannot cost more than all that features tell, so the two are joined
    harmonically: the bound by which plans are compared. It grows with noise, and what
    is expected grows with it, so that orders between plans and budgets agree with
    orders between their noise (`docs/theory/default_rule.md`, section 4).
    """

    walking: float
    gain: float
    own_gain: float = 0.0
    left: float = 0.0
    nothing_beyond: float = NOTHING_LEARNED
    bend: Bend | None = None
    least_bound: float = math.inf

    @property
    def excess(self) -> float:
        """Predicted excess risk."""
        bound = min(self.compared, self.least_bound)
        if self.bend is None:
            return bound
        return self.gain * self.bend.expected(bound / self.gain)

    @property
    def compared(self) -> float:
        """The nominal bound on the excess risk, by which plans are chosen."""
        if self.walking == 0:
            return self.left
        return 1.0 / (1.0 / self.walking + 1.0 / self._told) + self.left

    @property
    def compared_part(self) -> float:
        """The bound, in parts of what there is to gain."""
        return self.compared / self.gain

    @property
    def _told(self) -> float:
        """What features tell about labels."""
        return self.gain - self.own_gain

    @property
    def band(self) -> tuple[float, float]:
        """Bounds within which about four in five measured cells were."""
        factor = BAND if self.bend is None else self.bend.band
        return self.excess / factor, self.excess * factor

    @property
    def noise_to_signal(self) -> float:
        """Part of what there is to gain that noise is expected to take."""
        return self.excess / self.gain

    @property
    def learns_nothing(self) -> bool:
        """Whether a constant is expected to be as good."""
        return self.compared_part > self.nothing_beyond

    @property
    def learns_little(self) -> bool:
        """Whether so much is lost that somebody should hear of it before paying."""
        return self.compared_part > self._worth_training

    @property
    def _worth_training(self) -> float:
        return WORTH_TRAINING * self.nothing_beyond

    @property
    def missing_factor(self) -> float:
        """By which factor rows times budget miss what makes training worth it.

        About: a plan for more rows has other norms and steps (`TrainingPlan.advised`).
        """
        wanted = self._told * self._worth_training / (1.0 - self._worth_training)
        return self.walking / wanted if math.isfinite(wanted) else 1.0


@dataclass(frozen=True, slots=True)
class Needed:
    """What would make training worth its budget, as the planner itself says."""

    # Least number of rows, with this budget; None if none up to `MOST_ROWS` would do.
    rows: float | None
    # Least epsilon, with these rows; None if none up to `MOST_EPSILON` would do.
    epsilon: float | None

    @property
    def text(self) -> str:
        """Both in one sentence."""
        if self.rows is None:
            other = "" if self.epsilon is None else f", epsilon={self.epsilon:g} would"
            return f"No number of rows would do{other}."
        other = "" if self.epsilon is None else f", or epsilon={self.epsilon:g},"
        return f"About {self.rows:,.0f} rows{other} would do."


def least_that_learns(
    prediction_at: Callable[[float], Prediction],
    beyond: float,
    factor: float,
    most: float,
) -> float | None:
    """Return about the least number at which a plan learns more than little.

    It has two digits and is `beyond` the number at which little is learned, by about a
    `factor`; None if it is above `most`. Every plan on the way says where it would
    look: a plan of a wide table takes seconds, so that few are asked, and what was
    found after `_QUESTIONS` stays, though a little less might do.
    """
    low, found, stride, asked = _place(beyond), None, 4, 0
    place, last = max(_place(beyond * factor), low) + 1, _place(most)
    while found is None or (low < place < found and asked < _QUESTIONS):
        asked += 1
        place = min(place, last)  # a plan may look beyond where another would do
        if place <= low:
            return None
        number = _of_two_digits(place)
        prediction = prediction_at(number)
        wanted = _place(number * prediction.missing_factor) + 1
        if prediction.learns_little:
            low, place, stride = place, max(wanted, place + stride), 2 * stride
            if found is not None:
                place = min(place, (low + found) // 2)
        else:
            found, place = place, max(wanted, low + 1)
    return _of_two_digits(found)


def _of_two_digits(place: int) -> float:
    """Return the numbers 1.0, 1.1, ..., 9.9, 10, 11, ... by their places."""
    decade, step = divmod(place, 90)
    return float(f"{10 + step}e{decade - 1}")


def _place(number: float) -> int:
    """Return the place of the largest number of two digits that is not above."""
    digits, exponent = f"{number:.17e}".split("e")
    return 90 * int(exponent) + int(10 * float(digits)) - 10

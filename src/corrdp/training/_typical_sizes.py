"""What the default rule takes for typical of a loss, before any row is read."""

import math
from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class Bend:
    """From the part of the gain that a bound says is lost to the part expected.

    Parameters
    ----------
    odds_scale : float
        Expected odds of losing, where the odds of the bound are even.
    band : float
        Factor within which four in five measured cells were.

    Notes
    -----
    Increasing, so plans that are compared by the bound are in the same order by what
    is expected of them (`docs/theory/default_rule.md`, section 4).
    """

    odds_scale: float
    band: float

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
    """Typical sizes, in the units of scaled features and encoded labels.

    Parameters
    ----------
    residual : float
        Norm of a residual.
    expected_distance : float
        Distance between the start and the optimum.
    curvature : float
        Largest derivative of the residual in the score.
    gain : float
        Risk that features save, over the best constant.
    coefficient_risk : float
        Risk that fitting one more coefficient saves on the rows themselves, times
        the number of rows.
    noise_cost : float
        Measured excess risk, in units of the bound on what noise and the bound on
        influence cost.
    patience : float
        Part of the steps before which the walk is not made longer (`Walk`).
    influence_bias : float
        Excess risk if all that sensitive features explain were cut off, per share of
        the variance that is theirs.
    bend : Bend
        What is expected to be lost, from what the bound says.
    """

    residual: float
    expected_distance: float
    curvature: float
    gain: float
    coefficient_risk: float
    noise_cost: float
    patience: float
    influence_bias: float
    bend: Bend


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

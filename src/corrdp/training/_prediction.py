"""What a plan is expected to cost in risk, before any row is read."""

import math
from dataclasses import dataclass

NOTHING_LEARNED = 0.82  # of what a model can gain: beyond it a constant is returned
WORTH_TRAINING = 0.5  # named in warnings as the least that is worth the budget
BAND = 2.0  # about two in three measured cells lie within it (docs/defaults.md)


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

    Notes
    -----
    Noise cannot cost more than everything, so the two are joined harmonically. The
    result grows with either, which makes orders between plans and budgets agree
    with orders between their noise (`docs/theory/default_rule.md`, section 4).
    """

    walking: float
    gain: float

    @property
    def excess(self) -> float:
        """Predicted excess risk."""
        if self.walking == 0:
            return 0.0
        return 1.0 / (1.0 / self.walking + 1.0 / self.gain)

    @property
    def band(self) -> tuple[float, float]:
        """Bounds within which about two in three measured cells were."""
        return self.excess / BAND, self.excess * BAND

    @property
    def noise_to_signal(self) -> float:
        """Part of what there is to gain that noise is expected to take."""
        return self.excess / self.gain

    @property
    def learns_nothing(self) -> bool:
        """Whether a constant is expected to be as good."""
        return self.noise_to_signal > NOTHING_LEARNED

    @property
    def missing_factor(self) -> float:
        """By how much rows times budget must grow until training is worth it."""
        wanted = self.gain * WORTH_TRAINING / (1.0 - WORTH_TRAINING)
        return max(1.0, self.walking / wanted) if math.isfinite(wanted) else 1.0

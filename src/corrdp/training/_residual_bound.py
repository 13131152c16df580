"""Where residuals of numbers are cut, from noisy fractions of small ones.

Noise is in proportion to the bound, and what a bound cuts off biases the model: the
fraction that it should leave alone balances the two (`docs/theory/default_rule.md`,
section 2, item 7).
"""

import math
from typing import Self

from corrdp.training._plan import TrainingPlan
from corrdp.training.losses import LARGEST_RESIDUAL_BOUND, SMALLEST_RESIDUAL_BOUND

COVERED = (0.9, 0.99)  # least and largest fraction of residuals left uncut
CUTTING_COST = 0.45  # excess risk of cutting, by its square and the bound's
_FIRST_PART = 0.25  # of the steps, in which the bound finds its scale
_RATES = (0.6, 0.3)  # of adaptation, in the first part and after it
_SMALLEST_BOUND = 0.04  # of the bound that training begins with


class ResidualBound:
    """A bound on residuals that follows released fractions of those within it.

    Parameters
    ----------
    first : float
        The bound that training begins with.
    growth : float
        Largest bound, in units of the first.
    price : float
        What noise costs in risk per unit of the bound; infinite if nothing is known.

    Guarantee
    ---------
    A function of public numbers and of noisy fractions, which are paid for: costs
    nothing more (`docs/theory/solvers.md`, section 3).
    """

    def __init__(self, first: float, *, growth: float, price: float = math.inf) -> None:
        self.value = first
        self._least = max(_SMALLEST_BOUND * first, SMALLEST_RESIDUAL_BOUND)
        self._largest = min(growth * first, LARGEST_RESIDUAL_BOUND)
        self._price = price

    @classmethod
    def of_plan(cls, plan: TrainingPlan) -> Self | None:
        """Return the bound that a plan begins with; None if there is none to adapt."""
        first = plan.loss.clips_residuals_at
        if first is None or not plan.loss.adapts_residual_bound:
            return None
        return cls(first, growth=plan.bound_growth, price=plan.bound_price)

    @property
    def covered(self) -> float:
        """Fraction of residuals that the present bound should leave uncut."""
        cut = math.sqrt(self._price / (CUTTING_COST * self.value))
        least, largest = COVERED
        return min(max(1.0 - cut, least), largest)

    def adapted(self, fraction: float, progress: float) -> float:
        """Return the bound that follows from a noisy fraction of small residuals.

        Parameters
        ----------
        fraction : float
            Released fraction of residuals within the present bound.
        progress : float
            Part of the steps that are done.
        """
        rate = _RATES[progress >= _FIRST_PART]
        bound = self.value * math.exp(-rate * (fraction - self.covered))
        self.value = min(max(bound, self._least), self._largest)
        return self.value

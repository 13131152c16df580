"""Round numbers between declared bounds, among which a quantile is drawn."""

import math
from dataclasses import dataclass, replace

import numpy as np

from corrdp._typing import FloatArray, IntArray


@dataclass(frozen=True)
class Grid:
    """Places between declared bounds at multiples of a round step.

    Numbers that people write down, whole ones above all, are places themselves.

    Parameters
    ----------
    first, last : int
        The places are these multiples of the step, and those between.
    power : int
        The step is `factor` times ten to this power.
    factor : int
        1, 2 or 5.
    """

    first: int
    last: int
    power: int
    factor: int

    @classmethod
    def between(cls, lower: float, upper: float, wanted: float) -> "Grid":
        """Return the coarsest round grid of at least so many places.

        Examples
        --------
        >>> Grid.between(0.0, 100.0, 800.0)
        Grid(first=0, last=1000, power=-1, factor=1)
        """
        largest = (upper - lower) / wanted
        power = math.floor(math.log10(largest))
        factor = max(f for f in (1, 2, 5) if f == 1 or f * 10.0**power <= largest)
        found = cls(0, 0, power, factor)
        first, last = (round(bound / found.step) for bound in (lower, upper))
        return replace(found, first=first, last=last)

    @property
    def step(self) -> float:
        """Distance of two places."""
        return self.value(1)

    def __len__(self) -> int:
        return self.last - self.first + 1

    def value(self, multiple: int) -> float:
        """Return a place as the decimal number it is."""
        return float(f"{multiple * self.factor}e{self.power}")

    def nearest(self, numbers: FloatArray) -> IntArray:
        """Return the number of the nearest place, counted from the first."""
        multiples = np.rint(numbers / self.step)
        return (np.clip(multiples, self.first, self.last) - self.first).astype(np.int64)

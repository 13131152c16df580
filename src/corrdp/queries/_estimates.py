"""Interval arithmetic: what noise of known reach does to a computed answer."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Estimate:
    """A noisy value, and an interval that holds the true one with known probability.

    Parameters
    ----------
    value : float
        Computed from noisy numbers.
    lower, upper : float
        Where the answer without noise lies whenever no noise exceeds its radius.
    sampling : float, optional
        How far the answer without noise may be from that of the population, if rows
        are independent draws: another error than noise, and shown apart from it.
    rank : float, optional
        By how many rows a drawn quantile may miss its rank.
    """

    value: float
    lower: float
    upper: float
    sampling: float | None = None
    rank: float | None = None

    @classmethod
    def exactly(cls, value: float) -> "Estimate":
        """Return a public number."""
        return cls(value, value, value)

    @property
    def radius(self) -> float:
        """Largest distance of the true answer from `value`."""
        return max(self.value - self.lower, self.upper - self.value)

    def __add__(self, other: "Estimate") -> "Estimate":
        return Estimate(
            self.value + other.value,
            self.lower + other.lower,
            self.upper + other.upper,
        )

    def __sub__(self, other: "Estimate") -> "Estimate":
        return self + other.scaled(-1.0)

    def __mul__(self, other: "Estimate") -> "Estimate":
        corners = [
            _product(mine, theirs)
            for mine in (self.lower, self.upper)
            for theirs in (other.lower, other.upper)
        ]
        return Estimate(self.value * other.value, min(corners), max(corners))

    def __truediv__(self, other: "Estimate") -> "Estimate":
        """Divide by a number that is positive; where it may be zero, know nothing."""
        value = self.value / other.value if other.value > 0.0 else 0.0
        if other.lower <= 0.0:
            return Estimate(value, -math.inf, math.inf)
        inverse = Estimate(1.0 / other.value, 1.0 / other.upper, 1.0 / other.lower)
        return Estimate(value, (self * inverse).lower, (self * inverse).upper)

    def over(self, other: "Estimate") -> "Estimate":
        """Divide by a number of either sign; where it may be zero, know nothing."""
        if other.upper < 0.0:
            return self.scaled(-1.0) / other.scaled(-1.0)
        return self / other

    def scaled(self, factor: float) -> "Estimate":
        """Multiply by a public number."""
        ends = sorted((_product(self.lower, factor), _product(self.upper, factor)))
        return Estimate(self.value * factor, *ends)

    def shifted(self, offset: float) -> "Estimate":
        """Add a public number."""
        return Estimate(self.value + offset, self.lower + offset, self.upper + offset)

    def squared(self) -> "Estimate":
        """Multiply by itself: the two factors err together."""
        ends = sorted((self.lower**2, self.upper**2))
        if self.lower <= 0.0 <= self.upper:
            ends[0] = 0.0
        return Estimate(self.value**2, *ends)

    def root(self) -> "Estimate":
        """Take the square root of what cannot be negative."""
        clipped = self.clipped(0.0, math.inf)
        return Estimate(
            math.sqrt(clipped.value), math.sqrt(clipped.lower), math.sqrt(clipped.upper)
        )

    def sampled(self, error: float) -> "Estimate":
        """Return the same with the sampling error of the rows beside it."""
        return replace(self, sampling=error)

    def clipped(self, lower: float, upper: float) -> "Estimate":
        """Move value and interval into a range that the true answer cannot leave."""
        return Estimate(
            *(min(max(x, lower), upper) for x in (self.value, self.lower, self.upper))
        )


def _product(left: float, right: float) -> float:
    return 0.0 if left == 0.0 or right == 0.0 else left * right  # no inf * 0

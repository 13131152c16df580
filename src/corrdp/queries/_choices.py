"""Quantiles by exponential choice: a place on a fine grid, scored by rank.

Every cell of a question gets one draw. A place of the grid between the declared bounds
scores minus the number of rows by which it misses the rank that was asked for, so its
score moves by one row at most. Theory: ``docs/theory/queries.md``.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp.mechanisms.noise import (
    NoiseKind,
    exponential_choice,
    flipped_choice,
    grid_rate,
)
from corrdp.policy import Policy
from corrdp.queries._columns import number_bounds, read_numbers
from corrdp.queries._estimates import Estimate
from corrdp.queries._moments import Moment

# Places for every row that a draw can tell apart: rounding then errs less than the draw
# even where the bounds are several times wider than most rows.
_PLACES_PER_ROW = 4
_FEWEST_PLACES, _MOST_PLACES = 2**8, 2**20
_FINEST_PROBABILITY = 10**6
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


@dataclass(frozen=True)
class Grid:
    """Places between declared bounds at multiples of a round step.

    Numbers that people write down, whole ones above all, are places themselves. The
    step is `factor`, which is 1, 2 or 5, times ten to the `power`; places are its
    multiples from the `first` to the `last`.
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


@dataclass(frozen=True)
class RankChoice(Moment):
    """The place of one quantile on a grid, drawn in every cell.

    Its released coordinate is the number of the place, not a noisy sum. Rows in which
    the column, `present`, is missing are left out.
    """

    probability: float = 0.5

    @property
    def column(self) -> str:
        """The column whose quantile is drawn."""
        assert self.present is not None
        return self.present

    @property
    def name(self) -> str:
        """Name shown in plans."""
        return f"rank {self.probability:g} of {super().name}"

    def movement(self, policy: Policy, changed: frozenset[str]) -> tuple[int, int]:
        r"""Bound the price of the draws, in units of the noise.

        Returns
        -------
        absolute, squared : int
            Twice the number of cells whose scores can move, and that number: a draw
            with rate :math:`r` whose scores move by one row is :math:`2r`-DP and
            :math:`r^2/2`-concentrated DP, as noise of scale :math:`1/r` is on a sum
            that moves so far.

        Guarantee
        ---------
        Holds for any two tables of equal length that differ in the `changed` columns
        of one row (`docs/theory/queries.md`).
        """
        filtered = self.where.columns if self.where is not None else frozenset()
        own = 1 if ({self.column} | filtered) & changed else 0
        cells = max(own, self._ends(policy, changed))
        return 2 * cells, cells

    def grid(self, policy: Policy, *, scale: Fraction, n_rows: int) -> Grid:
        """Return the places among which the draw chooses, from public numbers alone."""
        wanted = float(_MOST_PLACES)
        if scale > 0:
            wanted = _PLACES_PER_ROW * n_rows * float(choice_rate(scale))
        wanted = min(max(wanted, _FEWEST_PLACES), _MOST_PLACES)
        return Grid.between(*number_bounds(policy, self.column), wanted)

    def typical(
        self, policy: Policy, parts: Iterator[float], *, scale: Fraction, n_rows: int
    ) -> list[Estimate]:
        """Return places as they might be drawn, from public numbers."""
        n_places = len(self.grid(policy, scale=scale, n_rows=n_rows))
        n_cells = len(self.cells(policy))
        return self.estimates(
            policy,
            [int(part * n_places) for part in itertools.islice(parts, n_cells)],
            scale=scale,
            n_rows=n_rows,
            failure_probability=0.5,
        )

    def scores(self, policy: Policy, table: Any, grid: Grid) -> Iterator[IntArray]:
        """Yield the scores of all places, in whole rows, 0 at best, cell by cell.

        One cell at a time: places times cells may be more than memory holds, and the
        draws are paid for.

        Guarantee
        ---------
        Scores of a cell move by at most one between tables that differ in one row, and
        not at all unless that row is in the cell in one of them
        (`docs/theory/queries.md`).
        """
        numbers = read_numbers(policy, table, self.column)
        used = numbers.present
        if self.where is not None:
            used = used & self.where.evaluate(policy, table).true
        lower, upper = number_bounds(policy, self.column)
        place = grid.nearest(lower + (numbers.values + 0.5) * (upper - lower))
        cell, _, released = self._cells_of(policy, table, place.size)
        order = np.argsort(cell[used], kind="stable")
        cell, place = cell[used][order], place[used][order]
        starts, stops = (np.searchsorted(cell, released, side) for side in _SIDES)
        for start, stop in zip(starts, stops, strict=True):
            yield self._scored(place[start:stop], len(grid))

    def _scored(self, place: IntArray, n_places: int) -> IntArray:
        below = np.zeros(n_places + 1, dtype=np.int64)
        np.cumsum(np.bincount(place, minlength=n_places), out=below[1:])
        # Whole numbers throughout: a rank moves by one row or not at all.
        share = Fraction(self.probability).limit_denominator(_FINEST_PROBABILITY)
        rank = max(math.ceil(share * place.size), 1)
        miss = np.maximum(below[:-1] - (rank - 1), rank - below[1:])
        scored: IntArray = -np.maximum(miss, 0)
        return scored

    def choose(
        self,
        policy: Policy,
        table: Any,
        *,
        scale: Fraction,
        kind: NoiseKind,
        n_rows: int,
        generator: np.random.Generator,
    ) -> IntArray:
        """Draw a place in every cell; with `scale` zero take a best one.

        Guarantee
        ---------
        At most what `movement` states for noise of this scale: exact draws
        (`docs/theory/queries.md`).
        """
        grid = self.grid(policy, scale=scale, n_rows=n_rows)
        scores = self.scores(policy, table, grid)
        rate = Fraction(0) if scale == 0 else choice_rate(scale)

        def drawn(cell: IntArray) -> int:
            if scale == 0:
                return int(np.argmax(cell))
            if kind is NoiseKind.LAPLACE:  # pure epsilons add up
                return flipped_choice(cell, rate=rate, generator=generator)
            # Most places score badly and are not kept: many are tried at once.
            return exponential_choice(
                cell, rate=rate, generator=generator, tries_at_once=len(grid) // 16
            )

        return np.array([drawn(cell) for cell in scores], dtype=np.int64)

    def estimates(
        self,
        policy: Policy,
        drawn: Sequence[int],
        *,
        scale: Fraction,
        n_rows: int,
        failure_probability: float,
    ) -> list[Estimate]:
        """Return the middle of each place that was drawn, and how far off its rank is.

        A draw says nothing of the distance in value: the bounds enclose the quantile.
        Without noise the quantile lies in the place itself.
        """
        lower, upper = number_bounds(policy, self.column)
        grid = self.grid(policy, scale=scale, n_rows=n_rows)
        rank = rank_radius(
            len(grid), scale=scale, failure_probability=failure_probability
        )
        found = []
        for place in drawn:
            value = grid.value(grid.first + place)
            ends = (lower, upper)
            if scale == 0:
                ends = (value - grid.step / 2.0, value + grid.step / 2.0)
            estimate = Estimate(value, *ends).clipped(lower, upper)
            found.append(replace(estimate, rank=rank))
        return found


def rank_radius(n_places: int, *, scale: Fraction, failure_probability: float) -> float:
    """Return by how many rows a drawn place may miss the rank, with what odds.

    Guarantee
    ---------
    Except with `failure_probability` the place meets the values between the row so
    many ranks below the one asked for and the row so many above
    (`docs/theory/queries.md`).
    """
    if scale == 0:
        return 0.0
    rate = float(choice_rate(scale))
    odds = math.log(n_places / failure_probability)
    return float(math.ceil(odds / rate)) if rate > 0.0 else math.inf


def choice_rate(scale: Fraction) -> Fraction:
    """Return the rate of a draw whose price is that of noise of a scale, or less."""
    return grid_rate(min(1.0, float(1 / scale)))

"""How small an upper bound on a distance can be in the mean, whoever computes it.

docs/theory/leakage.md, Proposition 1c: a bound that holds given the sizes is a test of
every mixture of laws with a larger distance, and no test is more powerful than that of
Neyman and Pearson. Means over drawn tables stand for sums over all of them.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri

MOST_SETS = 1024
"""All sets of cells are moved if there are no more, else this many of them."""

MOST_MOVES = 400
"""Of all moves to one distance, as many as are hardest to tell from the truth."""

STEPS = 80
"""Parts of the range of distances in which bounds are found; each costs half of it."""

TILTS = (1.0, 2.0, 4.0, 8.0)
"""How fast the weight of a move falls with its distance in standard deviations."""

DRAWS, TUNING_DRAWS = 800, 200
"""Drawn tables, for the mean, and for the choice of a mixture and a multiplier."""

_FARTHEST = 60.0  # a shift of log-odds after which a share is 1
_INSIDE = 1e-9


def least_mean_upper(
    laws: Any, sizes: Any, *, failure_probability: float, seed: int = 0
) -> tuple[float, float]:
    """Return what the mean of every valid bound on the largest distance exceeds.

    And the standard error with which drawn tables tell it.

    Parameters
    ----------
    laws : array of float, shape (n_values, n_cells)
        True laws of the sensitive cells.
    sizes : sequence of int, shape (n_values,)
        Rows per value that the bound is computed from.
    failure_probability : float
        With which the bound may be too small, under any laws.
    seed : int
        Of the drawn tables.
    """
    laws, sizes = np.asarray(laws, dtype=float), np.asarray(sizes, dtype=int)
    if len(sizes) < 2:
        return 0.0, 0.0
    if not sizes.all():  # nothing was seen of a value: nothing is ruled out
        return 1 - failure_probability, 0.0
    generator = np.random.default_rng(seed)
    moves = _Moves.of(laws, sizes, generator)
    # One draw of the tables tells the chance of all distances, so errors are of sums.
    tables = np.stack(
        [
            generator.multinomial(size, law, size=TUNING_DRAWS + DRAWS)
            for size, law in zip(sizes, laws, strict=True)
        ],
        axis=1,
    )
    inside = tables @ moves.sets.T.astype(float)
    last = moves.truth
    kept = np.zeros(DRAWS)
    for distance in _distances(moves, failure_probability):
        ratios = moves.log_ratios(inside, distance)
        kept += (distance - last) * _accepted(ratios, failure_probability)
        last = distance  # at the right end of a step: never too much
    floor = moves.truth * (1 - failure_probability) + kept.mean()
    return float(floor), float(kept.std() / np.sqrt(DRAWS))


def _accepted(ratios: Any, failure_probability: float) -> Any:
    """Return for each drawn table a number whose mean no chance to accept is below.

    From logarithms of ratios of likelihoods, a row for each mixture. A test that
    rejects a mixture with `failure_probability` at most rejects the truth with at most
    E(1 - m L)+ + m beta, L the ratio, for every m >= 0.
    """
    multipliers = np.linspace(-20.0, 10.0, 61)[:, None]
    tuning, rest = ratios[:, :TUNING_DRAWS], ratios[:, TUNING_DRAWS:]
    spent = np.exp(multipliers) * failure_probability
    accepted = np.exp(np.minimum(multipliers[..., None] + tuning, 0.0)).mean(axis=-1)
    best, mixture = np.unravel_index(np.argmax(accepted - spent), accepted.shape)
    told = np.exp(np.minimum(multipliers[best] + rest[mixture], 0.0))
    return told - spent[best]


def _distances(moves: "_Moves", failure_probability: float) -> Any:
    """Return distances, close to each other where a bound may or may not lie."""
    quantile = -float(ndtri(failure_probability))
    ends = []
    for deviations in (quantile - 3.5, quantile + 2.5):
        low, high = moves.truth, 1.0
        for _ in range(20):
            middle = 0.5 * (low + high)
            near = moves.nearest(middle) < deviations
            low, high = (middle, high) if near else (low, middle)
        ends.append(low)
    return np.linspace(*ends, STEPS + 1)[int(ends[0] <= moves.truth) :]


@dataclass(frozen=True, eq=False)
class _Moves:
    """Ways to make two laws differ more.

    Rows of one set of cells become likelier in one of them, all others in the other.
    """

    laws: Any
    sizes: Any
    sets: Any  # of cells, shape (n_sets, n_cells)
    first: Any  # values, one per move
    second: Any
    which: Any  # sets, one per move

    @classmethod
    def of(cls, laws: Any, sizes: Any, generator: np.random.Generator) -> "_Moves":
        pairs = np.stack(np.triu_indices(len(sizes), 1))
        sets = _sets(laws, generator)
        first, second = np.repeat(pairs, len(sets), axis=1)
        which = np.tile(np.arange(len(sets)), pairs.shape[1])
        return cls(laws, sizes, sets, first, second, which)

    @cached_property
    def truth(self) -> float:
        """The largest distance of the true laws."""
        return float(np.abs(self.laws[:, None] - self.laws).sum(axis=2).max() / 2)

    @cached_property
    def rows(self) -> tuple[Any, Any]:
        """Rows of both values of every move."""
        return self.sizes[self.first], self.sizes[self.second]

    @cached_property
    def odds(self) -> tuple[Any, Any]:
        """Log-odds of the set in the first law, and of the others in the second one."""
        inside = self.laws @ self.sets.T
        shares = inside[self.first, self.which], 1 - inside[self.second, self.which]
        return tuple(logit(np.clip(share, _INSIDE, 1 - _INSIDE)) for share in shares)

    @cached_property
    def parts(self) -> tuple[Any, Any]:
        """How both share a shift of log-odds: the smaller sample moves farther."""
        first, second = self.rows
        return np.minimum(1.0, second / first), np.minimum(1.0, first / second)

    def shifts(self, distance: float) -> tuple[Any, Any]:
        """Return the shifts of log-odds of every move to that distance."""
        low = np.zeros(len(self.which))
        high = np.full(len(self.which), _FARTHEST)
        for _ in range(40):
            middle = 0.5 * (low + high)
            moved = [o + p * middle for o, p in zip(self.odds, self.parts, strict=True)]
            enough = expit(moved[0]) + expit(moved[1]) - 1 >= distance
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return self.parts[0] * high, self.parts[1] * high

    def constants(self, shifts: tuple[Any, Any]) -> Any:
        """Return the logarithm of the ratio of likelihoods where no row is counted."""
        return sum(
            rows * (np.logaddexp(0.0, odds) - np.logaddexp(0.0, odds + shift))
            for rows, odds, shift in zip(self.rows, self.odds, shifts, strict=True)
        )

    def deviations(self, shifts: tuple[Any, Any]) -> Any:
        """Return how far every move lies from the truth, in standard deviations.

        The root of twice the divergence of the truth from it, as for normal laws; out
        of reach where no shift is enough.
        """
        counted = sum(
            rows * expit(odds) * shift
            for rows, odds, shift in zip(self.rows, self.odds, shifts, strict=True)
        )
        far = np.sqrt(2 * np.maximum(0.0, -counted - self.constants(shifts)))
        reached = np.maximum(*shifts) < _FARTHEST * (1 - 1e-9)
        return np.where(reached, far, np.inf)

    def nearest(self, distance: float) -> float:
        """Return how far the nearest move to a distance lies."""
        return float(self.deviations(self.shifts(distance)).min())

    def log_ratios(self, inside: Any, distance: float) -> Any:
        """Return logarithms of likelihoods under mixtures of moves over the true ones.

        From the rows of every value in every set; a row for each of `TILTS`, by which
        near moves weigh more. Every choice of weights gives a floor.
        """
        shifts = self.shifts(distance)
        far = self.deviations(shifts)
        near = np.argsort(far, kind="stable")[:MOST_MOVES]
        near = near[np.isfinite(far[near])]
        counted = inside[:, self.first[near], self.which[near]] * shifts[0][near]
        others = self.rows[1][near] - inside[:, self.second[near], self.which[near]]
        counted += others * shifts[1][near]
        logs = counted + self.constants(shifts)[near]
        largest = logs.max(axis=1)
        weights = np.exp(-np.outer(far[near] - far[near].min(), TILTS))
        sums = np.exp(logs - largest[:, None]) @ (weights / weights.sum(axis=0))
        return (largest[:, None] + np.log(sums)).T


def _sets(laws: Any, generator: np.random.Generator) -> Any:
    """Return sets of cells: all, or those that separate two values and sets near them.

    Neither the empty set nor all cells are among them: nothing moves there.
    """
    n_cells = laws.shape[1]
    if 2**n_cells <= MOST_SETS:
        bits = np.arange(1, 2**n_cells - 1)[:, None] >> np.arange(n_cells)
        return (bits & 1).astype(bool)
    first, second = np.triu_indices(len(laws), 1)
    gaps = laws[first] - laws[second]
    chosen = np.concatenate([gaps > 0, gaps < 0])
    means = np.abs(gaps).mean(axis=1, keepdims=True) + _INSIDE
    often = np.tile(np.abs(gaps) / means, (2, 1))
    each = -(-MOST_SETS // len(chosen))
    ease = generator.random((each, len(chosen), 1))
    changed = generator.random((each, *chosen.shape)) < 0.5 * ease * np.exp(-often)
    changed[0] = False
    sets = np.unique((chosen ^ changed).reshape(-1, n_cells), axis=0)
    return sets[sets.any(axis=1) & ~sets.all(axis=1)]

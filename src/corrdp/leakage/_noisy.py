r"""Upper bounds from noisy counts; proof in docs/theory/leakage.md, Theorem 2."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import chdtri, ndtri

from corrdp._typing import FloatArray, IntArray
from corrdp._validate import check_failure_probability, check_real
from corrdp.exceptions import CorrDPError
from corrdp.leakage._bounds import ROUNDING_ERROR, shared_quantile

SIZE_SHARE = 0.1
"""Part of the failure probability for the errors of all sizes."""

SQUARES_SHARE = 0.1
"""Part of the failure probability for the bound by squares; half of it for rows."""

SMALL_CELL = 0.5
"""Cells of a smaller share than this times the noise are bounded by their sum."""


@dataclass(frozen=True, eq=False)
class NoisyBounds:
    """Distances of all pairs of groups, their bounds, and what the bounds are made of.

    Parameters
    ----------
    sizes : array of float, shape (n_groups,)
        Sizes corrected to the known total.
    distances, uppers : arrays of float, shape (n_groups, n_groups)
        Noisy total variations, and bounds; NaN and 1 where noise drowns a size.
    """

    sizes: FloatArray
    distances: FloatArray
    uppers: FloatArray


def noisy_total_variation_upper(
    noisy_counts: FloatArray,
    noisy_sizes: FloatArray,
    *,
    noise_scale: float,
    size_noise_scale: float,
    failure_probability: float,
    n_levels: IntArray | None = None,
    n_rows: int | None = None,
    cell_shares: FloatArray | None = None,
) -> NoisyBounds:
    r"""Return noisy total variations of all pairs, and upper bounds on the true ones.

    Parameters
    ----------
    noisy_counts : array of float, shape (n_groups, n_cells)
        Counts plus discrete Gaussian noise in steps of `NOISE_LATTICE`, drawn after
        the groups were chosen.
    noisy_sizes : array of float, shape (n_groups,)
        Rows per group: sums of noisy sizes of levels, which may have chosen the groups.
    noise_scale, size_noise_scale : float
        Standard deviations of the Gaussian part of the noise on each cell and on the
        size of each level: the noise is within `ROUNDING_ERROR` of it.
    failure_probability : float
        Probability with which the bound may be too small, for one fixed pair.
    n_levels : array of int, optional
        How many levels each group joins; one each by default.
    n_rows : int, optional
        The number of rows, which is public: all sizes add up to it.
    cell_shares : array of float, shape (n_cells,), optional
        Share of the rows in every sensitive cell, from noise independent of
        `noisy_counts`. Small cells are then bounded by their sum.

    Guarantee
    ---------
    Rows independent given the feature, noise independent of them: for any fixed pair
    of the chosen groups the true total variation is at most the bound, except with
    `failure_probability` (docs/theory/leakage.md, Theorem 2). The bound is the smaller
    of two that hold at once: by absolute values, and by squares.
    """
    check_failure_probability(failure_probability)
    for name, scale in (("noise", noise_scale), ("size_noise", size_noise_scale)):
        check_real(f"{name}_scale", scale, lower=0.0, open_lower=True)
    n_groups = len(noisy_counts)
    levels = np.ones(n_groups) if n_levels is None else np.asarray(n_levels, float)
    sizes, errors = corrected_sizes(
        noisy_sizes,
        levels,
        size_noise_scale=size_noise_scale,
        failure_probability=SIZE_SHARE * failure_probability,
        n_rows=n_rows,
    )
    distances = np.full((n_groups, n_groups), np.nan)
    uppers = np.ones((n_groups, n_groups))
    clear = sizes > errors
    if clear.any():
        inner = np.ix_(clear, clear)
        table = _Pairs(
            noisy_counts[clear] / sizes[clear][:, None],
            sizes[clear],
            errors[clear],
            noise_scale,
        )
        main = 1 - SIZE_SHARE - SQUARES_SHARE
        bound = np.minimum(
            table.by_absolute_values(cell_shares, main * failure_probability),
            table.by_squares(SQUARES_SHARE / 2 * failure_probability),
        )
        distances[inner] = np.minimum(table.distances, 1.0)
        # Below 0 the noise has shown that it is beyond what the bound allows for.
        uppers[inner] = np.where(bound < 0, 1.0, np.minimum(bound, 1.0))
    return NoisyBounds(sizes, distances, uppers)


def corrected_sizes(
    noisy_sizes: FloatArray,
    n_levels: FloatArray,
    *,
    size_noise_scale: float,
    failure_probability: float,
    n_rows: int | None,
) -> tuple[FloatArray, FloatArray]:
    """Return sizes of groups that add up to the number of rows, and their errors.

    Guarantee
    ---------
    All errors hold at once, for every grouping of the levels, except with
    `failure_probability` (docs/theory/leakage.md, Theorem 2, event 1): the grouping
    may depend on the sizes.
    """
    total = float(n_levels.sum())
    if n_rows is None:
        sizes, spread, freedom = noisy_sizes, n_levels, total
    else:
        sizes = noisy_sizes + n_levels / total * (n_rows - noisy_sizes.sum())
        spread, freedom = n_levels * (total - n_levels) / total, total - 1
    if freedom < 1:
        raise CorrDPError(
            f"sizes of {total:g} level are known without noise, got n_rows={n_rows}. "
            "Pass two levels at least."
        )
    together = math.sqrt(float(chdtri(freedom, failure_probability / 2)))
    single = -float(ndtri(failure_probability / (4 * total)))
    one = 1.0 if n_rows is None else math.sqrt((total - 1) / total)
    errors = size_noise_scale * np.minimum(
        np.sqrt(spread) * together, n_levels * single * one
    )
    return sizes, errors + 2 * n_levels * ROUNDING_ERROR


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Terms of the bound for all pairs of rows whose sizes noise does not drown."""

    rows: FloatArray
    sizes: FloatArray
    errors: FloatArray
    noise_scale: float

    @cached_property
    def distances(self) -> FloatArray:
        return np.asarray(cdist(self.rows, self.rows, "cityblock") / 2)

    @property
    def variance(self) -> FloatArray:
        """Variance of the noise on a difference of shares, exactly known."""
        return self.noise_scale**2 * _pair_sum(1 / self.sizes**2)

    @property
    def sampling(self) -> FloatArray:
        """Four times what drawing rows adds to a variance proxy, at most."""
        return _pair_sum((self.sizes + self.errors) / self.sizes**2)

    @property
    def size_terms(self) -> FloatArray:
        return _pair_sum(self.errors / (2 * self.sizes))

    def by_absolute_values(
        self, cell_shares: FloatArray | None, failure_probability: float
    ) -> FloatArray:
        n_cells = self.rows.shape[1]
        measured = (
            self.distances
            if cell_shares is None
            else self._with_small_cells(cell_shares)
        )
        rounding = _pair_sum(n_cells * ROUNDING_ERROR / (2 * self.sizes))
        deviation = self._deviation(n_cells * self.variance, failure_probability)
        return np.asarray(measured + rounding + self.size_terms + deviation)

    def _deviation(
        self, noise_variance: FloatArray | float, failure_probability: float
    ) -> FloatArray:
        """Return how far rows and noise hide a distance: the lesser of two margins.

        Both are functions of sizes, so the choice costs no failure probability.
        """
        single = (self.sizes + self.errors) / self.sizes**2
        variance = noise_variance + self.sampling
        moments = np.sqrt(2 * math.log(1 / failure_probability) * variance)
        quantile = shared_quantile(
            np.sqrt(single)[:, None],
            np.sqrt(single)[None, :],
            np.sqrt(noise_variance),
            failure_probability=failure_probability,
        )
        tails = quantile * np.sqrt(variance) + 2 * _pair_sum(1 / self.sizes)
        return 0.5 * np.minimum(moments, tails)

    def _with_small_cells(self, cell_shares: FloatArray) -> FloatArray:
        """Replace |difference| of small cells by the sum of both shares."""
        n_groups = len(self.rows)
        limits = SMALL_CELL * np.sqrt(self.variance)
        measured = np.zeros((n_groups, n_groups))
        for first in range(n_groups):
            small = cell_shares < limits[first][:, None]
            apart = np.abs(self.rows[first] - self.rows)
            together = self.rows[first] + self.rows
            measured[first] = 0.5 * np.where(small, together, apart).sum(axis=1)
        return measured

    def by_squares(self, failure_probability: float) -> FloatArray:
        n_cells = self.rows.shape[1]
        log_share = math.log(1 / failure_probability)
        rounding = _pair_sum(math.sqrt(n_cells) * ROUNDING_ERROR / self.sizes)
        length = cdist(self.rows, self.rows) + rounding
        excess = n_cells - 4 * log_share
        variance = self.variance
        inside = 8 * log_share * length**2 * variance - (
            4 * log_share * excess * variance**2
        )
        square = length**2 - excess * variance + np.sqrt(np.maximum(inside, 0.0))
        center = np.sqrt(np.maximum(square, 0.0))
        return np.asarray(
            0.5 * math.sqrt(n_cells) * center
            + self.size_terms
            + self._deviation(0.0, failure_probability)
        )


def _pair_sum(per_group: FloatArray) -> FloatArray:
    return np.asarray(per_group[:, None] + per_group[None, :])

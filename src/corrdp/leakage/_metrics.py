"""Distances between distributions of the sensitive features, with their axioms."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import eye_array, kron, vstack
from scipy.spatial.distance import cdist

from corrdp._typing import FloatArray
from corrdp._validate import check_choice
from corrdp.exceptions import CorrDPError
from corrdp.leakage._gaussians import (
    gaussian_hellinger,
    gaussian_total_variation,
    gaussian_wasserstein,
)

LARGEST_TRANSPORT = 120
"""Cells up to which joint Wasserstein distances are solved as linear programs."""


@dataclass(frozen=True, kw_only=True)
class Axioms:
    """Which axioms of Definition 2.3 a distance meets; 1 is allowed, not below 1 (E11).

    Parameters
    ----------
    bounded : bool
        Axiom 1: values in [0, 1].
    one_when_disjoint : bool
        Distributions without common support are at distance 1, as point masses on two
        sensitive values are: with it, axiom 2 holds as a value and not only by rule.
    zero_when_equal : bool
        Axiom 4: independent features have distance 0.
    triangle : bool
        The triangle inequality, which makes it a metric.
    """

    bounded: bool = True
    one_when_disjoint: bool = True
    zero_when_equal: bool = True
    triangle: bool = True


@runtime_checkable
class Metric(Protocol):
    """A distance between distributions of the joint sensitive features."""

    @property
    def name(self) -> str:
        """Name in results and on certificates."""

    @property
    def axioms(self) -> Axioms:
        """What it guarantees of every pair."""

    def pairwise(self, rows: FloatArray, ground: Sequence[FloatArray]) -> FloatArray:
        """Return all distances between distributions on joint sensitive cells.

        Parameters
        ----------
        rows : array of float, shape (n_distributions, n_cells)
            Each sums to 1. Cells run over the product of the sensitive features, the
            last one fastest.
        ground : sequence of arrays, shape (n_codes, n_codes)
            Per sensitive feature how far apart its codes are, in [0, 1].
        """

    def gaussian(
        self,
        first_mean: FloatArray,
        first_covariance: FloatArray,
        second_mean: FloatArray,
        second_covariance: FloatArray,
    ) -> float:
        """Return the distance between two Gaussians on the unit cube's scale."""

    def upper_from_total_variation(self, total_variation: float) -> float:
        """Return a bound on this distance that a total variation implies."""


@dataclass(frozen=True)
class TotalVariation:
    """Largest difference in probability of any event: the paper's choice."""

    name: str = "total_variation"
    axioms: Axioms = Axioms()
    gaussian = staticmethod(gaussian_total_variation)

    def pairwise(
        self, rows: FloatArray, ground: Sequence[FloatArray] = ()
    ) -> FloatArray:
        """Return half the sums of absolute differences."""
        return np.asarray(np.minimum(cdist(rows, rows, "cityblock") / 2, 1.0))

    def upper_from_total_variation(self, total_variation: float) -> float:
        """Return the total variation itself."""
        return total_variation


@dataclass(frozen=True)
class Hellinger:
    """Distance of the square roots of the densities, in [0, 1]."""

    name: str = "hellinger"
    axioms: Axioms = Axioms()
    gaussian = staticmethod(gaussian_hellinger)

    def pairwise(
        self, rows: FloatArray, ground: Sequence[FloatArray] = ()
    ) -> FloatArray:
        """Return Euclidean distances of the square roots, divided by root two."""
        roots = np.sqrt(np.maximum(rows, 0.0))
        distances = cdist(roots, roots) / np.sqrt(2.0)
        return np.asarray(np.minimum(distances, 1.0))

    def upper_from_total_variation(self, total_variation: float) -> float:
        """Return the square root: the squared Hellinger distance is at most TV."""
        return min(1.0, math.sqrt(total_variation))


@dataclass(frozen=True)
class Wasserstein:
    """Mean distance that probability must travel, over the domain's diameter (E19).

    Two sensitive records are apart by the mean over features of the distance of their
    codes: a number's by its place in the declared bounds, a category's 0 or 1.
    """

    name: str = "wasserstein"
    axioms: Axioms = Axioms(one_when_disjoint=False)
    gaussian = staticmethod(gaussian_wasserstein)

    def pairwise(
        self, rows: FloatArray, ground: Sequence[FloatArray] = ()
    ) -> FloatArray:
        """Return optimal transport costs; exact, by linear programs if joint."""
        if _is_solved_on_a_line(ground):
            return _transport_on_a_line(rows, ground[0][0])
        used = rows.any(axis=0)
        _refuse_many_cells(int(np.count_nonzero(used)))
        cost = _cell_distances(ground)
        return _transport(rows[:, used], cost[np.ix_(used, used)])

    def upper_from_total_variation(self, total_variation: float) -> float:
        """Return the total variation: no mass travels farther than the diameter."""
        return total_variation


METRICS: dict[str, Metric] = {
    metric.name: metric for metric in (TotalVariation(), Hellinger(), Wasserstein())
}


def is_total_variation(ground: Sequence[FloatArray]) -> bool:
    """Return whether Wasserstein distance over this ground is total variation.

    One sensitive feature whose codes are all 1 apart: any mass that moves pays 1.
    """
    return len(ground) == 1 and bool(np.all(ground[0] == 1.0 - np.eye(len(ground[0]))))


def check_transport(metric: Metric, ground: Sequence[FloatArray]) -> None:
    """Raise if distances over this ground may be too many to solve, whatever the rows.

    A private release asks before it is paid for: which cells have rows is not known
    then, so all of them count.
    """
    if isinstance(metric, Wasserstein) and not _is_solved_on_a_line(ground):
        _refuse_many_cells(math.prod(len(distances) for distances in ground))


def metric_named(metric: str | Metric) -> Metric:
    """Return the metric of that name, or the metric itself."""
    if isinstance(metric, Metric):
        return metric
    return METRICS[check_choice("metric", metric, METRICS)]


def _refuse_many_cells(n_cells: int) -> None:
    if n_cells > LARGEST_TRANSPORT:
        raise CorrDPError(
            f"metric='wasserstein' needs optimal transport over {n_cells} joint "
            f"sensitive cells; the limit is {LARGEST_TRANSPORT}. Coarsen bins, "
            "merge categories, or use metric='total_variation', which bounds it."
        )


def _is_solved_on_a_line(ground: Sequence[FloatArray]) -> bool:
    return len(ground) == 1 and _is_a_line(ground[0])


def _transport_on_a_line(rows: FloatArray, place: FloatArray) -> FloatArray:
    """Integrate the difference of distribution functions, exact on a line."""
    order = np.argsort(place)
    below = np.cumsum(rows[:, order], axis=1)[:, :-1]
    gaps = np.diff(place[order])
    return np.asarray(cdist(below * gaps, below * gaps, "cityblock"))


def _is_a_line(distances: FloatArray) -> bool:
    place = distances[0]
    return bool(np.allclose(np.abs(place[:, None] - place), distances, atol=1e-12))


def _cell_distances(ground: Sequence[FloatArray]) -> FloatArray:
    """Return distances of joint cells: the mean over features, last one fastest."""
    total = np.zeros((1, 1))
    for distances in ground:
        size = total.shape[0] * distances.shape[0]
        total = (total[:, None, :, None] + distances[None, :, None, :]).reshape(
            size, size
        )
    return total / len(ground)


def _transport(rows: FloatArray, cost: FloatArray) -> FloatArray:
    """Return the costs of all pairs of distributions; the cost is a metric."""
    result = np.zeros((len(rows), len(rows)))
    for i, j in zip(*np.tril_indices(len(rows), -1), strict=True):
        result[i, j] = result[j, i] = _transport_cost(rows[i] - rows[j], cost)
    return result


def _transport_cost(difference: FloatArray, cost: FloatArray) -> float:
    """Solve one linear program: what both have in common stays where it is.

    The masses that move are scaled to 1, since the solver takes less than 1e-7 for
    none, and the last equation, which follows from the others, is left out.
    """
    giving, taking = np.flatnonzero(difference > 0), np.flatnonzero(difference < 0)
    if not (giving.size and taking.size):
        return 0.0
    given, taken = difference[giving], -difference[taking]
    sums = vstack(
        [
            kron(eye_array(giving.size), np.ones((1, taking.size))),
            kron(np.ones((1, giving.size)), eye_array(taking.size)),
        ],
        format="csr",
    )
    masses = np.concatenate([given / given.sum(), taken / taken.sum()])
    solution = linprog(
        cost[np.ix_(giving, taking)].ravel(), A_eq=sums[:-1], b_eq=masses[:-1]
    )
    moved = max(given.sum(), taken.sum())
    return float(min(1.0, solution.fun * moved))

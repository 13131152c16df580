"""Distances: closed forms against integrals, and the axioms they state."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm, wasserstein_distance

from corrdp.exceptions import CorrDPError
from corrdp.leakage import (
    METRICS,
    Hellinger,
    TotalVariation,
    Wasserstein,
    metric_named,
    total_variation,
)

LINE = np.abs(np.subtract.outer(np.linspace(0, 1, 5), np.linspace(0, 1, 5)))


def test_example_2_6_of_the_paper():
    distance = total_variation([2 / 3, 1 / 3], [1 / 3, 2 / 3])
    assert distance == pytest.approx(1 / 3, abs=1e-15)


def test_disjoint_distributions_are_at_distance_one_as_the_axioms_say():
    rows = np.array([[1.0, 0.0, 0, 0, 0], [0.0, 1.0, 0, 0, 0]])
    for metric in METRICS.values():
        value = metric.pairwise(rows, [LINE])[0, 1]
        assert (value == pytest.approx(1.0)) == metric.axioms.one_when_disjoint


def test_wasserstein_on_a_line_is_scipys():
    generator = np.random.default_rng(1)
    rows = generator.dirichlet(np.ones(5), size=4)
    ours = Wasserstein().pairwise(rows, [LINE])
    places = np.linspace(0, 1, 5)
    for i in range(4):
        for j in range(4):
            theirs = wasserstein_distance(places, places, rows[i], rows[j])
            assert ours[i, j] == pytest.approx(theirs, abs=1e-12)


def test_wasserstein_between_categories_is_total_variation():
    rows = np.random.default_rng(2).dirichlet(np.ones(6), size=3)
    apart = 1.0 - np.eye(6)
    ours = Wasserstein().pairwise(rows, [apart])
    assert ours == pytest.approx(TotalVariation().pairwise(rows), abs=1e-9)


def test_joint_wasserstein_of_point_masses_is_the_mean_of_the_coordinates():
    # cells: (number code, category); masses at (0, 0) and (4, 1)
    rows = np.zeros((2, 10))
    rows[0, 0] = rows[1, 9] = 1.0
    value = Wasserstein().pairwise(rows, [LINE, 1.0 - np.eye(2)])[0, 1]
    assert value == pytest.approx(1.0)
    rows[1] = 0.0
    rows[1, 8] = 1.0  # the category stays
    value = Wasserstein().pairwise(rows, [LINE, 1.0 - np.eye(2)])[0, 1]
    assert value == pytest.approx(0.5)


def test_thin_cells_of_large_tables_can_be_transported():
    """The solver takes masses below 1e-7 for none, and found no way to move the rest.

    One feature alone has a closed form; a second one that never varies changes nothing
    but the mean over features.
    """
    rng = np.random.default_rng(7)
    for n_rows in (10, 10**7, 10**9, 10**11):
        rows = rng.multinomial(n_rows, rng.dirichlet(np.full(5, 0.1)), size=2)
        rows[1] += rng.integers(3, size=5)
        rows = rows / rows.sum(axis=1, keepdims=True)
        alone = Wasserstein().pairwise(rows, [LINE])
        joint = np.zeros((2, 10))
        joint[:, ::2] = rows
        found = Wasserstein().pairwise(joint, [LINE, 1.0 - np.eye(2)])
        assert 2 * found == pytest.approx(alone, rel=1e-6, abs=1e-15)


def test_joint_wasserstein_beyond_the_limit_is_refused_with_the_number():
    rows = np.full((2, 400), 1 / 400)
    ground = [1.0 - np.eye(20), 1.0 - np.eye(20)]
    with pytest.raises(CorrDPError, match=r"400 joint .* limit is 120"):
        Wasserstein().pairwise(rows, ground)


@pytest.mark.parametrize(("mean", "scale"), [(0.0, 2.0), (1.0, 0.5), (3.0, 1.0)])
def test_gaussians_on_a_line_match_integrals(mean, scale):
    first, second = norm(0, 1), norm(mean, scale)
    one, other = np.eye(1), np.array([[scale**2]])
    means = np.zeros(1), np.array([mean])
    splits = np.linspace(-12, 15, 40)

    def integral(function):
        return sum(quad(function, a, b, limit=200)[0] for a, b in pairwise(splits))

    variation = 0.5 * integral(lambda x: abs(first.pdf(x) - second.pdf(x)))
    ours = TotalVariation().gaussian(means[0], one, means[1], other)
    assert ours == pytest.approx(variation, abs=1e-8)
    affinity = integral(lambda x: math.sqrt(first.pdf(x) * second.pdf(x)))
    ours = Hellinger().gaussian(means[0], one, means[1], other)
    assert ours == pytest.approx(math.sqrt(1 - affinity), abs=1e-7)
    travel = integral(lambda x: abs(first.cdf(x) - second.cdf(x)))
    small = 0.05  # keeps the distance below the diameter
    ours = Wasserstein().gaussian(
        means[0], one * small**2, means[1] * small, other * small**2
    )
    assert ours == pytest.approx(small * travel, abs=1e-8)


def test_unequal_covariances_in_two_dimensions_match_a_grid():
    first = np.array([[1.0, 0.3], [0.3, 0.5]])
    second = np.array([[0.6, -0.2], [-0.2, 1.2]])
    mean = np.array([0.5, -0.4])
    axis = np.linspace(-8, 8, 801)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    gap = multivariate_normal([0, 0], first).pdf(grid) - multivariate_normal(
        mean, second
    ).pdf(grid)
    truth = 0.5 * np.abs(gap).sum() * (axis[1] - axis[0]) ** 2
    ours = TotalVariation().gaussian(np.zeros(2), first, mean, second)
    assert ours == pytest.approx(truth, abs=1e-3)
    swapped = TotalVariation().gaussian(mean, second, np.zeros(2), first)
    assert swapped == pytest.approx(truth, abs=1e-3)


def test_wasserstein_of_unequal_gaussians_bounds_the_coupling_from_above():
    first = np.diag([1.0, 1.0]) * 1e-2
    second = np.diag([4.0, 0.25]) * 1e-2
    ours = Wasserstein().gaussian(np.zeros(2), first, np.zeros(2), second)
    # coordinates are independent, so coordinate-wise optimal transport is optimal
    exact = np.mean([0.1 * 1.0, 0.1 * 0.5]) * math.sqrt(2 / math.pi)
    assert ours == pytest.approx(exact, rel=1e-9)


def test_singular_covariances_are_refused():
    with pytest.raises(CorrDPError, match="singular"):
        Hellinger().gaussian(np.zeros(2), np.ones((2, 2)), np.zeros(2), np.ones((2, 2)))


def test_unknown_metrics_and_bad_distributions_are_refused():
    with pytest.raises(CorrDPError, match="metric='kl'"):
        metric_named("kl")
    with pytest.raises(CorrDPError, match="sum of 2"):
        total_variation([1, 1], [1, 0])
    with pytest.raises(CorrDPError, match="2 and 3"):
        total_variation([1, 0], [1, 0, 0])
    assert metric_named("hellinger") == metric_named(Hellinger())

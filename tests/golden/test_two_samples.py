"""The bound from exact counts, recomputed from the printed formula and by force.

`share_limit` and `by_force` are Theorem 1 of docs/theory/leakage.md, written from the
page: all sets of cells and a fine grid of curve and quantile, no search.
"""

import math
from itertools import chain, combinations, product

import numpy as np
import pytest
from scipy.stats import beta as beta_law
from scipy.stats import binom, norm

from corrdp.leakage import TableWords, definition_leakage, metric_named, plug_in_leakage
from corrdp.leakage import _two_samples as two_samples
from corrdp.leakage._bounds import largest_quantile, shared_quantile
from corrdp.leakage._two_samples import (
    ERROR_IN_MARGINS,
    SEARCH_ERROR,
    LargestUpper,
    closed_margin,
    largest_share,
    likelihood_curve,
    pair_uppers,
    searched_upper,
)

PAIRS = {
    "two cells": ([42, 18], [18, 42]),
    "a rare cell": ([9, 291], [30, 870]),
    "several": ([10, 0, 3, 25, 7], [4, 6, 3, 11, 90]),
    "thin": ([2, 1, 0, 0], [30, 20, 25, 40]),
    "alike": ([12, 12, 12, 12], [40, 40, 40, 40]),
    "apart": ([8, 0], [0, 500]),
}
BETAS = (5e-5, 0.05, 0.4)


def quantile_of(first, second, beta):
    """Return z by simulation-free bisection of the law of two cut normal variables."""
    n, m = sum(first), sum(second)
    a, b = math.sqrt(m / (n + m)), math.sqrt(n / (n + m))
    angle = (np.arange(20_000) + 0.5) / 20_000 * math.pi / 2

    def exceeded(z):
        # both negative parts positive: radius beyond z / (a cos + b sin)
        away = z / (a * np.cos(angle) + b * np.sin(angle))
        both = np.mean(np.exp(-(away**2) / 2)) / 4
        return both + (norm.sf(z / a) + norm.sf(z / b)) / 2

    low, high = 0.0, 12.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeded(middle) > beta else (low, middle)
    return high


def share_limit(x, n, w):
    """Return R(x, n, w) for one count and several w."""
    if x >= n:
        return np.ones_like(w)
    limit = beta_law.isf(norm.sf(w), x + 1, n - x)
    return np.minimum(1.0, np.maximum((x + 1) / n, limit))


def by_force(first, second, points, z):
    """Return the largest value over points (x, y) and 401 ways to share z."""
    n, m = sum(first), sum(second)
    a, b = math.sqrt(m / (n + m)), math.sqrt(n / (n + m))
    shares = np.linspace(0, 1, 401)
    largest = 0.0
    for x, y in points:
        outside = share_limit(m - y, m, (1 - shares) * z / b)
        value = share_limit(x, n, shares * z / a) + outside - 1
        largest = max(largest, float(value.max()))
    return largest


def sets_of_cells(first, second):
    for chosen in product((False, True), repeat=len(first)):
        yield np.dot(chosen, first), np.dot(chosen, second)


def on_the_curve(first, second, per_cell=30):
    """Yield points of the polygon: whole cells and parts, by likelihood ratio."""
    cells = sorted(
        zip(first, second, strict=True), key=lambda c: -c[0] / max(c[1], 1e-9)
    )
    x = y = 0.0
    for own, other in cells:
        for part in np.linspace(0, 1, per_cell, endpoint=False):
            yield x + part * own, y + part * other
        x, y = x + own, y + other
    yield x, y


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("name", PAIRS)
def test_the_search_finds_what_force_finds(name, beta):
    first, second = map(np.array, PAIRS[name])
    z = quantile_of(first, second, beta)
    weights = 1 / np.sqrt(first.sum()), 1 / np.sqrt(second.sum())
    assert shared_quantile(*weights, failure_probability=beta) == pytest.approx(
        z, abs=1e-6
    )
    upper = searched_upper(first, second, z)
    of_sets = by_force(first, second, sets_of_cells(first, second), z)
    of_curve = by_force(first, second, on_the_curve(first, second), z)
    assert of_sets <= of_curve + 2e-3  # no set lies beyond the curve, but for the grid
    margin = closed_margin(first.sum(), second.sum(), z)
    error = max(SEARCH_ERROR, ERROR_IN_MARGINS * margin)
    assert of_curve <= upper <= of_curve + error + 2e-3
    distance = 0.5 * np.abs(first / first.sum() - second / second.sum()).sum()
    assert upper <= min(1.0, distance + margin + error)


WEIGHTS = [(1, 1, 0), (1, 30, 0), (1, 1e-3, 0), (1, 1, 1), (3, 1, 0.1), (0.01, 1, 20)]


def tail_of_the_page(z, first, second, noise):
    """Return the right side of Lemma 1b, Owen's function by its integral."""

    def owen(h, a):
        angles = (np.arange(4000) + 0.5) / 4000 * math.atan(a)
        of_angle = np.exp(-(h**2) / (2 * np.cos(angles) ** 2))
        return math.atan(a) * float(of_angle.mean()) / (2 * math.pi)

    def added(a, r):
        if r == 0:
            return 0.0
        length = math.hypot(a, r)
        without = 0.5 * norm.sf(z / r) - 0.5 * norm.sf(z / length)
        return without + owen(z / length, a / r)

    a, b, c = np.array([first, second, noise]) / math.hypot(first, second, noise)
    return (
        norm.sf(z)
        + added(a, math.hypot(b, c))
        + added(b, math.hypot(a, c))
        + 0.5 * added(min(a, b), c)
    )


@pytest.mark.parametrize("beta", [1e-12, *BETAS, 0.5, 0.6])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_quantile_holds_and_hardly_a_smaller_one_does(weights, beta):
    z = float(shared_quantile(*weights, failure_probability=beta))
    assert tail_of_the_page(z, *weights) <= beta * (1 + 1e-6)
    assert z < 1e-5 or tail_of_the_page(z - 1e-5, *weights) > beta


def test_a_quantile_does_not_depend_on_the_others_asked_for():
    first, second, noise = np.array(WEIGHTS * 3, dtype=float).T
    together = shared_quantile(first, second, noise, failure_probability=0.4)
    for k in range(len(WEIGHTS)):
        alone = shared_quantile(*WEIGHTS[k], failure_probability=0.4)
        assert alone == together[k]


def test_a_box_with_no_width_in_one_sample_ends():
    """Cells that one sample never has: edges of the curve are upright or level."""
    first, second = np.array([30, 0, 10]), np.array([0, 25, 10])
    assert searched_upper(first, second, 3.0) <= 1.0


@pytest.mark.parametrize("size", [1, 7, 60, 2000])
def test_limits_are_those_of_clopper_and_pearson(size):
    counts = np.unique(np.linspace(0, size, 9).astype(int))
    deviations = np.array([0.0, 0.5, 2.0, 4.5])
    expected = [share_limit(x, size, deviations) for x in counts]
    found = largest_share(counts[:, None].astype(float), float(size), deviations)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_limits_hold_far_out_where_the_inverse_of_beta_fails():
    generator = np.random.default_rng(73)
    for size in (1, 2, 5, 8, 33, 400, 20_000):
        counts = np.floor(size * generator.random(400))
        deviations = generator.uniform(0.0, 60.0, 400)
        limits = largest_share(counts, float(size), deviations)
        assert np.all((limits >= (counts + 1) / size) & (limits <= 1.0))
        inner = limits < 1.0 - 1e-6  # nearer to 1 digits are lost
        tails = binom.logcdf(counts[inner], size, limits[inner])
        assert np.all(tails <= norm.logcdf(-deviations[inner]) + 1e-6)


def test_samples_of_very_unequal_sizes_keep_the_closed_form():
    """Nearly all of the quantile may go to the large sample, 40 deviations and more."""
    first, second = np.array([5_200, 0, 310]), np.array([38, 4, 1])
    quantile = 3.7
    margin = closed_margin(5_510.0, 43.0, quantile)
    distance = 0.5 * np.abs(first / 5_510 - second / 43).sum()
    upper = searched_upper(first, second, quantile)
    assert distance < upper <= distance + margin + max(SEARCH_ERROR, 0.01 * margin)


@pytest.mark.parametrize("size", [3, 40])
def test_limits_cover_rows_of_several_laws(size):
    """Lemma 1a, from the exact law of a sum of indicators of unequal chances."""
    generator = np.random.default_rng(71)
    for _ in range(200):
        chances = generator.beta(0.3, 0.3, size=size)
        law = np.ones(1)
        for chance in chances:
            law = np.convolve(law, [1 - chance, chance])
        mean, counts = chances.mean(), np.arange(size + 1)
        for deviation in (0.05, 0.5, 1.5, 3.0):
            limit = largest_share(
                counts.astype(float), float(size), np.array(deviation)
            )
            missed = law[limit < mean - 1e-12].sum()
            assert missed <= norm.sf(deviation) + 1e-12


def test_the_inequality_of_zubkov_and_serov_on_a_grid():
    """What the closed form cites."""
    for size in (1, 2, 9, 80):
        for chance in np.linspace(0.02, 0.98, 25):
            for x in range(size):
                edge = (x + 1) / size
                if edge >= chance:
                    continue
                divergence = edge * math.log(edge / chance)
                divergence += (1 - edge) * math.log((1 - edge) / (1 - chance))
                root = math.sqrt(2 * size * max(0.0, divergence))
                assert binom.cdf(x, size, chance) <= norm.sf(root) * (1 + 1e-12)


def test_only_pairs_that_cannot_attain_the_largest_keep_the_closed_form():
    generator = np.random.default_rng(72)
    counts = generator.multinomial(120, generator.dirichlet(np.ones(4), size=7))
    uppers = pair_uppers(counts, failure_probability=1e-3)
    np.testing.assert_array_equal(uppers, uppers.T)
    searched = [
        searched_upper(counts[i], counts[j], quantile_of(counts[i], counts[j], 1e-3))
        for i in range(7)
        for j in range(i)
    ]
    assert uppers.max() == pytest.approx(max(searched), abs=1e-6)
    of_pairs = [uppers[i, j] for i in range(7) for j in range(i)]
    assert np.all(np.array(of_pairs) >= np.array(searched) - 1e-6)


def test_a_table_takes_the_bound_of_its_largest_pair():
    counts = np.array([PAIRS["several"][0], PAIRS["several"][1]])
    words = TableWords([["a", "b"]], [1.0 - np.eye(5)])
    found = plug_in_leakage(
        counts, words, metric=metric_named("total_variation"), failure_probability=0.01
    )
    expected = searched_upper(*counts, quantile_of(*counts, 0.01))
    assert found.upper == pytest.approx(expected, abs=1e-6)


def test_the_curve_begins_with_cells_that_favor_the_first_sample():
    x, y = likelihood_curve(np.array([1, 8, 0, 4]), np.array([9, 2, 0, 1]))
    np.testing.assert_array_equal(x, [0, 12, 13])  # ratios 4 and 4 are one step
    np.testing.assert_array_equal(y, [0, 3, 12])


def rows_of(counts):
    """Return one row per person, a tuple of codes."""
    return list(
        chain.from_iterable(
            [codes] * int(count) for codes, count in np.ndenumerate(counts)
        )
    )


def definition_by_force(counts, sensitive, changed, beta):
    """Return the largest limit of Definition 2.5, from rows: no tables, no search."""
    rows = rows_of(counts)
    others = [axis for axis in range(counts.ndim) if axis not in changed]
    subsets = chain.from_iterable(
        combinations(others, k) for k in range(len(others) + 1)
    )
    largest = 0.0
    for known in subsets:
        told = [axis for axis in sensitive if axis not in known]
        if not told:
            continue
        samples = {}
        for row in rows:
            where = tuple(row[a] for a in known), tuple(row[a] for a in changed)
            what = tuple(row[a] for a in told)
            samples.setdefault(where, []).append(what)
        cells = list(product(*(range(counts.shape[a]) for a in told)))
        for (given, one), (also, other) in combinations(samples, 2):
            if given != also:
                continue
            pair = [
                np.array([samples[given, value].count(cell) for cell in cells])
                for value in (one, other)
            ]
            z = quantile_of(*pair, beta)
            largest = max(largest, by_force(*pair, on_the_curve(*pair), z))
    return min(1.0, largest)


@pytest.mark.parametrize(
    ("shape", "sensitive", "changed"),
    [((2, 2, 2), [0], [1]), ((2, 3, 2), [0, 2], [1]), ((3, 2, 2), [0], [1, 2])],
)
def test_the_definition_takes_the_largest_limit_over_everything_known(
    shape, sensitive, changed
):
    counts = np.random.default_rng(74).integers(20, 60, size=shape)
    counts[0, 0, -1] += 60  # the last of the values that may be known tells most
    found = definition_leakage(
        counts, sensitive=sensitive, changed=changed, failure_probability=1e-3
    )
    expected = definition_by_force(counts, sensitive, changed, 1e-3)
    margin = closed_margin(20.0, 20.0, 3.2)  # no sample is smaller
    error = max(SEARCH_ERROR, ERROR_IN_MARGINS * margin)
    assert expected - 1e-6 <= found.upper <= expected + error + 2e-3


def test_what_the_definition_gained_over_mcdiarmid():
    counts = np.random.default_rng(75).integers(40, 60, size=(2, 2, 2))
    found = definition_leakage(
        counts, sensitive=[0], changed=[1], failure_probability=1e-4
    )
    smallest = counts.sum(axis=0).min()
    mcdiarmid = math.sqrt(0.5 * math.log(1e4) * 2 / smallest)
    assert found.upper < found.estimate + 0.9 * mcdiarmid


def test_pairs_that_are_not_searched_keep_their_closed_forms(monkeypatch):
    generator = np.random.default_rng(76)
    laws = generator.dirichlet(np.ones(4), size=(40, 2))
    first, second = (
        np.array([generator.multinomial(80, pair[side]) for pair in laws])
        for side in (0, 1)
    )

    def bound(parts):
        search = LargestUpper(1e-3)
        for part in parts:
            search.offer(first[part], second[part])
        return search.upper()

    quantile = quantile_of(first[0], second[0], 1e-3)
    force = max(map(searched_upper, first, second, [quantile] * 40))
    whole = bound([slice(None)])
    assert whole == pytest.approx(force, abs=1e-6)
    assert bound([slice(k, k + 1) for k in range(40)]) == whole
    monkeypatch.setattr(two_samples, "MOST_PAIRS", 1)
    distances = 0.5 * np.abs(first - second).sum(axis=1) / 80
    closed = distances + closed_margin(80.0, 80.0, largest_quantile(1e-3))
    assert bound([slice(None)]) == pytest.approx(min(1.0, np.sort(closed)[-2]))


@pytest.mark.parametrize("beta", [0.4, 0.05, 1e-3, 5e-5])
def test_no_weights_have_a_larger_quantile(beta):
    ratios = np.geomspace(1.0, 1e4, 60)
    quantiles = shared_quantile(1.0, ratios, failure_probability=beta)
    largest = largest_quantile(beta)
    assert np.all(quantiles <= largest)
    # The law of the length of two negative parts: half a normal, a quarter a radius.
    assert norm.sf(largest) + math.exp(-(largest**2) / 2) / 4 == pytest.approx(beta)


def test_sums_of_two_values_are_not_known_to_break_the_limits():
    """What docs/theory/leakage_metrics.md says of Wasserstein: evidence, no proof.

    Should this fail, the limits are false for functions, and the page must say so.
    """
    generator = np.random.default_rng(77)
    for _ in range(2000):
        size = int(generator.choice([2, 3, 8, 30, 60]))
        low, high = np.sort(generator.random(2))
        chance = generator.beta(0.4, 1.0)
        counts = np.arange(size + 1)
        sums = low * (size - counts) + high * counts
        law = binom.pmf(counts, size, chance)
        for deviation in (0.3, 1.645, 3.5):
            limits = largest_share(sums, float(size), np.array(deviation))
            missed = law[limits < low + (high - low) * chance - 1e-12].sum()
            assert missed <= norm.sf(deviation) + 1e-12

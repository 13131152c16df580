"""Bounds cover at least at their stated rate; wrong bounds fail the same test.

500 repetitions each. A bound with failure probability beta may fail at most
``allowed`` times, the 1 - 1e-9 quantile of the binomial: a correct bound is refused
with probability 1e-9 per test.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom, kstest, norm

from corrdp.leakage import (
    NOISE_LATTICE,
    definition_leakage,
    estimate_leakage,
    exact_leakage,
    hotelling_upper,
    noisy_total_variation_upper,
    sampling_margin,
)
from corrdp.leakage._gaussians import mahalanobis_total_variation
from corrdp.leakage._two_samples import pair_uppers
from corrdp.leakage.release._noise import noisy_counts
from leakage_models import (
    CONDITIONALS,
    LARGEST,
    draw_counts,
    joint_of,
    policy_of,
    table_of,
)

pytestmark = pytest.mark.statistical

REPETITIONS = 500
BETA = 0.1


def allowed(beta=BETA):
    return int(binom.isf(1e-9, REPETITIONS, beta))


def conditional_of(counts):
    return counts / counts.sum(axis=1, keepdims=True)


def pair_distances(rows):
    return 0.5 * np.abs(rows[:, None] - rows[None, :]).sum(axis=2)


def failures(bound_of, joint, truth, n_rows, seed):
    """Count repetitions in which the bound falls below the truth."""
    generator = np.random.default_rng(seed)
    return sum(
        bound_of(draw_counts(joint, n_rows, generator).T, generator) < truth
        for _ in range(REPETITIONS)
    )


def plug_in_bound(counts, generator, *, beta=BETA):
    if (counts.sum(axis=1) == 0).any():
        return 1.0
    return float(pair_uppers(counts, failure_probability=beta).max())


def unadjusted_bound(counts, generator):
    """A wrong bound: the estimate itself."""
    return float(pair_distances(conditional_of(counts)).max())


MODELS = {
    "two values": (joint_of([[0.7, 0.3], [0.4, 0.6]], [0.5, 0.5]), 0.3),
    "three values": (joint_of(CONDITIONALS, [0.2, 0.5, 0.3]), LARGEST),
    "independent": (joint_of([[0.2, 0.8]] * 2, [0.3, 0.7]), 0.0),
    "many cells": (joint_of(np.full((2, 50), 0.02), [0.4, 0.6]), 0.0),
    "disjoint": (joint_of([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5]), 1.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_plug_in_bound_covers(name):
    joint, truth = MODELS[name]
    assert failures(plug_in_bound, joint, truth - 1e-12, 60, 41) <= allowed()


def test_the_estimate_taken_for_a_bound_is_caught():
    joint, truth = MODELS["two values"]
    assert failures(unadjusted_bound, joint, truth, 2000, 42) > allowed()


def test_the_bound_is_near_its_stated_rate_where_the_set_is_known():
    """Two cells, one pair: failures are rarer than beta, and not by a factor of ten."""
    joint, truth = MODELS["two values"]
    missed = failures(lambda c, g: plug_in_bound(c, g, beta=0.3), joint, truth, 400, 52)
    assert binom.ppf(1e-9, REPETITIONS, 0.1) <= missed <= allowed(0.3)


def test_rows_of_joined_levels_have_several_laws_and_are_covered():
    """A group of a giveaway level and an innocent one, in numbers fixed by design."""
    generator = np.random.default_rng(53)
    truth, missed = 0.5 * 0.95 - 0.1, 0
    for _ in range(REPETITIONS):
        inside = generator.binomial(20, 0.95) + generator.binomial(20, 0.0)
        other = generator.binomial(200, 0.1)
        counts = np.array([[inside, 40 - inside], [other, 200 - other]])
        missed += pair_uppers(counts, failure_probability=0.3).max() < truth
    assert missed <= allowed(0.3)


@pytest.mark.parametrize("n_rows", [500, 50_000])
def test_plug_in_estimates_converge(n_rows):
    joint, truth = MODELS["three values"]
    generator = np.random.default_rng(43)
    counts = draw_counts(joint, n_rows, generator).T
    # Theorem 1 below; above, each conditional's expected error is sqrt(K / n_j) / 2
    slack = 2 * math.sqrt(3 / counts.sum(axis=1).min()) + 3 / math.sqrt(n_rows)
    assert abs(unadjusted_bound(counts, generator) - truth) < slack


SCALE = 15.0


def _noisy(counts, noise_scale, generator):
    return noisy_counts(counts, noise_scale, generator)[0]


def noisy_bound(counts, generator, *, scale=SCALE, size_scale=SCALE):
    uppers = noisy_total_variation_upper(
        _noisy(counts, scale, generator),
        _noisy(counts.sum(axis=1), size_scale, generator),
        noise_scale=scale,
        size_noise_scale=size_scale,
        failure_probability=BETA,
    ).uppers
    np.fill_diagonal(uppers, 0.0)
    return float(uppers.max())


def noise_ignored(counts, generator):
    """A wrong bound: noisy counts taken for exact ones."""
    noisy = _noisy(counts, SCALE, generator)
    sizes = np.maximum(_noisy(counts.sum(axis=1), SCALE, generator), 1.0)
    rows = noisy / sizes[:, None]
    return float(
        (pair_distances(rows) + sampling_margin(sizes, failure_probability=BETA)).max()
    )


def unequal_sizes(scale):
    """Two cells, a small group and a large one: noise can hide the difference."""
    return joint_of([[0.9, 0.1], [0.1, 0.9]], [scale, 1 - scale])


@pytest.mark.parametrize("name", MODELS)
def test_noisy_bound_covers(name):
    joint, truth = MODELS[name]
    for n_rows, scale in ((2000, SCALE), (2000, 1.0), (40_000, 60.0)):
        missed = failures(
            lambda c, g, s=scale: noisy_bound(c, g, scale=s, size_scale=s),
            joint,
            truth - 1e-12,
            n_rows,
            44,
        )
        assert missed <= allowed()


def test_ignoring_the_noise_is_caught():
    # .8 apart, 20 rows in the small group, noise of 15 on every cell
    joint = unequal_sizes(0.02)
    assert failures(noise_ignored, joint, 0.8, 1000, 45) > allowed()
    assert failures(noisy_bound, joint, 0.8, 1000, 45) <= allowed()


def noise_understated(counts, generator):
    """A wrong bound: the noise on cells stated twenty times too small."""
    noisy = _noisy(counts, 20 * SCALE, generator)
    uppers = noisy_total_variation_upper(
        noisy,
        _noisy(counts.sum(axis=1), SCALE, generator),
        noise_scale=SCALE,
        size_noise_scale=SCALE,
        failure_probability=BETA,
    ).uppers
    return float(uppers[0, 1])


def test_noise_stated_too_small_is_caught():
    joint = unequal_sizes(0.5)
    assert failures(noise_understated, joint, 0.8, 6000, 46) > allowed()


def flat_difference(n_cells=200, share=0.6):
    """Conditionals that differ by the same amount in every cell: TV is `share`."""
    sign = np.where(np.arange(n_cells) % 2, 1.0, -1.0)
    rows = (1 + share * np.stack([sign, -sign])) / n_cells
    return joint_of(rows, [0.5, 0.5])


def noise_subtracted_twice(counts, generator):
    """A wrong bound by squares: more noise taken off than was added."""
    sizes = counts.sum(axis=1)
    rows = _noisy(counts, SCALE, generator) / sizes[:, None]
    n_cells = counts.shape[1]
    noise = n_cells * SCALE**2 * np.sum(1 / sizes**2)
    square = max(0.0, float(np.sum((rows[0] - rows[1]) ** 2)) - 2 * noise)
    margin = sampling_margin(sizes.astype(float), failure_probability=BETA)[0, 1]
    return 0.5 * math.sqrt(n_cells * square) + margin


def test_bound_by_squares_covers_where_it_is_sharp_and_its_planted_bug_does_not():
    joint = flat_difference()
    assert failures(noisy_bound, joint, 0.6, 6000, 50) <= allowed()
    assert failures(noise_subtracted_twice, joint, 0.6, 6000, 50) > allowed()


def test_definition_bound_covers_over_all_sets():
    generator = np.random.default_rng(47)
    joint = generator.dirichlet(np.full(12, 3.0)).reshape(2, 3, 2)
    truth = exact_leakage(joint, sensitive=[0], changed=[1], conditioning="definition")
    missed = sum(
        definition_leakage(
            draw_counts(joint, 1500, generator),
            sensitive=[0],
            changed=[1],
            failure_probability=BETA,
        ).upper
        < truth
        for _ in range(REPETITIONS)
    )
    assert missed <= allowed()
    marginal_missed = sum(  # a wrong bound: the marginal one for the definition
        plug_in_bound(draw_counts(joint, 40_000, generator).sum(axis=2).T, generator)
        < truth
        for _ in range(REPETITIONS)
    )
    assert marginal_missed > allowed()


def gaussian_statistic(generator, n_rows, slope, n_sensitive):
    u = generator.uniform(-1, 1, n_rows)
    s = generator.normal(size=(n_rows, n_sensitive))
    s[:, 0] += slope * u
    centered = u - u.mean()
    squares = float(centered @ centered)
    slopes = centered @ s / squares
    residual = s - s.mean(axis=0) - np.outer(centered, slopes)
    covariance = residual.T @ residual / (n_rows - 2)
    return squares, squares * float(slopes @ np.linalg.solve(covariance, slopes))


@pytest.mark.parametrize("n_sensitive", [1, 4])
def test_hotelling_bound_is_exact(n_sensitive):
    slope, n_rows = 0.4, 300
    truth = mahalanobis_total_variation(2 * slope)
    generator = np.random.default_rng(48)
    missed = naive_missed = 0
    for _ in range(REPETITIONS):
        squares, statistic = gaussian_statistic(generator, n_rows, slope, n_sensitive)
        center = hotelling_upper(
            statistic,
            n_rows=n_rows,
            n_sensitive=n_sensitive,
            failure_probability=BETA,
        )
        upper = mahalanobis_total_variation(2 * math.sqrt(center / squares))
        missed += upper < truth
        naive = mahalanobis_total_variation(2 * math.sqrt(statistic / squares))
        naive_missed += naive < truth
    assert missed <= allowed()
    # exact, not only safe: far fewer misses would be a mistake in the law
    assert missed >= binom.ppf(1e-9, REPETITIONS, BETA)
    assert naive_missed > allowed() or n_sensitive > 1


def test_private_release_covers_from_rows_to_bound():
    joint = joint_of([[0.6, 0.4], [0.35, 0.65]], [0.5, 0.5])
    policy = policy_of(joint, ("s", "u"), ("s",))
    generator = np.random.default_rng(51)
    missed = useful = 0
    for repetition in range(REPETITIONS):
        leakage = estimate_leakage(
            table_of(joint, ("s", "u"), 3000, generator),
            policy,
            epsilon=1.0,
            delta=1e-5,
            failure_probability=BETA,
            random_state=repetition,
        )
        missed += leakage.features["u"].upper < 0.25
        useful += leakage.features["u"].upper < 0.5
    assert missed <= allowed()
    assert useful > 0.9 * REPETITIONS  # a bound of 1 would cover too


def test_noise_has_its_declared_scale():
    counts = np.zeros(20_000, dtype=np.int64)
    draws = _noisy(counts, 3.0, np.random.default_rng(49))
    radius = math.sqrt(math.log(2 / 1e-9) / (2 * counts.size))  # DKW
    assert np.all(draws / NOISE_LATTICE == np.round(draws / NOISE_LATTICE))
    smear = norm.pdf(0, scale=3.0) * NOISE_LATTICE  # rounding moves the law by this
    law = norm(scale=3.0).cdf
    assert kstest(draws, law).statistic <= radius + smear
    assert kstest(0.8 * draws, law).statistic > radius + smear

"""Plug-in leakage: truth, reasons in words, and tables that tell nothing."""

import re

import numpy as np
import pytest

from corrdp.exceptions import CorrDPError
from corrdp.leakage import (
    TableWords,
    hotelling_upper,
    independence_p_value,
    metric_named,
    noisy_leakage,
    noisy_total_variation_upper,
    plug_in_leakage,
    sampling_margin,
)
from leakage_models import CONDITIONALS, LARGEST

TEXTS = [[f"u = {value}" for value in "abc"]]
WORDS = TableWords(TEXTS, [1.0 - np.eye(3)])
COUNTS = (CONDITIONALS * 10_000).astype(np.int64)


def found(counts, metric="total_variation", words=WORDS):
    return plug_in_leakage(
        counts, words, metric=metric_named(metric), failure_probability=1e-3
    )


def test_estimate_is_the_largest_pair_and_the_reason_names_it():
    result = found(COUNTS)
    assert result.estimate == pytest.approx(LARGEST)
    mcdiarmid = sampling_margin(np.full(2, 1e4), failure_probability=1e-3)[0, 1]
    assert LARGEST < result.upper < LARGEST + mcdiarmid
    assert "u = a (10000 rows) and u = c (10000 rows)" in result.reason


def test_a_value_without_rows_makes_the_bound_one_and_is_named():
    counts = COUNTS.copy()
    counts[1] = 0
    result = found(counts)
    assert result.upper == 1.0
    assert "u = b has no rows" in result.reason
    assert "merge" in result.reason


def test_what_merging_thin_levels_brings_is_told_and_comes_true():
    counts = np.array([[5000, 5000, 0], [4000, 6000, 0], [300, 200, 0], [9, 31, 0]])
    texts = [[f"u = {value}" for value in "abcd"]]
    words = TableWords(texts, [1.0 - np.eye(3)])
    apart = found(counts, words=words)
    told = re.search(
        r"below 10% of the rows merged into others about (.*);", apart.reason
    )
    merged = np.vstack([counts[0], counts[1:].sum(axis=0)])
    three = TableWords([texts[0][:2]], words.ground)
    assert float(told[1]) == pytest.approx(found(merged, words=three).upper, abs=0.1)
    assert float(told[1]) < apart.upper - 0.2
    assert "merged" not in found(merged, words=three).reason  # nothing is thin


def test_one_thick_level_and_many_thin_ones():
    counts = np.array([[6000, 3000, 0], [30, 20, 0], [0, 0, 0]])
    reason = found(counts).reason
    assert "merged into one it would exceed the truth by about 0." in reason
    two = TableWords([TEXTS[0][:2]], WORDS.ground)
    assert "merged" not in found(counts[:2], words=two).reason  # no second thin level


def test_one_row_in_a_group_is_called_thin():
    counts = COUNTS.copy()
    counts[0] = [1, 0, 0]
    result = found(counts)
    assert result.estimate == 1.0
    assert result.upper == 1.0
    assert "u = a (1 rows, thin)" in result.reason


def test_a_column_that_holds_one_value_is_unknown_not_safe():
    counts = np.zeros((3, 3), dtype=np.int64)
    counts[0] = [5, 5, 5]
    result = found(counts)
    assert (result.estimate, result.upper) == (0.0, 1.0)
    assert "only 1 of 3 declared values" in result.reason


@pytest.mark.parametrize("shape", [(1, 3), (3, 1)])
def test_nothing_to_tell_apart_is_zero(shape):
    counts = np.full(shape, 10)
    words = TableWords([["x"] * shape[0]], [1.0 - np.eye(shape[1])])
    assert found(counts, words=words).upper == 0.0
    noisy = noisy_leakage(
        counts.astype(float),
        counts.sum(axis=1).astype(float),
        words,
        metric=metric_named("total_variation"),
        noise_scale=1.0,
        size_noise_scale=1.0,
        failure_probability=0.1,
    )
    assert noisy.upper == 0.0


def test_other_metrics_stay_below_what_total_variation_implies():
    variation = found(COUNTS)
    hellinger = found(COUNTS, "hellinger")
    wasserstein = found(COUNTS, "wasserstein")
    assert hellinger.estimate <= hellinger.upper <= np.sqrt(variation.upper) + 1e-12
    # One category: mass that moves pays 1, so both are one distance with one bound.
    assert wasserstein.estimate == pytest.approx(variation.estimate)
    assert wasserstein.upper == variation.upper


@pytest.mark.parametrize(
    "ground",
    [
        [np.abs(np.subtract.outer([0, 0.5, 1], [0, 0.5, 1]))],
        [np.zeros((1, 1)), 1.0 - np.eye(3)],
    ],
    ids=["a number", "one of two features"],
)
def test_functions_that_are_no_sets_keep_the_margin_of_mcdiarmid(ground):
    words = TableWords(TEXTS, ground)
    wasserstein = found(COUNTS, "wasserstein", words)
    mcdiarmid = sampling_margin(np.full(2, 1e4), failure_probability=1e-3)[0, 1]
    assert wasserstein.upper == pytest.approx(wasserstein.estimate + mcdiarmid)
    assert wasserstein.estimate < found(COUNTS).estimate


def test_noisy_counts_without_noise_give_the_exact_estimate():
    result = noisy_leakage(
        COUNTS.astype(float),
        COUNTS.sum(axis=1).astype(float),
        WORDS,
        metric=metric_named("total_variation"),
        noise_scale=1e-6,
        size_noise_scale=1e-6,
        failure_probability=1e-3,
    )
    assert result.estimate == pytest.approx(LARGEST)
    exact = found(COUNTS).upper
    # noise has a share of the failure probability: the margin is a little wider
    assert exact < result.upper < exact + 0.01
    assert "about 10000 rows" in result.reason


def test_groups_drowned_in_noise_have_bound_one():
    result = noisy_leakage(
        COUNTS / 1000,
        COUNTS.sum(axis=1) / 1000,
        WORDS,
        metric=metric_named("total_variation"),
        noise_scale=50.0,
        size_noise_scale=50.0,
        failure_probability=1e-3,
    )
    assert result.upper == 1.0
    assert "too few rows for the noise" in result.reason


def test_the_bound_by_squares_pays_where_cells_are_many():
    generator = np.random.default_rng(5)
    n_cells, rows, scale = 1000, 30_000, 5.0
    counts = np.full((2, n_cells), rows / n_cells)
    noisy = counts + generator.normal(0, scale, counts.shape)
    sizes = np.full(2, float(rows))
    found = noisy_total_variation_upper(
        noisy,
        sizes,
        noise_scale=scale,
        size_noise_scale=scale,
        failure_probability=0.01,
    )
    # the truth is 0; absolute values alone could not go below the noisy distance
    assert found.uppers[0, 1] < found.distances[0, 1]


@pytest.mark.parametrize("bad", [0.0, 1.0, -1.0, np.nan, "x"])
def test_failure_probabilities_outside_the_open_interval_are_refused(bad):
    with pytest.raises(CorrDPError, match="failure_probability"):
        sampling_margin(np.ones(2), failure_probability=bad)


def test_independence_is_judged_by_the_likelihood_ratio():
    generator = np.random.default_rng(0)
    same = generator.multinomial(5000, [0.2, 0.3, 0.5], size=3)
    assert independence_p_value(same) > 1e-6
    assert independence_p_value(COUNTS) < 1e-100
    assert independence_p_value(np.array([[4, 0], [0, 0]])) == 1.0


def test_hotelling_needs_residual_freedom():
    with pytest.raises(CorrDPError, match="degrees of freedom"):
        hotelling_upper(1.0, n_rows=5, n_sensitive=5, failure_probability=0.1)


@pytest.mark.parametrize("metric", ["total_variation", "hellinger", "wasserstein"])
def test_noise_that_makes_a_bound_negative_proves_nothing(metric):
    """Shares of small cells are added, noise and all: their sum may be below -1."""
    counts = np.full((2, 50), -30.0)
    counts[:, 0] = 1000.0
    result = noisy_leakage(
        counts,
        np.array([1000.0, 1000.0]),
        TableWords([["u = a", "u = b"]], [1.0 - np.eye(50)]),
        metric=metric_named(metric),
        noise_scale=30.0,
        size_noise_scale=1.0,
        failure_probability=1e-3,
        cell_shares=np.arange(50) == 0,
    )
    assert result.upper == 1.0


def test_cells_that_noise_makes_all_negative_leave_the_estimate_at_the_bound():
    result = noisy_leakage(
        np.array([[-3.0, -1.0, -2.0], [200.0, 300.0, 500.0], [-1.0, -1.0, -1.0]]),
        np.array([900.0, 1000.0, 800.0]),
        WORDS,
        metric=metric_named("total_variation"),
        noise_scale=5.0,
        size_noise_scale=5.0,
        failure_probability=1e-3,
    )
    assert result.estimate == result.upper

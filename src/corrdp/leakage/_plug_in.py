"""Leakage from contingency counts, exact or noisy, with its reason in words."""

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp._validate import check_failure_probability
from corrdp.leakage._bounds import independence_p_value, sampling_margin
from corrdp.leakage._levels import TableWords
from corrdp.leakage._metrics import Metric, is_total_variation
from corrdp.leakage._noisy import noisy_total_variation_upper
from corrdp.leakage._result import FeatureLeakage, PaperInputs
from corrdp.leakage._two_samples import pair_uppers
from corrdp.leakage._words import Circumstances, bound_in_words


def plug_in_leakage(
    counts: IntArray,
    words: TableWords,
    *,
    metric: Metric,
    failure_probability: float,
    example: str = "discrete",
) -> FeatureLeakage:
    """Return the leakage of a table of exact counts.

    Parameters
    ----------
    counts : array of int, shape (n_values, n_cells)
        Rows: values of the feature. Columns: joint sensitive cells.
    words : TableWords
        What rows and columns mean.
    metric : Metric
        Distance between conditional distributions.
    failure_probability : float
        Probability with which `upper` may be too small, for this feature.
    example : str
        Example of the paper whose constants apply: ``discrete`` or ``histogram``.

    Guarantee
    ---------
    `upper` holds except with `failure_probability` if rows are independent draws
    (docs/theory/leakage.md, Theorem 1). A declared value without rows makes it 1.
    The reason contains exact counts: it is not private.
    """
    check_failure_probability(failure_probability)
    method = "plug-in counts, declared resolution"
    if min(counts.shape) < 2:
        return _trivial(method, counts, words)
    sizes = counts.sum(axis=1)
    present = np.flatnonzero(sizes)
    inputs = PaperInputs(
        example=example,
        n_rows=int(sizes.sum()),
        n_sensitive_codes=tuple(m.shape[0] for m in words.ground if m.shape[0] > 1),
        n_values=counts.shape[0],
        smallest_probability=_smallest(counts, sizes, example),
    )
    if present.size < 2:
        return FeatureLeakage(
            estimate=0.0,
            upper=1.0,
            method=method,
            reason=f"only {present.size} of {counts.shape[0]} declared values occurs: "
            "nothing is known of the others, so the bound is 1",
            assumptions=words.assumptions,
            paper_inputs=inputs,
        )
    rows = counts[present] / sizes[present][:, None]
    distances = metric.pairwise(rows, words.ground)
    if metric.name == "wasserstein" and not is_total_variation(words.ground):
        # A supremum over functions, not over sets (docs/theory/leakage_metrics.md).
        margin = sampling_margin(
            sizes[present].astype(np.float64), failure_probability=failure_probability
        )
        bounds = np.minimum(distances + margin, 1.0)
        np.fill_diagonal(bounds, 0.0)
    else:
        bounds = pair_uppers(counts[present], failure_probability=failure_probability)
        bounds = np.vectorize(metric.upper_from_total_variation)(bounds)
    empty = np.flatnonzero(sizes == 0)
    upper = 1.0 if empty.size else float(bounds.max())
    return FeatureLeakage(
        estimate=float(distances.max()),
        upper=upper,
        method=method,
        reason=bound_in_words(
            distances,
            bounds,
            present,
            empty,
            words.value,
            Circumstances(
                sizes.astype(np.float64), counts.shape[1], 0.0, failure_probability
            ),
        )
        + f"; independence has p = {independence_p_value(counts):.2g}",
        assumptions=words.assumptions,
        paper_inputs=inputs,
    )


def noisy_leakage(
    noisy_counts: FloatArray,
    noisy_sizes: FloatArray,
    words: TableWords,
    *,
    metric: Metric,
    noise_scale: float,
    size_noise_scale: float,
    failure_probability: float,
    n_levels: IntArray | None = None,
    n_rows: int | None = None,
    cell_shares: FloatArray | None = None,
) -> FeatureLeakage:
    """Return the leakage of a table of noisy counts and of its noisy row sizes.

    Parameters are those of `noisy_total_variation_upper`; `words` is of the groups.

    Guarantee
    ---------
    A function of the noisy counts alone, so it costs nothing beyond them. `upper`
    holds except with `failure_probability` if rows are independent draws
    (docs/theory/leakage.md, Theorem 2); for metrics other than total variation it is
    the bound that total variation implies.
    """
    method = f"noisy counts, declared resolution, noise_scale {noise_scale:.4g}"
    if min(noisy_counts.shape) < 2:
        return _trivial(method, noisy_counts, words)
    found = noisy_total_variation_upper(
        noisy_counts,
        noisy_sizes,
        noise_scale=noise_scale,
        size_noise_scale=size_noise_scale,
        failure_probability=failure_probability,
        n_levels=n_levels,
        n_rows=n_rows,
        cell_shares=cell_shares,
    )
    distances, bounds, sizes = found.distances, found.uppers, found.sizes
    off_diagonal = ~np.eye(sizes.size, dtype=bool)
    drowned = np.flatnonzero(np.isnan(np.diag(distances)))
    present = np.setdiff1d(np.arange(sizes.size), drowned)
    # Negative noisy counts are no distribution: the nearest one is what is left.
    rows = np.maximum(noisy_counts[present], 0.0)
    rows = rows[rows.any(axis=1)]
    bounds = np.vectorize(metric.upper_from_total_variation)(bounds) * off_diagonal
    upper = float(bounds.max())
    estimate = upper
    if len(rows) > 1:
        rows = rows / rows.sum(axis=1, keepdims=True)
        guess = float(metric.pairwise(rows, words.ground).max())
        estimate = min(guess, upper)  # the bound has taken noise off, the guess not
    inner = np.ix_(present, present)
    return FeatureLeakage(
        estimate=estimate,
        upper=upper,
        method=method,
        reason=bound_in_words(
            distances[inner],
            bounds[inner],
            present,
            drowned,
            words.value,
            Circumstances(
                sizes, noisy_counts.shape[1], noise_scale, failure_probability
            ),
        ),
        assumptions=words.assumptions,
    )


def _trivial(
    method: str, counts: IntArray | FloatArray, words: TableWords
) -> FeatureLeakage:
    """Return the leakage of a table of a single row, or of a single column."""
    why = "there is nothing sensitive to tell apart"
    if counts.shape[0] < 2:
        why = "the feature has a single declared value"
    return FeatureLeakage(
        estimate=0.0,
        upper=0.0,
        method=method,
        reason=f"{why}: leakage is 0",
        assumptions=words.assumptions,
    )


def _smallest(counts: IntArray, sizes: IntArray, example: str) -> float:
    """Return p_min of Example D.1 (cells) or min_j p_j of Example D.2 (values)."""
    of = counts if example == "discrete" else sizes
    return float(of.min() / max(1, sizes.sum()))

"""Estimators that count: plug-in at the declared resolution, and histogram."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corrdp._validate import check_count
from corrdp.leakage._levels import ground_distances
from corrdp.leakage._plug_in import TableWords, plug_in_leakage
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage.estimators._sample import (
    EstimationContext,
    Sample,
    SampleColumn,
    check_cells,
    joint_codes,
    require_codes,
)
from corrdp.policy import Feature, NumberDomain


@dataclass(frozen=True)
class PlugIn:
    """Counts of joint sensitive cells per value, at the declared resolution.

    Guarantee
    ---------
    The upper bound holds with the stated failure probability
    (docs/theory/leakage.md, Theorem 1).
    """

    name: str = "plug_in"

    def estimate(self, sample: Sample, context: EstimationContext) -> FeatureLeakage:
        """Return the plug-in distance and its bound."""
        sensitive = require_codes(self.name, sample.sensitive)
        changed = require_codes(self.name, sample.changed)
        return _counted(sensitive, changed, context, example="discrete")


@dataclass(frozen=True)
class Histogram:
    """Plug-in after cutting numbers without declared bins into equal widths.

    Parameters
    ----------
    bins : int, optional
        Bins per sensitive number, two or more; by default ``n_rows ** (1 / (m_s + 2))``
        rounded up, the rate of the paper's Appendix D.

    Guarantee
    ---------
    The upper bound is one on the leakage at this resolution
    (docs/theory/leakage.md, Theorem 1): that finer values tell no more, which nobody
    has declared, is stated as an assumption.
    """

    bins: int | None = None
    name: str = "histogram"

    def estimate(self, sample: Sample, context: EstimationContext) -> FeatureLeakage:
        """Return the plug-in distance over the bins and its bound."""
        changed = require_codes(self.name, sample.changed)
        n_bins = histogram_bins(sample.n_rows, len(sample.sensitive))
        if self.bins is not None:
            n_bins = check_count("bins", self.bins, lower=2)  # one tells nothing apart
        sensitive = tuple(
            column.binned(n_bins) if column.is_number else column
            for column in sample.sensitive
        )
        found = _counted(sensitive, changed, context, example="histogram")
        finer_tells_no_more = tuple(
            f"insensitive features tell no more of {column.feature.name} than of which "
            f"of {n_bins} equal bins it lies in"
            for column in sample.sensitive
            if column.is_number
        )
        return replace(
            found,
            method=f"histogram, {n_bins} bins per sensitive number",
            assumptions=(*found.assumptions, *finer_tells_no_more),
        )


def histogram_bins(n_rows: int, n_sensitive: int) -> int:
    """Return the number of bins that the paper's rate asks for, two at least.

    Examples
    --------
    >>> histogram_bins(27_000, 1)
    30
    """
    root = math.pow(n_rows, 1 / (n_sensitive + 2))
    return max(2, math.ceil(round(root, 9)))


def resolution_assumptions(changed: Sequence[Feature]) -> tuple[str, ...]:
    """Return what counting binned numbers assumes of the changed features."""
    return tuple(
        f"{feature.name} enters the model binned, or values inside one of its bins "
        "tell the same about the sensitive features"
        for feature in changed
        if isinstance(feature.domain, NumberDomain)
    )


def _counted(
    sensitive: tuple[SampleColumn, ...],
    changed: tuple[SampleColumn, ...],
    context: EstimationContext,
    *,
    example: str,
) -> FeatureLeakage:
    cells, n_cells = joint_codes(sensitive)
    values, n_values = joint_codes(changed)
    check_cells(n_values * n_cells)
    if not sensitive:
        cells = np.zeros_like(values)
    counts = np.bincount(values * n_cells + cells, minlength=n_values * n_cells)
    words = TableWords(
        value_texts=[column.texts for column in changed],
        ground=[ground_distances(c.feature, c.n_codes or 1) for c in sensitive],
        assumptions=resolution_assumptions([c.feature for c in changed]),
    )
    return plug_in_leakage(
        counts.reshape(n_values, n_cells),
        words,
        metric=context.metric,
        failure_probability=context.failure_probability,
        example=example,
    )

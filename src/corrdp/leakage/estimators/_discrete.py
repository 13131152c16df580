"""Estimators that count: plug-in at the declared resolution, and histogram."""

import math
from dataclasses import dataclass, replace

from corrdp._validate import check_count
from corrdp.leakage._counts import CountLayout, count_codes
from corrdp.leakage._levels import TableWords
from corrdp.leakage._plug_in import plug_in_leakage
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage.estimators._sample import (
    EstimationContext,
    Sample,
    SampleColumn,
    require_codes,
)


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


def _counted(
    sensitive: tuple[SampleColumn, ...],
    changed: tuple[SampleColumn, ...],
    context: EstimationContext,
    *,
    example: str,
) -> FeatureLeakage:
    told, known = (
        [(column.feature, column.n_codes or 1) for column in columns]
        for columns in (sensitive, changed)
    )
    layout = CountLayout(
        n_codes={feature.name: n_codes for feature, n_codes in told + known},
        sensitive=tuple(feature.name for feature, _ in told),
        targets={"changed": tuple(feature.name for feature, _ in known)},
    )
    codes = {column.feature.name: column.values for column in sensitive + changed}
    return plug_in_leakage(
        count_codes([codes], layout).tables[0],
        TableWords.of(known, told),
        metric=context.metric,
        failure_probability=context.failure_probability,
        example=example,
    )

"""How many rows hold each level: a by-product of released tables, used once more.

Training centers columns at their means. Where a private leakage table was released,
the means of what it counts are functions of released numbers
(docs/theory/leakage.md, Theorem 7).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from corrdp._json import check_shape
from corrdp._typing import FloatArray, JSONObject
from corrdp.leakage._counts import CountLayout
from corrdp.leakage._joining import Groups
from corrdp.policy import (
    Block,
    BlockKind,
    ColumnRole,
    Feature,
    NumberDomain,
    Policy,
    PolicyEncoder,
    policy_blocks,
)

LARGEST_MEAN_ERROR = 0.03
"""Means are read from a table if noise moves them by less than this part of a range."""

COARSEST_BIN = 1 / 8
"""Means of numbers are read from bins of at most this part of the range, or joined."""

_POINTS_PER_BIN = 32


@dataclass(frozen=True)
class LevelSizes:
    """Released numbers of rows per level of one feature.

    Parameters
    ----------
    sizes : tuple of float
        One per code of the feature, as the policy of the table reads it; noisy.
    noise_scale : float
        Standard deviation of the noise on each.
    """

    sizes: tuple[float, ...]
    noise_scale: float

    @property
    def shares(self) -> FloatArray:
        """Part of the rows in every level: what is below no rows counts as none."""
        kept = np.maximum(np.asarray(self.sizes, dtype=np.float64), 0.0)
        total = float(kept.sum())
        return kept / total if total > 0 else np.full(kept.size, 1 / kept.size)

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {"sizes": list(self.sizes), "noise_scale": self.noise_scale}

    @classmethod
    def from_json(cls, document: Any) -> "LevelSizes":
        """Read what `to_json` wrote."""
        check_shape(document, {"sizes": [float], "noise_scale": float}, "level sizes")
        return cls(tuple(map(float, document["sizes"])), float(document["noise_scale"]))


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Counts of one table as they are released, and what their noise is.

    Scales are standard deviations of the Gaussian part of the noise.
    """

    cells: FloatArray  # shape (n_groups, n_cells), multiples of `NOISE_LATTICE`
    sizes: FloatArray  # shape (n_values,), with noise of their own
    cell_scale: float
    size_scale: float
    groups: Groups = ()  # values that one row counts together; if empty, none


def level_sizes(
    layout: CountLayout, released: Mapping[str, NoisyTable], n_rows: int
) -> dict[str, LevelSizes]:
    """Return the rows per level of every feature that released tables count.

    A table that was not released is left out. The number of rows is public, and sizes
    are shifted to add up to it.

    Guarantee
    ---------
    A function of released counts and public numbers: it costs nothing beyond them
    (docs/theory/leakage.md, Theorem 7).
    """
    found: dict[str, LevelSizes] = {}

    def add(counts: FloatArray, noise_scale: float, axes: Sequence[str]) -> None:
        joint = counts.reshape([layout.n_codes[axis] for axis in axes])
        for place, name in enumerate(axes):
            others = tuple(other for other in range(len(axes)) if other != place)
            sizes = joint.sum(axis=others)
            sizes = sizes + (n_rows - sizes.sum()) / sizes.size
            spread = math.sqrt(counts.size / sizes.size)
            found[name] = LevelSizes(tuple(sizes.tolist()), noise_scale * spread)

    total, weight = 0.0, 0.0
    for shape in layout.shapes:
        if shape.name not in released:
            continue
        table = released[shape.name]
        add(table.sizes, table.size_scale, shape.features)
        precision = 1 / (len(table.cells) * table.cell_scale**2)
        total = total + precision * table.cells.sum(axis=0)
        weight += precision
    if weight > 0:
        add(np.asarray(total) / weight, 1 / math.sqrt(weight), layout.sensitive)
    return found


def known_means(
    policy: Policy, margins: Mapping[str, LevelSizes], n_rows: int
) -> dict[str, tuple[float, ...]]:
    """Return the means of encoded columns that margins tell well enough, by block.

    Parameters
    ----------
    policy : Policy
        By which rows are read.
    margins : mapping of str to LevelSizes
        Rows per level, of this policy's levels.
    n_rows : int
        Public number of rows that will be centered.

    Returns
    -------
    means : mapping of str to tuple of float
        One mean per column of the block. A number is taken to lie evenly in its bins.

    Guarantee
    ---------
    A function of the margins, the policy and a public number
    (docs/theory/leakage.md, Theorem 7). Blocks that are left out must be released.
    """
    if not margins:
        return {}
    n_codes = PolicyEncoder(policy).n_codes
    means = {}
    for block in policy_blocks(policy):
        margin, feature = margins.get(block.feature), policy.feature(block.feature)
        if margin is None or n_codes.get(feature.name) != len(margin.sizes):
            continue
        if isinstance(feature.domain, NumberDomain) and not _is_fine(feature.domain):
            continue
        columns = level_columns(feature, block, n_codes)
        error = margin.noise_scale / n_rows * np.linalg.norm(columns, axis=0).max()
        if error <= LARGEST_MEAN_ERROR:
            means[block.name] = tuple((margin.shares @ columns).tolist())
    return means


def _is_fine(domain: NumberDomain) -> bool:
    """Return whether bins tell a mean: what is left in them is small, or one value."""
    n_apart = (domain.bins or 1) - sum(
        last - first + 1 for first, last, _ in domain.joined
    )
    return n_apart == 0 or (domain.bins or 1) * COARSEST_BIN >= 1


def level_columns(
    feature: Feature, block: Block, n_codes: Mapping[str, int]
) -> FloatArray:
    """Return the mean encoded columns of rows in each level of a feature.

    The columns of one of its blocks, one row per code; a slot for missing values is the
    last code.
    """
    columns = np.zeros((n_codes[feature.name], block.stop - block.start))
    if block.kind is BlockKind.FLAG:
        columns[-1] = 1.0
        return columns
    domain = feature.domain
    if not isinstance(domain, NumberDomain):
        if block.kind is BlockKind.ONE_HOT:
            np.fill_diagonal(columns, 1.0)
        else:
            columns[:2, 0] = (-0.5, 0.5)
        return columns
    # A policy protects something; a column is coded alike in every role.
    alone = Policy((Feature(feature.name, ColumnRole.SENSITIVE, domain),))
    places = [b.columns for b in policy_blocks(alone) if b.name == block.name]
    encoder = PolicyEncoder(alone)
    edges = domain.edges
    inside = (np.arange(_POINTS_PER_BIN) + 0.5) / _POINTS_PER_BIN
    for code, (low, high) in enumerate(pairwise(edges)):
        values = (low + (high - low) * inside)[:, None]
        columns[code] = encoder.transform(values)[:, places[0]].mean(axis=0)
    return columns

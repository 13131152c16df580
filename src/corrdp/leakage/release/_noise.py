"""The noise of a leakage release: drawn exactly, from the plan that prices it."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp.accounting import Group, NoisePlan, SensitivityTable
from corrdp.exceptions import BudgetError
from corrdp.leakage._bounds import NOISE_LATTICE
from corrdp.leakage._counts import CountLayout, TableShape
from corrdp.leakage._joining import Groups
from corrdp.leakage._margins import LevelSizes, NoisyTable, level_sizes
from corrdp.leakage._plug_in import noisy_leakage
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage._targets import telling_shapes
from corrdp.leakage.release._request import LeakageRequest, shares_of_cells
from corrdp.mechanisms.noise import (
    LARGEST_MU,
    covering_scale,
    discrete_gaussian,
    gaussian_part,
)
from corrdp.policy import NeighborClass

SIZES = "{}: row sizes"

Grouping: TypeAlias = Callable[[TableShape, FloatArray, float], Groups]
"""Which values of a table are one, from its noisy sizes and the noise on cells."""


def count_sensitivity(
    read: Mapping[Group, Collection[str]], classes: Sequence[NeighborClass]
) -> SensitivityTable:
    r"""Return how far counts move, by group and the features that its counts read.

    Guarantee
    ---------
    Replacing a record moves two counts of a group by one each, :math:`\sqrt 2`, if the
    class may change a feature that they read, else none (docs/theory/leakage.md,
    Theorem 5; docs/theory/default_rule.md, Proposition 5).
    """
    return SensitivityTable(
        groups=tuple(read),
        classes=tuple(neighbor.name for neighbor in classes),
        bounds=np.array(
            [
                [math.sqrt(2.0) * bool(set(c.features) & {*f}) for f in read.values()]
                for c in classes
            ]
        ),
    )


def release_tables(
    shapes: Sequence[TableShape],
    tables: Sequence[IntArray],
    plan: NoisePlan | None,
    generator: np.random.Generator,
    *,
    grouping: Grouping | None = None,
) -> dict[str, NoisyTable]:
    """Return every table with noise, by name: all sizes first, then the cells.

    Parameters
    ----------
    shapes, tables : sequences
        The layout, and the exact counts; several releases at once are stacked before
        values and cells.
    plan : NoisePlan or None
        Noise of every group, as it is priced. A table without groups in it cannot tell
        anything: zeros are returned in its place.
    generator : numpy Generator
        Source of the noise; each group takes draws of its own.
    grouping : callable, optional
        Told the released sizes of a table, it says which values are counted together.

    Guarantee
    ---------
    As the plan prices it (``docs/theory/leakage.md``, Theorem 5): scales are read from
    the plan here and nowhere else, and are drawn by an exact sampler. What is counted
    together depends on released sizes alone.
    """
    scales = {} if plan is None else plan.scale_of_group
    sizes = {
        shape.name: noisy_counts(
            table.sum(axis=-1), scales[SIZES.format(shape.name)], generator
        )
        for shape, table in zip(shapes, tables, strict=True)
        if shape.name in scales
    }
    released = {}
    for shape, table in zip(shapes, tables, strict=True):
        if shape.name not in scales:
            empty = np.zeros(table.shape)
            released[shape.name] = NoisyTable(empty, empty.sum(axis=-1), 1.0, 1.0)
            continue
        noisy_sizes, size_scale = sizes[shape.name]
        groups: Groups = ()
        if grouping is not None:
            groups = grouping(shape, noisy_sizes, scales[shape.name])
            table = grouped(table, groups)
        cells, cell_scale = noisy_counts(table, scales[shape.name], generator)
        released[shape.name] = NoisyTable(
            cells, noisy_sizes, cell_scale, size_scale, groups
        )
    return released


def grouped(values: Any, groups: Groups, *, axis: int = -2) -> Any:
    """Return sums over the groups of one axis; all of it if there are no groups."""
    if not groups:
        return values
    parts = [np.take(values, group, axis=axis).sum(axis=axis) for group in groups]
    return np.stack(parts, axis=axis)


def noisy_counts(
    counts: Any, noise_scale: float, generator: np.random.Generator
) -> tuple[FloatArray, float]:
    """Return counts with exact noise, and the scale of its Gaussian part.

    `noise_scale` is the standard deviation that was planned; a little more is drawn.

    Guarantee
    ---------
    Discrete Gaussian noise on `NOISE_LATTICE` that hides what Gaussian noise of
    `noise_scale` hides (``docs/theory/discrete_noise.md``, Claim 5).
    """
    exact = np.asarray(counts, dtype=np.int64)
    scale = covering_scale(noise_scale / NOISE_LATTICE)
    noise = discrete_gaussian(scale, size=exact.size, generator=generator)
    steps = exact * round(1 / NOISE_LATTICE) + noise.reshape(exact.shape)
    noisy = np.asarray(steps * NOISE_LATTICE, dtype=np.float64)
    return noisy, gaussian_part(scale) * NOISE_LATTICE


def check_covered(plan: NoisePlan, *, epsilon: float) -> NoisePlan:
    """Return the plan, or raise `BudgetError` where Claim 5 is not proved."""
    largest = max(plan.step_change(name) for name in plan.table.class_names)
    if not largest <= LARGEST_MU:
        raise BudgetError(
            f"epsilon={epsilon!r} leaves so little noise that nothing is proved of it "
            f"(mu {largest:.4g}, at most {LARGEST_MU:g}). Choose a smaller epsilon."
        )
    return plan


def noisy_leakages(
    request: LeakageRequest,
    layout: CountLayout,
    released: Mapping[str, NoisyTable],
    n_rows: int,
) -> dict[str, FeatureLeakage]:
    """Return the leakage that released tables tell, feature by feature.

    Guarantee
    ---------
    A function of what was released and of public numbers (docs/theory/leakage.md,
    Theorem 5); bounds hold by its Theorem 2.
    """
    shares = shares_of_cells(
        {n: (t.cells, t.cell_scale) for n, t in released.items() if t.cells.any()}
    )
    found = {}
    for shape in layout.shapes:
        noisy = released[shape.name]
        sizes = grouped(noisy.sizes, noisy.groups, axis=-1)
        joined = request.joined(shape, noisy.groups, noisy.sizes)
        found[shape.name] = joined.of(
            noisy_leakage(
                noisy.cells,
                sizes,
                joined.words,
                metric=request.metric,
                noise_scale=noisy.cell_scale,
                size_noise_scale=noisy.size_scale,
                failure_probability=request.feature_failure_probability,
                n_levels=np.array([len(g) for g in noisy.groups] or [1] * len(sizes)),
                n_rows=n_rows,
                cell_shares=shares.get(shape.name),
            )
        )
    return found


def released_margins(
    layout: CountLayout,
    released: Mapping[str, NoisyTable],
    features: Mapping[str, FeatureLeakage],
    n_rows: int,
) -> dict[str, LevelSizes]:
    """Return the rows per level that released tables tell, of levels as they are read.

    Guarantee
    ---------
    A function of what was released and of public numbers (docs/theory/leakage.md,
    Theorem 7). Tables that cannot tell anything were not released and tell nothing.
    """
    told = {shape.name for shape in telling_shapes(layout)}
    counts = {name: noisy for name, noisy in released.items() if name in told}
    margins = level_sizes(layout, counts, n_rows)
    for name, found in features.items():
        if found.joined is not None and name in margins:
            groups, apart = released[name].groups, margins[name]
            margins[name] = LevelSizes(
                tuple(grouped(np.array(apart.sizes), groups, axis=-1).tolist()),
                apart.noise_scale * math.sqrt(max(map(len, groups))),
            )
    return margins


def planned_margins(
    layout: CountLayout, plan: NoisePlan, n_rows: int
) -> dict[str, LevelSizes]:
    """Return rows per level with the noise of a planned release, all levels alike.

    Guarantee
    ---------
    A function of public numbers: it says which means a release will tell
    (docs/theory/leakage.md, Theorem 7).
    """
    scales = plan.scale_of_group
    counts = {
        shape.name: NoisyTable(
            np.zeros((shape.n_values, shape.n_cells)),
            np.zeros(shape.n_values),
            scales[shape.name],
            scales[SIZES.format(shape.name)],
        )
        for shape in telling_shapes(layout)
    }
    return level_sizes(layout, counts, n_rows)

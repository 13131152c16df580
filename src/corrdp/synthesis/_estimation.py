r"""From noisy tables to one distribution: the dual of entropic least squares.

Given noisy counts :math:`y_r` of variance :math:`\sigma_r^2` of regions :math:`r`, the
model maximizes

.. math:: \sum_r y_r \cdot \theta_r - n \log Z(\theta)
          - \tfrac12 \sum_r \sigma_r^2 \lVert \theta_r \rVert^2 ,

which is concave and smooth; at the maximum the expected counts are
:math:`n \mu_r = y_r - \sigma_r^2 \theta_r`. It is the dual of least squares in units of
the noise, minus the entropy of the ``n`` rows (docs/theory/synthesis.md, section 4).
Each evaluation is one calibration of the junction tree. Noise that differs by orders
of magnitude only scales the coordinates, which a diagonal preconditioner undoes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize

from corrdp._typing import FloatArray, IntArray
from corrdp.mechanisms.noise import discrete_gaussian
from corrdp.synthesis._junction_tree import JunctionTree, Region
from corrdp.synthesis._model import Calibrated, calibrate, expanded

_MOST_STEPS = 250
_ENTROPY = 0.1  # weight of the entropy, in units of 1 / noise
_SMALLEST_SCALE = 0.5  # exact counts are fitted as if rounded to whole numbers


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Noisy counts of a region.

    Parameters
    ----------
    region : Region
        Columns, in order.
    counts : array of float
        One axis per column.
    noise_scale : float
        Standard deviation of every cell; 0 for exact counts.
    """

    region: Region
    counts: FloatArray
    noise_scale: float


def noisy_table(
    region: Region, counts: IntArray, scale: Fraction, generator: np.random.Generator
) -> NoisyTable:
    """Return counts with noise on every cell; exact ones at scale 0.

    Guarantee
    ---------
    Discrete Gaussian noise of the scale that is priced, drawn exactly and anew for
    every cell (`docs/theory/synthesis.md`, Theorem 1).
    """
    if scale:
        noise = discrete_gaussian(scale, size=counts.size, generator=generator)
        counts = counts + noise.reshape(counts.shape)
    return NoisyTable(region, counts.astype(np.float64), float(scale))


def combined(tables: Sequence[NoisyTable]) -> tuple[NoisyTable, ...]:
    """Return one table per region: measurements averaged by precision."""
    merged: dict[Region, NoisyTable] = {}
    for table in tables:
        other = merged.get(table.region)
        if other is None or table.noise_scale == 0:
            merged[table.region] = table
        elif other.noise_scale > 0:
            weight, before = table.noise_scale**-2, other.noise_scale**-2
            mean = (weight * table.counts + before * other.counts) / (weight + before)
            merged[table.region] = NoisyTable(
                table.region, mean, float((weight + before) ** -0.5)
            )
    return tuple(merged.values())


def softened(tables: Sequence[NoisyTable]) -> tuple[NoisyTable, ...]:
    """Return the tables with noise scales that leave the entropy little weight.

    At full weight the estimate is the likeliest table of ``n`` rows if all tables are
    equally likely, and noise pulls it to uniform columns. A common factor on variances
    weakens that pull until it is small beside the noise of a typical table.
    """
    scales = [table.noise_scale for table in tables if table.noise_scale > 0]
    if not scales:
        return tuple(tables)
    factor = math.sqrt(min(1.0, _ENTROPY / float(np.median(scales))))
    return tuple(NoisyTable(t.region, t.counts, factor * t.noise_scale) for t in tables)


def fit_model(
    tree: JunctionTree,
    tables: Sequence[NoisyTable],
    *,
    n_rows: int,
    sizes: Sequence[int],
    zeros: Sequence[tuple[Region, FloatArray]] = (),
    start: Mapping[Region, FloatArray] | None = None,
    most_steps: int = _MOST_STEPS,
) -> tuple[Calibrated, dict[Region, FloatArray]]:
    """Return the calibrated model and its parameters by region.

    The tree holds every region of `tables`, which are distinct, and of `zeros`, cells
    that never occur, in a clique; `sizes` are the numbers of codes of all columns.

    Guarantee
    ---------
    Post-processing of `tables` (docs/theory/synthesis.md, section 4).
    """
    scale = [max(table.noise_scale, _SMALLEST_SCALE) for table in tables]
    # Curvature of the objective on the diagonal: n p (1 - p) + sigma^2.
    units = [
        np.sqrt(np.clip(table.counts, 1.0, n_rows / 2) + sigma**2)
        for table, sigma in zip(tables, scale, strict=True)
    ]
    places = _places(tree, [table.region for table in tables])
    empty = _without_zeros(tree, sizes, zeros)
    ends = np.cumsum([0, *(table.counts.size for table in tables)])

    def unpacked(vector: FloatArray) -> list[FloatArray]:
        return [
            vector[ends[i] : ends[i + 1]].reshape(table.counts.shape) / units[i]
            for i, table in enumerate(tables)
        ]

    def negative(vector: FloatArray) -> tuple[float, FloatArray]:
        theta = unpacked(vector)
        model = calibrate(tree, _potentials(tree, places, tables, theta, empty))
        value = n_rows * model.log_total
        gradient = np.empty_like(vector)
        for i, (table, own) in enumerate(zip(tables, theta, strict=True)):
            home, axes = places[i]
            expected = n_rows * model.tables[home].sum(axis=axes)
            shrink = scale[i] ** 2 * own
            value -= float(np.sum(own * (table.counts - shrink / 2)))
            gradient[ends[i] : ends[i + 1]] = (
                (expected + shrink - table.counts) / units[i]
            ).ravel()
        return value, gradient

    begin = [
        np.zeros(table.counts.shape)
        if start is None or table.region not in start
        else start[table.region]
        for table in tables
    ]
    found = minimize(
        negative,
        np.concatenate([(b * u).ravel() for b, u in zip(begin, units, strict=True)]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": most_steps, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-3},
    )
    theta = unpacked(found.x)
    model = calibrate(tree, _potentials(tree, places, tables, theta, empty))
    return model, {t.region: own for t, own in zip(tables, theta, strict=True)}


def rebuilt_model(
    tree: JunctionTree,
    theta: Mapping[Region, FloatArray],
    *,
    sizes: Sequence[int],
    zeros: Sequence[tuple[Region, FloatArray]] = (),
) -> Calibrated:
    """Return the model that `fit_model` returned, from its parameters."""
    potentials = _without_zeros(tree, sizes, zeros)
    for region, own in theta.items():
        home = tree.home(region)
        potentials[home] += expanded(own, region, tree.cliques[home])
    return calibrate(tree, potentials)


def _potentials(
    tree: JunctionTree,
    places: Sequence[tuple[int, tuple[int, ...]]],
    tables: Sequence[NoisyTable],
    theta: Sequence[FloatArray],
    empty: Sequence[FloatArray],
) -> list[FloatArray]:
    """Return the log potential of every clique: the sum of its regions' parameters."""
    potentials = [potential.copy() for potential in empty]
    for table, own, (home, _) in zip(tables, theta, places, strict=True):
        potentials[home] += expanded(own, table.region, tree.cliques[home])
    return potentials


def _without_zeros(
    tree: JunctionTree,
    sizes: Sequence[int],
    zeros: Sequence[tuple[Region, FloatArray]],
) -> list[FloatArray]:
    """Return potentials of 0, minus infinity where there is a structural zero."""
    empty = [np.zeros([sizes[c] for c in clique]) for clique in tree.cliques]
    for region, never in zeros:
        home = tree.home(region)
        forbidden = np.where(never, -np.inf, 0.0)
        empty[home] += expanded(forbidden, region, tree.cliques[home])
    return empty


def _places(
    tree: JunctionTree, regions: Sequence[Region]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return the home of every region, and the axes to sum out there."""
    places = []
    for region in regions:
        home = tree.home(region)
        clique = tree.cliques[home]
        places.append((home, tuple(i for i, c in enumerate(clique) if c not in region)))
    return places

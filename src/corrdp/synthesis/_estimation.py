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

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize

from corrdp._threads import one_thread
from corrdp._typing import FloatArray, IntArray
from corrdp.mechanisms.noise import discrete_gaussian
from corrdp.synthesis._junction_tree import (
    JunctionTree,
    Region,
    axes_beside,
    junction_tree,
)
from corrdp.synthesis._model import Calibrated, calibrate, expanded

_MOST_STEPS = 250
_ENTROPY = 0.1  # weight of the entropy, in units of 1 / noise
_SMALLEST_SCALE = 0.5  # exact counts are fitted as if rounded to whole numbers


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Noisy counts of a region."""

    region: Region
    counts: FloatArray  # one axis per column of the region
    noise_scale: float  # standard deviation of every cell; 0 for exact counts


def noisy_tables(
    counts: Mapping[Region, IntArray], scale: Fraction, generator: np.random.Generator
) -> tuple[NoisyTable, ...]:
    """Return counts with noise of one scale on every cell; exact ones at scale 0.

    Guarantee
    ---------
    Discrete Gaussian noise of the scale that is priced, drawn exactly and anew for
    every cell (`docs/theory/synthesis.md`, Theorem 1).
    """
    cells = np.concatenate([own.ravel() for own in counts.values()])
    if scale:
        cells = cells + discrete_gaussian(scale, size=cells.size, generator=generator)
    ends = itertools.accumulate(own.size for own in counts.values())
    return tuple(
        NoisyTable(region, noisy.reshape(own.shape), float(scale))
        for (region, own), noisy in zip(
            counts.items(),
            np.split(cells.astype(np.float64), list(ends)[:-1]),
            strict=True,
        )
    )


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
    problem = _Dual(tree, tables, n_rows, _without_zeros(tree, sizes, zeros))
    known = start or {}
    begin = [known.get(t.region, np.zeros(t.counts.shape)) for t in tables]
    with one_thread():
        found = minimize(
            problem.negative,
            np.concatenate([own.ravel() for own in begin]) * problem.units,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": most_steps, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-3},
        )
    theta = found.x / problem.units
    return problem.model(theta), {
        table.region: theta[own].reshape(table.counts.shape).copy()
        for table, own in zip(tables, problem.slices, strict=True)
    }


class _Dual:
    """The objective and its gradient, with all tables in one vector.

    Parameters of the tables lie one after the other, in `units` of the curvature of the
    objective on its diagonal: n p (1 - p) + sigma^2. What depends on the tree alone is
    found once, since every step asks for it.
    """

    def __init__(
        self,
        tree: JunctionTree,
        tables: Sequence[NoisyTable],
        n_rows: int,
        empty: Sequence[FloatArray],
    ) -> None:
        self._tree, self._n_rows, self._empty = tree, n_rows, empty
        n_cells = [table.counts.size for table in tables]
        ends = np.cumsum([0, *n_cells]).tolist()
        self.slices = [slice(*pair) for pair in itertools.pairwise(ends)]
        scale = [max(table.noise_scale, _SMALLEST_SCALE) for table in tables]
        self._counts = np.concatenate([table.counts.ravel() for table in tables])
        self._variance = np.repeat([sigma**2 for sigma in scale], n_cells)
        self.units = np.sqrt(np.clip(self._counts, 1.0, n_rows / 2) + self._variance)
        self._homes, self._axes, self._shapes = [], [], []
        for table in tables:
            home = tree.home(table.region)
            clique = tree.cliques[home]
            self._homes.append(home)
            self._axes.append(axes_beside(table.region, clique))
            self._shapes.append(expanded(table.counts, table.region, clique).shape)

    def model(self, theta: FloatArray) -> Calibrated:
        """Return the model: log potentials are sums of the parameters of regions."""
        potentials = [potential.copy() for potential in self._empty]
        for own, home, shape in zip(
            self.slices, self._homes, self._shapes, strict=True
        ):
            potentials[home] += theta[own].reshape(shape)
        return calibrate(self._tree, potentials)

    def negative(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the objective, and its gradient."""
        theta = vector / self.units
        model = self.model(theta)
        value = self._n_rows * model.log_total
        shrink = self._variance * theta
        gained = theta * (self._counts - shrink / 2)
        expected = np.empty_like(vector)
        for own, home, axes in zip(self.slices, self._homes, self._axes, strict=True):
            value -= float(np.add.reduce(gained[own]))
            expected[own] = np.add.reduce(model.tables[home], axis=axes).reshape(-1)
        expected *= self._n_rows
        return value, (expected + shrink - self._counts) / self.units


def rebuilt_model(
    theta: Mapping[Region, FloatArray],
    *,
    sizes: Sequence[int],
    zeros: Sequence[tuple[Region, FloatArray]] = (),
) -> Calibrated:
    """Return the model of all columns that parameters and zeros alone decide."""
    singles = [(column,) for column in range(len(sizes))]
    tree = junction_tree([*singles, *(region for region, _ in zeros), *theta], sizes)
    potentials = _without_zeros(tree, sizes, zeros)
    for region, own in theta.items():
        home = tree.home(region)
        potentials[home] += expanded(own, region, tree.cliques[home])
    return calibrate(tree, potentials)


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

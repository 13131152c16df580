"""What rows know before there are parameters (sections 3 and 4 of the note).

Rows are the corners of all chains, followed by probes: pairs of residuals at which
groups with an influence bound are looked at when the reference residual moves too.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.policy import NeighborClass
from corrdp.training._layout import GradientLayout
from corrdp.training.sensitivity._corners import (
    Chain,
    ChangedFeatures,
    Corner,
    FeatureGeometry,
    group_norms,
)

BoolArray = NDArray[np.bool_]


class ChangedPairs(NamedTuple):
    """Pairs of corners of changed features, sorted by row, group and feature."""

    row: IntArray  # (n_pairs,): row of each pair
    weights: FloatArray  # (3, n_pairs): `FeatureGeometry.pairs`, transposed
    feature_starts: IntArray  # first pair of every changed feature of a row
    # First feature of every cell (row and group) with changed features.
    cell_starts: IntArray
    cells: IntArray  # flat index of the cell


class InfluencedCells(NamedTuple):
    """Cells of groups with an influence bound whose features change."""

    # (n_cells,): the cells.
    rows: IntArray
    groups: IntArray
    probes: IntArray  # (3, n_cells): rows of the probes of the cell's chain


class MovementTable(NamedTuple):
    """Arrays from which bounds are evaluated."""

    n_rows: int  # rows of the result; the arrays go on with the probes
    row_class: IntArray  # (n_rows + n_probes,): index of the row's class
    corner: IntArray  # (n_rows + n_probes,): its `Corner`
    # (n_rows + n_probes,): 1 where the larger residual follows the line of the class, 0
    # where it is held at the peak.
    follows_line: FloatArray
    # (n_classes,): gap beyond which influence bounds hold; infinite if none does.
    influence_gap: FloatArray
    # (n_rows + n_probes, n_groups): squared radius of the features of the group that do
    # not change.
    unchanged_square: FloatArray
    # (n_rows + n_probes, n_groups): how far the features of the group can move.
    diameter: FloatArray
    projected: IntArray  # groups whose features are projected on a ball
    # (n_groups,): largest norm of the features, clip norm, and influence bound in the
    # norm of the group.
    radius: FloatArray
    clip_norm: FloatArray
    influence_norm: FloatArray
    cap: FloatArray  # (n_rows, n_groups): largest movement, whatever the residuals
    # (n_rows - 1, 1): whether a row belongs to the same chain as the next.
    continues: BoolArray
    bounded: IntArray  # groups with an influence bound
    # Rows in which the reference residual moves, if a group is bounded.
    reference_moves: IntArray
    flips: BoolArray  # (n_rows,): whether the label changes the sign of the residual
    # Rows of chains in which a changed group is clipped, the group, and the positions
    # among them of the first and the last row of the chain.
    capped_rows: IntArray
    capped_groups: IntArray
    chain_starts: IntArray
    chain_ends: IntArray
    changed: ChangedPairs
    influenced: InfluencedCells


def movement_table(
    layout: GradientLayout,
    geometries: Sequence[FeatureGeometry],
    classes: Sequence[NeighborClass],
    chains: Sequence[Chain],
) -> MovementTable:
    """Return the table of a layout under the chains of its classes."""
    ball = np.array([group.feature_radius for group in layout.groups])
    norm = group_norms(geometries, layout)
    radius, projected = np.minimum(norm, ball), ball < norm
    clip_norm = np.array([group.clip_norm for group in layout.groups])
    influence_norm = _influence_norms(layout, radius)
    bounded = np.flatnonzero(np.isfinite(influence_norm))
    lookup = ChangedFeatures(geometries)
    places = [lookup.places(chain.neighbor.features) for chain in chains]
    changed = [[geometries[place] for place in own] for own in places]
    bound = set(bounded.tolist())
    influenced = [sorted({g.group for g in own} & bound) for own in changed]

    row_chain = [i for i, chain in enumerate(chains) for _ in chain.corners]
    n_rows = len(row_chain)
    probed = [i for i, groups in enumerate(influenced) if groups]
    all_chain = row_chain + [i for i in probed for _ in range(3)]
    corners = [corner for chain in chains for corner in chain.corners]
    held = [corner is Corner.FLIP for corner in corners] + [True] * 3 * len(probed)
    corners += [corner for i in probed for corner in chains[i].probes]

    capped_rows = np.array(
        [row for row, i in enumerate(row_chain) if chains[i].capped_group >= 0],
        dtype=np.int64,
    )
    capped_chains = np.array(row_chain, dtype=np.int64)[capped_rows]
    fixed = np.array([chains[i].reference_fixed for i in row_chain])
    indices = {neighbor.name: i for i, neighbor in enumerate(classes)}
    row_class = np.array([indices[chains[i].neighbor.name] for i in all_chain])
    unchanged_square, diameter, pairs = _changes(
        projected.tolist(), geometries, places, all_chain
    )
    return MovementTable(
        n_rows=n_rows,
        row_class=row_class,
        corner=np.array(corners, dtype=np.int64),
        follows_line=1.0 - np.array(held, dtype=float),
        influence_gap=_influence_gaps(
            len(classes),
            row_class[:n_rows][fixed],
            radius[bounded],
            influence_norm[bounded],
        ),
        unchanged_square=unchanged_square,
        diameter=np.minimum(diameter, 2.0 * radius),
        projected=np.flatnonzero(projected),
        radius=radius,
        clip_norm=clip_norm,
        influence_norm=influence_norm,
        cap=_caps(clip_norm, influence_norm, fixed),
        continues=np.diff(row_chain)[:, None] == 0,
        bounded=bounded,
        reference_moves=np.flatnonzero(~fixed & (bounded.size > 0)),
        flips=np.array([chains[i].flips for i in row_chain]),
        capped_rows=capped_rows,
        capped_groups=np.array(
            [chains[i].capped_group for i in capped_chains], dtype=np.int64
        ),
        chain_starts=np.searchsorted(capped_chains, capped_chains, side="left"),
        chain_ends=np.searchsorted(capped_chains, capped_chains, side="right") - 1,
        changed=pairs,
        influenced=_influenced_cells(row_chain, influenced, n_rows),
    )


def with_influence_bounds(
    table: MovementTable, layout: GradientLayout
) -> MovementTable:
    """Return the table of a layout with other influence bounds on the same groups.

    Which groups have one decides on rows and probes, how large it is does not.
    """
    if not table.bounded.size:
        return table
    influence_norm = _influence_norms(layout, table.radius)
    fixed = np.ones(table.n_rows, dtype=bool)
    fixed[table.reference_moves] = False
    return table._replace(
        influence_norm=influence_norm,
        influence_gap=_influence_gaps(
            table.influence_gap.size,
            table.row_class[: table.n_rows][fixed],
            table.radius[table.bounded],
            influence_norm[table.bounded],
        ),
        cap=_caps(table.clip_norm, influence_norm, fixed),
    )


def _caps(
    clip_norm: FloatArray, influence_norm: FloatArray, fixed: BoolArray
) -> FloatArray:
    """Return how far groups move at most, in rows with a fixed reference and others."""
    bounded = np.where(fixed[:, None], influence_norm, np.inf)
    return np.asarray(2.0 * np.minimum(clip_norm, bounded))


def _influence_norms(layout: GradientLayout, radius: FloatArray) -> FloatArray:
    """Return the influence bounds in the norm of the group's gradient.

    None stays none, also for a group whose columns are the same in every record.
    """
    return np.array(
        [
            group.influence_bound
            if math.isinf(group.influence_bound) or math.isfinite(group.clip_norm)
            else group.influence_bound * largest
            for group, largest in zip(layout.groups, radius, strict=True)
        ]
    )


def _influence_gaps(
    n_classes: int, coupled: IntArray, radius: FloatArray, influence_norm: FloatArray
) -> FloatArray:
    """Return the smallest gap at which the bound of a group begins to hold."""
    gaps = np.full(n_classes, np.inf)
    if influence_norm.size:
        smallest = np.finfo(np.float64).tiny
        gaps[coupled] = (2.0 * influence_norm / np.maximum(radius, smallest)).min()
    return gaps


def _changes(
    projected: Sequence[bool],
    geometries: Sequence[FeatureGeometry],
    places: Sequence[Sequence[int]],
    row_chain: Sequence[int],
) -> tuple[FloatArray, FloatArray, ChangedPairs]:
    """Return what stays, how far the rest moves, and the pairs it moves between.

    Per chain, `places` are those of the geometries that change: all rows of a chain,
    probes included, share the answer.
    """
    n_groups = len(projected)
    group = np.array([geometry.group for geometry in geometries])
    square = np.array([geometry.radius**2 for geometry in geometries])
    spread = np.array([geometry.diameter**2 for geometry in geometries])
    members = [np.flatnonzero(group == index) for index in range(n_groups)]
    # bincount and accumulate add in column order, as one would by hand.
    whole = np.bincount(group, square, n_groups).astype(np.float64)
    unchanged_square: FloatArray = np.tile(whole, (len(places), 1))
    diameter = np.zeros(unchanged_square.shape)
    keeps = np.ones(group.size, dtype=bool)
    for chain, own in enumerate(places):
        keeps[own] = False
        np.add.at(diameter[chain], group[own], spread[own])
        for index in dict.fromkeys(group[own].tolist()):
            rest = square[members[index][keeps[members[index]]]]
            unchanged_square[chain, index] = (
                np.add.accumulate(rest)[-1] if rest.size else 0.0
            )
        keeps[own] = True
    own_pairs = [
        [
            (geometries[i].group, geometries[i].pairs)
            for i in sorted(own, key=lambda i: geometries[i].group)
            if not projected[geometries[i].group]
        ]
        for own in places
    ]
    rows: list[int] = []
    pairs: list[FloatArray] = [np.empty((0, 3))]
    features: list[int] = []
    cell_starts: list[int] = []
    cells: list[int] = []
    for row, chain in enumerate(row_chain):
        for index, corners in own_pairs[chain]:
            cell = row * n_groups + index
            if cells[-1:] != [cell]:
                cells.append(cell)
                cell_starts.append(len(features))
            features.append(len(rows))
            rows += [row] * len(corners)
            pairs.append(corners)
    changed_pairs = ChangedPairs(
        np.array(rows, dtype=np.int64),
        np.ascontiguousarray(np.concatenate(pairs).T),
        np.array(features, dtype=np.int64),
        np.array(cell_starts, dtype=np.int64),
        np.array(cells, dtype=np.int64),
    )
    return unchanged_square[row_chain], np.sqrt(diameter)[row_chain], changed_pairs


def _influenced_cells(
    row_chain: Sequence[int], influenced: Sequence[Sequence[int]], n_rows: int
) -> InfluencedCells:
    probed = [chain for chain, groups in enumerate(influenced) if groups]
    first_probe = {chain: n_rows + 3 * i for i, chain in enumerate(probed)}
    cells = [
        (row, group, first_probe[chain])
        for row, chain in enumerate(row_chain)
        for group in influenced[chain]
    ]
    rows, groups, probes = np.array(cells, dtype=np.int64).reshape(-1, 3).T
    return InfluencedCells(rows, groups, np.stack([probes, probes + 1, probes + 2]))

"""Sums of encoded columns: the linear query that reads each feature by itself."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from corrdp._typing import FloatArray
from corrdp.accounting import Group, SensitivityTable
from corrdp.policy import Block, NeighborClass


def column_sum_sensitivity(
    blocks: Sequence[Block], classes: Sequence[NeighborClass]
) -> SensitivityTable:
    """Return how far the sum of encoded rows moves under each neighbor class.

    Parameters
    ----------
    blocks : sequence of Block
        Blocks of the encoder, each with its radius and diameter.
    classes : sequence of NeighborClass
        Classes of the policy, ``whole_record`` included.

    Returns
    -------
    table : SensitivityTable
        One row per class, one group per block.

    Guarantee
    ---------
    Replacing one record moves a block of the sum by at most the diameter of the
    block's domain if the class may change its feature, else not at all
    (`docs/theory/encoder.md`): the encoder keeps every row inside the domain.
    """
    bounds = np.zeros((len(classes), len(blocks)))
    places: dict[str, list[int]] = defaultdict(list)
    for place, block in enumerate(blocks):
        places[block.feature].append(place)
    diameters = np.array([block.diameter for block in blocks])
    for row, neighbor in enumerate(classes):
        own = [place for name in neighbor.features for place in places.get(name, ())]
        bounds[row, own] = diameters[own]
    return SensitivityTable(
        groups=tuple(
            Group(block.name, block.stop - block.start, (block.feature,))
            for block in blocks
        ),
        classes=tuple(neighbor.name for neighbor in classes),
        bounds=bounds,
        contribution=np.array([block.radius for block in blocks]),
    )


def noisy_column_sums(
    sums: FloatArray,
    noise_scale: FloatArray,
    blocks: Sequence[Block],
    rng: np.random.Generator,
) -> FloatArray:
    """Return sums of encoded columns with Gaussian noise, one scale per block.

    Parameters
    ----------
    sums : array of float, shape (..., n_codes)
        Sums of encoded rows; audits pass one row per run.
    noise_scale : array of float, shape (n_blocks,)
        Standard deviation of every column of a block.
    blocks : sequence of Block
        Blocks of the encoder.
    rng : numpy Generator
        Source of the noise.

    Guarantee
    ---------
    That of the noise scales: an allocation for `column_sum_sensitivity`
    (`docs/theory/allocation.md`) keeps every class within its mu.
    """
    widths = [block.stop - block.start for block in blocks]
    noise = rng.standard_normal(sums.shape) * np.repeat(noise_scale, widths)
    return np.asarray(sums + noise)

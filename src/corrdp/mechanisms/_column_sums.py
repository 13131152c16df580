"""Sums of encoded columns: the linear query that reads each feature by itself."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

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

"""Sums of encoded columns: the linear query that reads each feature by itself."""

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
    bounds = np.array(
        [
            [
                block.diameter if block.feature in neighbor.features else 0.0
                for block in blocks
            ]
            for neighbor in classes
        ]
    )
    return SensitivityTable(
        groups=tuple(
            Group(block.name, block.stop - block.start, (block.feature,))
            for block in blocks
        ),
        classes=tuple(neighbor.name for neighbor in classes),
        bounds=bounds,
        contribution=np.array([block.radius for block in blocks]),
    )

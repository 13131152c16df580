"""Exact tables of counts. They are private: only `_release` adds noise to them."""

import numpy as np

from corrdp._typing import IntArray
from corrdp.synthesis._junction_tree import Region, n_cells


def count_cells(codes: IntArray, region: Region, sizes: tuple[int, ...]) -> IntArray:
    """Return how many rows lie in each cell of a region's table."""
    shape = tuple(sizes[column] for column in region)
    cells = np.ravel_multi_index(tuple(codes[:, c] for c in region), shape)
    counts = np.bincount(cells, minlength=n_cells(region, sizes))
    return counts.reshape(shape).astype(np.int64)

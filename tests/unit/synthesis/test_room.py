"""Room for one more region is found from the columns that it touches alone."""

import numpy as np

from corrdp.synthesis._junction_tree import Room, clique_cells


def test_cells_with_one_more_region_are_those_of_all_regions():
    rng = np.random.default_rng(0)
    for _ in range(40):
        n_columns = int(rng.integers(3, 20))
        sizes = rng.integers(2, 9, n_columns).tolist()

        def region(size, n_columns=n_columns):
            return tuple(sorted(rng.choice(n_columns, size, replace=False).tolist()))

        held = [(column,) for column in range(n_columns)]
        held += [region(int(rng.integers(2, 4))) for _ in range(rng.integers(0, 12))]
        room = Room(held, sizes)
        for _ in range(5):
            more = region(2)
            assert room.cells_with(more) == clique_cells([*held, more], sizes)

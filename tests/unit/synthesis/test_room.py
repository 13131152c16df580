"""Room for one more region is found from the columns that it touches alone."""

import itertools

import numpy as np

from corrdp.synthesis._junction_tree import Room, clique_cells, junction_tree


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
        for _ in range(8):
            more = region(int(rng.integers(2, 4)))
            needed = clique_cells([*held, more], sizes)
            assert room.cells_with(more) == needed
            assert room.cells_with(more) == needed  # remembered


def test_cliques_hold_all_regions_and_none_holds_another():
    rng = np.random.default_rng(1)
    for _ in range(40):
        n_columns = int(rng.integers(3, 12))
        regions = [
            tuple(sorted(rng.choice(n_columns, size, replace=False).tolist()))
            for size in rng.integers(1, 4, rng.integers(0, 15))
        ]
        tree = junction_tree(regions, [2] * n_columns)
        assert all(map(tree.holds, regions))
        for one, other in itertools.permutations(tree.cliques, 2):
            assert not set(one) <= set(other)

"""Which pairs a model holds: a forest first, then what it does not explain."""

import itertools

import numpy as np
import pytest

from corrdp.synthesis import _structure
from corrdp.synthesis._counts import count_cells
from corrdp.synthesis._estimation import NoisyTable
from corrdp.synthesis._structure import TableShape, choose_pairs

N_ROWS = 20_000


def chosen_from(codes, max_cells=10_000, noise_scale=1e-3):
    """Return the pairs that are chosen from tables of exact counts."""
    sizes = tuple(int(number) + 1 for number in codes.max(axis=0))

    def table(region):
        return NoisyTable(region, count_cells(codes, region, sizes), noise_scale)

    columns = range(len(sizes))
    return choose_pairs(
        TableShape(sizes, len(codes), None, max_cells),
        [table((column,)) for column in columns],
        [table(pair) for pair in itertools.combinations(columns, 2)],
        np.random.default_rng(0),
    )


def test_of_columns_that_say_the_same_a_tree_is_enough():
    column = np.random.default_rng(0).integers(6, size=N_ROWS)
    chosen = chosen_from(np.stack([column] * 4, axis=1))
    assert len(chosen) == 3
    assert {c for pair in chosen for c in pair} == {0, 1, 2, 3}


def test_a_circle_is_closed_where_a_tree_does_not_explain_it():
    rng = np.random.default_rng(1)
    first, second = rng.integers(6, size=(2, N_ROWS))
    # The third goes with the first or the second: no two pairs say all.
    third = np.where(rng.random(N_ROWS) < 0.5, first, second)
    second = np.where(rng.random(N_ROWS) < 0.4, first, second)
    chosen = chosen_from(np.stack([first, second, third], axis=1))
    assert sorted(chosen) == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("max_cells", "n_pairs"),
    [
        (47, 0),  # a pair of six codes and two columns beside it: 48 cells
        (48, 1),  # more than half of the cells: what fits in a later turn joins there
        (71, 1),
        (72, 2),  # two pairs that share no column
        (108, 3),
    ],
)
def test_a_model_fills_its_cells_and_stays_within_them(max_cells, n_pairs):
    column = np.random.default_rng(3).integers(6, size=N_ROWS)
    chosen = chosen_from(np.stack([column] * 4, axis=1), max_cells)
    assert len(chosen) == n_pairs


@pytest.mark.parametrize(("noise_scale", "most"), [(1e-3, 3), (27.0, 3), (29.0, 6)])
def test_where_noise_is_small_few_pairs_join_between_two_fits(
    monkeypatch, noise_scale, most
):
    # 36 cells with noise of scale 28 are off by 4 % of the rows.
    held = []

    def noted(shape, tables, *others):
        held.append(len(tables))
        return fitted(shape, tables, *others)

    fitted = _structure.fitted_model
    monkeypatch.setattr(_structure, "fitted_model", noted)
    rng = np.random.default_rng(2)
    hidden = rng.integers(6, size=(3, N_ROWS))
    # Every column follows one of three others, row by row: no tree says all.
    codes = [hidden[rng.integers(3, size=N_ROWS), np.arange(N_ROWS)] for _ in range(7)]
    chosen_from(np.stack(codes, axis=1), 10**6, noise_scale)
    joined = np.diff(held)
    assert joined[0] == len(codes) - 1  # a tree
    assert max(joined[1:]) == most

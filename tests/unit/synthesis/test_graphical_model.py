"""Junction trees against enumeration of every cell."""

import itertools
import math

import numpy as np
import pytest

from corrdp.synthesis._junction_tree import JunctionTree, clique_cells, junction_tree
from corrdp.synthesis._model import _random_order, calibrate, expanded
from synthesis_examples import marginal

SIZES = (2, 3, 2, 4, 3)
LOOP = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]


def joint(theta):
    """Return the table of all columns, by brute force."""
    total = np.zeros(SIZES)
    for region, own in theta.items():
        total = total + expanded(own, region, tuple(range(len(SIZES))))
    weights = np.exp(total)
    return weights / weights.sum(), math.log(weights.sum())


@pytest.fixture
def theta():
    rng = np.random.default_rng(0)
    return {r: rng.normal(size=[SIZES[c] for c in r]) * 2.0 for r in LOOP}


@pytest.fixture
def model(theta):
    tree = junction_tree(LOOP, SIZES)
    potentials = [np.zeros([SIZES[c] for c in clique]) for clique in tree.cliques]
    for region, own in theta.items():
        home = tree.home(region)
        potentials[home] += expanded(own, region, tree.cliques[home])
    return calibrate(tree, potentials)


def test_every_region_lies_in_a_clique_and_every_column_in_one():
    tree = junction_tree(LOOP, SIZES)
    assert all(tree.holds(region) for region in LOOP)
    assert set(itertools.chain(*tree.cliques)) == set(range(len(SIZES)))


def test_a_column_that_two_cliques_share_lies_on_the_path_between_them():
    tree = junction_tree(LOOP, SIZES)
    for column in range(len(SIZES)):
        holders = [i for i, clique in enumerate(tree.cliques) if column in clique]
        tops = [i for i in holders if column not in tree.separators[i]]
        assert len(tops) == 1  # a connected part of the tree has one top


def test_columns_without_any_region_are_cliques_of_their_own():
    tree = junction_tree([(0, 1)], SIZES)
    assert tree.holds((4,))
    assert clique_cells([(0, 1)], SIZES) == 6 + 2 + 4 + 3


def test_a_region_outside_the_tree_is_not_found():
    tree = JunctionTree(((0, 1),), (-1,))
    with pytest.raises(KeyError):
        tree.home((0, 2))


def test_marginals_are_those_of_the_enumerated_table(model, theta):
    whole, log_total = joint(theta)
    assert model.log_total == pytest.approx(log_total, rel=1e-12)
    for clique, table in zip(model.tree.cliques, model.tables, strict=True):
        others = tuple(c for c in range(len(SIZES)) if c not in clique)
        np.testing.assert_allclose(table, whole.sum(axis=others), rtol=1e-10)


def test_structural_zeros_stay_zero_and_the_rest_is_renormalized(theta):
    tree = junction_tree(LOOP, SIZES)
    potentials = [np.zeros([SIZES[c] for c in clique]) for clique in tree.cliques]
    home = tree.home((0, 1))
    never = np.zeros((2, 3))
    never[0, 0] = -np.inf
    potentials[home] += expanded(never, (0, 1), tree.cliques[home])
    table = marginal(calibrate(tree, potentials), (0, 1))
    np.testing.assert_allclose(table, [[0, 0.2, 0.2], [0.2, 0.2, 0.2]], rtol=1e-12)


def test_rows_hold_the_expected_count_of_every_root_cell_up_to_one(model):
    n_rows = 5_000
    codes = model.sample(n_rows, np.random.default_rng(1))
    root = model.tree.cliques[0]
    shape = [SIZES[c] for c in root]
    cells = np.ravel_multi_index(tuple(codes[:, c] for c in root), shape)
    counts = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
    assert np.abs(counts - n_rows * model.tables[0]).max() < 1.0


@pytest.mark.statistical
def test_rows_follow_the_model_in_every_pair(model, theta):
    # Hoeffding for independent rows and all cells together, false alarm 1e-9;
    # systematic sampling scatters less.
    n_rows = 200_000
    whole, _ = joint(theta)
    codes = model.sample(n_rows, np.random.default_rng(2))
    radius = math.sqrt(math.log(2 * 200 / 1e-9) / (2 * n_rows))
    assert _farthest_pair(codes, whole) <= radius
    # Power: one column drawn without regard to the others is caught.
    codes[:, 3] = np.random.default_rng(3).permutation(codes[:, 3])
    assert _farthest_pair(codes, whole) > radius


def _farthest_pair(codes, whole):
    worst = 0.0
    for pair in itertools.combinations(range(len(SIZES)), 2):
        shape = [SIZES[c] for c in pair]
        cells = np.ravel_multi_index(tuple(codes[:, c] for c in pair), shape)
        share = np.bincount(cells, minlength=math.prod(shape)) / len(codes)
        others = tuple(c for c in range(len(SIZES)) if c not in pair)
        worst = max(worst, np.abs(share - whole.sum(axis=others).ravel()).max())
    return worst


@pytest.mark.statistical
def test_rows_given_columns_follow_the_conditional_law(model, theta):
    n_rows = 100_000
    whole, _ = joint(theta)
    given = {1: np.full(n_rows, 2), 3: np.full(n_rows, 1)}
    codes = model.sample_given(given, np.random.default_rng(4))
    assert (codes[:, 1] == 2).all()
    assert (codes[:, 3] == 1).all()
    law = whole[:, 2, :, 1, :]
    law = law / law.sum()
    cells = np.ravel_multi_index((codes[:, 0], codes[:, 2], codes[:, 4]), law.shape)
    share = np.bincount(cells, minlength=law.size) / n_rows
    radius = math.sqrt(math.log(2 * law.size / 1e-9) / (2 * n_rows))
    assert np.abs(share - law.ravel()).max() <= radius
    # Power: the law without evidence is another one.
    other = whole.sum(axis=(1, 3)).ravel()
    assert np.abs(share - other).max() > radius


def test_given_rows_of_many_patterns_keep_their_order(model):
    rng = np.random.default_rng(5)
    given = {0: rng.integers(0, 2, 500), 4: rng.integers(0, 3, 500)}
    codes = model.sample_given(given, rng)
    assert (codes[:, 0] == given[0]).all()
    assert (codes[:, 4] == given[4]).all()


def test_a_random_order_is_that_of_the_draws():
    class Draws:
        def __init__(self, draws):
            self.draws = draws

        def random(self, size):
            return self.draws[:size]

    apart = np.random.default_rng(0).random(5_000)
    close = apart[::-1].copy()
    close[:2] = 0.5 + 2.0**-52, 0.5  # agree in the leading 48 bits
    for draws in (apart, close):
        order = _random_order(draws.size, Draws(draws))
        np.testing.assert_array_equal(order, np.argsort(draws))

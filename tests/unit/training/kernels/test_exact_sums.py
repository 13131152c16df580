"""Sums over rows have no order: a record moves them by its own terms and no more."""

import math
from dataclasses import replace

import numba
import numpy as np
import pytest

from corrdp._random import noise_generator
from corrdp.exceptions import CorrDPError
from corrdp.policy import (
    CategoryDomain,
    ColumnRole,
    Feature,
    NumberDomain,
    Policy,
    PolicyEncoder,
)
from corrdp.training import (
    HuberLoss,
    LogisticLoss,
    MultinomialLoss,
    Solver,
    SquaredLoss,
    descend,
)
from corrdp.training._layout import GradientLayout, standardizing_scale
from corrdp.training._solver import LARGEST_PARAMETER
from corrdp.training.kernels import _compiled, _plain
from corrdp.training.rows._questions import prepare_rows
from descent_examples import example_plan, example_rows

N_ROWS = 1300  # three tiles of the compiled kernel, the last one padded
# Totals are integers times a step above 1e-8; only the final product is rounded.
LAST_BITS = 1e-10
KINDS = {
    "logistic, compiled": (LogisticLoss(), True, False),
    "squared, compiled": (SquaredLoss(0.3), True, False),
    "logistic, numpy": (LogisticLoss(), False, False),
    "huber, numpy": (HuberLoss(0.3), False, False),
    "multinomial": (MultinomialLoss(3), False, False),
    "difference": (LogisticLoss(), False, True),
    "difference, squared": (SquaredLoss(0.3), False, True),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    policy = Policy(
        (
            Feature("race", ColumnRole.INSENSITIVE, CategoryDomain(tuple("abc")), 0.2),
            Feature("age", ColumnRole.SENSITIVE, NumberDomain(0, 1)),
            Feature("job", ColumnRole.SENSITIVE, CategoryDomain(tuple("pqrstuvwxyz"))),
            Feature("size", ColumnRole.INSENSITIVE, NumberDomain(0, 1), 0.5),
        )
    )
    columns = [
        rng.choice(list("abc"), N_ROWS, p=[0.9, 0.07, 0.03]),
        rng.random(N_ROWS),
        rng.choice(list("pqrstuvwxyz"), N_ROWS),
        rng.random(N_ROWS),
    ]
    encoder = PolicyEncoder(policy)
    codes = encoder.transform(np.array(list(zip(*columns, strict=True)), dtype=object))
    return encoder.blocks_, codes


def layout_of(blocks, *, influence=0.02, clip=0.4):
    names = [group.name for group in GradientLayout.by_role(blocks).groups]
    return GradientLayout.by_role(
        blocks,
        clip_norms=dict.fromkeys(names[:-1], clip),
        influence_bounds=dict.fromkeys(names[1:], influence),
        feature_radii=dict.fromkeys(names[:-1], 0.9),
        column_scale=standardizing_scale(blocks),
        column_offset=np.random.default_rng(1).uniform(0, 0.3, blocks[-1].stop),
    )


class Example:
    def __init__(self, table, kind, *, size=1.0):
        self.blocks, self.codes = table
        self.loss, self.compiled, anchored = KINDS[kind]
        rng = np.random.default_rng(8)
        self.layout = layout_of(self.blocks)
        self.y = rng.integers(max(self.loss.n_outputs, 2), size=N_ROWS).astype(float)
        if self.loss.clips_residuals_at is not None:
            self.y = rng.uniform(-0.5, 0.5, N_ROWS)
        shape = (self.layout.n_columns, self.loss.n_outputs)
        self.coef, other = (size * rng.normal(size=shape) for _ in range(2))
        if self.loss.n_outputs == 1:
            self.coef, other = self.coef[:, 0], other[:, 0]
        self.anchor = other if anchored else None

    def sum_of(self, codes, y, *, arrange=True):
        rows = prepare_rows(
            codes, y, self.layout, compiled=self.compiled, sort_rows=arrange
        )
        return rows.grouped(self.layout).gradient_sum(
            self.coef, residual_bound=self.loss.clips_residuals_at, anchor=self.anchor
        )


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_rows_changes_no_bit(table, kind):
    example = Example(table, kind)
    wanted, n_inside = example.sum_of(example.codes, example.y)
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(N_ROWS)
        for arrange in (True, False):
            found, count = example.sum_of(
                example.codes[rows], example.y[rows], arrange=arrange
            )
            np.testing.assert_array_equal(found, wanted)
            assert count == n_inside


@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_two_parts_add_up_to_the_last_bit(table, kind):
    """So any number of workers, each with its rows, gives the same sum."""
    example = Example(table, kind)
    wanted, _ = example.sum_of(example.codes, example.y)
    for cut in (1, 511, 512, 700):
        parts = [
            example.sum_of(example.codes[part], example.y[part])[0]
            for part in (slice(cut), slice(cut, None))
        ]
        np.testing.assert_allclose(sum(parts), wanted, rtol=0, atol=LAST_BITS)


@pytest.mark.parametrize("size", [1e-290, 1e-310, 5e-324])
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_that_underflow_are_as_good_as_none(table, kind, size):
    """A step of a grid that is 0 would make NaN of some rows and not of others."""
    tiny, none = (Example(table, kind, size=s) for s in (size, 0.0))
    found, n_inside = tiny.sum_of(tiny.codes, tiny.y)
    wanted, count = none.sum_of(none.codes, none.y)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
    assert n_inside == count


@pytest.mark.parametrize("size", [1.0, LARGEST_PARAMETER / 8])
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_moves_the_sum_by_its_own_terms_alone(table, kind, size):
    """The record whose change re-sorts the rows, or fills a column of zeros."""
    example = Example(table, kind, size=size)
    before, _ = example.sum_of(example.codes, example.y)
    rng = np.random.default_rng(2)
    for row, donor in rng.integers(N_ROWS, size=(8, 2)):
        codes = example.codes.copy()
        codes[row] = example.codes[donor]
        after, _ = example.sum_of(codes, example.y)
        one, label = slice(row, row + 1), example.y[row : row + 1]
        own_before, _ = example.sum_of(example.codes[one], label)
        own_after, _ = example.sum_of(codes[one], label)
        np.testing.assert_allclose(
            after - before, own_after - own_before, rtol=0, atol=LAST_BITS
        )


@pytest.mark.parametrize("kind", ["difference", "multinomial"])
def test_labels_change_no_bit_of_a_difference(table, kind):
    """Where they alone are protected, a difference has no noise."""
    example = Example(table, kind)
    rng = np.random.default_rng(3)
    others = (example.y + 1.0) % max(example.loss.n_outputs, 2)
    for distance in (1e-3, 1e-7, 1e-8, 1e-9):
        step = distance * rng.normal(size=example.coef.shape)
        example.anchor = example.coef + step
        found, _ = example.sum_of(example.codes, example.y)
        changed, _ = example.sum_of(example.codes, others)
        np.testing.assert_array_equal(found, changed)


@pytest.mark.parametrize("n_outputs", [2, 7, 8, 9, 30])
def test_a_row_by_itself_is_computed_as_among_others(n_outputs):
    """A tile may have one row, and which one depends on how all rows are sorted."""
    rng = np.random.default_rng(n_outputs)
    scores = rng.normal(size=(n_outputs, 400))
    labels = rng.integers(n_outputs, size=400).astype(float)
    together = _plain._residual(scores, labels, None)
    clipped = _plain._clipped(together, 0.3)
    for row in range(400):
        one = slice(row, row + 1)
        alone = _plain._residual(scores[:, one].copy(), labels[one], None)
        np.testing.assert_array_equal(alone, together[:, one])
        np.testing.assert_array_equal(_plain._clipped(alone, 0.3), clipped[:, one])


@pytest.mark.parametrize("influence", [math.inf, 0.02])
@pytest.mark.parametrize("bound", [None, 0.3])
def test_rows_that_share_a_norm_are_clipped_as_among_others(bound, influence):
    """Tiles of one category each, of several, and one record at a time."""
    domain = CategoryDomain(tuple("abcd"))
    job = Feature("job", ColumnRole.SENSITIVE, domain)
    race = Feature("race", ColumnRole.INSENSITIVE, domain, 0.2)
    encoder = PolicyEncoder(Policy((job, race)))
    rng = np.random.default_rng(4)
    cells = np.column_stack(
        [rng.choice(list("abcd"), 2048), np.repeat(list("abcd"), 512)]
    )
    codes = encoder.transform(cells.astype(object))
    layout = layout_of(encoder.blocks_, influence=influence)
    y = rng.uniform(0, 1, 2048) if bound else rng.integers(2, size=2048).astype(float)
    coef = rng.normal(size=layout.n_columns)

    def sum_of(rows):
        prepared = prepare_rows(codes[rows], y[rows], layout, sort_rows=False)
        found = prepared.grouped(layout).gradient_sum(coef, residual_bound=bound)
        return prepared.rows.fixed, *found

    fixed, together, n_together = sum_of(np.arange(2048))
    mixed, apart, n_apart = sum_of(rng.permutation(2048))
    assert fixed.sum() > mixed.sum()
    assert together.tobytes() == apart.tobytes()
    assert n_together == n_apart
    one_by_one = sum(sum_of(np.array([row]))[1] for row in range(64))
    first_rows = sum_of(np.arange(64))[1]
    np.testing.assert_allclose(one_by_one, first_rows, rtol=0, atol=LAST_BITS)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
def test_the_number_of_threads_changes_no_bit(table, monkeypatch):
    monkeypatch.setattr("corrdp.training.kernels._compiled._TILES_PER_THREAD", 1)
    example = Example(table, "logistic, compiled")
    alone, together = [], []
    for n_threads, found in ((1, alone), (2, together)):
        numba.set_num_threads(n_threads)
        try:
            found.append(example.sum_of(example.codes, example.y)[0])
        finally:
            numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("influence", [0.0, 1e-4, 1e-2])
def test_an_influence_bound_holds_at_large_parameters(table, compiled, influence):
    """Sensitive features of one record move other groups by twice the bound at most."""
    blocks, codes = table
    layout = layout_of(blocks, influence=influence, clip=math.inf)
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=N_ROWS).astype(float)
    coef = rng.choice([-1.0, 1.0], layout.n_columns) * LARGEST_PARAMETER / 8
    sensitive = np.append(layout.sensitive_columns, False)

    def others(rows):
        prepared = prepare_rows(rows, y, layout, compiled=compiled)
        found, _ = prepared.grouped(layout).gradient_sum(coef, residual_bound=None)
        return found[~sensitive]

    before = others(codes)
    step = 2e-6  # of the grid, times one and the offset
    for row, donor in rng.integers(N_ROWS, size=(20, 2)):
        moved = codes.copy()
        moved[row, sensitive[:-1]] = codes[donor, sensitive[:-1]]
        reach = math.sqrt(3)  # of a standardized number
        assert np.abs(others(moved) - before).max() <= 2 * influence * reach + step
        if influence == 0.0:
            np.testing.assert_array_equal(others(moved), before)


@pytest.mark.parametrize("compiled", [False, True])
def test_codes_outside_the_domain_are_brought_inside(table, compiled):
    blocks, codes = table
    layout, y = layout_of(blocks), np.zeros(N_ROWS)
    wild = codes.copy()
    wild[7] = 1e30
    inside = codes.copy()
    inside[7] = layout.code_ends[1]
    coef = np.ones(layout.n_columns)
    found, wanted = (
        prepare_rows(rows, y, layout, compiled=compiled)
        .grouped(layout)
        .gradient_sum(coef, residual_bound=None)[0]
        for rows in (wild, inside)
    )
    np.testing.assert_array_equal(found, wanted)


def test_counts_of_another_shape_are_refused(table, monkeypatch):
    """As a process would send them that has the kernel in numpy."""
    own = _compiled.gradient_counts

    def without_models(rows, model):
        return tuple(part[0] for part in own(rows, model))

    monkeypatch.setattr(_compiled, "gradient_counts", without_models)
    example = Example(table, "logistic, compiled")
    with pytest.raises(CorrDPError, match="same version and kernel"):
        example.sum_of(example.codes, example.y)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("wrong", [2 * LARGEST_PARAMETER, 1e39, math.inf, math.nan])
def test_parameters_outside_the_public_box_are_refused(table, compiled, wrong):
    blocks, codes = table
    layout = layout_of(blocks)
    rows = prepare_rows(codes, np.zeros(N_ROWS), layout, compiled=compiled)
    coef = np.zeros(layout.n_columns)
    coef[2] = wrong
    with pytest.raises(CorrDPError, match="Project them on a box"):
        rows.grouped(layout).gradient_sum(coef, residual_bound=None)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("options", [{}, {"update": "adam"}, {"ridge": 1e6}])
def test_however_long_the_steps_the_iterates_stay_in_the_box(compiled, options):
    codes, y = example_rows(300)
    solver = Solver(step_size=1e300, output="last", **options)
    plan = example_plan(300).with_steps(12).with_solver(solver)
    model = descend(codes, y, plan, noise_generator(3), compiled=compiled)
    scale = np.abs(plan.layout.column_scale)
    assert np.isfinite(model.coef).all()
    assert (np.abs(model.coef) <= LARGEST_PARAMETER * scale).all()
    assert math.isfinite(model.intercept)


def test_a_projection_keeps_to_all_three_sets():
    coef = np.array([math.nan, math.inf, -5000.0, 3.0, 1e9])
    found = Solver().projected(coef)
    assert found.tolist() == [0.0, LARGEST_PARAMETER, -LARGEST_PARAMETER, 3.0, 1024.0]
    small = Solver(ball_radius=2.0, box_radius=1.5).projected(coef)
    assert np.linalg.norm(small[:-1]) <= 2.0 + 1e-12
    assert np.abs(small[:-1]).max() <= 1.5
    assert small[-1] == LARGEST_PARAMETER


@pytest.mark.parametrize("compiled", [False, True])
def test_the_smallest_threshold_is_still_that_of_a_regression(table, compiled):
    blocks, codes = table
    layout = GradientLayout.by_role(blocks)
    rows = prepare_rows(codes, np.ones(N_ROWS), layout, compiled=compiled)
    coef = np.zeros(layout.n_columns)
    found, _ = rows.grouped(layout).gradient_sum(coef, residual_bound=1e-6)
    assert found[-1] == pytest.approx(-1e-6 * N_ROWS, rel=1e-4)


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1e-46, 1e-7, 1e7, math.inf, math.nan])
def test_absurd_thresholds_are_refused(table, wrong):
    for loss in (HuberLoss, SquaredLoss):
        with pytest.raises(CorrDPError, match="quarter of the label's range"):
            loss(wrong)
    blocks, codes = table
    layout = layout_of(blocks)
    for compiled in (False, True):
        rows = prepare_rows(codes, np.zeros(N_ROWS), layout, compiled=compiled)
        with pytest.raises(CorrDPError, match="residual_bound"):
            rows.grouped(layout).gradient_sum(
                np.zeros(layout.n_columns), residual_bound=wrong
            )


def test_a_residual_bound_adapts_within_the_same_limits():
    plan = example_plan(300, logistic=False).with_steps(6)
    codes, y = example_rows(300)
    for bound in (1e-6, 1e6):
        tight = replace(plan, loss=replace(plan.loss, residual_bound=bound))
        model = descend(codes, y - 0.5, tight, noise_generator(0))
        assert np.isfinite(model.coef).all()

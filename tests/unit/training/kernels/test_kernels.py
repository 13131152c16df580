"""The kernels add up what `record_gradients` defines, and nothing else."""

import math
from dataclasses import replace

import numpy as np
import pytest

from corrdp.exceptions import GuaranteeVoidError
from corrdp.policy import (
    CategoryDomain,
    ColumnRole,
    Feature,
    NumberDomain,
    Policy,
    PolicyEncoder,
)
from corrdp.training._layout import (
    GradientGroup,
    GradientLayout,
    standardizing_scale,
)
from corrdp.training._records import record_gradients
from corrdp.training.losses import (
    HuberLoss,
    LogisticLoss,
    MultinomialLoss,
    SquaredLoss,
)
from corrdp.training.rows._questions import gradient_sums, prepare_rows

N_ROWS = 700  # more than two tiles of the compiled kernel, the last one padded


def example_policy():
    return Policy(
        (
            Feature("race", ColumnRole.INSENSITIVE, CategoryDomain(tuple("abc")), 0.2),
            Feature("age", ColumnRole.SENSITIVE, NumberDomain(0, 1)),
            Feature("job", ColumnRole.SENSITIVE, CategoryDomain(tuple("pq"))),
            Feature("height", ColumnRole.INSENSITIVE, NumberDomain(0, 1), 0.5),
            Feature("year", ColumnRole.PUBLIC, NumberDomain(0, 1)),
        )
    )


@pytest.fixture
def example():
    rng = np.random.default_rng(5)
    columns = [
        rng.choice(list("abc"), N_ROWS),
        rng.random(N_ROWS),
        rng.choice(list("pq"), N_ROWS),
        rng.random(N_ROWS),
        rng.random(N_ROWS),
    ]
    table = np.array(list(zip(*columns, strict=True)), dtype=object)
    encoder = PolicyEncoder(example_policy())
    codes = encoder.transform(table)
    y = (rng.random(N_ROWS) < 0.4).astype(float)
    coef = rng.normal(size=codes.shape[1] + 1)
    return encoder.blocks_, codes, y, coef


def layout_of(blocks, *, joint=False, influence=0.1, clip=0.4, radius=0.9):
    plain = GradientLayout.by_role(blocks, joint_insensitive=joint)
    names = [group.name for group in plain.groups]
    offset = np.random.default_rng(1).normal(0.2, 0.1, size=blocks[-1].stop)
    return GradientLayout.by_role(
        blocks,
        joint_insensitive=joint,
        clip_norms=dict.fromkeys(names[:-1], clip),
        influence_bounds=dict.fromkeys(names[1:-1], influence),
        feature_radii=dict.fromkeys(names[:-1], radius),
        column_scale=standardizing_scale(blocks),
        column_offset=offset,
    )


def expected_sum(codes, y, coef, loss, layout):
    reference = layout.column_offset / layout.column_scale
    return record_gradients(codes, y, coef, loss, layout, reference).sum(axis=0)


LAYOUTS = {
    "separate": {},
    "joint": {"joint": True},
    "free": {"influence": math.inf},
    "unclipped": {"clip": math.inf, "radius": math.inf},
    "plain": {"clip": math.inf, "radius": math.inf, "influence": math.inf},
    "blind": {"influence": 0.0},
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(0.3)])
@pytest.mark.parametrize("shape", LAYOUTS)
def test_kernel_adds_up_record_gradients(example, shape, loss, compiled):
    blocks, codes, y, coef = example
    layout = layout_of(blocks, **LAYOUTS[shape])
    bound = loss.residual_bound if isinstance(loss, SquaredLoss) else None
    rows = prepare_rows(codes, y, layout, compiled=compiled).grouped(layout)
    found, n_inside = rows.gradient_sum(coef, residual_bound=bound)
    wanted = expected_sum(codes, y, coef, loss, layout)
    np.testing.assert_allclose(found, wanted, atol=2e-6 * N_ROWS)
    if isinstance(loss, SquaredLoss):
        raw = layout.features(codes) @ coef - y
        assert n_inside == np.count_nonzero(np.abs(raw) <= bound)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "mistake",
    [
        {"influence_bound": 0.2},
        {"clip_norm": 0.5},
        {"feature_radius": 0.3},
    ],
)
def test_the_comparison_catches_a_kernel_with_another_rule(example, mistake, compiled):
    blocks, codes, y, coef = example
    layout = layout_of(blocks)
    wrong = replace(
        layout,
        groups=tuple(
            replace(group, **mistake) if group.name == "race" else group
            for group in layout.groups
        ),
    )
    rows = prepare_rows(codes, y, wrong, compiled=compiled).grouped(wrong)
    found, _ = rows.gradient_sum(coef, residual_bound=None)
    wanted = expected_sum(codes, y, coef, LogisticLoss(), layout)
    assert np.abs(found - wanted).max() > 1e-4 * N_ROWS


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize(
    "loss", [MultinomialLoss(3), MultinomialLoss(2), LogisticLoss(), HuberLoss(0.3)]
)
@pytest.mark.parametrize("shape", LAYOUTS)
def test_outputs_and_differences_add_up_record_gradients(
    example, shape, loss, anchored
):
    blocks, codes, _, _ = example
    rng = np.random.default_rng(8)
    y = rng.integers(max(loss.n_outputs, 2), size=N_ROWS).astype(float)
    layout = layout_of(blocks, **LAYOUTS[shape])
    size = (layout.n_columns, *([loss.n_outputs] if loss.n_outputs > 1 else []))
    coef = rng.normal(size=size)
    anchor = coef + 0.3 * rng.normal(size=size) if anchored else None
    rows = prepare_rows(codes, y, layout, compiled=False).grouped(layout)
    found, _ = rows.gradient_sum(
        coef, residual_bound=loss.clips_residuals_at, anchor=anchor
    )
    reference = layout.column_offset / layout.column_scale
    wanted = record_gradients(codes, y, coef, loss, layout, reference, anchor=anchor)
    np.testing.assert_allclose(found, wanted.sum(axis=0), atol=2e-6 * N_ROWS)


@pytest.mark.parametrize(
    "mistake", [{"influence_bound": 0.2}, {"clip_norm": 0.5}, {"feature_radius": 0.3}]
)
def test_the_comparison_catches_outputs_under_another_rule(example, mistake):
    blocks, codes, _, _ = example
    rng, loss = np.random.default_rng(8), MultinomialLoss(3)
    y = rng.integers(3, size=N_ROWS).astype(float)
    layout = layout_of(blocks)
    race, *others = (g for g in sorted(layout.groups, key=lambda g: g.name != "race"))
    by_name = {g.name: g for g in (replace(race, **mistake), *others)}
    wrong = replace(layout, groups=tuple(by_name[g.name] for g in layout.groups))
    coef = rng.normal(size=(layout.n_columns, 3))
    rows = prepare_rows(codes, y, wrong, compiled=False).grouped(wrong)
    found, _ = rows.gradient_sum(coef, residual_bound=None)
    wanted = expected_sum(codes, y, coef, loss, layout)
    assert np.abs(found - wanted).max() > 1e-4 * N_ROWS


def test_two_outputs_are_the_logistic_gradient_twice(example):
    """Opposite columns, each the gradient of the difference of the scores."""
    blocks, codes, y, coef = example
    layout = layout_of(blocks, **LAYOUTS["plain"])
    rows = prepare_rows(codes, y, layout, compiled=False).grouped(layout)
    two, _ = rows.gradient_sum(
        np.column_stack([-coef / 2, coef / 2]), residual_bound=None
    )
    one, _ = rows.gradient_sum(coef, residual_bound=None)
    np.testing.assert_allclose(two[:, 1], one, atol=2e-6 * N_ROWS)
    np.testing.assert_allclose(two[:, 0], -one, atol=2e-6 * N_ROWS)


def test_the_softmax_gradient_is_the_derivative_of_the_risk(example):
    blocks, codes, _, _ = example
    rng, loss = np.random.default_rng(8), MultinomialLoss(3)
    y = rng.integers(3, size=N_ROWS)
    layout = layout_of(blocks, **LAYOUTS["plain"])
    coef = rng.normal(size=(layout.n_columns, 3))
    rows = prepare_rows(codes, y, layout, compiled=False).grouped(layout)
    found, _ = rows.gradient_sum(coef, residual_bound=None)
    features, step = layout.features(codes), 1e-5
    for column, output in [(0, 0), (3, 2), (layout.n_columns - 1, 1)]:
        risks = []
        for sign in (1, -1):
            moved = coef.copy()
            moved[column, output] += sign * step
            risks.append(loss.value(features @ moved, y).sum())
        slope = (risks[0] - risks[1]) / (2 * step)
        assert found[column, output] == pytest.approx(slope, abs=1e-3)


def test_flat_layout_clips_everything_together(example):
    blocks, codes, y, coef = example
    layout = GradientLayout.flat(blocks, clip_norm=0.5)
    rows = prepare_rows(codes, y, layout).grouped(layout)
    found, _ = rows.gradient_sum(coef, residual_bound=None)
    wanted = record_gradients(codes, y, coef, LogisticLoss(), layout).sum(axis=0)
    np.testing.assert_allclose(found, wanted, atol=2e-6 * N_ROWS)


def test_a_row_more_moves_the_sum_by_its_own_gradient(example):
    blocks, codes, y, coef = example
    layout = layout_of(blocks)
    short, whole = (
        prepare_rows(codes[:n], y[:n], layout)
        .grouped(layout)
        .gradient_sum(coef, residual_bound=None)[0]
        for n in (N_ROWS - 1, N_ROWS)
    )
    own = expected_sum(codes[-1:], y[-1:], coef, LogisticLoss(), layout)
    np.testing.assert_allclose(whole - short, own, atol=2e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_many_models_in_one_pass_are_the_models_one_by_one(example, compiled):
    blocks, codes, y, coef = example
    layouts = [
        layout_of(blocks),
        layout_of(blocks, joint=True, clip=0.2),
        GradientLayout.flat(
            blocks, clip_norm=0.5, column_scale=standardizing_scale(blocks)
        ),
    ]
    prepared = prepare_rows(codes, y, layouts[0], compiled=compiled)
    models = [prepared.grouped(layout) for layout in layouts]
    coefs = np.array([coef, -coef, 0.5 * coef])
    bounds = [None, 0.3, None]
    together = gradient_sums(models, coefs, bounds)
    for model, own, bound, (gradient, n_inside) in zip(
        models, coefs, bounds, together, strict=True
    ):
        alone, count = model.gradient_sum(own, residual_bound=bound)
        np.testing.assert_allclose(gradient, alone, atol=2e-6 * N_ROWS)
        assert n_inside == count


def test_rows_in_an_order_that_tears_groups_apart_are_refused(example):
    blocks, codes, y, _ = example
    layout = layout_of(blocks)
    behind = replace(layout, groups=(*layout.groups[1:], layout.groups[0]))
    with pytest.raises(GuaranteeVoidError, match="not adjacent"):
        prepare_rows(codes, y, behind).grouped(layout)


def test_sensitive_groups_that_do_not_lead_are_refused_with_an_influence_bound(example):
    blocks, codes, y, _ = example
    layout = layout_of(blocks)
    behind = replace(layout, groups=(*layout.groups[1:], layout.groups[0]))
    with pytest.raises(GuaranteeVoidError, match="first group"):
        prepare_rows(codes, y, behind).grouped(behind)


def mixed_layout(blocks, *first):
    """Return a layout whose first group mixes roles; others bound the influence."""
    rest = [f for f in ("race", "age", "job", "height", "year") if f not in first]
    return GradientLayout(
        blocks,
        (
            GradientGroup("mixed", first, clip_norm=0.6),
            *(GradientGroup(f, (f,), clip_norm=0.4) for f in rest if f == "job"),
            *(
                GradientGroup(f, (f,), clip_norm=0.4, influence_bound=0.05)
                for f in rest
                if f != "job"
            ),
            GradientGroup("intercept", ("intercept",), influence_bound=0.01),
        ),
        column_scale=standardizing_scale(blocks),
        column_offset=np.full(blocks[-1].stop, 0.1),
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("first", [("race", "age", "job"), ("job", "age", "year")])
def test_a_mixed_group_hides_its_sensitive_columns_from_the_others(
    example, first, compiled
):
    blocks, codes, y, coef = example
    layout = mixed_layout(blocks, *first)
    rows = prepare_rows(codes, y, layout, compiled=compiled).grouped(layout)
    found, _ = rows.gradient_sum(3 * coef, residual_bound=None)
    wanted = expected_sum(codes, y, 3 * coef, LogisticLoss(), layout)
    np.testing.assert_allclose(found, wanted, atol=2e-6 * N_ROWS)
    free = replace(
        layout,
        groups=tuple(replace(g, influence_bound=math.inf) for g in layout.groups),
    )
    ignored = expected_sum(codes, y, 3 * coef, LogisticLoss(), free)
    assert np.abs(found - ignored).max() > 1e-3 * N_ROWS  # the bounds matter here


def test_a_mixed_group_that_leaves_sensitive_features_to_another_is_refused(example):
    blocks, codes, y, _ = example
    layout = mixed_layout(blocks, "race", "age")
    with pytest.raises(GuaranteeVoidError, match=r"first group, got .*'job', 'mixed'"):
        prepare_rows(codes, y, layout).grouped(layout)


def test_a_record_without_features_in_a_group_contributes_nothing():
    blocks = PolicyEncoder(example_policy()).blocks_
    codes = np.zeros((3, blocks[-1].stop))
    layout = replace(layout_of(blocks), column_offset=np.zeros(blocks[-1].stop))
    for compiled in (False, True):
        prepared = prepare_rows(codes, np.ones(3), layout, compiled=compiled)
        rows = prepared.grouped(layout)
        gradient, _ = rows.gradient_sum(np.zeros(layout.n_columns), residual_bound=None)
        assert not gradient[:-1].any()
        assert gradient[-1] == pytest.approx(-1.5)

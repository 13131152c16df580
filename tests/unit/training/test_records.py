import math
from dataclasses import replace

import numpy as np
import pytest

from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.policy import policy_blocks
from corrdp.training._layout import (
    GradientGroup,
    GradientLayout,
    central_reference,
    standardizing_scale,
)
from corrdp.training._records import record_gradients
from corrdp.training.losses import LogisticLoss, MultinomialLoss, SquaredLoss
from neighbor_search import Problem, all_records, small_policy

POLICY = small_policy()
BLOCKS = policy_blocks(POLICY)
N_CODES = BLOCKS[-1].stop
RNG = np.random.default_rng(5)
COEF = RNG.normal(0.0, 2.0, N_CODES + 1)


def rows(layout, loss=None):
    problem = Problem(POLICY, layout, loss or LogisticLoss(), None)
    return all_records(problem, levels=(-0.5, 0.2, 0.5))


def by_role(**numbers):
    return GradientLayout.by_role(BLOCKS, **numbers)


def group_norms(layout, gradients, name):
    index = [group.name for group in layout.groups].index(name)
    part = gradients[:, layout.column_groups == index]
    return np.linalg.norm(part.reshape(len(part), -1), axis=1)


def test_without_bounds_it_is_the_gradient_of_the_loss():
    layout, loss = by_role(), LogisticLoss()
    codes, y, _ = rows(layout)
    gradients = record_gradients(codes, y, COEF, loss, layout)
    features = np.hstack([codes, np.ones((len(codes), 1))])
    expected = loss.residual(features @ COEF, y)[:, None] * features
    np.testing.assert_allclose(gradients, expected)


def test_scales_and_offsets_apply_before_the_score():
    scale, offset = standardizing_scale(BLOCKS), RNG.normal(size=N_CODES)
    layout = by_role(column_scale=scale, column_offset=offset)
    codes, y, _ = rows(layout)
    gradients = record_gradients(codes, y, COEF, LogisticLoss(), layout)
    centered = codes * scale - offset
    plain = record_gradients(centered, y, COEF, LogisticLoss(), by_role())
    np.testing.assert_allclose(gradients, plain)


def test_every_group_is_clipped_by_itself():
    layout = by_role(clip_norms={"sensitive": 0.2, "race": 0.1})
    codes, y, _ = rows(layout)
    gradients = record_gradients(codes, y, COEF, LogisticLoss(), layout)
    plain = record_gradients(codes, y, COEF, LogisticLoss(), by_role())
    for name, norm in (("sensitive", 0.2), ("race", 0.1), ("hours", math.inf)):
        wanted = np.minimum(group_norms(layout, plain, name), norm)
        np.testing.assert_allclose(group_norms(layout, gradients, name), wanted)


def test_flat_clipping_bounds_the_whole_gradient():
    layout = GradientLayout.flat(BLOCKS, clip_norm=0.3)
    codes, y, _ = rows(layout)
    gradients = record_gradients(codes, y, COEF, LogisticLoss(), layout)
    assert np.linalg.norm(gradients, axis=1).max() == pytest.approx(0.3)


def test_projection_acts_on_features_of_the_gradient_not_on_the_score():
    layout = by_role(feature_radii={"sensitive": 0.4})
    codes, y, _ = rows(layout)
    gradients = record_gradients(codes, y, COEF, LogisticLoss(), layout)
    plain = record_gradients(codes, y, COEF, LogisticLoss(), by_role())
    outside = layout.column_groups != 0
    np.testing.assert_allclose(gradients[:, outside], plain[:, outside])
    residual = np.abs(plain[:, -1])  # the intercept's part
    norms = group_norms(layout, gradients, "sensitive")
    np.testing.assert_allclose(norms, 0.4 * residual)


@pytest.mark.parametrize("clip_norm", [math.inf, 0.3])
def test_influence_bound_zero_hides_the_sensitive_features(clip_norm):
    layout = by_role(clip_norms={"hours": clip_norm}, influence_bounds={"hours": 0.0})
    codes, y, picks = rows(layout)
    part = record_gradients(codes, y, COEF, LogisticLoss(), layout)
    hours = part[:, layout.column_groups == 1]
    _, owner = np.unique(picks[:, 2:], axis=0, return_inverse=True)
    for record in range(owner.max() + 1):
        assert np.ptp(hours[owner.ravel() == record], axis=0).max() == 0.0


@pytest.mark.parametrize("clip_norm", [math.inf, 0.3])
def test_influence_is_bounded_and_a_large_bound_changes_nothing(clip_norm):
    codes, y, _ = rows(by_role())

    def part(bound):
        layout = by_role(
            clip_norms={"hours": clip_norm}, influence_bounds={"hours": bound}
        )
        gradients = record_gradients(codes, y, COEF, LogisticLoss(), layout)
        return gradients[:, layout.column_groups == 1]

    unit = 1.0 if math.isfinite(clip_norm) else 0.5  # radius of a number
    pulled = np.linalg.norm(part(0.1) - part(0.0), axis=1)
    assert pulled.max() == pytest.approx(0.1 * unit)
    np.testing.assert_allclose(part(10.0), part(math.inf), atol=1e-15)


def test_the_default_reference_is_what_centering_maps_to_zero():
    offset = RNG.normal(size=N_CODES)
    layout = by_role(influence_bounds={"hours": 0.01}, column_offset=offset)
    codes, y, _ = rows(layout)
    args = codes, y, COEF, LogisticLoss(), layout
    np.testing.assert_allclose(record_gradients(*args), record_gradients(*args, offset))
    other = record_gradients(*args, central_reference(BLOCKS))
    assert np.abs(record_gradients(*args) - other).max() > 1e-3


def test_multinomial_gradients_have_one_column_per_class():
    layout = by_role(clip_norms={"sensitive": 0.2}, influence_bounds={"race": 0.05})
    loss, coef = MultinomialLoss(3), RNG.normal(size=(N_CODES + 1, 3))
    codes, y, _ = rows(layout, loss)
    gradients = record_gradients(codes, y, coef, loss, layout)
    assert gradients.shape == (len(codes), N_CODES + 1, 3)
    assert group_norms(layout, gradients, "sensitive").max() == pytest.approx(0.2)
    np.testing.assert_allclose(gradients.sum(axis=2), 0.0, atol=1e-12)


def test_an_anchor_leaves_the_difference_of_residuals():
    layout, loss = by_role(), SquaredLoss(0.3)
    codes, y, _ = rows(layout)
    anchor = RNG.normal(size=N_CODES + 1)
    difference = record_gradients(codes, y, COEF, loss, layout, anchor=anchor)
    at_both = [record_gradients(codes, y, c, loss, layout) for c in (COEF, anchor)]
    np.testing.assert_allclose(difference, at_both[0] - at_both[1], atol=1e-15)


def test_groups_by_role():
    layout = by_role()
    assert [group.name for group in layout.groups] == [
        "sensitive", "hours", "race", "sex", "public", "intercept",
    ]  # fmt: skip
    assert [group.size for group in layout.table_groups()] == [4, 1, 2, 2, 1, 1]
    assert [group.size for group in layout.table_groups(3)] == [12, 3, 6, 6, 3, 3]
    joint = by_role(joint_insensitive=True)
    assert [group.name for group in joint.groups] == [
        "sensitive", "insensitive", "public", "intercept",
    ]  # fmt: skip
    assert joint.n_columns == N_CODES + 1


def test_scale_and_reference_of_the_default_rule():
    scale = standardizing_scale(BLOCKS)
    assert scale[0] == math.sqrt(12.0)
    assert set(scale[1:4]) == {1.0}
    np.testing.assert_allclose(
        central_reference(BLOCKS)[:5], [0, 1 / 3, 1 / 3, 1 / 3, 0]
    )


def test_influence_on_sensitive_features_is_refused():
    with pytest.raises(GuaranteeVoidError, match="'sensitive' cannot hold"):
        by_role(influence_bounds={"sensitive": 0.1})


def test_every_feature_belongs_to_one_group():
    layout = by_role()
    with pytest.raises(CorrDPError, match="every feature once"):
        replace(layout, groups=layout.groups[1:])
    twice = (*layout.groups, GradientGroup("again", ("sex",)))
    with pytest.raises(CorrDPError, match="every feature once"):
        replace(layout, groups=twice)


@pytest.mark.parametrize("numbers", [np.ones(3), np.full(N_CODES, np.nan)])
def test_scales_must_be_finite_and_complete(numbers):
    with pytest.raises(CorrDPError, match="column_scale"):
        by_role(column_scale=numbers)


@pytest.mark.parametrize("key", ["clip_norm", "influence_bound", "feature_radius"])
def test_numbers_of_a_group_are_checked(key):
    with pytest.raises(CorrDPError, match=key):
        GradientGroup("race", ("race",), **{key: -1.0})

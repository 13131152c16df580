import importlib.util
import math
from dataclasses import replace

import numpy as np
import pytest

from corrdp.exceptions import CorrDPError, MissingBoundError
from corrdp.policy import (
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    Slot,
    neighbor_classes,
    policy_blocks,
)
from corrdp.training._layout import GradientLayout
from corrdp.training.losses import (
    HuberLoss,
    LogisticLoss,
    MultinomialLoss,
    SquaredLoss,
    UnclippedSquaredLoss,
)
from corrdp.training.sensitivity._corners import (
    _extent,
    _undominated,
    feature_geometries,
)
from corrdp.training.sensitivity._gradient import GradientSensitivity
from neighbor_search import Problem, corner_moves, small_policy

ROOT_TWO = math.sqrt(2.0)
CLOSE = {"rel": 1e-9, "abs": 1e-9}


def tiny_policy(*, score=0.0, numeric=False, slot=False):
    """One sensitive number and one-hot, one insensitive number, one public number."""
    missing = {"missing": Slot()} if slot else {}
    return Policy(
        (
            Feature("age", "sensitive", NumberDomain(0, 1, **missing)),
            Feature("job", "sensitive", CategoryDomain(("a", "b", "c"), **missing)),
            Feature("hours", "insensitive", NumberDomain(0, 1), leakage=0.3),
            Feature("year", "public", NumberDomain(0, 1)),
        ),
        label=Label(
            "y", NumberDomain(0, 1) if numeric else CategoryDomain(("n", "p")), score
        ),
    )


def sensitivity(loss, *, policy=None, by_feature=True, edit=None, **options):
    policy = policy or tiny_policy(numeric=not isinstance(loss, LogisticLoss))
    blocks = policy_blocks(policy)
    layout = GradientLayout.by_role(blocks)
    if by_feature:  # every feature its own group
        groups = [
            replace(layout.groups[0], name=f, features=(f,)) for f in ("age", "job")
        ]
        layout = replace(layout, groups=(*groups, *layout.groups[1:]))
    if edit:
        layout = replace(layout, groups=tuple(edit(group) for group in layout.groups))
    return GradientSensitivity(loss, layout, neighbor_classes(policy), **options)


def rows_of(bound, name, table):
    return table[[row == name for row in bound.row_classes]]


def test_logistic_bounds_at_zero():
    bound = sensitivity(LogisticLoss())
    table = bound.bounds(np.zeros(7))
    # every residual is 1/2 or -1/2: number 1/2, one-hot sqrt(2)/2, nothing else moves
    first = rows_of(bound, "sensitive", table)
    expected = [0.5, ROOT_TWO / 2, 0, 0, 0]
    np.testing.assert_allclose(first, [expected] * 3, atol=1e-9)
    second = rows_of(bound, "insensitive:hours", table)
    np.testing.assert_allclose(second, [[0, 0, 0.5, 0, 0]] * 3, atol=1e-9)


def test_logistic_bounds_for_all_parameters():
    bound = sensitivity(LogisticLoss())
    worst = rows_of(bound, "sensitive", bound.worst_case_bounds())
    np.testing.assert_allclose(worst[0], [1, ROOT_TWO, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(worst[-1], [0.5, 1, 0.5, 0.5, 1], atol=1e-9)


def test_the_cross_term_is_the_hyperbolic_tangent_of_a_quarter_of_the_range():
    bound = sensitivity(LogisticLoss())
    coef = np.array([3.0, 0.5, -1.0, 0.25, 0.7, 2.0, 0.1])
    spread = 3.0 + 1.5
    last = rows_of(bound, "sensitive", bound.bounds(coef))[-1]
    assert last[4] == pytest.approx(math.tanh(spread / 4.0), **CLOSE)
    assert last[3] == pytest.approx(math.tanh(spread / 4.0) / 2.0, **CLOSE)
    own = rows_of(bound, "insensitive:hours", bound.bounds(coef))[-1]
    assert own[4] == pytest.approx(math.tanh(0.7 / 4.0), **CLOSE)


def test_a_label_that_flips_adds_one():
    bound = sensitivity(LogisticLoss(), policy=tiny_policy(score=0.5))
    coef = np.array([3.0, 0.5, -1.0, 0.25, 0.7, 2.0, 0.1])
    table = bound.bounds(coef)
    gap = 1.0 + math.tanh(4.5 / 4.0)
    flipped = rows_of(bound, "sensitive", table)[-1]
    np.testing.assert_allclose(flipped, [gap / 2, gap, gap / 2, gap / 2, gap])
    alone = rows_of(bound, "label", table)
    np.testing.assert_allclose(alone, [[0.5, 1.0, 0.5, 0.5, 1.0]])


@pytest.mark.parametrize("loss", [SquaredLoss(0.4), HuberLoss(0.4)])
def test_squared_bounds(loss):
    bound = sensitivity(loss)
    coef = np.array([0.1, 0.0, 0.2, 0.05, 0.3, 0.0, 0.0])
    zero, end = rows_of(bound, "sensitive", bound.bounds(coef))
    gap = 0.1 + 0.2
    np.testing.assert_allclose(zero, [0.4, 0.4 * ROOT_TWO, 0, 0, 0], atol=1e-12)
    number, one_hot = (0.4 + 0.1) / 2, math.hypot(0.4, 0.1)
    np.testing.assert_allclose(end, [number, one_hot, gap / 2, gap / 2, gap])


def test_a_label_that_changes_widens_the_gap():
    policy = tiny_policy(score=0.5, numeric=True)  # joins every class
    bound = sensitivity(SquaredLoss(10.0), policy=policy, label_bounds=(-0.5, 0.5))
    coef = np.array([0.1, 0.0, 0.2, 0.05, 0.3, 0.0, 0.0])
    table = bound.bounds(coef)
    assert rows_of(bound, "label", table)[-1, 4] == pytest.approx(1.0, **CLOSE)
    assert rows_of(bound, "sensitive", table)[-1, 4] == pytest.approx(1.3, **CLOSE)
    # the residual itself is no larger than the domain allows
    reach = 0.5 + 0.05 + 0.2 + 0.15
    assert rows_of(bound, "sensitive", table)[0, 0] == pytest.approx(reach, **CLOSE)


def test_unclipped_squared_bounds_follow_the_domain():
    bound = sensitivity(UnclippedSquaredLoss())
    coef = np.array([2.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.5])
    reach = 0.5 + 1.0 + 1.0 + 0.5  # label, age, job, intercept
    zero = rows_of(bound, "sensitive", bound.bounds(coef))[0]
    np.testing.assert_allclose(zero[:2], [reach, reach * ROOT_TWO])
    with pytest.raises(MissingBoundError, match="parameter_radius"):
        bound.worst_case_bounds()
    assert np.isfinite(bound.worst_case_bounds(3.0)).all()
    assert bound.table(coef).contribution is None


def test_softmax_bounds():
    bound = sensitivity(MultinomialLoss(3), policy=tiny_policy())
    worst = rows_of(bound, "sensitive", bound.worst_case_bounds())
    np.testing.assert_array_less(worst[:, 0], 1.6)
    at_zero = rows_of(bound, "sensitive", bound.bounds(np.zeros((7, 3))))
    np.testing.assert_allclose(at_zero[0], [ROOT_TWO, 2.0, 0, 0, 0], atol=1e-9)
    coef = np.zeros((7, 3))
    coef[0, 0] = 0.4  # one score moves by at most 0.4
    gap = rows_of(bound, "sensitive", bound.bounds(coef))[0, 4]
    assert gap == pytest.approx(ROOT_TWO * math.tanh(0.1), **CLOSE)
    assert bound.groups[1].size == 9


def test_softmax_bounds_where_no_feature_has_two_values():
    only = Feature("a", "sensitive", CategoryDomain(("x",)))
    label = Label("y", CategoryDomain(tuple("pqr")), score=1.0)
    policy = Policy((only,), label)
    bound = sensitivity(MultinomialLoss(3), policy=policy, by_feature=False)
    found = bound.bounds(np.ones((2, 3)))
    np.testing.assert_allclose(found, ROOT_TWO)  # the label alone


def test_residual_bound_can_be_replaced_at_every_step():
    coef = np.array([0.1, 0.0, 0.2, 0.05, 0.3, 0.0, 0.0])
    np.testing.assert_array_equal(
        sensitivity(SquaredLoss(0.4)).bounds(coef, residual_bound=0.2),
        sensitivity(SquaredLoss(0.2)).bounds(coef),
    )


def test_a_residual_bound_needs_a_loss_that_has_one():
    with pytest.raises(CorrDPError, match="LogisticLoss, which has none"):
        sensitivity(LogisticLoss()).bounds(np.zeros(7), residual_bound=0.2)


def test_clipping_caps_the_group_in_all_rows_that_it_cuts():
    def clip(group):
        return replace(group, clip_norm=0.45) if group.name == "age" else group

    coef = np.array([3.0, 0.5, -1.0, 0.25, 0.7, 2.0, 0.1])
    free, capped = sensitivity(LogisticLoss()), sensitivity(LogisticLoss(), edit=clip)
    plain = rows_of(free, "sensitive", free.bounds(coef))
    cut = rows_of(capped, "sensitive", capped.bounds(coef))
    assert plain[0, 0] > 0.9 > plain[-1, 0]
    np.testing.assert_allclose(cut[:2, 0], 0.9)  # the second where 0.9 is passed
    kept = [0, 2, 3]
    np.testing.assert_array_equal(cut[kept, 1:], plain[:, 1:])
    # the smaller residual leaves less than the clip norm: half of it, a number's radius
    smaller = plain[1:, 0] - plain[1:, 4] / 2.0
    np.testing.assert_allclose(cut[2:, 0], 0.45 + smaller / 2.0)
    np.testing.assert_allclose(capped.contribution(), [0.45, 1.0, 0.5, 0.5, 1.0])


def test_flat_clipping_of_the_whole_record_is_twice_the_norm():
    policy = tiny_policy(score=1.0)
    layout = GradientLayout.flat(policy_blocks(policy), clip_norm=0.1)
    bound = GradientSensitivity(LogisticLoss(), layout, neighbor_classes(policy))
    worst = bound.worst_case_bounds()
    assert rows_of(bound, "whole_record", worst).max() == pytest.approx(0.2)
    assert worst.max() == pytest.approx(0.2)


@pytest.mark.parametrize(("clip_norm", "unit"), [(math.inf, 0.5), (5.0, 1.0)])
def test_influence_bounds_cap_what_sensitive_features_move(clip_norm, unit):
    def limit(group):
        if group.name != "hours":
            return group
        return replace(group, clip_norm=clip_norm, influence_bound=0.1)

    bound = sensitivity(LogisticLoss(), edit=limit)
    coef = np.array([3.0, 0.5, -1.0, 0.25, 0.7, 2.0, 0.1])
    table = bound.bounds(coef)
    under_sensitive = rows_of(bound, "sensitive", table)
    np.testing.assert_allclose(under_sensitive[-1, 2], 0.2 * unit)
    assert under_sensitive[0, 2] == 0.0
    # the corner at which the bound begins to hold is a row of its own
    gaps = under_sensitive[:, 4]
    np.testing.assert_allclose(gaps[np.argmin(np.abs(gaps - 0.4 * unit))], 0.4 * unit)
    untouched = rows_of(bound, "insensitive:hours", table)[-1, 4]
    assert untouched == pytest.approx(math.tanh(0.7 / 4.0), **CLOSE)


def test_a_projection_bounds_radius_and_diameter():
    def project(group):
        return replace(group, feature_radius=0.3) if group.name == "job" else group

    bound = sensitivity(LogisticLoss(), edit=project)
    worst = rows_of(bound, "sensitive", bound.worst_case_bounds())
    np.testing.assert_allclose(worst[:, 1], [0.6, 0.3, 0.3])
    assert bound.contribution()[1] == pytest.approx(0.3)


def test_a_missing_flag_is_one_more_corner():
    bound = sensitivity(LogisticLoss(), policy=tiny_policy(slot=True))
    coef = np.zeros(9)
    coef[[0, 1]] = 1.0, 4.0  # age spans 1, and 4.5 down to a missing age
    last = rows_of(bound, "sensitive", bound.bounds(coef))[-1]
    assert last[4] == pytest.approx(math.tanh(4.5 / 4.0), **CLOSE)
    zero = rows_of(bound, "sensitive", bound.worst_case_bounds())[0]
    np.testing.assert_allclose(zero[:2], [math.hypot(1.0, 0.5), ROOT_TWO])


def test_public_features_never_change_but_move_through_the_residual():
    bound = sensitivity(LogisticLoss())
    coef = np.array([3.0, 0.5, -1.0, 0.25, 0.7, 2.0, 0.1])
    table = bound.bounds(coef)
    assert "public" not in "".join(bound.row_classes)
    assert rows_of(bound, "whole_record", table)[-1, 3] > 0.4
    assert rows_of(bound, "whole_record", table)[0, 3] == 0.0


@pytest.mark.parametrize("name", ["zero", "peak gap", "end"])
def test_logistic_rows_are_attained(name):
    policy = small_policy()
    layout = GradientLayout.by_role(policy_blocks(policy))
    problem = Problem(policy, layout, LogisticLoss(), None)
    coef = np.zeros(11)
    if name == "zero":
        coef[-1] = 8.0  # saturated, and the sensitive features do not matter
    elif name == "peak gap":
        coef[[0, 1, -1]] = 1.5, 1.0, 0.5
    else:
        coef[[0, 1, 2]] = 6.0, 3.0, -3.0  # only sensitive features matter
    bound = GradientSensitivity(problem.loss, layout, problem.classes)
    rows = rows_of(bound, "sensitive", bound.bounds(coef))
    row = rows[["zero", "peak gap", "end"].index(name)]
    moves = np.sqrt(corner_moves(problem, problem.classes[0], coef))
    moving = row > 1e-9
    assert (moves[:, moving] / row[moving]).min(axis=1).max() > 0.99


@pytest.mark.parametrize("row", [0, 1])
def test_squared_rows_are_attained(row):
    policy = small_policy(label="number")
    layout = GradientLayout.by_role(policy_blocks(policy))
    problem = Problem(policy, layout, SquaredLoss(0.3), None)
    coef = np.zeros(11)
    if row:
        coef[[0, 1, -1]] = 0.1, 0.15, -0.4  # residuals 0.3 and 0.05
    bound = GradientSensitivity(problem.loss, layout, problem.classes)
    bounds = rows_of(bound, "sensitive", bound.bounds(coef))[row]
    moves = np.sqrt(corner_moves(problem, problem.classes[0], coef))
    moving = bounds > 1e-9
    assert (moves[:, moving] / bounds[moving]).min(axis=1).max() > 0.99


def test_tables_carry_groups_classes_and_contribution():
    bound = sensitivity(LogisticLoss())
    for table in (bound.table(), bound.table(np.ones(7))):
        assert table.classes == bound.row_classes
        assert [group.name for group in table.groups] == [
            "age", "job", "hours", "public", "intercept",
        ]  # fmt: skip
        np.testing.assert_allclose(table.contribution, [0.5, 1.0, 0.5, 0.5, 1.0])


def test_huge_parameters_stay_finite():
    bound = sensitivity(LogisticLoss())
    for size in (1e2, 1e4, 1e8):
        coef = size * np.array([3.0, 0.5, -1.0, 0.25, 0.7, 2.0, 0.1])
        table = bound.bounds(coef)
        assert np.isfinite(table).all()
        assert rows_of(bound, "sensitive", table)[0, 1] == pytest.approx(ROOT_TWO)


def test_without_numba_the_plain_bounds_are_used(monkeypatch):
    coef = np.array([3.0, 0.5, -1.0, 0.25, 0.7, 2.0, 0.1])
    with_numba = sensitivity(LogisticLoss()).bounds(coef)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    plain = sensitivity(LogisticLoss()).bounds(coef)
    np.testing.assert_allclose(plain, with_numba, rtol=1e-9, atol=1e-12)


def test_many_categories_keep_their_diameter():
    policy = Policy(
        (
            Feature("code", "sensitive", CategoryDomain(tuple(map(str, range(80))))),
            Feature("hours", "insensitive", NumberDomain(0, 1), leakage=0.3),
        ),
        label=Label("y", CategoryDomain(("n", "p")), score=0.0),
    )
    layout = GradientLayout.by_role(policy_blocks(policy))
    bound = GradientSensitivity(LogisticLoss(), layout, neighbor_classes(policy))
    worst = rows_of(bound, "sensitive", bound.worst_case_bounds())
    assert worst[0, 0] == pytest.approx(ROOT_TWO)


def test_label_bounds_are_ordered():
    with pytest.raises(CorrDPError, match="label_bounds"):
        sensitivity(SquaredLoss(0.4), label_bounds=(0.5, -0.5))


COEF = np.array([3.0, 0.5, -1.0, 0.25, 0.7, 2.0, 0.1])
STEP = np.array([0.2, 0.0, 0.4, 0.0, 0.0, 0.0, 0.1])


@pytest.mark.parametrize("compiled", [True, False])
def test_the_inner_term_of_variance_reduction_vanishes_at_the_anchor(compiled):
    for loss in (LogisticLoss(), SquaredLoss(0.4), UnclippedSquaredLoss()):
        bound = sensitivity(loss, compiled=compiled)
        assert not bound.bounds(COEF, anchor=COEF).any()


def test_the_inner_term_is_bounded_by_the_step():
    bound = sensitivity(LogisticLoss())
    reach = math.tanh((0.1 + 0.4 + 0.1) / 4.0)  # age, job, intercept
    zero = rows_of(bound, "sensitive", bound.bounds(COEF + STEP, anchor=COEF))[0]
    np.testing.assert_allclose(zero[:2], [reach, reach * ROOT_TWO])
    squared = sensitivity(UnclippedSquaredLoss())
    table = squared.bounds(COEF + STEP, anchor=COEF)
    assert rows_of(squared, "sensitive", table)[-1, 4] == pytest.approx(0.6, **CLOSE)


def test_a_label_cancels_in_the_inner_term():
    for loss in (LogisticLoss(), MultinomialLoss(2)):
        bound = sensitivity(loss, policy=tiny_policy(score=1.0))
        many = loss.n_outputs > 1
        coef, anchor = (
            np.column_stack([c, -c]) if many else c for c in (COEF + STEP, COEF)
        )
        assert not rows_of(bound, "label", bound.bounds(coef, anchor=anchor)).any()


def limited(group):
    """Bound the influence on hours and year, in residual and in norm form."""
    if group.name == "hours":
        return replace(group, influence_bound=0.1)
    if group.name == "public":
        return replace(group, influence_bound=0.1, clip_norm=5.0)
    return group


@pytest.mark.parametrize("compiled", [True, False])
def test_a_flipped_label_moves_bounded_groups_by_one_and_twice_the_bound(compiled):
    bound = sensitivity(
        LogisticLoss(), policy=tiny_policy(score=1.0), edit=limited, compiled=compiled
    )
    flipped = rows_of(bound, "sensitive", bound.bounds(COEF))[-1]
    np.testing.assert_allclose(flipped[2:4], [0.5 + 2 * 0.05, 0.5 + 2 * 0.1])


@pytest.mark.parametrize("compiled", [True, False])
def test_bounded_groups_that_change_are_not_bound_by_their_influence(compiled):
    bound = sensitivity(LogisticLoss(), edit=limited, compiled=compiled)
    (row,) = rows_of(bound, "insensitive:hours", bound.bounds(COEF))
    gap = math.tanh(0.7 / 4.0)
    lowest = -1.5 - 1.0 - 0.35 - 1.0 + 0.1  # the score farthest from 0
    reach = 1.0 / (1.0 + math.exp(lowest))
    # hours may sit at either end with the largest residual; the rest moves by the gap
    np.testing.assert_allclose(row, [gap / 2, gap, reach, gap / 2, gap])


def test_a_reference_outside_the_domain_widens_the_residual():
    far = np.zeros(6)
    far[0] = 9.0
    here = sensitivity(LogisticLoss(), edit=limited)
    there = sensitivity(LogisticLoss(), edit=limited, reference=far)
    coef = 0.1 * COEF
    own = [rows_of(b, "insensitive:hours", b.bounds(coef))[0, 2] for b in (here, there)]
    assert own[1] > 1.2 * own[0]


@pytest.mark.parametrize(
    ("loss", "factor"), [(LogisticLoss(), 1.0), (MultinomialLoss(3), ROOT_TWO)]
)
def test_a_group_with_an_influence_bound_moves_by_the_factor_of_lemma_3(loss, factor):
    """With several outputs the bound on an unchanged group is the root of 2 larger.

    The bound is so wide that it never acts; what remains is that the clipped part may
    follow the residual and the reference at once (influence.md, Lemmas 2 and 3).
    """
    shape = () if loss.n_outputs == 1 else (loss.n_outputs,)
    coef = np.random.default_rng(0).normal(size=(7, *shape)) / 3

    def wide(group):
        public = group.features == ("year",)
        return replace(group, influence_bound=1e3) if public else group

    moves = []
    for edit in (None, wide):
        found = sensitivity(loss, policy=tiny_policy(), edit=edit)
        rows = [name == "insensitive:hours" for name in found.row_classes]
        column = [group.name for group in found.groups].index("public")
        moves.append(found.bounds(coef)[rows, column].max())
    assert moves[1] == pytest.approx(factor * moves[0], rel=1e-9)


@pytest.mark.parametrize("digits", [1, 16])
@pytest.mark.parametrize("seed", range(20))
def test_every_pair_of_corners_is_below_one_that_is_kept(seed, digits):
    rng = np.random.default_rng(seed)
    pairs = np.round(rng.exponential(size=(30, 3)), digits)
    kept = _undominated(pairs)
    below = (pairs[:, None] <= kept * (1.0 + 1e-15)).all(axis=2)
    assert below.any(axis=1).all()
    assert {tuple(row) for row in kept} <= {tuple(row) for row in pairs}
    others = (kept[:, None] <= kept).all(axis=2) & ~np.eye(len(kept), dtype=bool)
    assert not others.any()


@pytest.mark.parametrize("n_ends", [0, 7])
@pytest.mark.parametrize("seed", range(10))
def test_a_feature_of_many_levels_is_bounded_as_all_its_pairs_are(seed, n_ends):
    """Levels in columns of their own; some columns are numbers with two ends."""
    rng = np.random.default_rng(seed)
    n_columns = 90
    columns = np.sort(np.r_[np.arange(n_columns), np.arange(n_ends)])
    codes = rng.normal(size=columns.size)
    offset = rng.uniform(-0.5, 0.5, n_columns)
    if n_ends:  # one column whose ends are farthest apart, or add up to most
        codes[:2] = (3.0 if seed % 2 else -3.0), 2.8
    radius, diameter, kept = _extent(
        columns.tobytes(), codes.tobytes(), offset.tobytes()
    )
    corners = np.zeros((columns.size, n_columns))
    corners[np.arange(columns.size), columns] = codes
    corners -= offset
    norms = np.linalg.norm(corners, axis=1)
    apart = np.linalg.norm(corners[:, None] - corners, axis=2)
    along = np.linalg.norm(corners[:, None] + corners, axis=2)
    assert radius == pytest.approx(norms.max(), rel=1e-12)
    assert diameter >= apart.max() * (1 - 1e-12)
    assert diameter == pytest.approx(apart.max(), rel=0.2)
    differences = np.abs(norms[:, None] ** 2 - norms**2)
    pairs = np.stack([apart**2, along**2, differences], axis=-1).reshape(-1, 1, 3)
    assert (pairs <= kept * (1 + 1e-12) + 1e-12).all(axis=2).any(axis=1).all()


def test_levels_of_one_hot_codes_beyond_all_pairs_are_bounded_alike():
    few, many = (
        feature_geometries(GradientLayout.by_role(policy_blocks(policy)))[0]
        for policy in (
            Policy(
                (
                    Feature(
                        "ward", "sensitive", CategoryDomain([f"w{i}" for i in range(n)])
                    ),
                )
            )
            for n in (64, 30_000)
        )
    )
    assert (few.radius, few.diameter) == (many.radius, many.diameter)
    assert (few.pairs == many.pairs).all()

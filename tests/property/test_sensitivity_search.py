"""No pair of neighbors that a search can find moves a gradient further than proved.

For every class and all precisions p, the sum over groups of p times the squared
movement stays below the largest such sum over the rows of the class. The planted
bugs at the end show that the search would see a bound that is too small.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrdp._names import INTERCEPT
from corrdp.policy import policy_blocks
from corrdp.training._layout import (
    GradientGroup,
    GradientLayout,
    central_reference,
    standardizing_scale,
)
from corrdp.training._records import record_gradients
from corrdp.training.losses import (
    HuberLoss,
    LogisticLoss,
    MultinomialLoss,
    SquaredLoss,
    UnclippedSquaredLoss,
)
from corrdp.training.sensitivity import _gradient
from corrdp.training.sensitivity._corners import feature_geometries
from corrdp.training.sensitivity._gradient import GradientSensitivity
from neighbor_search import (
    Problem,
    corner_moves,
    local_search,
    small_policy,
    worst_ratio,
)

WITHIN = 1.0 + 1e-9  # rounding of the search itself
LOSSES = {
    "logistic": LogisticLoss(),
    "squared": SquaredLoss(0.4),
    "huber": HuberLoss(0.15),
    "unclipped": UnclippedSquaredLoss(),
    "multinomial": MultinomialLoss(3),
}


def policy_of(loss, **options):
    numeric = not isinstance(loss, LogisticLoss | MultinomialLoss)
    return small_policy(label="number" if numeric else "boolean", **options)


def with_numbers(layout, **by_key):
    """Set numbers of the groups: a mapping from group name, or one for all."""
    groups = []
    for group in layout.groups:
        numbers = {
            key: value.get(group.name, math.inf) if isinstance(value, dict) else value
            for key, value in by_key.items()
        }
        groups.append(replace(group, **numbers))
    return replace(layout, groups=tuple(groups))


@st.composite
def problems(draw, loss):
    policy = policy_of(
        loss,
        protected=draw(st.sampled_from([False, True, "sensitive"])),
        missing=draw(st.booleans()),
        relation=draw(st.sampled_from(["one_insensitive", "all_insensitive"])),
    )
    blocks = policy_blocks(policy)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_codes = blocks[-1].stop
    numbers = {
        "column_scale": standardizing_scale(blocks) if draw(st.booleans()) else (),
        "column_offset": rng.uniform(-0.4, 0.6, n_codes) if draw(st.booleans()) else (),
    }
    clip = st.sampled_from([math.inf, 0.1, 0.4, 1.2])
    if draw(st.integers(0, 4)) == 0:
        layout = GradientLayout.flat(blocks, clip_norm=draw(clip), **numbers)
    else:
        layout = GradientLayout.by_role(
            blocks,
            joint_insensitive=draw(st.booleans()),
            **numbers,
        )
        if draw(st.booleans()):  # the paper's formulas have no intercept
            groups = tuple(g for g in layout.groups if g.name != INTERCEPT)
            layout = replace(layout, groups=groups)
        bound = st.sampled_from([0.0, 0.03, 0.1, 0.4])
        bounded = draw(st.booleans())
        radius = st.sampled_from([math.inf, math.inf, 0.4, 1.0])
        layout = replace(
            layout,
            groups=tuple(
                replace(
                    group,
                    clip_norm=draw(clip),
                    influence_bound=draw(bound)
                    if bounded and group.name not in ("sensitive", "intercept")
                    else math.inf,
                    feature_radius=draw(radius),
                )
                for group in layout.groups
            ),
        )
    choices = [None, central_reference(blocks), rng.uniform(-2, 2, n_codes)]
    reference = choices[draw(st.integers(0, 2))]
    return Problem(policy, layout, loss, reference), rng


def coefficients(problem, rng, spread):
    n_outputs = problem.loss.n_outputs
    shape = (problem.layout.n_columns, *([n_outputs] if n_outputs > 1 else []))
    return rng.normal(0.0, spread, shape)


def largest_ratio(problem, bounds, row_classes, coef, rng, *, anchor=None, local=True):
    """Return by how much the worst neighbors found pass the bounds of their class."""
    found = 0.0
    squared = np.asarray(bounds) ** 2
    for neighbor in problem.classes:
        rows = squared[[name == neighbor.name for name in row_classes]]
        moves = corner_moves(problem, neighbor, coef, anchor=anchor)
        found = max(found, worst_ratio(moves, rows, rng))
        if local:
            weights = 10.0 ** rng.uniform(-2, 2, rows.shape[1])
            moves = local_search(
                problem, neighbor, coef, weights, rng, anchor=anchor, rounds=20
            )
            found = max(found, worst_ratio(moves, rows, rng))
    return found


def sensitivity_of(problem, **options):
    return GradientSensitivity(
        problem.loss,
        problem.layout,
        problem.classes,
        reference=problem.reference,
        **options,
    )


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=12)
@given(data=st.data())
def test_no_neighbors_pass_the_bounds(name, data):
    problem, rng = data.draw(problems(LOSSES[name]))
    sensitivity = sensitivity_of(problem)
    coef = coefficients(problem, rng, 10.0 ** data.draw(st.floats(-2, 1)))
    rows = sensitivity.row_classes
    bounds = sensitivity.bounds(coef)
    assert largest_ratio(problem, bounds, rows, coef, rng) <= WITHIN
    within = sensitivity.worst_case_bounds(float(np.linalg.norm(coef)))
    assert largest_ratio(problem, within, rows, coef, rng, local=False) <= WITHIN
    if math.isfinite(problem.loss.residual_limit):
        always = sensitivity.worst_case_bounds()
        assert largest_ratio(problem, always, rows, coef, rng, local=False) <= WITHIN


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=5)
@given(data=st.data())
def test_no_neighbors_pass_the_bounds_of_variance_reduction(name, data):
    problem, rng = data.draw(problems(LOSSES[name]))
    coef = coefficients(problem, rng, 10.0 ** data.draw(st.floats(-1, 1)))
    step = coefficients(problem, rng, 10.0 ** data.draw(st.floats(-2, 0.5)))
    sensitivity = sensitivity_of(problem)
    bounds = sensitivity.bounds(coef, anchor=coef + step)
    found = largest_ratio(
        problem, bounds, sensitivity.row_classes, coef, rng, anchor=coef + step
    )
    assert found <= WITHIN


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("protected", [False, True])
def test_the_bounds_hold_along_a_training_trajectory(name, protected):
    loss = LOSSES[name]
    policy = policy_of(loss, protected=protected)
    blocks = policy_blocks(policy)
    layout = with_numbers(
        GradientLayout.by_role(blocks, column_scale=standardizing_scale(blocks)),
        clip_norm={"sensitive": 0.8, "race": 0.5},
        influence_bound={"race": 0.1, "sex": 0.05},
        feature_radius={"sensitive": 1.5},
    )
    problem = Problem(policy, layout, loss, None)
    sensitivity = sensitivity_of(problem)
    rng = np.random.default_rng(7)
    codes = np.zeros((12, blocks[-1].stop))
    codes[:, [0, 4, 9]] = rng.uniform(-0.5, 0.5, (12, 3))
    codes[np.arange(12), 1 + rng.integers(3, size=12)] = 1.0
    y = rng.choice(problem.labels(), size=12)
    coef = np.zeros_like(coefficients(problem, rng, 1.0))
    for _ in range(5):
        bounds = sensitivity.bounds(coef)
        found = largest_ratio(problem, bounds, sensitivity.row_classes, coef, rng)
        assert found <= WITHIN
        gradient = problem.gradients(codes, y, coef).mean(axis=0)
        coef = coef - 2.0 * (gradient + rng.normal(0.0, 0.1, coef.shape))


@settings(max_examples=40)
@given(data=st.data())
def test_compiled_and_plain_bounds_agree(data):
    loss = LOSSES[data.draw(st.sampled_from(list(LOSSES)))]
    problem, rng = data.draw(problems(loss))
    coef = coefficients(problem, rng, 10.0 ** data.draw(st.floats(-3, 2.8)))
    np.testing.assert_allclose(
        sensitivity_of(problem, compiled=True).bounds(coef),
        sensitivity_of(problem, compiled=False).bounds(coef),
        rtol=1e-7,  # the tangent divides differences of nearly equal numbers
    )


# Planted bugs: each of them must be found.

COEF = np.random.default_rng(3).normal(0.0, 2.0, 11)
RNG_SEED = 11


def planted(loss="logistic", **numbers):
    policy = policy_of(LOSSES[loss])
    layout = with_numbers(GradientLayout.by_role(policy_blocks(policy)), **numbers)
    return Problem(policy, layout, LOSSES[loss], None)


def found_in(problem, bounds=None, contributions=None, coef=COEF):
    sensitivity = sensitivity_of(problem)
    if bounds is None:
        bounds = sensitivity.bounds(coef)
    if contributions is not None:
        problem.gradients = lambda codes, y, coef, anchor=None: contributions(
            codes, y, coef
        )
    rng = np.random.default_rng(RNG_SEED)
    rows = sensitivity.row_classes
    return largest_ratio(problem, bounds, rows, coef, rng, local=False)


def test_dropped_cross_terms_are_caught():
    problem = planted()
    bounds = sensitivity_of(problem).bounds(COEF).copy()
    assert found_in(problem, bounds) <= WITHIN
    rows = [n == "sensitive" for n in sensitivity_of(problem).row_classes]
    bounds[rows, 1:] = 0.0  # as if only the changed features moved
    assert found_in(problem, bounds) > 1e3


def test_a_one_hot_diameter_of_one_is_caught(monkeypatch):
    problem = planted()
    assert found_in(problem) <= WITHIN

    def too_close(layout):
        return tuple(
            replace(g, pairs=np.minimum(g.pairs, [1.0, 4.0, 4.0]))
            for g in feature_geometries(layout)
        )

    monkeypatch.setattr(_gradient, "feature_geometries", too_close)
    assert found_in(problem) > 1.1


@pytest.mark.parametrize("clip_norm", [math.inf, 0.4])
def test_a_kernel_that_forgets_the_influence_bound_is_caught(clip_norm):
    bounded = {
        "clip_norm": {"race": clip_norm, "sex": clip_norm},
        "influence_bound": {"race": 0.05, "sex": 0.05},
    }
    problem = planted(**bounded)
    assert found_in(problem) <= WITHIN
    forgetful = with_numbers(problem.layout, influence_bound=math.inf)

    def contributions(codes, y, coef):
        return record_gradients(codes, y, coef, problem.loss, forgetful)

    assert found_in(problem, contributions=contributions) > 1.5


def test_clipping_only_the_true_gradient_is_caught():
    problem = planted(clip_norm={"race": 0.2}, influence_bound={"race": 0.05})
    assert found_in(problem) <= WITHIN
    group = 2
    columns = problem.layout.column_groups == group
    hidden = np.append(problem.layout.sensitive_columns, False)

    def contributions(codes, y, coef):
        features = problem.layout.features(codes)
        out = record_gradients(codes, y, coef, problem.loss, problem.layout)
        without = features * ~hidden
        start = problem.loss.residual(without @ coef, y)[:, None] * features[:, columns]
        true = problem.loss.residual(features @ coef, y)[:, None] * features[:, columns]
        pull = clipped(true, 0.2) - start
        out[:, columns] = start + clipped(pull, 0.05)
        return out

    assert found_in(problem, contributions=contributions) > 1.5


def test_joint_clipping_of_groups_with_different_noise_is_caught():
    problem = planted(clip_norm=0.3)
    offset = np.full(problem.layout.blocks[-1].stop, 0.4)  # ends of unequal size
    problem.layout = replace(problem.layout, column_offset=offset)
    flat = GradientLayout.flat(
        problem.layout.blocks, clip_norm=0.3, column_offset=offset
    )
    coef = 0.02 * COEF
    assert found_in(problem, coef=coef) <= WITHIN

    def contributions(codes, y, coef):
        return record_gradients(codes, y, coef, problem.loss, flat)

    assert found_in(problem, contributions=contributions, coef=coef) > 2.0


def test_a_cap_on_every_row_by_itself_is_caught():
    """Rows are corners of a convex problem; a minimum with 2 C is not convex."""
    problem = planted("squared")  # residuals within 0.4
    names = ["age", "job", "hours", "race", "sex", "year", "intercept"]
    scale = np.ones(problem.layout.blocks[-1].stop)
    scale[0] = 2.0  # age from -1 to 1, alone in its group
    free = replace(
        problem.layout,
        groups=tuple(GradientGroup(name, (name,)) for name in names),
        column_scale=scale,
    )
    problem.layout = with_numbers(free, clip_norm={"age": 0.25})
    coef = np.zeros(11)
    coef[[0, 1, 10]] = 0.075, 0.25, -0.175  # residuals 0.4 and 0.25 at the ends of age

    def rows(layout):
        bound = sensitivity_of(replace(problem, layout=layout))
        own = [name == "sensitive" for name in bound.row_classes]
        return bound.bounds(coef)[own] ** 2

    capped = rows(problem.layout)
    naive = np.minimum(rows(free), capped.max(axis=0))
    moves = corner_moves(problem, problem.classes[0], coef)
    precision = np.zeros(7)
    precision[[0, 6]] = 1.0, 0.5625
    assert (moves @ precision).max() <= (capped @ precision).max()
    assert (moves @ precision).max() > 1.04 * (naive @ precision).max()


def test_sharing_one_gap_between_true_and_bounded_residuals_is_caught():
    """Under an insensitive class the bounded residual moves on its own."""
    problem = planted(influence_bound={"hours": 0.0, "race": 0.0, "sex": 0.0})
    coef = np.zeros(11)
    coef[[0, 4, 10]] = 12.0, 2.0, 6.0  # without age saturated, with it not
    assert found_in(problem, coef=coef) <= WITHIN
    plain = sensitivity_of(planted())  # every group shares the true residual
    name = "insensitive:hours"
    shared = plain.bounds(coef)[[row == name for row in plain.row_classes]]
    neighbor = next(c for c in problem.classes if c.name == name)
    moves = corner_moves(problem, neighbor, coef)
    rng = np.random.default_rng(RNG_SEED)
    assert worst_ratio(moves, shared**2, rng) > 1.1


def clipped(vectors, norm):
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors * norm / np.maximum(length, norm)

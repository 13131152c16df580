"""No pair of neighbors moves the gradient of an additive model further than proved.

The search runs through records at, between and beyond knots. The planted bugs show
that it would see a bound for which a curve does not move with its number.
"""

import math

import numpy as np
import pytest

from corrdp.policy import policy_blocks
from corrdp.training._layout import GradientLayout, standardizing_scale
from corrdp.training.losses import LogisticLoss, MultinomialLoss, SquaredLoss
from corrdp.training.sensitivity import _gradient
from corrdp.training.sensitivity._corners import feature_geometries
from corrdp.training.sensitivity._gradient import GradientSensitivity
from neighbor_search import Problem, corner_moves, small_policy, worst_ratio

WITHIN = 1.0 + 1e-9
KNOTS = (0.0, 0.25, 1.0)
LEVELS = (-0.5, -0.4, -0.25, 0.1, 0.5)
LOSSES = {
    "logistic": LogisticLoss(),
    "squared": SquaredLoss(0.4),
    "multinomial": MultinomialLoss(3),
}


def problem_of(loss, *, radius=math.inf, influence=math.inf, **options):
    numeric = isinstance(loss, SquaredLoss)
    policy = small_policy(
        label="number" if numeric else "boolean", knots=KNOTS, **options
    )
    blocks = policy_blocks(policy)
    scale = standardizing_scale(blocks)
    others = ("hours", "hours:curve", "race", "sex", "year")
    layout = GradientLayout.by_role(
        blocks,
        joint_sensitive=False,
        joint_public=False,
        feature_radii=dict.fromkeys(("age", "hours", "year"), radius),
        influence_bounds=dict.fromkeys(others, influence),
        column_scale=scale,
        column_offset=np.random.default_rng(3).uniform(0.0, 0.4, scale.size),
    )
    return Problem(policy, layout, loss, None)


def largest_use(problem, *, seeds=(0, 1), spreads=(0.0, 0.7, 3.0)):
    """Return by how much of the bound the worst pair of neighbors moves anything."""
    sensitivity = GradientSensitivity(problem.loss, problem.layout, problem.classes)
    owner = np.array(sensitivity.row_classes)
    used = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for spread in spreads:
            outputs = problem.loss.n_outputs
            shape = (problem.layout.n_columns, *([outputs] if outputs > 1 else []))
            coef = rng.normal(0.0, spread, shape)
            rows = sensitivity.bounds(coef) ** 2
            for neighbor in problem.classes:
                if neighbor.name == "whole_record":
                    continue  # the sum of the others, and a hundred times the pairs
                squares = corner_moves(problem, neighbor, coef, levels=LEVELS)
                used.append(worst_ratio(squares, rows[owner == neighbor.name], rng))
    return max(used)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("radius", [math.inf, 0.52])
def test_no_pair_passes_the_bound(loss, radius):
    use = largest_use(problem_of(LOSSES[loss], radius=radius))
    assert 0.5 < use <= WITHIN  # nor is the bound far from what pairs attain


@pytest.mark.parametrize("options", [{"missing": True}, {"protected": "sensitive"}])
def test_no_pair_passes_the_bound_of_other_policies(options):
    assert largest_use(problem_of(LogisticLoss(), **options), seeds=(0,)) <= WITHIN


def test_no_pair_passes_influence_bounds():
    problem = problem_of(LogisticLoss(), radius=0.52, influence=0.05)
    assert largest_use(problem, seeds=(0,)) <= WITHIN


def test_the_search_sees_a_curve_that_stands_still(monkeypatch):
    """The curve as a feature that no class names: the bug that parts invite."""

    def unnamed(layout):
        return tuple(
            _replaced(geometry, feature=geometry.name)
            for geometry in feature_geometries(layout)
        )

    monkeypatch.setattr(_gradient, "feature_geometries", unnamed)
    assert largest_use(problem_of(LogisticLoss()), seeds=(0,)) > 1.05


def test_the_search_sees_hats_taken_for_one_knot(monkeypatch):
    """A curve whose code were taken to stay near its first knot."""

    def shrunk(layout):
        made = []
        for geometry in feature_geometries(layout):
            if geometry.name.endswith(":curve"):
                pairs = geometry.pairs * 0.5
                geometry = _replaced(geometry, pairs=pairs)
            made.append(geometry)
        return tuple(made)

    monkeypatch.setattr(_gradient, "feature_geometries", shrunk)
    assert largest_use(problem_of(LogisticLoss()), seeds=(0,)) > 1.05


def _replaced(geometry, **changes):
    from dataclasses import replace

    return replace(geometry, **changes)

"""How far a replaced record moves the released counts, by brute force."""

import numpy as np
import pytest

from corrdp.leakage import (
    count_codes,
    count_layout,
    leakage_targets,
    plan_leakage_release,
)
from corrdp.leakage.release._noise import SIZES
from corrdp.policy import neighbor_classes
from leakage_models import policy_of

NAMES = ("s1", "s2", "u", "v")
SHAPE = (2, 3, 3, 2)
EMPTY = np.zeros(SHAPE)


def released(codes, policy):
    """Return every group that is released, exact."""
    layout = count_layout(policy, leakage_targets(policy))
    chunk = {name: codes[:, axis] for axis, name in enumerate(NAMES)}
    counts = count_codes([chunk], layout)
    groups = {}
    for shape, table in zip(layout.shapes, counts.tables, strict=True):
        groups[shape.name] = table.ravel()
        groups[SIZES.format(shape.name)] = table.sum(axis=1)
    return groups


def movements(policy, neighbor, generator):
    """Yield the movement of every group for random neighbors of a class."""
    for _ in range(60):
        codes = np.stack([generator.integers(0, n, 12) for n in SHAPE], axis=1)
        other = codes.copy()
        for axis, name in enumerate(NAMES):
            if name in neighbor.features:
                other[0, axis] = generator.integers(0, SHAPE[axis])
        before, after = released(codes, policy), released(other, policy)
        yield {
            name: float(np.linalg.norm(before[name] - after[name])) for name in before
        }


@pytest.mark.parametrize("relation", ["one_insensitive", "all_insensitive"])
def test_no_neighbor_moves_a_group_farther_than_planned(relation):
    policy = policy_of(EMPTY, NAMES, ("s1", "s2"), relation=relation)
    plan = plan_leakage_release(policy, epsilon=1.0, delta=1e-6)
    generator = np.random.default_rng(31)
    ones = {"u": 1.0, "v": 1.0} if relation == "one_insensitive" else 1.0
    attained = False
    for neighbor in neighbor_classes(policy, ones):
        bounds = plan.table.rows_of(neighbor.name)[0]
        for moved in movements(policy, neighbor, generator):
            for group, bound in zip(plan.table.groups, bounds, strict=True):
                assert moved[group.name] <= bound + 1e-12
                attained |= bound > 0 and moved[group.name] > bound - 1e-12
    assert attained  # the bound is tight: a smaller one would have been caught


def test_a_bound_that_forgets_the_tables_of_other_features_is_caught():
    policy = policy_of(EMPTY, NAMES, ("s1", "s2"))
    sensitive = neighbor_classes(policy, {"u": 1.0, "v": 1.0})[0]
    generator = np.random.default_rng(32)
    planted = {"u": np.sqrt(2.0), "v": 0.0}  # as if S moved one table only
    assert any(
        moved[name] > bound
        for moved in movements(policy, sensitive, generator)
        for name, bound in planted.items()
    )

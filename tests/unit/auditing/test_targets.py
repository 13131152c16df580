"""Neighbors are neighbors, and as bad as they can be."""

import math

import numpy as np
import pytest

from audit_mutants import DELTA, audited_policy, training_plan
from corrdp.auditing import SampledSum, descent_challenges
from corrdp.auditing.targets import craft_pair, model_challenges
from corrdp.auditing.targets._descent import DescentSteps
from corrdp.auditing.targets._steps import craft, table_with
from corrdp.policy import neighbor_classes, policy_blocks
from neighbor_search import small_policy

CLASSES = ["sensitive", "insensitive:hours", "insensitive:race", "whole_record"]


def codes_distance(first, _, second, __):
    return np.linalg.norm(first - second, axis=1)


@pytest.mark.parametrize("protected", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_crafted_records_differ_only_where_their_class_allows(protected, missing):
    policy = small_policy(protected=protected, missing=missing)
    blocks = policy_blocks(policy)
    rng = np.random.default_rng(0)
    for neighbor in neighbor_classes(policy):
        pair = craft_pair(blocks, neighbor, codes_distance, labels=(0, 1), rng=rng)
        for block in blocks:
            same = np.array_equal(pair.first[block.columns], pair.second[block.columns])
            assert same or block.feature in neighbor.features
        assert neighbor.label_changes or pair.first_label == pair.second_label


def test_crafted_records_reach_the_diameter_of_their_domain():
    policy = small_policy()
    blocks = policy_blocks(policy)
    for neighbor in neighbor_classes(policy):
        reach = math.hypot(
            *(b.diameter for b in blocks if b.feature in neighbor.features)
        )
        pair = craft_pair(
            blocks, neighbor, codes_distance, rng=np.random.default_rng(1)
        )
        assert pair.movement == pytest.approx(reach)


def test_crafted_codes_lie_in_the_declared_domain():
    policy = small_policy(missing=True)
    blocks = policy_blocks(policy)
    rng = np.random.default_rng(2)
    for neighbor in neighbor_classes(policy):
        pair = craft_pair(blocks, neighbor, codes_distance, rng=rng)
        for codes in (pair.first, pair.second):
            for block in blocks:
                own = codes[block.columns]
                assert np.linalg.norm(own) <= block.radius
                if block.kind == "one_hot" and not block.includes_zero:
                    assert own.sum() == 1.0


@pytest.mark.parametrize("label", ["category", "number"])
@pytest.mark.parametrize("size", [0.02, 0.5])
def test_gradients_never_move_further_than_certified(label, size):
    plan = training_plan(audited_policy(label=label))
    # not at 0, where a group that nothing moves needs no noise
    path = np.full((2, plan.layout.n_columns), size)
    rng = np.random.default_rng(0)
    steps = DescentSteps(plan, path, rng)
    allowed = plan.spending.gradient_mu
    ratios = {}
    for neighbor in plan.spending.classes:
        pair = craft(steps, neighbor, rng)
        first, second = (
            steps.given(*table_with(*record, steps.blocks, steps.labels, 500))
            for record in pair.records
        )
        seen = np.linalg.norm((second - first) / steps.noise_scale)
        assert seen == pytest.approx(pair.movement, rel=1e-3)  # kernels and definition
        moved = np.linalg.norm((second - first) / steps.planned_noise())
        ratios[neighbor.name] = moved / allowed[neighbor.name]
    assert max(ratios.values()) <= 1.0
    assert 2 * ratios["sensitive"] > 1.0  # with half the noise it would be too far


def test_descent_challenges_cover_every_class():
    challenges = descent_challenges(training_plan(audited_policy()), delta=DELTA)
    assert [challenge.class_name for challenge in challenges] == CLASSES


@pytest.mark.parametrize("white_box", [False, True])
def test_training_challenges_run_whole_trainings(white_box):
    plan = training_plan(audited_policy(), n_rows=20)
    challenges = model_challenges(plan, delta=DELTA, n_steps=2, white_box=white_box)
    assert [challenge.class_name for challenge in challenges] == CLASSES
    first = challenges[0]
    differing = np.any(first.first.codes != first.second.codes, axis=1)
    assert differing.sum() == first.n_records == 2
    assert first.claim.mu == pytest.approx(
        plan.spending.total_mu["sensitive"], rel=1e-3
    )
    outputs = first.sample(first.first, 3, np.random.default_rng(0))
    n_final = plan.layout.n_columns
    n_steps = sum(walk.n_steps for walk in plan.with_steps(2).walks)
    assert outputs.shape == (3, n_final * (n_steps + 1 if white_box else 1))
    assert len(np.unique(outputs[:, -1])) == 3


def test_fixed_batches_have_one_size_and_poisson_batches_have_not():
    batches = SampledSum(
        rate=0.25, n_records=8, contribution=1.0, change=1.0, n_steps=2
    )
    rng = np.random.default_rng(0)
    present, others = batches.fixed_size(1000, rng)
    assert set(present + others) == {2}
    present, others = batches.poisson(1000, rng)
    assert len(set(present + others)) > 3
    assert abs(present.mean() - 0.25) < 0.1

"""The reference: the mean of sensitive codes, released once and paid for."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from corrdp.accounting import WHOLE_RECORD
from corrdp.estimators import MLPRegressor
from corrdp.policy import (
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    class_epsilon,
    neighbor_classes,
    policy_blocks,
)
from corrdp.torch import _planning, _reference, load_checkpoint, save_checkpoint
from corrdp.torch._planning import plan_network
from corrdp.torch._reference import SHARE, plan_reference
from corrdp.training._layout import central_reference, standardizing_scale
from unit.torch.networks import facts_of, rows, small_network, small_policy, train

pytestmark = pytest.mark.torch

POLICY = Policy(
    (
        Feature("age", "sensitive", NumberDomain(0, 100)),
        Feature("ill", "sensitive", CategoryDomain(("no", "yes", "unknown"))),
        Feature("side", "insensitive", CategoryDomain(("a", "b")), leakage=0.3),
    ),
    Label("cost", NumberDomain(0, 1), score=0.0),
)
BLOCKS = policy_blocks(POLICY)
SCALE = standardizing_scale(BLOCKS)


def scaled(frame):
    codes = np.asarray(PolicyEncoder(POLICY).fit(frame).transform(frame))
    return torch.tensor((codes - central_reference(BLOCKS)) * SCALE)


def policy_facts(**changes):
    network = small_network(BLOCKS[-1].stop)
    return facts_of(network, POLICY, code_scale=SCALE, **changes)


def table(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(60, 100, n_rows),
            "ill": rng.choice(["no", "yes", "unknown"], n_rows, p=[0.7, 0.2, 0.1]),
            "side": rng.choice(["a", "b"], n_rows),
        }
    )


def test_what_is_released_is_the_mean_with_the_planned_noise():
    facts = policy_facts()
    plan = plan_reference(facts)
    features = scaled(table())
    own = plan.columns
    assert own.tolist() == [0, 1, 2, 3]
    quiet = replace(plan, deviation=np.zeros_like(plan.deviation))
    mean = quiet.release(features, np.random.default_rng(0))
    assert mean[own] == pytest.approx(features.mean(0).numpy()[own])
    assert mean[4:] == pytest.approx(facts.reference[4:])
    # With so little noise that nothing is drawn to the center.
    calm = replace(plan, deviation=plan.deviation / 1000)
    seen = np.array(
        [calm.release(features, np.random.default_rng(s))[own] for s in range(4000)]
    )
    wanted = calm.deviation / len(features) * SCALE[own]
    assert seen.std(0) == pytest.approx(wanted, rel=0.05)


def worst_movement(plan, neighbor):
    """Largest movement of the sums found when a record changes, in units of noise."""
    rng = np.random.default_rng(1)
    quiet = replace(plan, deviation=np.zeros_like(plan.deviation))
    worst = 0.0
    for _ in range(60):
        ends = pd.DataFrame(
            {
                "age": rng.choice([0.0, 100.0], 2),
                "ill": rng.choice(["no", "yes", "unknown"], 2),
                "side": rng.choice(["a", "b"], 2),
            }
        )
        for name in set(ends) - set(neighbor.features):
            ends.loc[1, name] = ends.loc[0, name]
        one, other = (quiet.release(row[None], rng) for row in scaled(ends))
        moved = ((other - one) / plan.scale)[plan.columns] / plan.deviation
        worst = max(worst, float(np.linalg.norm(moved)))
    return worst


def test_no_neighbor_moves_the_release_beyond_its_price(monkeypatch):
    plan = plan_reference(policy_facts())
    for neighbor in neighbor_classes(POLICY):
        price = plan.noise.step_change(neighbor.name)
        worst = worst_movement(plan, neighbor)
        assert worst <= price * (1 + 1e-9)
        if neighbor.name in ("sensitive", WHOLE_RECORD):
            assert worst > 0.99 * price  # the search finds the worst
        else:
            assert price == 0.0
    wide = [replace(b, diameter=2 * b.diameter) for b in plan.blocks]
    monkeypatch.setattr(  # planted: what is summed is twice as wide as priced
        _reference, "projected", lambda codes, block: 2 * codes
    )
    monkeypatch.setattr(_reference, "code_range", lambda block: (-2.0, 2.0))
    forgotten = replace(plan, blocks=tuple(wide))
    neighbor = neighbor_classes(POLICY)[0]
    assert worst_movement(forgotten, neighbor) > plan.noise.step_change(neighbor.name)


def test_release_and_training_together_stay_within_every_class():
    facts = policy_facts()
    plan = plan_network(facts, fall_back=False)
    without = plan_network(replace(facts, code_scale=None), fall_back=False)
    assert plan.reference is not None
    forgotten = replace(plan, noise=without.noise)  # planted: paid for once only
    promised = {
        c.name: class_epsilon(c.distance, epsilon=1.0, epsilon_cap=POLICY.epsilon_cap)
        for c in neighbor_classes(POLICY)
        if c.promised
    }
    for name, epsilon in promised.items():
        assert plan.epsilon(name) <= epsilon
    assert any(forgotten.epsilon(name) > epsilon for name, epsilon in promised.items())
    # A fiftieth of the squared price, so that training has nearly all of it.
    change = plan.reference.noise.step_change("sensitive")
    whole = math.hypot(change, math.sqrt(10) * plan.noise.step_change("sensitive"))
    assert change**2 == pytest.approx(SHARE * whole**2, rel=1e-3)


def test_only_full_batches_with_bounded_influence_release_a_reference():
    facts = policy_facts()
    assert plan_network(facts, method="layered").reference is None
    assert plan_network(replace(facts, rate=0.1), fall_back=False).reference is None
    assert plan_network(replace(facts, code_scale=None)).reference is None


def trained(**changes):
    features = scaled(table()).double()
    labels = torch.rand(len(features), generator=torch.Generator().manual_seed(3))
    return train(
        small_network(BLOCKS[-1].stop),
        (features, labels.double()),
        policy=POLICY,
        reference=np.zeros(BLOCKS[-1].stop),
        code_scale=SCALE,
        **changes,
    )


def run(training, n_steps):
    for _ in range(n_steps):
        training.loader.steps_taken += 1
        training.module.backward(*training.loader.draw())
        training.optimizer.step()


def test_the_reference_is_released_once_with_the_first_step():
    training = trained()
    module = training.module
    assert module.reference is None
    names = [part.name for part in module.plan.components]
    assert names == ["reference", "training"]
    assert "mean of sensitive codes" in module.plan.to_text()
    run(training, 1)
    first = module.reference.clone()
    assert first[:4].abs().min() > 0
    assert first[4:].abs().max() == 0
    run(training, 1)
    assert torch.equal(module.reference, first)
    assert module.certificate().epsilon <= 1.0


@pytest.mark.parametrize("random_state", [0, None])
def test_a_resumed_training_does_not_release_it_again(tmp_path, random_state):
    path = tmp_path / "training.pt"
    training = trained(random_state=random_state)
    save_checkpoint(training, path)
    fresh = trained(random_state=random_state)
    load_checkpoint(fresh, path)
    assert fresh.module.reference is None  # no step, nothing released
    run(training, 2)
    save_checkpoint(training, path)
    resumed = trained(random_state=random_state)
    load_checkpoint(resumed, path)
    run(resumed, 1)
    assert torch.equal(resumed.module.reference, training.module.reference)


def test_a_public_reference_is_left_alone():
    training = train(small_network(), rows(50), policy=small_policy())
    assert training.module.plan.reference is None
    center = training.module.reference.clone()
    run(training, 1)
    assert torch.equal(training.module.reference, center)


def test_a_reference_far_from_the_rows_pulls_groups_apart(monkeypatch):
    # Nearly all rows have side a, so that its weight and the biases can stand for
    # each other; one follows the reference, the others the rows.
    rng = np.random.default_rng(0)
    frame = table(1000).assign(side=rng.choice(["a", "b"], 1000, p=[0.9, 0.1]))
    cost = (frame["age"] / 100) ** 2 - 0.3 + 0.02 * rng.normal(size=1000)
    frame = frame.assign(cost=cost.clip(0, 1))

    def score():
        model = MLPRegressor(
            POLICY, epsilon=4.0, delta=1e-5, fall_back=False, random_state=0
        ).fit(frame)
        assert model.plan_.method == "corr"
        return model.score(frame, frame["cost"])

    released = score()
    monkeypatch.setattr(_planning, "_releases_reference", lambda facts: False)
    assert released > score() + 0.1

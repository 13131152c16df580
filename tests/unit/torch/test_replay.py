"""All that networks release is recomputed from their draws, step by step."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

from corrdp.policy import (
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    policy_blocks,
)
from corrdp.torch import _make_private
from corrdp.training._layout import central_reference, standardizing_scale
from unit.torch.networks import small_network, squared, train
from unit.torch.replaying import (
    Recorder,
    clipped_sum,
    mean_reference,
    released_parts,
)

pytestmark = pytest.mark.torch

POLICY = Policy(
    (
        Feature("age", "sensitive", NumberDomain(0, 100)),
        Feature("ill", "sensitive", CategoryDomain(("no", "yes", "unknown"))),
        Feature("x", "insensitive", NumberDomain(0, 1), leakage=0.3),
        Feature("side", "insensitive", CategoryDomain(("a", "b")), leakage=0.2),
    ),
    Label("cost", NumberDomain(0, 1), score=0.0),
)
BLOCKS = policy_blocks(POLICY)
SCALE = standardizing_scale(BLOCKS)
CENTER = central_reference(BLOCKS)
N_ROWS = 12
LEARNING_RATE = 0.01  # of `train`


def codes(seed=4, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    one_hot = [np.eye(width)[rng.integers(width, size=n_rows)] for width in (3, 2)]
    numbers = [rng.uniform(-0.5, 0.5, size=(n_rows, 1)) for _ in range(2)]
    numbers[0] = np.abs(numbers[0])  # far from the center
    return np.hstack([numbers[0], one_hot[0], numbers[1], one_hot[1]])


def data(seed=4):
    labels = np.random.default_rng(seed + 1).normal(size=N_ROWS)
    return torch.tensor((codes(seed) - CENTER) * SCALE), torch.tensor(labels)


def masked_network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(7, 4), nn.Dropout(0.4), nn.Tanh(), nn.Linear(4, 1)
    ).double()


def plain_network():
    return small_network(n_inputs=7)


SETTINGS = {
    "groups": (plain_network, {}),
    "groups by feature": (plain_network, {"group_by": "feature"}),
    "groups, sampled": (plain_network, {"batch_size": 4}),
    "groups, masks": (masked_network, {}),
    "layers": (plain_network, {"method": "layered"}),
    "layers, sampled": (plain_network, {"method": "layered", "batch_size": 4}),
    "flat": (plain_network, {"method": "standard"}),
    "flat, sampled, masks": (masked_network, {"method": "standard", "batch_size": 4}),
    "theorem": (plain_network, {"calibration": "theorem"}),
    "groups, residuals": (plain_network, {"residual_bound": 1.5}),
    "layers, residuals, sampled": (
        plain_network,
        {"method": "layered", "batch_size": 4, "residual_bound": 1.5},
    ),
    "groups, masks, residuals": (masked_network, {"residual_bound": 1.5}),
}


def recorded(name, monkeypatch, rows=None, **changes):
    """A training whose draws are remembered, seed None as users have it."""
    recorder = Recorder()
    monkeypatch.setattr(
        _make_private, "noise_generator", lambda random_state=None: recorder
    )
    build, setting = SETTINGS[name]
    arguments = {
        "policy": POLICY,
        "clip_norm": 0.3,
        "reference": np.zeros(7),
        "code_scale": SCALE,
        "random_state": None,
        "epsilon": 20.0,
        "epochs": 4 if "batch_size" not in setting else 1,
    }
    training = train(build(), rows or data(), **(arguments | setting | changes))
    return training, recorder


def run(training):
    """Train as users do; return parameters before and gradients after each step."""
    module, optimizer, loader = training
    steps = []
    for batch in loader:
        before = [p.detach().clone() for p in module.parameters()]
        module.backward(*batch)
        steps.append((before, released_parts(training)))
        gradients = [p.grad.clone() for p in module.parameters()]
        optimizer.step()
        after = zip(before, gradients, module.parameters(), strict=True)
        for old, gradient, new in after:
            stepped = old - LEARNING_RATE * gradient
            assert torch.allclose(new.detach(), stepped, rtol=1e-12, atol=1e-14)
    return steps


def certified_noise(training):
    """Noise per group of every release, from the certificate that users are given."""
    return {
        part.name: part.plan.noise_scale
        for part in training.module.certificate().components
    }


def replayed_reference(training, deviations, draws):
    """What must have stood for sensitive codes."""
    reference = np.zeros(7)
    if "reference" in deviations:
        kind, noise = draws.pop(0)
        assert kind == "noise"
        own = [0, 1, 2, 3]
        deviation = deviations["reference"][[0, 1, 1, 1]]
        diameter = np.array([1.0, *3 * [math.sqrt(2)]])
        low, high = np.array([-0.5, 0, 0, 0]), np.array([0.5, 1, 1, 1])
        mean = mean_reference(
            codes()[:, own], noise, deviation, CENTER[own], diameter / 4, low, high
        )
        reference[own] = (mean - CENTER[own]) * SCALE[own]
        assert training.module.reference.numpy() == pytest.approx(reference, abs=1e-12)
    return torch.tensor(reference)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_gradient_is_that_of_its_draws(name, monkeypatch):
    training, recorder = recorded(name, monkeypatch)
    steps = run(training)
    module, _, loader = training
    draws, deviations = list(recorder.drawn), certified_noise(training)
    reference = replayed_reference(training, deviations, draws)
    released_first = module.plan.layout.clips_influence and loader.rate is None
    assert ("reference" in deviations) == released_first
    features, labels = data()
    network = SETTINGS[name][0]()
    assert len(steps) == module.plan.noise.n_steps == module.steps_charged
    for before, released in steps:
        with torch.no_grad():
            for parameter, value in zip(network.parameters(), before, strict=True):
                parameter.copy_(value)
        chosen, words = np.arange(N_ROWS), None
        if loader.rate is not None:
            (_, count), (_, chosen) = draws.pop(0), draws.pop(0)
            assert len(set(chosen.tolist())) == len(chosen) == count
        if "masks" in name and len(chosen):
            kind, words = draws.pop(0)
            assert kind == "masks"
        kind, noise = draws.pop(0)
        assert kind == "noise"
        wanted = [
            deviation * part
            for deviation, part in zip(
                deviations["training"], released_parts(training, noise), strict=True
            )
        ]
        if len(chosen):
            sums = clipped_sum(
                network,
                module.plan.layout,
                reference,
                features[chosen],
                labels[chosen],
                squared,
                words,
            )
            sums = regrouped(training, sums)
            wanted = [one + other for one, other in zip(wanted, sums, strict=True)]
        for group, found, one in zip(
            module.plan.noise_layout.groups, released, wanted, strict=True
        ):
            assert torch.allclose(found, one, rtol=1e-8, atol=1e-9), group.name
    assert draws == []  # nothing else was drawn, and nothing twice
    if loader.rate is not None:
        assert set(recorder.coins) == {(N_ROWS, module.plan.noise.rate)}


def regrouped(training, sums):
    """Sums by clipped group as sums by group of noise; the former may be all in one."""
    plan = training.module.plan
    if plan.layout is plan.noise_layout:
        return sums
    (flat,) = sums
    return released_parts(training, flat.numpy())


def log_deltas(mu, epsilon):
    one = norm.cdf(mu / 2 - epsilon / mu)
    return one - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


FULL = [n for n in SETTINGS if "sampled" not in n and n != "theorem"]


@pytest.mark.parametrize("name", FULL)
def test_the_noise_that_is_drawn_is_that_of_the_certificate(name, monkeypatch):
    # The trade-off of Gaussian noise in closed form, from norms that the replay of
    # every gradient has shown to hold and from noise that it has shown to be drawn.
    training, _ = recorded(name, monkeypatch)
    module = training.module
    deviations = certified_noise(training)
    square = 0.0
    for group, deviation in zip(
        module.plan.layout.groups, deviations["training"], strict=True
    ):
        bound = 2 * min(group.clip_norm, group.influence_bound)
        square += module.plan.noise.n_steps * (bound / deviation) ** 2
    if "reference" in deviations:
        diameter = np.array([1.0, math.sqrt(2)])
        square += np.sum((diameter / deviations["reference"]) ** 2)
    epsilon = module.certificate().classes["sensitive"].epsilon
    assert log_deltas(math.sqrt(square), epsilon) == pytest.approx(1e-5, rel=1e-3)
    less = log_deltas(math.sqrt(square) / 0.8, epsilon)
    assert less > 2e-5  # a fifth less noise would be noticed


@pytest.mark.parametrize("name", SETTINGS)
def test_other_rows_change_nothing_but_what_is_noisy(name, monkeypatch):
    seen = []
    for seed in (4, 40):
        training, recorder = recorded(name, monkeypatch, data(seed))
        run(training)
        module, _, loader = training
        seen.append(
            (
                module.plan.to_json(),
                module.certificate().to_json(),
                loader.steps_taken,
                [(kind, values.tolist()) for kind, values in recorder.drawn],
            )
        )
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", ["groups", "groups, masks"])
def test_no_two_steps_share_noise(name):
    # Correlation of independent normals over 29 x 60 numbers; Fisher's bound at a
    # false alarm probability of 1e-9 is 6.2 / sqrt(n).
    build, setting = SETTINGS[name]
    noise = []
    for random_state in (None, None):
        training = train(
            build(),
            data(),
            policy=POLICY,
            reference=np.zeros(7),
            code_scale=SCALE,
            epsilon=0.01,
            epochs=40,
            random_state=random_state,
            **setting,
        )
        deviations = certified_noise(training)["training"]
        for batch in training.loader:
            training.module.backward(*batch)
            parts = released_parts(training)
            scaled = [p / d for p, d in zip(parts, deviations, strict=True)]
            noise.append(torch.cat(scaled).numpy())
    first, second = np.concatenate(noise[:-1]), np.concatenate(noise[1:])
    bound = 6.2 / math.sqrt(first.size)
    assert abs(np.corrcoef(first, second)[0, 1]) <= bound
    assert np.corrcoef(first, first)[0, 1] > bound  # the same noise is noticed
    half = first.size // 2  # two trainings without a seed
    assert abs(np.corrcoef(first[:half], first[-half:])[0, 1]) <= 6.2 / half**0.5

"""Clipped sums against brute force, for every kind of layer."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from corrdp.torch._layers import trained_layers
from corrdp.torch._layout import flat_layout
from corrdp.torch._planning import grouped
from unit.torch.networks import (
    brute_force_parts,
    example_gradients,
    facts_of,
    flat_sum,
    group_parts,
    released_sum,
    rows,
    small_network,
    small_policy,
    squared,
)

pytestmark = pytest.mark.torch

OTHER_LAYERS = {
    "linear": (lambda: small_network(), (5,)),
    "deep": (
        lambda: nn.Sequential(
            nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)
        ),
        (5,),
    ),
    "no bias": (
        lambda: nn.Sequential(nn.Linear(5, 4, bias=False), nn.Linear(4, 1)),
        (5,),
    ),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 1)),
        (1, 4, 4),
    ),
    "convolution in one dimension": (
        lambda: nn.Sequential(nn.Conv1d(2, 3, 2), nn.Flatten(), nn.Linear(9, 1)),
        (2, 4),
    ),
    "layer norm": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 1)),
        (5,),
    ),
    "group norm": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.GroupNorm(2, 2), nn.Flatten(), nn.Linear(8, 1)
        ),
        (1, 4, 4),
    ),
    "linear on sequences": (
        lambda: nn.Sequential(nn.Linear(3, 2), nn.Flatten(), nn.Linear(8, 1)),
        (4, 3),
    ),
    "bilinear parts": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.PReLU(), nn.Linear(4, 1)),
        (5,),
    ),
}


@pytest.mark.parametrize("clip_norm", [0.05, 1.0, 1e6])
@pytest.mark.parametrize("kind", OTHER_LAYERS)
def test_flat_clipping_is_that_of_single_examples(kind, clip_norm):
    build, shape = OTHER_LAYERS[kind]
    torch.manual_seed(0)
    network = build().double()
    features = torch.randn(7, *shape).double()
    labels = torch.randn(7).double()
    layout = flat_layout(trained_layers(network)).with_clip_norm(clip_norm)
    ours = released_sum(network, layout, features, labels)
    expected = flat_sum(example_gradients(network, features, labels), clip_norm)
    ordered = torch.cat(
        [ours[name].flatten() for name, _ in network.named_parameters()]
    )
    assert torch.allclose(ordered, expected, rtol=1e-10, atol=1e-12)


def test_flat_clipping_of_an_embedding():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Embedding(6, 3), nn.Flatten(), nn.Linear(6, 1)).double()
    features, labels = torch.randint(0, 6, (5, 2)), torch.randn(5).double()
    layout = flat_layout(trained_layers(network)).with_clip_norm(0.3)
    ours = released_sum(network, layout, features, labels)
    expected = flat_sum(example_gradients(network, features, labels), 0.3)
    ordered = torch.cat(
        [ours[name].flatten() for name, _ in network.named_parameters()]
    )
    assert torch.allclose(ordered, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("by_feature", [False, True])
@pytest.mark.parametrize("influence", [0.0, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("clip_norm", [0.1, 3.0, 1e5])
def test_influence_clipping_is_that_of_single_examples(
    by_feature, influence, clip_norm
):
    policy = small_policy(n_public=1)
    network = small_network(n_inputs=6)
    features, labels = rows(n_columns=6)
    facts = facts_of(network, policy, clip_norm=clip_norm, by_feature=by_feature)
    layout = replace(grouped(facts, influence), reference=torch.ones(6).numpy() / 3)
    ours = group_parts(layout, released_sum(network, layout, features, labels))
    expected = brute_force_parts(network, layout, features, labels)
    for group, own, wanted in zip(layout.groups, ours, expected, strict=True):
        assert own.numel() == group.size
        assert torch.allclose(own, wanted, rtol=1e-9, atol=1e-12), group.name


def test_the_comparison_notices_a_missing_influence_bound():
    network, policy = small_network(), small_policy()
    features, labels = rows()
    layout = grouped(facts_of(network, policy), 0.05)
    forgotten = replace(
        layout,
        groups=tuple(replace(g, influence_bound=float("inf")) for g in layout.groups),
    )
    ours = group_parts(forgotten, released_sum(network, forgotten, features, labels))
    expected = brute_force_parts(network, layout, features, labels)
    equal = [
        torch.allclose(o, e, rtol=1e-3, atol=1e-6)
        for o, e in zip(ours, expected, strict=True)
    ]
    assert not all(equal)


def test_no_example_exceeds_its_bounds():
    network, policy = small_network(), small_policy()
    features, labels = rows(40)
    layout = grouped(facts_of(network, policy, clip_norm=0.2), 0.5)
    for index in range(len(features)):
        one = features[index : index + 1] * 30, labels[index : index + 1] * 30
        parts = group_parts(layout, released_sum(network, layout, *one))
        for group, part in zip(layout.groups, parts, strict=True):
            assert part.norm() <= group.clip_norm * (1 + 1e-12)


def test_frozen_parameters_are_left_alone():
    network = small_network()
    network[0].weight.requires_grad_(False)
    layers = trained_layers(network)
    assert {(la.name, key) for la in layers for key in la.parameters} == {
        ("0", "bias"),
        ("2", "weight"),
        ("2", "bias"),
    }
    features, labels = rows()
    layout = flat_layout(layers).with_clip_norm(1e9)
    ours = released_sum(network, layout, features, labels)
    network[0].weight.requires_grad_(True)
    whole = example_gradients(network, features, labels, squared)
    assert torch.allclose(ours["0.bias"], sum(g["0.bias"] for g in whole))

"""Small networks, policies and brute-force gradients shared by the torch tests."""

import math

import numpy as np
import torch
from torch import nn

from corrdp.policy import (
    Budget,
    Feature,
    Label,
    NumberDomain,
    Policy,
    neighbor_classes,
    policy_blocks,
)
from corrdp.torch import make_private
from corrdp.torch._capture import Capture
from corrdp.torch._clipping import GroupClipper
from corrdp.torch._layers import trained_layers
from corrdp.torch._plan_inputs import NetworkPlanInputs


def small_policy(n_sensitive=2, n_insensitive=3, n_public=0, leakage=0.2, score=0.0):
    roles = ["sensitive"] * n_sensitive + ["insensitive"] * n_insensitive
    roles += ["public"] * n_public
    return Policy(
        tuple(
            Feature(
                f"x{index}",
                role,
                NumberDomain(0, 1),
                leakage=leakage if role == "insensitive" else None,
            )
            for index, role in enumerate(roles)
        ),
        Label("y", NumberDomain(0, 1), score=score),
    )


def small_network(n_inputs=5, n_hidden=4, n_outputs=1, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(n_inputs, n_hidden), nn.Softplus(), nn.Linear(n_hidden, n_outputs)
    ).double()


def rows(n_rows=16, n_columns=5, seed=1):
    """Codes of numbers, and labels."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.rand(n_rows, n_columns, generator=generator).double() - 0.5
    return features, torch.randn(n_rows, generator=generator).double()


def squared(outputs, labels):
    return (outputs.flatten(1).sum(1) - labels) ** 2


def facts_of(network, policy, **changes):
    blocks = policy_blocks(policy)
    arguments = {
        "layers": trained_layers(network),
        "blocks": blocks,
        "reference": np.zeros(blocks[-1].stop),
        "policy": policy,
        "classes": neighbor_classes(policy),
        "budget": Budget(epsilon=1.0, delta=1e-5),
        "n_rows": 1000,
        "n_steps": 10,
        "rate": None,
        "clip_norm": 1.0,
    }
    return NetworkPlanInputs(**(arguments | changes))


def train(network, data, *, policy=None, **changes):
    arguments = {
        "loss": squared,
        "policy": policy or small_policy(),
        "epsilon": 1.0,
        "delta": 1e-5,
        "epochs": 5,
        "fall_back": False,
        "random_state": 0,
    }
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    return make_private(network, optimizer, data, **(arguments | changes))


def step_on(training, features, labels):
    """Take a step on a batch as if the loader had drawn it."""
    training.module.backward(*training.loader._hand_out(features, labels))


def example_gradients(network, features, labels, loss=squared):
    """Gradient of every example by itself, one backward pass each."""
    gradients = []
    for index in range(len(features)):
        network.zero_grad()
        value = loss(network(features[index : index + 1]), labels[index : index + 1])
        value.sum().backward()
        gradients.append(
            {name: p.grad.clone() for name, p in network.named_parameters()}
        )
    network.zero_grad()
    return gradients


def shrink(vector, norm):
    largest = float(vector.abs().max())
    if largest == 0.0:
        return vector
    scaled = vector / largest  # squares of large numbers do not fit
    length = float(scaled.norm())
    return vector if largest * length <= norm else scaled * (norm / length)


def flat_sum(gradients, norm):
    """Sum of whole gradients, each clipped to `norm`."""
    total = None
    for gradient in gradients:
        flat = shrink(torch.cat([g.flatten() for g in gradient.values()]), norm)
        total = flat if total is None else total + flat
    return total


def released_sum(network, layout, features, labels, reference=None, loss=squared):
    """The library's clipped sum, by parameter name."""
    layers = trained_layers(network)
    clipper = GroupClipper(layers, layout)
    batch, targets = features, labels
    if layout.clips_influence:
        masked = torch.where(
            torch.as_tensor(layout.sensitive),
            torch.as_tensor(layout.reference, dtype=features.dtype),
            features,
        )
        batch, targets = torch.cat([features, masked]), torch.cat([labels, labels])
    with Capture(layers) as capture:
        losses = loss(network(batch), targets)
    backprops = capture.backprops(losses.sum())
    n_rows = len(features)
    out = {
        (layer.name, key): torch.empty_like(parameter)
        for layer in layers
        for key, parameter in layer.parameters.items()
    }
    with torch.no_grad():
        clipper.add_sum(
            {layer.name: capture.activation(layer.name)[:n_rows] for layer in layers},
            {name: b[:n_rows] for name, b in backprops.items()},
            backprops[layout.input_layer][n_rows:] if layout.clips_influence else None,
            out,
        )
    return {".".join(p for p in name if p): value for name, value in out.items()}


def group_parts(layout, gradient):
    """Split a gradient, by parameter name, into one vector per group."""
    parts = [[] for _ in layout.groups]
    for name, value in gradient.items():
        layer, _, key = name.rpartition(".")
        index = layout.parameter_groups.get((layer, key))
        if index is None:
            for column, group in enumerate(layout.column_groups):
                parts[group].append(value[:, column].flatten())
        else:
            parts[index].append(value.flatten())
    return [torch.cat(part) for part in parts]


def brute_force_parts(network, layout, features, labels, loss=squared):
    """Clipped sums per group by the definition, one example at a time."""
    true = example_gradients(network, features, labels, loss)
    masked = torch.where(
        torch.as_tensor(layout.sensitive),
        torch.as_tensor(layout.reference, dtype=features.dtype),
        features,
    )
    at_reference = example_gradients(network, masked, labels, loss)
    weight = f"{layout.input_layer}.weight"
    bias = f"{layout.input_layer}.bias"
    totals = None
    for row, gradient, other in zip(features, true, at_reference, strict=True):
        parts = []
        replaced = dict(gradient)
        # The gradient of the bias is the backprop signal itself.
        replaced[weight] = torch.outer(other[bias], row)
        own, reference = group_parts(layout, gradient), group_parts(layout, replaced)
        for group, v, a in zip(layout.groups, own, reference, strict=True):
            if math.isfinite(group.influence_bound):
                a = a - shrink(a, group.influence_bound)  # the anchor
                v = a + shrink(v - a, group.influence_bound)
            parts.append(shrink(v, group.clip_norm))
        totals = (
            parts
            if totals is None
            else [t + p for t, p in zip(totals, parts, strict=True)]
        )
    return totals

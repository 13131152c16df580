"""Recompute all that a training releases from the numbers that it drew."""

import math

import numpy as np
import torch

from unit.torch.networks import group_parts, shrink, step_on


class Recorder(np.random.Generator):
    """A generator that remembers what it gave out, and gives nothing else."""

    def __init__(self, seed=0):
        super().__init__(np.random.PCG64(seed))
        self.drawn = []
        self.coins = []  # what binomial counts were asked for

    def _remember(self, kind, values):
        self.drawn.append((kind, np.array(values)))
        return values

    def standard_normal(self, *given, **named):
        return self._remember("noise", super().standard_normal(*given, **named))

    def binomial(self, n, p):
        self.coins.append((n, p))
        return self._remember("count", super().binomial(n, p))

    def choice(self, *given, **named):
        return self._remember("rows", super().choice(*given, **named))

    def integers(self, *given, **named):
        return self._remember("masks", super().integers(*given, **named))

    def _refuse(self, *given, **named):
        raise AssertionError("a draw that no proof knows of")

    normal = random = uniform = permutation = shuffle = permuted = _refuse
    bytes = exponential = laplace = poisson = multivariate_normal = _refuse


def mask_state(words):
    """State of torch's generator that is made of 624 words."""
    state = torch.Generator().manual_seed(0).get_state().numpy().copy()
    state[24 : 24 + 8 * 624].view(np.uint64)[:] = words
    return torch.from_numpy(state)


def clipped_sum(network, layout, reference, features, labels, loss, words=None):
    """Sum over rows by the definition: one gradient of autograd for each row.

    Flat, in the order of the parameters. Whatever is not finite is zero, or its
    reference where influence is bounded.
    """
    parameters = dict(network.named_parameters())
    batch, targets = features, labels
    if layout.clips_influence:
        masked = features.clone()
        masked[:, layout.sensitive] = reference[layout.sensitive]
        batch, targets = torch.cat([features, masked]), torch.cat([labels, labels])
    if words is not None:  # masks are those of the whole batch
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(mask_state(words))
            outputs = network(batch)

    def gradient(index):
        """One example's gradient and the part of the norms that it may use."""
        own = slice(index, index + 1)
        said = network(batch[own]) if words is None else outputs[own]
        one = loss(said, targets[own])
        found = torch.autograd.grad(
            one.sum(), tuple(parameters.values()), retain_graph=True
        )
        residual = torch.autograd.grad(one.sum(), said, retain_graph=True)[0]
        part = float(residual.norm()) / layout.residual_bound
        cut = min(1.0, 1.0 / part) if part else 1.0
        room = min(1.0, part) if math.isfinite(layout.residual_bound) else 1.0
        return dict(zip(parameters, (cut * f for f in found), strict=True)), room

    n_rows = len(features)
    total = None
    for index in range(n_rows):
        own, room = gradient(index)
        other, other_room = dict(own), room
        if layout.clips_influence:
            masked, other_room = gradient(n_rows + index)
            signal = masked[f"{layout.input_layer}.bias"]
            other[f"{layout.input_layer}.weight"] = torch.outer(signal, features[index])
        parts = contribution(layout, own, other, room, other_room)
        total = (
            parts
            if total is None
            else [a + b for a, b in zip(total, parts, strict=True)]
        )
    return total


def contribution(layout, own, other, room=1.0, other_room=1.0):
    """What one record adds to every group: influence first, then the norm."""
    parts = []
    for group, true, reference in zip(
        layout.groups, group_parts(layout, own), group_parts(layout, other), strict=True
    ):
        part, norm = true, room * group.clip_norm
        if math.isfinite(group.influence_bound):
            norm = other_room * group.clip_norm
            if not torch.isfinite(reference).all():
                reference = true = torch.zeros_like(true)
            if not torch.isfinite(true).all():
                true = reference
            anchor = reference - shrink(reference, group.influence_bound)
            part = anchor + shrink(true - anchor, group.influence_bound)
        if not torch.isfinite(part).all():
            part = torch.zeros_like(part)
        parts.append(shrink(part, norm))
    return parts


def released_parts(training, flat=None):
    """The gradient that optimizers see, as sums by group; or any flat vector."""
    module, _, loader = training
    network, parts, start = module.module, {}, 0
    for name, parameter in network.named_parameters():
        if flat is None:
            parts[name] = parameter.grad.detach() * loader.expected_batch
        else:
            stop = start + parameter.numel()
            parts[name] = torch.as_tensor(flat[start:stop]).view_as(parameter)
            start = stop
    return group_parts(module.plan.noise_layout, parts)


def neighbor_movement(training, records):
    """How far what a step releases moves between two records, by group.

    All other rows are those of the loader, and both steps have the same noise.
    """
    module, _, loader = training
    state = module._generator.bit_generator.state
    sums = []
    for codes, label in records:
        features, labels = loader.features.clone(), loader.labels.clone()
        features[1], labels[1] = codes, label
        module._generator.bit_generator.state = state
        step_on(training, features, labels)
        parts = released_parts(training)
        assert all(torch.isfinite(part).all() for part in parts)
        sums.append(parts)
    return np.array([float((a - b).norm()) for a, b in zip(*sums, strict=True)])


def mean_reference(codes, noise, deviation, center, spread, low, high):
    """The reference by its formula: noisy mean, drawn to the center, in the domain."""
    n_rows = len(codes)
    mean = (codes.sum(0) + deviation * noise) / n_rows
    shrunk = spread**2 / (spread**2 + (deviation / n_rows) ** 2)
    return np.minimum(np.maximum(center + (mean - center) * shrunk, low), high)

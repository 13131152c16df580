"""Layers that sensitive features join only after: bounds by brute force."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from corrdp.exceptions import CorrDPError
from corrdp.policy import neighbor_classes
from corrdp.torch import _make_private
from unit.torch.networks import (
    example_gradients,
    rows,
    shrink,
    small_network,
    squared,
    train,
)

pytestmark = pytest.mark.torch

N_SENSITIVE = 2
TOWER = ("tower.0", "tower.2")


class TwoTowers(nn.Module):
    """Three insensitive columns in layers of their own, then two sensitive ones."""

    def __init__(self, seed=0, size=1.0, sees_all=False):
        super().__init__()
        torch.manual_seed(seed)
        self.sees_all = sees_all
        self.tower = nn.Sequential(
            nn.Linear(5 if sees_all else 3, 4),
            nn.Softplus(),
            nn.Linear(4, 3, bias=False),
        )
        self.head = nn.Sequential(
            nn.Linear(N_SENSITIVE + 3, 4), nn.Softplus(), nn.Linear(4, 1)
        )
        self.double()
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(size)

    def forward(self, features):
        own = features if self.sees_all else features[:, N_SENSITIVE:]
        joined = torch.cat([features[:, :N_SENSITIVE], self.tower(own)], dim=1)
        return self.head(joined)


def trained(network, data=None, **changes):
    return train(network, data or rows(), towers=["tower"], **changes)


def at_reference(features):
    """Codes of numbers have their center at zero."""
    return torch.cat([torch.zeros_like(features[:, :2]), features[:, 2:]], dim=1)


def parts_of(layout, gradient):
    """One vector per group, in the order of groups."""
    parts = [[] for _ in layout.groups]
    for name, value in gradient.items():
        layer, _, key = name.rpartition(".")
        parts[layout.parameter_groups[layer, key]].append(value.flatten())
    return [torch.cat(part) for part in parts]


@pytest.mark.parametrize("clip_norm", [0.3, 3.0])
def test_sums_are_those_of_the_definition(clip_norm):
    """One gradient of autograd per row and pass; inputs of towers are the same."""
    network = TwoTowers(size=2.0)
    features, labels = rows()
    training = trained(network, clip_norm=clip_norm)
    layout = training.module.plan.layout
    assert layout.towers == TOWER
    ours = parts_of(layout, training.module.clipped_sum(features, labels))
    true = example_gradients(network, features, labels)
    second = example_gradients(network, at_reference(features), labels)
    theirs = [torch.zeros_like(part) for part in ours]
    n_bounded = 0
    for one, other in zip(true, second, strict=True):
        pairs = zip(parts_of(layout, one), parts_of(layout, other), strict=True)
        for total, group, (v, a) in zip(theirs, layout.groups, pairs, strict=True):
            if math.isfinite(group.influence_bound):
                anchor = a - shrink(a, group.influence_bound)
                n_bounded += float((v - anchor).norm()) > group.influence_bound
                v = anchor + shrink(v - anchor, group.influence_bound)
            total += shrink(v, group.clip_norm)
    assert n_bounded > 0 or clip_norm > 1.0
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("sees_all", [False, True], ids=["tower", "sees all"])
def test_no_layer_moves_beyond_its_bound(monkeypatch, sees_all):
    """Worst neighbors of a random search, also where a tower sees what it must not."""
    if sees_all:
        monkeypatch.setattr(_make_private, "check_towers", lambda *given: None)
    rng = np.random.default_rng(5)
    worst = {}
    for seed in range(2):
        network = TwoTowers(seed, size=3.0, sees_all=sees_all)
        training = trained(network, clip_norm=5.0)
        layout = training.module.plan.layout
        table = layout.sensitivity_table(neighbor_classes(training.module.terms.policy))
        for _ in range(40):
            row = torch.as_tensor(rng.normal(size=(1, 5)) * 10.0 ** rng.uniform(-1, 1))
            other = row.clone()
            other[:, :N_SENSITIVE] = torch.as_tensor(rng.normal(size=(1, 2)) * 20)
            label = torch.as_tensor(rng.normal(size=1) * 3)
            one, two = (
                parts_of(layout, training.module.clipped_sum(r, label))
                for r in (row, other)
            )
            bounds = table.bounds[table.classes.index("sensitive")]
            for group, a, b, bound in zip(layout.groups, one, two, bounds, strict=True):
                ratio = float((a - b).norm()) / bound
                worst[group.name] = max(worst.get(group.name, 0.0), ratio)
    assert all(ratio <= 1.0 + 1e-9 for ratio in worst.values()), worst
    assert max(worst[f"layer:{name}"] for name in TOWER) > 0.4  # it is looked for
    for name in TOWER:
        index = layout.parameter_groups[name, "weight"]
        assert bounds[index] == pytest.approx(0.4 * layout.groups[index].clip_norm)


def test_residuals_leave_the_ball_of_a_tower_alone():
    network = TwoTowers(size=3.0)
    training = trained(network, clip_norm=5.0, residual_bound=1.0)
    layout = training.module.plan.layout
    row, label = rows(1)
    moved = row.clone()
    moved[:, :N_SENSITIVE] = 30.0
    one, two = (
        parts_of(layout, training.module.clipped_sum(r, label)) for r in (row, moved)
    )
    for group, a, b in zip(layout.groups, one, two, strict=True):
        if math.isfinite(group.influence_bound):
            assert (a - b).norm() <= 2.0 * group.influence_bound * (1 + 1e-9)


def test_a_training_of_towers_runs_with_a_released_reference():
    training = trained(TwoTowers(), code_scale=np.ones(5), epochs=2)
    for batch in training.loader:
        training.module.backward(*batch)
        training.optimizer.step()
    certificate = training.module.certificate()
    assert certificate.epsilon <= 1.0
    assert training.module.reference is not None


def test_layers_that_see_sensitive_columns_are_refused():
    with pytest.raises(CorrDPError, match=r"'tower\.0' of a tower is given what"):
        trained(TwoTowers(sees_all=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"towers": ["attic"]}, "'attic', which holds no trained layer"),
        ({"towers": ["1"]}, "is a LayerNorm; influence is bounded for torch.nn.Linear"),
        ({"towers": ["0"], "calibration": "theorem"}, "knows the first layer alone"),
    ],
)
def test_towers_that_cannot_be_priced_are_refused(changes, message):
    first, *rest = small_network()
    network = nn.Sequential(first, nn.LayerNorm(4).double(), *rest)
    with pytest.raises(CorrDPError, match=message):
        train(network, rows(), loss=squared, **changes)

"""One compiled pass over a batch gives what torch computes, and steps back in time."""

import numpy as np
import pytest
import torch
from torch import nn

from corrdp.policy import policy_blocks
from corrdp.torch import _passes
from corrdp.torch._input_weights import InputWeightClipper
from corrdp.torch._layers import trained_layers
from corrdp.torch._layout import grouped_layout
from corrdp.torch._passes import column_runs, one_pass_factors
from corrdp.torch._planning import _with_influence
from unit.torch.networks import rows, small_network, small_policy, train

pytestmark = pytest.mark.torch

needs_numba = pytest.mark.skipif(_passes._kernel is None, reason="needs numba")
N_ROWS = 40


def wide_network():
    """Layers whose signals are wider than what they are given, and narrower."""
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 6, bias=False), nn.Linear(6, 1)
    )


def sums(network, method, bound, monkeypatch, *, compiled, scale=1.0):
    features, labels = (part.float() for part in rows(N_ROWS))
    training = train(
        network.float(),
        (features, scale * labels),
        method=method,
        residual_bound=bound,
        epsilon=1e4,
        clip_norm=0.5,
    )
    used = []
    with monkeypatch.context() as patch:
        if compiled:
            kernel = _passes._kernel
            for name in ("write_factors", "write_scaled_codes"):
                plain = getattr(kernel, name)

                def noted(*given, plain=plain):
                    used.append(plain)
                    return plain(*given)

                patch.setattr(kernel, name, noted)
        else:
            patch.setattr(_passes, "_kernel", None)
        found = training.module.clipped_sum(features, scale * labels)
    return found, len(used)


@needs_numba
@pytest.mark.parametrize("scale", [1.0, 50.0])
@pytest.mark.parametrize("bound", [None, 0.7])
@pytest.mark.parametrize("method", ["corr", "layered", "standard"])
@pytest.mark.parametrize("build", [small_network, wide_network])
def test_one_pass_gives_the_sums_of_torch(build, method, bound, scale, monkeypatch):
    given = method, bound, monkeypatch
    found, n_used = sums(build(), *given, compiled=True, scale=scale)
    wanted, _ = sums(build(), *given, compiled=False, scale=scale)
    assert n_used > 0
    for name, part in wanted.items():
        assert torch.allclose(found[name], part, rtol=1e-5, atol=1e-6), name


@needs_numba
def test_factors_are_those_of_their_definition():
    generator = torch.Generator().manual_seed(0)
    given, signal = (torch.randn(7, k, generator=generator) for k in (4, 3))
    signal[2] = 0.0  # nothing to clip
    room = torch.linspace(0.1, 1.0, 7)
    factors, (scaled,) = one_pass_factors([given], [signal], (1.0,), 0.8, room)
    norms = signal.double().norm(dim=1) * given.double().square().sum(1).add(1).sqrt()
    wanted = (0.8 * room.double() / norms).clamp_max(1.0)
    assert torch.allclose(factors.double(), wanted, rtol=1e-6)
    assert torch.equal(scaled, signal * factors[:, None])
    assert float((norms * factors).max()) <= 0.8 * (1 + 1e-6)


@needs_numba
@pytest.mark.parametrize(
    ("size", "value"), [(1.0, np.nan), (1.0, np.inf), (1.0, 1e20), (1e9, 1e9)]
)
def test_rows_beyond_the_limit_are_left_to_torch(size, value):
    given, signal = torch.full((3, 2), size), torch.ones(3, 4)
    signal[1, 2] = value
    assert one_pass_factors([given], [signal], (0.0,), 1.0, torch.ones(1)) is None


class Scaled(nn.Module):
    """One trained layer that is given rows of any size."""

    def __init__(self, logit):
        super().__init__()
        self.last = nn.Linear(2, 2)
        with torch.no_grad():
            self.last.weight.zero_()
            self.last.bias.copy_(torch.tensor([logit, 0.0]))

    def forward(self, features):
        return self.last(features.flatten(1))


@pytest.mark.parametrize("broken", [np.nan, 1e30])
@pytest.mark.parametrize(
    ("size", "logit"),
    [(1.0, 0.0), (9e14, 36.0), (1e16, 36.0), (1e20, 20.0), (1e20, 40.0), (1e30, 60.0)],
)
def test_no_record_changes_what_others_contribute(size, logit, broken):
    # Its value sends the batch another way: what others add must not notice.
    features = torch.zeros(N_ROWS, 1, 2)
    features[:, 0, 0] = size
    labels = torch.zeros(N_ROWS, dtype=torch.int64)
    module, _, _ = train(
        Scaled(logit),
        (features, labels),
        loss=lambda out, y: nn.functional.cross_entropy(out, y, reduction="none"),
        method="standard",
        clip_norm=0.1,
    )
    changed = features.clone()
    changed[0] = broken
    before, after = (module.clipped_sum(x, labels) for x in (features, changed))
    moved = torch.cat([(after[name] - before[name]).flatten() for name in before])
    assert moved.double().norm() <= 0.2 * (1 + 1e-6)


@needs_numba
@pytest.mark.parametrize("clip_norm", [1.0, 1e-8])
@pytest.mark.parametrize("length", [1.0, 1e-17, 1e-23])
def test_small_codes_and_signals_count_as_torch_counts_them(
    length, clip_norm, monkeypatch
):
    policy, network = small_policy(), small_network().float()
    layers = trained_layers(network)
    layout = grouped_layout(layers, policy_blocks(policy), np.zeros(5))
    layout = _with_influence(layout.with_clip_norm(clip_norm), {1}, 0.2)
    generator = torch.Generator().manual_seed(0)
    codes = length * torch.randn(9, 5, generator=generator)
    signal, reference = 1e8 * torch.randn(2, 9, 4, generator=generator)
    signal[3] = reference[3] * (1 + 1e-7)
    signal[4], reference[5] = 1e-20, 1e-20
    clipper = InputWeightClipper(layout, network[0].weight)
    sums = []
    for kernel in (_passes._kernel, None):
        monkeypatch.setattr(_passes, "_kernel", kernel)
        sums.append(torch.empty(4, 5))
        clipper.write_sum(codes, signal, reference, sums[-1])
    assert torch.allclose(*sums, rtol=1e-4, atol=1e-5 * clip_norm)


def test_what_the_pass_is_not_for_is_left_to_torch(monkeypatch):
    one = torch.ones(1)
    for given in (torch.ones(4, 2).double(), torch.ones(2, 4).T, torch.ones(4, 2, 1)):
        assert one_pass_factors([given], [given], (0.0,), 1.0, one) is None
    monkeypatch.setattr(_passes, "MOST_ROWS", 3)
    many = torch.ones(4, 2)
    assert one_pass_factors([many], [many], (0.0,), 1.0, one) is None


def test_runs_are_columns_of_one_group_beside_each_other():
    runs = column_runs(np.array([1, 1, 0, 1]))
    assert runs.tolist() == [[0, 2, 1], [2, 3, 0], [3, 4, 1]]

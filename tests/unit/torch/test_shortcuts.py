"""What makes a private step quick must not change what it releases."""

import math

import pytest
import torch
from torch import nn

from corrdp.exceptions import GuaranteeVoidError
from corrdp.torch import _clipping, _input_weights, _rows
from corrdp.torch._capture import Capture
from corrdp.torch._clipping import GroupClipper
from corrdp.torch._input_weights import InputWeightClipper
from corrdp.torch._layers import trained_layers
from corrdp.torch._layout import flat_layout, layered_layout
from corrdp.torch._planning import grouped
from unit.torch.networks import (
    example_gradients,
    facts_of,
    flat_sum,
    released_sum,
    rows,
    small_network,
    small_policy,
    train,
)

pytestmark = pytest.mark.torch

BROKEN = (math.nan, math.inf, -math.inf)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_finite_sum_is_one_of_finite_terms(dtype):
    largest = torch.finfo(dtype).max
    for n_values in (1, 7, 64, 1000):
        values = torch.linspace(-1.0, 1.0, n_values, dtype=dtype)
        assert _rows.all_finite(values)
        for broken in BROKEN:
            for place in {0, n_values // 2, n_values - 1}:
                spoiled = values.clone()
                spoiled[place] = broken
                assert not _rows.all_finite(spoiled)
    assert not _rows.all_finite(torch.tensor([math.inf, -math.inf], dtype=dtype))
    assert _rows.all_finite(torch.full((8,), largest, dtype=dtype))  # overflows
    assert _rows.all_finite(torch.empty(0, dtype=dtype))


@pytest.mark.parametrize(("n_left", "n_right"), [(2, 5), (5, 2), (3, 3), (1, 4)])
def test_both_ways_to_sum_outer_products_overwrite_with_the_same(n_left, n_right):
    left, right = torch.randn(6, n_left).double(), torch.randn(6, n_right).double()
    out = torch.full((n_left, n_right), math.nan).double()
    _rows.outer_sum(left, right, out)
    assert torch.allclose(out, torch.einsum("ij,ik->jk", left, right))
    factor = torch.rand(6).double()
    _rows.scaled_outer_sum(left, right, factor, out)
    assert torch.allclose(out, torch.einsum("i,ij,ik->jk", factor, left, right))
    _rows.outer_sum(left, right, out, adds=True)
    both = torch.einsum("i,ij,ik->jk", 1.0 + factor, left, right)
    assert torch.allclose(out, both)


def clipped(layers, layout, activations, backprops, check_finite=True):
    out = {
        (la.name, k): torch.full_like(p, math.nan).detach()
        for la in layers
        for k, p in la.parameters.items()
    }
    GroupClipper(layers, layout).add_sum(
        activations, backprops, None, out, check_finite=check_finite
    )
    return out


def signals(n_rows=9):
    generator = torch.Generator().manual_seed(5)

    def normal(*shape):
        return torch.randn(*shape, generator=generator).double()

    activations = {"0": normal(n_rows, 5), "2": normal(n_rows, 4)}
    return activations, {"0": normal(n_rows, 4), "2": normal(n_rows, 1)}


@pytest.mark.parametrize("value", [*BROKEN, 1e200])
@pytest.mark.parametrize("place", [(0, "0"), (0, "2"), (1, "0"), (1, "2")])
def test_one_broken_example_among_others_contributes_nothing(place, value):
    layers = trained_layers(small_network())
    layout = flat_layout(layers).with_clip_norm(0.7)
    both = signals()
    kind, name = place
    both[kind][name][4, 0] = value
    kept = torch.arange(9) != 4
    found = clipped(layers, layout, *both)
    without = clipped(
        layers, layout, *({n: v[kept] for n, v in part.items()} for part in both)
    )
    bound = 0.7 * (1 + 1e-12)
    moved = torch.cat([(found[key] - without[key]).flatten() for key in found])
    assert moved.norm() <= (bound if value == 1e200 else 1e-12)


def looks_that_matter(layouts, value, place):
    """Whether looking for broken norms changes finite contributions, by layout."""
    layers = trained_layers(small_network())
    kind, name = place
    both = signals()
    both[kind][name][4, 0] = value
    for layout in layouts:
        clipping = layout(layers).with_clip_norm(0.7)
        blind = clipped(layers, clipping, *both, check_finite=False)
        looked = clipped(layers, clipping, *both)
        assert all(torch.isfinite(part).all() for part in looked.values())
        yield any(
            not torch.equal(blind[key], looked[key])
            for key in blind
            if torch.isfinite(blind[key]).all()
        )


@pytest.mark.parametrize("value", [*BROKEN, 1e200, 1e-200])
@pytest.mark.parametrize("place", [(0, "0"), (0, "2"), (1, "0"), (1, "2")])
def test_a_look_changes_no_contribution_that_was_finite(place, value):
    # Or else one broken example would change what others contribute.
    assert not any(looks_that_matter((flat_layout, layered_layout), value, place))


def test_a_look_that_changes_finite_contributions_is_noticed(monkeypatch):
    def planted(norms):
        """Clear an example in all groups because of one."""
        rows = ~torch.isfinite(torch.stack(list(norms.values()))).all(0)
        return dict.fromkeys(norms, rows)

    monkeypatch.setattr(_clipping, "_not_finite", planted)
    assert any(looks_that_matter((layered_layout,), 1e200, (0, "0")))


@pytest.mark.parametrize("method", ["standard", "layered"])
def test_a_broken_example_leaves_the_contributions_of_others(method):
    network, (features, labels) = small_network(), rows(6)
    with torch.no_grad():
        labels[2] = network(features)[2, 0]
    module, _, _ = train(network, (features, labels), loss=distance, method=method)
    found = module.clipped_sum(features, labels)
    kept = torch.arange(6) != 2
    wanted = module.clipped_sum(features[kept], labels[kept])
    assert all(torch.allclose(found[name], wanted[name]) for name in wanted)


def distance(outputs, labels):
    """The gradient is NaN where outputs equal labels; the loss is 0."""
    return ((outputs[:, 0] - labels) ** 2).sqrt()


@pytest.mark.parametrize("method", ["standard", "corr"])
def test_a_broken_example_that_escapes_the_norms_is_never_released(method, monkeypatch):
    network, (features, labels) = small_network(), rows(6)
    with torch.no_grad():
        labels[2] = network(features)[2, 0]
    module, _, loader = train(network, (features, labels), loss=distance, method=method)
    module.backward(*loader.draw())
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())
    monkeypatch.setattr(_clipping, "all_finite", lambda values: True)  # planted
    with pytest.raises(GuaranteeVoidError, match="is not finite, although"):
        module.backward(*loader.draw())
    assert not any(p.grad.isnan().any() for p in network.parameters())


SIZES = (16, 3, 1, 16, 7, 2)


def sums_in_a_row(method):
    """Clipped sums of batches of many sizes: one training for all, and one each."""
    for n_rows in SIZES:
        batch = rows(n_rows, seed=n_rows)
        if n_rows == SIZES[0]:
            shared, _, _ = train(small_network(), rows(), method=method)
        alone, _, _ = train(small_network(), rows(), method=method)
        yield shared.clipped_sum(*batch), alone.clipped_sum(*batch)


@pytest.mark.parametrize("method", ["standard", "corr"])
def test_nothing_of_an_earlier_batch_is_left(method):
    for shared, alone in sums_in_a_row(method):
        assert all(torch.equal(shared[name], alone[name]) for name in alone)


@pytest.mark.parametrize("method", ["standard", "corr"])
def test_what_is_left_of_an_earlier_batch_is_noticed(method, monkeypatch):
    def planted(left, right, out, adds=False):
        del adds
        # What is not written to for the first time may hold anything.
        kept = out if out.abs().max() < 1e6 else torch.zeros_like(out)
        out.copy_(kept + left.T @ right)

    def planted_and_scaled(left, right, factor, out):
        planted(left * factor[:, None], right, out)

    monkeypatch.setattr(_clipping, "scaled_outer_sum", planted_and_scaled)
    monkeypatch.setattr(_input_weights, "outer_sum", planted)
    equal = [
        all(torch.equal(shared[name], alone[name]) for name in alone)
        for shared, alone in sums_in_a_row(method)
    ]
    assert not all(equal)


def test_a_gradient_that_was_released_does_not_change():
    network = small_network()
    module, _, loader = train(network, rows())
    module.backward(*loader.draw())
    held = [p.grad for p in network.parameters()]
    before = [grad.clone() for grad in held]
    module.backward(*loader.draw())
    assert all(map(torch.equal, held, before))
    assert not any(map(torch.equal, before, (p.grad for p in network.parameters())))


def sums_behind_gradients(network, module):
    """Whether the memory of a gradient is that of the sum without noise."""
    hidden = module._sum.total.untyped_storage().data_ptr()
    return {p.grad.untyped_storage().data_ptr() == hidden for p in network.parameters()}


def test_every_gradient_is_its_part_of_the_noisy_sum_and_no_way_to_the_other():
    network = nn.Sequential(
        nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 3, 2), nn.Flatten(), nn.Linear(12, 1)
    ).double()
    module, _, loader = train(network, rows(), method="standard")
    noisy = torch.arange(float(module._sum.total.numel())).double()
    module.noisy_sum = lambda total: noisy.clone()
    module.backward(*loader.draw())
    found = torch.cat([p.grad.flatten() for p in network.parameters()])
    assert torch.equal(found * loader.expected_batch, noisy)
    assert all(p.grad.is_contiguous() for p in network.parameters())
    assert sums_behind_gradients(network, module) == {False}
    module.noisy_sum = lambda total: total  # planted
    module.backward(*loader.draw())
    assert sums_behind_gradients(network, module) == {True}


def test_an_empty_batch_forgets_the_one_before():
    network = small_network()
    module, _, loader = train(network, rows(), epsilon=1e6)
    module.backward(*loader.draw())
    module.backward(*loader._hand_out(*(part[:0] for part in rows())))
    scale = float(module._scale.max()) / loader.expected_batch
    assert all(p.grad.abs().max() <= 8 * scale for p in network.parameters())


@pytest.mark.parametrize("influence", [0.0, 0.3, math.inf])
def test_moderate_signals_are_left_as_they_are(influence, monkeypatch):
    network, (features, labels) = small_network(), rows()
    layout = grouped(facts_of(network, small_policy()), influence)
    quick = released_sum(network, layout, features, labels)
    monkeypatch.setattr(InputWeightClipper, "_are_moderate", lambda self, sizes: False)
    slow = released_sum(network, layout, features, labels)
    assert all(torch.equal(quick[name], slow[name]) for name in slow)


@pytest.mark.parametrize("value", [*BROKEN, 1e200])
@pytest.mark.parametrize("part", ["codes", "backprop", "reference"])
def test_signals_that_are_not_moderate_are_noticed(part, value, monkeypatch):
    network = small_network()
    layout = grouped(facts_of(network, small_policy()), 0.3)
    clipper = InputWeightClipper(layout, network[0].weight)
    generator = torch.Generator().manual_seed(2)
    given = {
        name: torch.randn(6, width, generator=generator).double()
        for name, width in (("codes", 5), ("backprop", 4), ("reference", 4))
    }
    given[part][3, 1] = value
    out = torch.zeros(4, 5).double()
    clipper.write_sum(**given, out=out)
    assert torch.isfinite(out).all()
    monkeypatch.setattr(InputWeightClipper, "_are_moderate", lambda self, sizes: True)
    clipper.write_sum(**given, out=out)  # planted
    assert value == 1e200 or not torch.isfinite(out).all()


def test_capture_leaves_layers_as_they_were():
    network = small_network()
    layers = trained_layers(network)

    def own(given):
        return nn.Linear.forward(network[2], given)

    network[2].forward = own
    with pytest.raises(RuntimeError), Capture(layers):
        network(torch.zeros(2, 3).double())  # of another width
    assert "forward" not in vars(network[0])
    assert vars(network[2])["forward"] is own


def test_a_layer_that_the_loss_does_not_use_contributes_zero():
    network = small_network(n_outputs=2)

    layers = trained_layers(network)
    with Capture(layers) as capture:
        hidden = network[0](rows()[0])
        network[2](hidden)
    backprops = capture.backprops(hidden.sum())
    assert torch.equal(backprops["0"], torch.ones_like(hidden))
    assert torch.equal(backprops["2"], torch.zeros(16, 2).double())


def test_hooks_that_change_what_a_layer_returns_are_part_of_the_gradient():
    network, (features, labels) = small_network(), rows(6)
    network[0].register_forward_hook(lambda module, given, output: 3.0 * output)
    network[2].register_forward_pre_hook(lambda module, given: (2.0 * given[0],))
    layout = flat_layout(trained_layers(network)).with_clip_norm(0.5)
    ours = released_sum(network, layout, features, labels)
    wanted = flat_sum(example_gradients(network, features, labels), 0.5)
    found = torch.cat([ours[name].flatten() for name, _ in network.named_parameters()])
    assert torch.allclose(found, wanted, rtol=1e-10, atol=1e-12)

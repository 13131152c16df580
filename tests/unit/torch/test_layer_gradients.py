"""Gradients per example in closed form are those of automatic differentiation."""

import math

import pytest
import torch
from torch import nn

from corrdp.torch._layer_gradients import _KNOWN, differentiated, example_gradients
from corrdp.torch._layers import trained_layers
from corrdp.torch._sequences import GRUCells, LSTMCells

pytestmark = pytest.mark.torch

N_ROWS = 3


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(5)).double()


def words(*shape):
    return torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(5))


CASES = {
    "linear, words": (lambda: nn.Linear(4, 3), numbers(N_ROWS, 6, 4)),
    "linear, no bias": (lambda: nn.Linear(4, 3, bias=False), numbers(N_ROWS, 6, 4)),
    "linear, four axes": (lambda: nn.Linear(4, 3), numbers(N_ROWS, 2, 6, 4)),
    "convolution": (
        lambda: nn.Conv2d(2, 3, (3, 2), stride=2, padding=(1, 0), dilation=(1, 2)),
        numbers(N_ROWS, 2, 7, 6),
    ),
    "convolution, no bias": (
        lambda: nn.Conv2d(2, 3, 3, bias=False),
        numbers(N_ROWS, 2, 5, 5),
    ),
    "embedding": (lambda: nn.Embedding(5, 4), words(N_ROWS, 7)),
    "embedding, one word": (lambda: nn.Embedding(5, 4), words(N_ROWS)),
    "embedding, padded": (lambda: nn.Embedding(5, 4, padding_idx=2), words(N_ROWS, 7)),
    "layer norm": (lambda: nn.LayerNorm(4), numbers(N_ROWS, 6, 4)),
    "layer norm of rows": (lambda: nn.LayerNorm(4), numbers(N_ROWS, 4)),
    "layer norm, two axes": (lambda: nn.LayerNorm((6, 4)), numbers(N_ROWS, 6, 4)),
    "lstm": (lambda: LSTMCells(4, 3), numbers(N_ROWS, 6, 4)),
    "lstm, one step": (lambda: LSTMCells(4, 3), numbers(N_ROWS, 1, 4)),
    "gru": (lambda: GRUCells(4, 3), numbers(N_ROWS, 6, 4)),
}


@pytest.mark.parametrize("case", CASES)
def test_closed_forms_are_gradients(case, monkeypatch):
    torch.manual_seed(1)
    build, activation = CASES[case]
    (layer,) = trained_layers(build().double())
    backprop = torch.randn_like(layer.module(activation))
    assert type(layer.module) in _KNOWN
    wanted = differentiated(layer, activation, backprop)

    def not_asked(*given):
        raise AssertionError(case)

    monkeypatch.setattr("corrdp.torch._layer_gradients.differentiated", not_asked)
    found = example_gradients(layer, activation, backprop)
    assert found.keys() == wanted.keys() == layer.parameters.keys()
    for key, gradient in wanted.items():
        assert torch.allclose(found[key], gradient, rtol=1e-10, atol=1e-12), key


@pytest.mark.parametrize("case", CASES)
def test_an_example_that_is_not_finite_is_its_own_alone(case):
    build, activation = CASES[case]
    (layer,) = trained_layers(build().double())
    backprop = torch.randn_like(layer.module(activation))
    wanted = example_gradients(layer, activation, backprop)
    backprop[1] = torch.nan
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        found = example_gradients(layer, activation, backprop)
    for key, gradient in wanted.items():
        assert torch.equal(found[key][[0, 2]], gradient[[0, 2]])
        assert not found[key][1].isfinite().all()


def test_frozen_parameters_have_no_gradient():
    module = nn.Linear(4, 3)
    module.weight.requires_grad_(False)
    (layer,) = trained_layers(module)
    given, signal = torch.ones(2, 5, 4), torch.ones(2, 5, 3)
    assert example_gradients(layer, given, signal).keys() == {"bias"}


DIFFERENTIATED = {
    "convolution of lines": (nn.Conv1d(2, 3, 3), numbers(N_ROWS, 2, 9)),
    "grouped": (nn.Conv2d(2, 4, 3, groups=2), numbers(N_ROWS, 2, 5, 5)),
    "transposed": (nn.ConvTranspose2d(2, 3, 3), numbers(N_ROWS, 2, 5, 5)),
    "group norm": (nn.GroupNorm(2, 4), numbers(N_ROWS, 4, 6)),
    "instance norm": (nn.InstanceNorm1d(4, affine=True), numbers(N_ROWS, 4, 6)),
    "slopes": (nn.PReLU(4), numbers(N_ROWS, 4)),
}


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("case", DIFFERENTIATED)
def test_no_example_spoils_the_derivatives_of_others(case, value):
    module, activation = DIFFERENTIATED[case]
    (layer,) = trained_layers(module.double())
    signal = torch.randn_like(module(activation)).detach()
    wanted = differentiated(layer, activation, signal)
    for place in ("given", "signal"):
        given, spoiled = activation.clone(), signal.clone()
        (given if place == "given" else spoiled)[1] = value
        found = differentiated(layer, given, spoiled)
        for key, gradient in wanted.items():
            assert torch.allclose(found[key][[0, 2]], gradient[[0, 2]], rtol=1e-12)


OTHERS = {
    "counted": (nn.Embedding(5, 4, scale_grad_by_freq=True), words(N_ROWS, 7)),
    "grouped": (nn.Conv2d(2, 4, 3, groups=2), numbers(N_ROWS, 2, 5, 5).float()),
    "mirrored": (
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"),
        numbers(N_ROWS, 2, 5, 5).float(),
    ),
    "same": (nn.Conv2d(2, 4, 3, padding="same"), numbers(N_ROWS, 2, 5, 5).float()),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_has_no_closed_form_is_left_to_differentiation(case):
    module, activation = OTHERS[case]
    (layer,) = trained_layers(module)
    backprop = torch.ones_like(module(activation))
    found = example_gradients(layer, activation, backprop)
    wanted = differentiated(layer, activation, backprop)
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)

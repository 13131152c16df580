"""What the trial before training finds, and what it must not take offense at."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from corrdp.exceptions import GuaranteeVoidError
from corrdp.torch import _probe
from corrdp.torch._layers import trained_layers
from corrdp.torch._probe import probe_independence
from unit.torch.networks import rows, small_network, squared, train

pytestmark = pytest.mark.torch


class Noise(nn.Module):
    """Adds random numbers: one for each value, or one that all rows share."""

    def __init__(self, is_shared):
        super().__init__()
        self.is_shared = is_shared

    def forward(self, hidden):
        if self.is_shared:
            return hidden + torch.randn(1).to(hidden)
        return hidden + torch.randn_like(hidden)


class Tied(nn.Module):
    """The decoder is the encoder's weight, transposed."""

    def __init__(self, share=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Linear(5, 3).double()
        self.share = share

    def forward(self, features):
        hidden = torch.tanh(self.encoder(features))
        decoded = functional.linear(hidden, self.encoder.weight.T)
        return hidden.sum(1, keepdim=True) + self.share * decoded.sum(1, keepdim=True)


class UsedBeside(nn.Module):
    """A bias of a layer is added to the output once more."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 1).double()

    def forward(self, features):
        return self.layer(features) * (1.0 + self.layer.bias)


class OwnParameter(nn.Module):
    """A parameter of the module itself, used in its forward: known to torch.func."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 1).double()
        self.scale = nn.Parameter(torch.tensor([1.5]).double())

    def forward(self, features):
        return self.layer(features) * self.scale


def hooked(module, kind):
    torch.manual_seed(0)
    network = nn.Sequential(module, nn.Flatten(), nn.Linear(4, 1)).double()
    if kind == "forward":
        network[0].register_forward_hook(lambda module, given, output: 3.0 * output)
    else:
        network[0].register_forward_pre_hook(lambda module, given: (2.0 * given[0],))
    return network


class RandomLayer(nn.Module):
    """Random numbers inside a layer that torch.func has to call again."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5).double())

    def forward(self, features):
        return functional.dropout(features * self.weight, 0.5, self.training)


INCOMPLETE = {
    "tied": Tied,
    "tied a little": lambda: Tied(0.01),
    "used beside its layer": UsedBeside,
    "hook after a convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 5)), hooked(nn.Conv1d(1, 1, 2), "forward")
    ),
    "hook before a convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 5)), hooked(nn.Conv1d(1, 1, 2), "before")
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", INCOMPLETE)
def test_gradients_that_are_not_all_are_refused(name, dtype, monkeypatch):
    data = tuple(part.to(dtype) for part in rows())
    with pytest.raises(GuaranteeVoidError, match=r"is not what its layer's input"):
        train(INCOMPLETE[name]().to(dtype), data, method="standard")
    monkeypatch.setattr(_probe, "check_example_gradients", lambda *given: None)
    train(INCOMPLETE[name]().to(dtype), data, method="standard")  # planted


def test_random_numbers_inside_a_layer_are_refused_in_clear_words():
    network = nn.Sequential(RandomLayer(), nn.Linear(5, 1).double())
    with pytest.raises(GuaranteeVoidError, match=r"torch\.func.*modules of their own"):
        train(network, rows(), method="standard")


def test_hooks_on_linear_layers_and_own_parameters_are_known():
    network = small_network()
    network[0].register_forward_hook(lambda module, given, output: 3.0 * output)
    train(network, rows())
    train(OwnParameter(), rows(), method="standard")


def logarithmic(outputs, labels):
    return functional.binary_cross_entropy(
        torch.sigmoid(outputs[:, 0]), labels, reduction="none"
    )


def stopping(outputs, labels):
    if not torch.isfinite(outputs).all():
        raise ArithmeticError
    return squared(outputs, labels)


class Asserting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 1).double()

    def forward(self, features):
        outputs = self.layer(features)
        assert not outputs.isnan().any()
        return outputs


@pytest.mark.parametrize(
    ("network", "loss"),
    [
        (small_network, logarithmic),
        (small_network, stopping),
        (Asserting, squared),
    ],
)
def test_what_stops_at_values_that_are_not_finite_is_refused(network, loss):
    with pytest.raises(GuaranteeVoidError, match="stops at values that are not finite"):
        train(network(), rows(), loss=loss, method="standard")


class Forgiving(nn.Module):
    """Nothing is combined, unless a row has a value that is not finite."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 1).double()

    def forward(self, features):
        outputs = self.layer(features)
        return outputs if torch.isfinite(outputs).all() else torch.zeros_like(outputs)


def test_rows_that_notice_that_another_is_not_finite_are_refused():
    with pytest.raises(GuaranteeVoidError, match="depends on other examples"):
        train(Forgiving(), rows(), method="standard")

    def loss(outputs, labels):
        losses = squared(outputs, labels)
        return losses if torch.isfinite(losses).all() else losses.nan_to_num() / 2

    with pytest.raises(GuaranteeVoidError, match="depends on other examples"):
        train(small_network(), rows(), loss=loss)


def convolutional(seed):
    """A sound network of random shape, in single precision."""
    generator = torch.Generator().manual_seed(seed)

    def number(low, high):
        return int(torch.randint(low, high, (), generator=generator))

    torch.manual_seed(seed)
    channels, kernel, width = number(1, 6), number(2, 4), number(1, 9)
    activation = (nn.ReLU, nn.Tanh, nn.GELU, nn.Softplus)[number(0, 4)]
    size = channels * (9 - kernel) ** 2
    return nn.Sequential(
        nn.Conv2d(1, channels, kernel),
        activation(),
        nn.GroupNorm(1, channels),
        nn.Flatten(),
        nn.Linear(size, width),
        activation(),
        nn.Linear(width, 1),
    )


def refusals(seeds):
    features, labels = torch.zeros(3, 1, 8, 8), torch.zeros(3)
    refused = 0
    for seed in seeds:
        network = convolutional(seed)
        try:
            layers = trained_layers(network)
            probe_independence(network, layers, squared, features, labels)
        except GuaranteeVoidError:
            refused += 1
    return refused


def test_sound_convolutions_are_not_refused():
    assert refusals(range(20)) == 0


def nearly_zero(outputs, labels):
    """The distance to a grid that is hardly coarser than the numbers themselves."""
    nearest = (outputs[:, 0].detach() * 2**18).round() / 2**18
    return (outputs[:, 0] - nearest + 0 * labels).square()


class RoundedOtherwise(nn.Module):
    """Kernels for one row may round otherwise than those for several."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(5, 1)

    def forward(self, features):
        outputs = self.layer(features)
        if len(features) > 1:
            return outputs
        values = outputs.detach()
        return outputs + (torch.nextafter(values, values + 1.0) - values)


def test_losses_near_zero_are_compared_by_what_they_are_made_of(monkeypatch):
    network, features, labels = RoundedOtherwise(), torch.zeros(3, 5), torch.zeros(3)
    given = network, trained_layers(network), nearly_zero, features, labels
    probe_independence(*given)
    monkeypatch.setattr(  # planted: relative to the losses alone
        _probe, "_loss_size", lambda own: 0.0
    )
    with pytest.raises(GuaranteeVoidError, match="depends on other examples"):
        probe_independence(*given)


class ByPlace(nn.Module):
    """A positional encoding on the wrong axis, a mask of known numbers, or neither."""

    def __init__(self, kind, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(5, 4), nn.Linear(4, 1)
        self.kind, self.dropout = kind, nn.Dropout(dropout)
        self.register_buffer("encoding", 0.01 * torch.randn(500, 4))

    def forward(self, features):
        hidden = self.dropout(torch.tanh(self.first(features)))
        if self.kind == "encoding":
            hidden = hidden + self.encoding[: len(hidden)]
        elif self.kind == "known mask":
            generator = torch.Generator().manual_seed(0)
            hidden = hidden * torch.rand(hidden.shape, generator=generator).round()
        elif self.kind == "shared":
            hidden = hidden * torch.rand(1, device=hidden.device)
        return self.last(hidden)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["encoding", "known mask"])
def test_rows_that_notice_their_place_are_refused(kind, dropout):
    """One more row in a sample shifts the places of all that come after it."""
    with pytest.raises(GuaranteeVoidError, match="its place among them"):
        train(ByPlace(kind, dropout).double(), rows(), batch_size=4)
    network = ByPlace("neither", dropout).double()
    train(network, rows(), batch_size=4)
    assert network.training
    assert network.dropout.training


def test_numbers_that_rows_share_are_refused_in_parts_of_a_sample():
    """Parts have other ones, and one more row moves others to the next part."""
    parts = {"batch_size": 8, "max_physical_batch_size": 4}
    with pytest.raises(GuaranteeVoidError, match="share random numbers"):
        train(ByPlace("shared", 0.5).double(), rows(), **parts)
    train(ByPlace("neither", 0.5).double(), rows(), **parts)
    for allowed in ({"batch_size": 8}, {"max_physical_batch_size": 4}):
        train(ByPlace("shared", 0.5).double(), rows(), **allowed)


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ((), (False, False)),
        ((nn.Dropout(0.5),), (True, False)),
        ((nn.Dropout(0.0),), (False, False)),
        ((nn.Unflatten(1, (2, 2)), nn.Dropout1d(0.5), nn.Flatten()), (True, False)),
        ((nn.AlphaDropout(0.5), nn.FeatureAlphaDropout(0.5)), (True, False)),
        ((Noise(False),), (True, False)),
        ((Noise(True),), (True, True)),
        ((nn.Dropout(0.5), Noise(True)), (True, True)),
    ],
)
def test_what_a_module_draws_is_told(between, found):
    network = nn.Sequential(nn.Linear(5, 4), *between, nn.Linear(4, 1)).double()
    layers = trained_layers(network)
    assert probe_independence(network, layers, squared, *rows()) == found


def test_layers_that_draw_as_many_numbers_as_rows_demand_are_refused():
    network = nn.Sequential(nn.Linear(5, 4), nn.RReLU(), nn.Linear(4, 1)).double()
    with pytest.raises(GuaranteeVoidError, match="depends on other examples"):
        train(network, rows())

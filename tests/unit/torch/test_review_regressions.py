"""What a review of the proofs found: each is refused, bounded or told."""

import pytest
import torch
from torch import nn

from corrdp.exceptions import GuaranteeVoidError
from unit.torch.networks import rows, small_network, squared, train

pytestmark = pytest.mark.torch

LAYOUTS = pytest.mark.parametrize(
    "layout",
    [
        {"method": "corr"},
        {"method": "standard"},
        {"method": "corr", "fall_back": True, "policy": None},
        {"method": "corr", "calibration": "theorem"},
    ],
    ids=["groups", "flat", "fall-back", "theorem"],
)


class Wrapped(nn.Module):
    """Two linear layers with functions before and between them."""

    def __init__(self, before=None, between=None):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(5, 4).double()
        self.last = nn.Linear(4, 1).double()
        self.before = before or (lambda x: x)
        self.between = between or torch.tanh

    def forward(self, features):
        return self.last(self.between(self.first(self.before(features))))


def scaled_gradient(hidden):
    hidden = hidden.clone()
    hidden.register_hook(lambda signal: signal / signal.norm())
    return hidden


COUPLED = {
    "scaled by the batch": Wrapped(before=lambda x: x / x.abs().amax(0)),
    "centered before": Wrapped(before=lambda x: x - x.mean(0)),
    "detached before": Wrapped(before=lambda x: x - x.mean(0).detach()),
    "detached between": Wrapped(between=lambda h: h - h.mean(0).detach()),
    "rows before": Wrapped(before=lambda x: x.cumsum(0)),
    "gradient alone": Wrapped(between=scaled_gradient),
    "sorted": Wrapped(before=lambda x: x[x[:, 0].detach().argsort()]),
    "number of rows": Wrapped(between=lambda h: h / len(h)),
}


@LAYOUTS
@pytest.mark.parametrize("name", COUPLED)
def test_coupling_of_examples_is_refused_in_every_layout(name, layout):
    with pytest.raises(GuaranteeVoidError, match="depends on other examples"):
        train(COUPLED[name], rows(), **layout)


def test_coupling_behind_weights_that_start_at_zero_is_refused():
    network = Wrapped(between=lambda h: h - h.mean(0).detach())
    for parameter in network.parameters():
        nn.init.zeros_(parameter)
    with pytest.raises(GuaranteeVoidError, match="depends on other examples"):
        train(network, rows())
    assert all(torch.count_nonzero(p) == 0 for p in network.parameters())


@pytest.mark.parametrize(
    "loss",
    [
        lambda o, y: squared(o, y) / y.mean().abs(),
        lambda o, y: squared(o, y) / len(y),
        lambda o, y: squared(o, y) / squared(o, y).detach().max(),
    ],
    ids=["labels", "number of rows", "detached"],
)
def test_a_loss_that_looks_at_other_examples_is_refused(loss):
    with pytest.raises(GuaranteeVoidError, match="depends on other examples"):
        train(small_network(), rows(), loss=loss)


def test_integer_labels_of_other_examples_are_tried():
    def balanced(outputs, labels):
        weights = 1.0 + labels.double().mean()
        return weights * nn.functional.cross_entropy(outputs, labels, reduction="none")

    features, labels = rows()
    data = features, (labels > 0).long()
    with pytest.raises(GuaranteeVoidError, match="depends on other examples"):
        train(small_network(n_outputs=2), data, loss=balanced)


class Averaging(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 1).double()
        self.center = torch.zeros(5).double()  # no buffer

    def forward(self, features):
        outputs = self.layer(features - self.center)
        self.center = features.detach().mean(0)
        return outputs


def test_memory_of_earlier_batches_is_refused():
    with pytest.raises(GuaranteeVoidError, match="depends on other examples"):
        train(Averaging(), rows(), method="standard")


@LAYOUTS
def test_modules_that_treat_examples_by_themselves_pass(layout):
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(5, 6),
        nn.LayerNorm(6),
        nn.Dropout(0.5),
        nn.ReLU(),
        nn.Linear(6, 4),
        nn.GroupNorm(2, 4),
        nn.Linear(4, 1),
    ).double()
    network[2].eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    train(network, rows(), **layout)
    assert torch.equal(torch.rand(1), expected)  # the generator was left alone
    assert [part.training for part in network] == [True, True, False] + [True] * 4
    for name, value in network.state_dict().items():
        assert torch.equal(before[name], value)


def test_a_loss_that_cannot_be_tried_is_refused():
    with pytest.raises(GuaranteeVoidError, match="is not finite"):
        train(small_network(), rows(), loss=lambda o, y: squared(o, y) / 0.0)


class Instances(nn.Module):
    def __init__(self, **arguments):
        super().__init__()
        self.first = nn.Linear(5, 6)
        self.norm = nn.InstanceNorm1d(2, **arguments)
        self.last = nn.Linear(6, 1)
        self.double()

    def forward(self, features):
        hidden = self.norm(self.first(features).view(-1, 2, 3)).flatten(1)
        return self.last(hidden)


def spectral():
    network = small_network()
    nn.utils.spectral_norm(network[0])
    return network


@pytest.mark.filterwarnings("ignore:.*spectral_norm.*:FutureWarning")
@pytest.mark.parametrize(
    ("network", "name"),
    [
        (lambda: Instances(track_running_stats=True), "norm.running_mean"),
        (lambda: Instances(track_running_stats=True).eval(), "norm.running_mean"),
        (spectral, "0.weight_u"),
    ],
)
def test_what_a_forward_pass_keeps_is_refused_and_put_back(network, name):
    module = network()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    modes = [part.training for part in module.modules()]
    with pytest.raises(GuaranteeVoidError, match=f"changes.*{name}.*GroupNorm"):
        train(module, rows(), method="standard")
    for key, value in module.state_dict().items():
        assert torch.equal(before[key], value)
    assert [part.training for part in module.modules()] == modes


def test_an_instance_norm_that_keeps_nothing_passes():
    train(Instances(), rows())

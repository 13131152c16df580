"""What would void the guarantee is refused, with the remedy."""

import copy
import pickle

import pytest
import torch
from torch import nn

from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    PolicyError,
)
from corrdp.torch import make_private
from corrdp.torch._private import PrivateModule
from unit.torch.networks import (
    rows,
    small_network,
    small_policy,
    squared,
    train,
)

pytestmark = pytest.mark.torch


def test_batch_norm_is_refused_with_a_remedy():
    network = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    with pytest.raises(GuaranteeVoidError, match=r"BatchNorm1d.*GroupNorm"):
        train(network.double(), rows())


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 1).double()

    def forward(self, features):
        outputs = self.layer(features)
        return outputs - outputs.mean(0)


def test_a_module_that_mixes_examples_by_hand_is_refused():
    with pytest.raises(GuaranteeVoidError, match="depends on other examples"):
        train(Mixing(), rows())


def test_a_loss_that_mixes_examples_is_refused():
    def mixing(outputs, labels):
        return squared(outputs, labels).mean().expand(len(labels))

    with pytest.raises(GuaranteeVoidError, match="depends on other examples"):
        train(small_network(), rows(), loss=mixing)


@pytest.mark.parametrize(
    "loss",
    [
        lambda outputs, labels: (outputs - labels[:, None]) ** 2,
        lambda outputs, labels: (outputs - labels) ** 2,
        lambda outputs, labels: squared(outputs, labels).mean(),
    ],
    ids=["(n, 1)", "(n, n)", "scalar"],
)
def test_a_loss_must_be_one_number_per_example(loss):
    with pytest.raises(GuaranteeVoidError, match=r"shape \(3,\), got"):
        train(small_network(), rows(), loss=loss)


def test_a_module_without_a_first_linear_layer_says_how_to_name_one():
    network = nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 1)).double()
    with pytest.raises(CorrDPError, match=r"LayerNorm.*input_layer="):
        train(network, rows())
    with pytest.raises(CorrDPError, match="input_layer='nowhere' is not a trained"):
        train(network, rows(), input_layer="nowhere")


@pytest.mark.parametrize("calibration", ["certified", "theorem"])
def test_an_input_layer_must_read_the_columns_themselves(calibration):
    """Also where only noise follows the columns: it would fall on others."""
    network = nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 1)).double()
    module, _, loader = train(network, rows(), input_layer="1", calibration=calibration)
    with pytest.raises(GuaranteeVoidError, match="does not read the encoded columns"):
        module.backward(*loader.draw())


def test_the_width_of_the_module_must_be_that_of_the_policy():
    with pytest.raises(PolicyError, match="reads 6 columns, the policy encodes 5"):
        train(small_network(n_inputs=6), rows(n_columns=5))
    with pytest.raises(PolicyError, match="features have 6 columns"):
        train(small_network(n_inputs=6), rows(n_columns=6))


def test_no_step_beyond_the_plan():
    module, optimizer, loader = train(small_network(), rows(), epochs=2)
    for batch in loader:
        module.backward(*batch)
        optimizer.step()
    with pytest.raises(BudgetError, match="n_steps=2 planned steps are spent"):
        module.backward(*rows())


def test_a_gradient_is_stepped_on_once_and_only_if_private():
    network = small_network()
    module, optimizer, loader = train(network, rows())
    with pytest.raises(GuaranteeVoidError, match="no private gradient"):
        optimizer.step()
    module.backward(*loader.draw())
    optimizer.step()
    squared(module(loader.features), loader.labels).sum().backward()
    with pytest.raises(GuaranteeVoidError, match="has no noise"):
        optimizer.step()


def in_between(network, loader):
    squared(network(loader.features), loader.labels).sum().backward()


def accumulated(network, loader):
    total = squared(network(loader.features), loader.labels).sum()
    total.backward(create_graph=True)


def assigned(network, loader):
    total = squared(network(loader.features), loader.labels).sum()
    parameters = tuple(network.parameters())
    for parameter, raw in zip(
        parameters, torch.autograd.grad(total, parameters), strict=True
    ):
        parameter.grad = raw


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph:UserWarning")
@pytest.mark.parametrize("adds", [in_between, accumulated, assigned])
def test_a_gradient_without_noise_is_not_added_to_a_private_one(adds):
    network = small_network()
    module, optimizer, loader = train(network, rows())
    before = [p.detach().clone() for p in network.parameters()]
    module.backward(*loader.draw())
    adds(network, loader)
    for _ in range(2):  # also when it is tried once more
        with pytest.raises(GuaranteeVoidError, match=r"without noise|no private"):
            optimizer.step()
    assert all(map(torch.equal, before, network.parameters()))
    assert module.steps_charged == 1
    module.backward(*loader.draw())  # a fresh one replaces it
    optimizer.step()


def test_a_gradient_before_the_private_one_is_replaced():
    network = small_network()
    module, optimizer, loader = train(network, rows())
    in_between(network, loader)
    raw = network[0].weight.grad.clone()
    module.backward(*loader.draw())
    optimizer.step()
    plain = small_network()
    other, _, again = train(plain, rows())
    other.backward(*again.draw())
    assert torch.equal(plain[0].weight.grad, network[0].weight.grad)
    assert not torch.equal(plain[0].weight.grad, raw)


def test_released_gradients_may_be_clipped_once_more():
    network = small_network()
    module, optimizer, loader = train(network, rows())
    module.backward(*loader.draw())
    nn.utils.clip_grad_norm_(network.parameters(), 0.01)
    optimizer.step()  # post-processing


def test_the_original_optimizer_does_not_step():
    network = small_network()
    module, optimizer, loader = train(network, rows())
    before = [p.detach().clone() for p in network.parameters()]
    module.backward(*loader.draw())
    with pytest.raises(GuaranteeVoidError, match="that make_private returned"):
        optimizer.optimizer.step()
    assert all(map(torch.equal, before, network.parameters()))
    optimizer.step()
    with pytest.raises(GuaranteeVoidError, match="that make_private returned"):
        optimizer.optimizer.step()


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_are_dropped_as_in_torch(set_to_none):
    network = small_network()
    module, optimizer, loader = train(network, rows())
    module.backward(*loader.draw())
    optimizer.zero_grad(set_to_none=set_to_none)
    for parameter in network.parameters():
        assert (parameter.grad is None) == set_to_none
        assert set_to_none or not parameter.grad.any()
    with pytest.raises(GuaranteeVoidError, match="no private gradient"):
        optimizer.step()


class Reused(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 5).double()
        self.last = nn.Linear(5, 1).double()

    def forward(self, features):
        return self.last(self.first(torch.tanh(self.first(features))))


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 5).double()
        self.last = nn.Linear(5, 1).double()

    def forward(self, features):
        return self.last(torch.relu_(self.first(features)))


class Idle(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 1).double()
        self.spare = nn.Linear(5, 1).double()

    def forward(self, features):
        return self.first(features)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Reused(), "called more than once"),
        (InPlace(), "changed in place"),
        (Idle(), "was not called"),
    ],
)
def test_layers_whose_gradients_are_not_known_are_refused(module, reason):
    with pytest.raises(GuaranteeVoidError, match=reason):
        train(module, rows())


def test_a_recurrent_layer_is_refused():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRU(5, 2).double()

        def forward(self, features):
            return self.cell(features[None])[0][0].sum(1, keepdim=True)

    with pytest.raises(GuaranteeVoidError, match=r"Use corrdp\.torch\.GRU"):
        train(Recurrent(), rows(), method="standard")


def test_a_layer_of_two_inputs_is_refused():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = nn.Bilinear(5, 5, 1).double()

        def forward(self, features):
            return self.pair(features, features)

    with pytest.raises(GuaranteeVoidError, match="one tensor to one tensor"):
        train(Both(), rows(), method="standard")


def test_shared_parameters_are_refused():
    network = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 1)).double()
    network[1].weight = network[0].weight
    with pytest.raises(GuaranteeVoidError, match="share a parameter"):
        train(network, rows())


def test_nothing_to_train_is_refused():
    network = small_network().requires_grad_(False)
    with pytest.raises(GuaranteeVoidError, match="requires_grad=True"):
        train(network, rows())


def test_an_optimizer_of_other_parameters_is_refused():
    other = nn.Linear(5, 1)
    with pytest.raises(CorrDPError, match="not the module's"):
        make_private(
            small_network(),
            torch.optim.SGD(other.parameters(), lr=0.1),
            rows(),
            loss=squared,
            policy=small_policy(),
            epsilon=1.0,
            delta=1e-5,
            epochs=1,
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "semi"}, "method must be one of corr, layered, standard"),
        ({"group_by": "color"}, "group_by must be one of role, feature"),
        ({"epochs": 0}, "epochs must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"clip_norm": -1.0}, "clip_norm must be"),
        ({"epsilon": None}, "epsilon is None"),
        ({"calibration": "none"}, "calibration must be one of certified, theorem"),
    ],
)
def test_arguments_out_of_range_are_named(change, message):
    with pytest.raises(CorrDPError, match=message):
        train(small_network(), rows(), **change)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_would_repeat_noise_and_are_refused(copied):
    training = train(small_network(), rows())
    for part in (training.module, training.optimizer):
        if (copied, part) == (copy.copy, training.optimizer):
            continue  # shares the module, and so its noise and its steps
        with pytest.raises(GuaranteeVoidError, match=r"Copy module\.module"):
            copied(part)
    assert copied(training.module.module) is not None


def test_what_a_copy_would_have_repeated(monkeypatch):
    monkeypatch.delattr(PrivateModule, "__reduce_ex__")  # planted
    training = train(small_network(), rows())
    other = copy.deepcopy(training.module)
    size = sum(p.numel() for p in training.module.parameters())
    nothing = torch.zeros(size).double()
    assert torch.equal(other.noisy_sum(nothing), training.module.noisy_sum(nothing))


def test_a_trained_layer_that_is_not_differentiated_is_refused():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(5, 3).double()
            self.last = nn.Linear(3, 1).double()

        def forward(self, features):
            with torch.no_grad():
                hidden = self.first(features)
            return self.last(hidden)

    with pytest.raises(GuaranteeVoidError, match=r"as under torch\.no_grad"):
        train(Hidden(), rows())


def test_an_optimizer_serves_one_training():
    """The first one would refuse steps of the second, whose gradients are paid for."""
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    arguments = {"loss": squared, "policy": small_policy(), "epsilon": 1.0}
    arguments |= {"delta": 1e-5, "epochs": 1}
    make_private(network, optimizer, rows(), **arguments)
    with pytest.raises(CorrDPError, match="belongs to another private training"):
        make_private(network, optimizer, rows(), **arguments)

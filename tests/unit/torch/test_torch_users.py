"""What users of torch bring along: loaders, schedulers, physical batches, autocast."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from corrdp.accounting import WHOLE_RECORD, gaussian_epsilon
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    UtilityWarning,
)
from corrdp.torch import (
    GRU,
    LSTM,
    MultiheadAttention,
    fix_module,
    make_private_with_epsilon,
)
from corrdp.torch._batch_sum import BatchSum
from unit.torch.networks import rows, small_network, small_policy, squared, train

pytestmark = pytest.mark.torch


class Items(Dataset):
    def __init__(self, features, labels):
        self._rows = features, labels

    def __len__(self):
        return len(self._rows[0])

    def __getitem__(self, index):
        return self._rows[0][index], self._rows[1][index]


@pytest.mark.parametrize("kind", [TensorDataset, Items])
def test_data_sets_are_read_as_rows(kind):
    features, labels = rows()
    loader = train(small_network(), kind(features, labels)).loader
    assert torch.equal(loader.features, features)
    assert torch.equal(loader.labels, labels)
    assert loader.rate is None


def test_the_sampler_of_a_loader_is_replaced_and_that_is_said():
    given = DataLoader(TensorDataset(*rows()), batch_size=4, shuffle=True)
    with pytest.warns(UtilityWarning, match="RandomSampler.*Poisson sampling"):
        training = train(small_network(), given, method="standard", epochs=1)
    assert training.loader.rate == 0.25
    assert training.loader.n_steps == 4


@pytest.mark.parametrize("data", [torch.zeros(3), (torch.zeros(3),), None])
def test_other_data_is_refused(data):
    with pytest.raises(CorrDPError, match="data must be features and labels"):
        train(small_network(), data)


@pytest.mark.parametrize("method", ["corr", "layered", "standard"])
def test_physical_batches_change_nothing_but_memory(method, monkeypatch):
    data = rows(50)
    gradients, charged, passes = [], [], []
    honest = BatchSum._write_pass

    def counted(module, features, labels):
        passes.append(len(features))
        honest(module, features, labels)

    monkeypatch.setattr(BatchSum, "_write_pass", counted)
    for largest in (None, 7):
        training = train(
            small_network(), data, method=method, max_physical_batch_size=largest
        )
        training.module.backward(*training.loader.draw())
        gradients.append([p.grad.clone() for p in training.module.parameters()])
        charged.append(training.module.steps_charged)
    assert charged == [1, 1]
    assert passes == [50, *7 * [7], 1]
    for whole, parts in zip(*gradients, strict=True):
        assert torch.allclose(whole, parts, rtol=1e-9, atol=1e-12)  # the same noise


def test_schedulers_take_the_private_optimizer():
    training = train(small_network(), rows(), epochs=3)
    optimizer = training.optimizer
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    sizes = []
    for batch in training.loader:
        sizes.append(optimizer.param_groups[0]["lr"])
        training.module.backward(*batch)
        optimizer.step()
        scheduler.step()
    assert sizes == pytest.approx([0.01, 0.001, 0.0001])
    with pytest.raises(GuaranteeVoidError, match="no private gradient"):
        optimizer.step()  # the scheduler wraps it; it is checked all the same
    with pytest.raises(CorrDPError, match="parameters are fixed"):
        optimizer.add_param_group({"params": []})
    with pytest.raises(CorrDPError, match="a closure would evaluate"):
        optimizer.step(lambda: 0.0)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_noise_may_be_given_instead_of_epsilon(batch_size):
    setting = {"method": "standard", "batch_size": batch_size, "clip_norm": 0.5}
    training = train(
        small_network(), rows(), epsilon=None, noise_multiplier=3.0, **setting
    )
    plan = training.module.plan
    assert plan.noise.noise_scale == pytest.approx([1.5])
    epsilon = training.module.certificate().epsilon
    if batch_size is None:  # five steps, each moved by twice the norm
        mu = 2.0 * 5**0.5 / 3.0
        assert epsilon == pytest.approx(gaussian_epsilon(mu=mu, delta=1e-5), rel=1e-5)
    again = train(small_network(), rows(), epsilon=epsilon, **setting)
    assert again.module.plan.noise.noise_scale == pytest.approx([1.5], rel=2e-3)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"noise_multiplier": 1.0}, BudgetError, "one follows from the other"),
        (
            {"noise_multiplier": 1.0, "epsilon": None, "method": "corr"},
            CorrDPError,
            "for method='standard'",
        ),
        ({"epsilon": None}, BudgetError, "no noise_multiplier is given instead"),
    ],
)
def test_a_budget_is_given_once(changes, error, message):
    with pytest.raises(error, match=message):
        train(small_network(), rows(), **({"method": "standard"} | changes))


@pytest.mark.parametrize("method", ["corr", "standard"])
def test_the_epsilon_so_far_grows_to_that_of_the_certificate(method):
    training = train(small_network(), rows(), method=method, epochs=4)
    module = training.module
    seen = [module.epsilon_so_far()]
    for batch in training.loader:
        module.backward(*batch)
        training.optimizer.step()
        seen.append(module.epsilon_so_far())
    assert seen == sorted(seen)
    assert seen[0] == 0.0
    worst = max(
        module.plan.epsilon(name)
        for name, value in module.plan.noise.allowed_epsilon.items()
        if value < float("inf")
    )
    assert seen[-1] == worst
    assert module.epsilon_so_far(WHOLE_RECORD) == module.plan.epsilon(WHOLE_RECORD)


def test_the_epsilon_so_far_of_a_plan_that_promises_nothing():
    module, _, loader = train(small_network(), rows(), calibration="theorem")
    module.backward(*loader.draw())
    assert 0.0 < module.epsilon_so_far() < module.plan.epsilon(WHOLE_RECORD)


def test_the_names_of_opacus_do_the_same():
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    training = make_private_with_epsilon(
        network,
        optimizer,
        rows(),
        criterion=squared,
        policy=small_policy(),
        target_epsilon=2.0,
        target_delta=1e-5,
        epochs=3,
        max_grad_norm=0.7,
        method="standard",
    )
    assert training.module.plan.layout.clip_norm == pytest.approx(0.7)
    assert training.module.certificate().epsilon <= 2.0


def test_autocast_is_refused_before_and_while_training():
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(CorrDPError, match="autocast is on"),
    ):
        train(small_network(), rows())
    training = train(small_network(), rows())
    batch = training.loader.draw()
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(CorrDPError, match="autocast is on"),
    ):
        training.module.backward(*batch)
    assert training.module.steps_charged == 0


def test_compiled_modules_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, while it loads its compiler
        whole, part, by_itself, inside = (small_network() for _ in range(4))
        whole, part[0] = torch.compile(whole), torch.compile(part[0])
        by_itself.compile()
        inside[0].compile()
    for compiled in (whole, part, by_itself, inside):
        with pytest.raises(CorrDPError, match=r"compiled, by torch\.compile"):
            train(compiled, rows())


def test_gradients_that_are_paid_for_and_not_stepped_on_are_told():
    """Who adds gradients up over calls elsewhere would lose all but the last."""
    module, optimizer, loader = train(small_network(), rows())
    module.backward(*loader.draw())
    optimizer.step()
    for _ in range(3):
        module.backward(*loader.draw())
    with pytest.warns(UtilityWarning, match="2 gradients that were paid for"):
        optimizer.step()
    module.backward(*loader.draw())
    optimizer.zero_grad()  # dropped by the caller
    with pytest.raises(GuaranteeVoidError, match="no private gradient"):
        optimizer.step()


def test_lbfgs_is_refused():
    from corrdp.torch import make_private

    network = small_network()
    with pytest.raises(CorrDPError, match="LBFGS evaluates the loss many times"):
        make_private(
            network,
            torch.optim.LBFGS(network.parameters()),
            rows(),
            loss=squared,
            policy=small_policy(),
            epsilon=1.0,
            delta=1e-5,
            epochs=1,
        )


def test_dropped_gradients_are_not_stepped_on():
    training = train(small_network(), rows())
    training.module.backward(*training.loader.draw())
    training.optimizer.zero_grad(set_to_none=True)
    with pytest.raises(GuaranteeVoidError, match="zero_grad dropped"):
        training.optimizer.step()


def test_recurrent_layers_are_those_of_torch():
    torch.manual_seed(0)
    inputs = torch.randn(3, 5, 4).double()
    for ours, kind in ((LSTM, nn.LSTM), (GRU, nn.GRU)):
        theirs = kind(4, 6, batch_first=True).double()
        fixed, (change,) = fix_module(theirs)
        assert isinstance(fixed, ours)
        assert f"became corrdp.torch.{kind.__name__}" in change
        said, states = fixed(inputs)
        wanted, wanted_states = theirs(inputs)
        assert torch.allclose(said, wanted, rtol=1e-10)
        states = states if isinstance(states, tuple) else (states,)
        if not isinstance(wanted_states, tuple):
            wanted_states = (wanted_states,)
        for one, other in zip(states, wanted_states, strict=True):
            assert torch.allclose(one, other, rtol=1e-10)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_that_of_torch(masked):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(6, 2, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_bias.normal_()
    fixed = fix_module(theirs).module
    assert isinstance(fixed, MultiheadAttention)
    inputs = torch.randn(3, 5, 6).double()
    masks = {}
    if masked:
        padding = torch.zeros(3, 5, dtype=torch.bool)
        padding[:, -1] = True
        causal = nn.Transformer.generate_square_subsequent_mask(5).double()
        masks = {"key_padding_mask": padding.double() * -1e9, "attn_mask": causal}
    found = fixed(inputs, inputs, inputs, **masks)
    wanted = theirs(inputs, inputs, inputs, **masks)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12)


def test_a_causal_hint_without_a_mask_is_refused_as_by_torch():
    inputs = torch.randn(3, 5, 6)
    with pytest.raises(CorrDPError, match="there is none"):
        MultiheadAttention(6, 2)(inputs, inputs, inputs, is_causal=True)


def test_fix_module_says_what_it_did_and_leaves_the_module_alone():
    network = nn.Sequential(
        nn.Conv2d(2, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(inplace=True),
        nn.InstanceNorm2d(6, track_running_stats=True),
        nn.Sequential(nn.Embedding(3, 2, max_norm=1.0)),
    ).eval()
    before = copy.deepcopy(network.state_dict())
    fixed, changes = fix_module(network)
    assert changes == (
        "layer '1': BatchNorm2d became GroupNorm(2, 6)",
        "layer '2': ReLU no longer works in place",
        "layer '3': InstanceNorm2d keeps no running statistics",
        "layer '4.0': Embedding has no max_norm",
    )
    assert not fixed[1].training
    assert isinstance(network[1], nn.BatchNorm2d)
    assert network[2].inplace
    assert network.state_dict().keys() == before.keys()
    assert fix_module(fixed).changes == ()


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(3, 2, num_layers=2, batch_first=True),
        nn.GRU(3, 2),
        nn.RNN(3, 2, batch_first=True),
        nn.MultiheadAttention(4, 2),
        nn.MultiheadAttention(4, 2, batch_first=True, add_zero_attn=True),
    ],
)
def test_layers_without_a_replacement_are_named(layer):
    with pytest.raises(CorrDPError, match="layer '0' is a"):
        fix_module(nn.Sequential(layer))

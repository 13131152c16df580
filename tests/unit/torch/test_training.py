"""make_private, the loader, noise, certificates and checkpoints."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm
from torch import nn

from corrdp.accounting import WHOLE_RECORD
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.torch import (
    PoissonLoader,
    load_checkpoint,
    make_private,
    save_checkpoint,
)
from helpers.statistics import dkw_radius, ks_distance
from unit.torch.networks import (
    rows,
    small_network,
    small_policy,
    squared,
    step_on,
    train,
)

pytestmark = pytest.mark.torch


def run(training, n_steps=None):
    module, optimizer, loader = training
    for index, batch in enumerate(loader):
        module.backward(*batch)
        optimizer.step()
        if n_steps is not None and index + 1 == n_steps:
            return


def test_the_gradient_is_the_clipped_sum_plus_noise_over_the_expected_batch():
    network, data = small_network(), rows(200)
    module, _, loader = train(network, data)
    expected = module.clipped_sum(*data)
    module.backward(*loader.draw())
    noise = np.random.default_rng(0).standard_normal(29)  # seed 0 replays it
    scale = []
    for name, parameter in network.named_parameters():
        own = torch.as_tensor(noise[len(scale) : len(scale) + parameter.numel()])
        deviation = noise_scale_of(module, name, parameter)
        wanted = (expected[name] + own.view_as(parameter) * deviation) / 200
        assert torch.allclose(parameter.grad, wanted, rtol=1e-10, atol=1e-14)
        scale += [0.0] * parameter.numel()
    assert loader.expected_batch == 200


def noise_scale_of(module, name, parameter):
    layout, scale = module.plan.noise_layout, module.plan.noise.noise_scale
    layer, _, key = name.rpartition(".")
    group = layout.parameter_groups.get((layer, key))
    if group is not None:
        return scale[group]
    return torch.as_tensor(scale[layout.column_groups]).expand_as(parameter)


@pytest.mark.statistical
def test_noise_has_the_planned_deviation():
    # False alarm probability 1e-9 per group; a fifth less noise must be caught.
    network, empty = small_network(n_hidden=40), (torch.empty(0, 5), torch.empty(0))
    training = train(network, rows(50), epochs=400)
    module, _, loader = training
    draws = {group.name: [] for group in module.plan.layout.groups}
    for _ in range(400):
        step_on(training, *empty)
        weight = network[0].weight.grad * loader.expected_batch
        for column, index in enumerate(module.plan.layout.column_groups):
            name = module.plan.layout.groups[index].name
            draws[name].append(weight[:, column].numpy().copy())
    scale = module.plan.noise.noise_scale
    for index, group in enumerate(module.plan.layout.groups):
        if not group.features:
            continue
        sample = np.concatenate(draws[group.name]) / scale[index]
        radius = dkw_radius(sample.size, false_alarm_probability=1e-9)
        assert ks_distance(sample, norm.cdf) <= radius
        assert ks_distance(0.8 * sample, norm.cdf) > radius


def test_an_empty_batch_is_a_noisy_step():
    network = small_network()
    training = train(network, rows(50))
    before = network[0].weight.detach().clone()
    step_on(training, torch.empty(0, 5).double(), torch.empty(0).double())
    training.optimizer.step()
    assert training.module.steps_charged == 1
    assert not torch.equal(before, network[0].weight)


@pytest.mark.statistical
def test_batches_are_poisson_samples():
    # Chernoff bounds at false alarm probability 1e-9 on counts; both tails.
    n_rows, rate, n_steps = 200, 0.1, 3000
    features = torch.arange(n_rows).double()[:, None]
    loader = PoissonLoader(
        features,
        torch.zeros(n_rows),
        rate=rate,
        n_steps=n_steps,
        generator=np.random.default_rng(5),
    )
    joined = np.zeros((n_steps, n_rows), dtype=bool)
    for step, (batch, _) in enumerate(loader):
        index = batch[:, 0].long().numpy()
        assert len(set(index.tolist())) == len(index)
        joined[step, index] = True
    low, high = binom.ppf([1e-12, 1 - 1e-12], n_steps, rate)
    assert np.all((joined.sum(0) >= low) & (joined.sum(0) <= high))
    low, high = binom.ppf([5e-10, 1 - 5e-10], n_steps * n_rows, rate)
    assert low <= joined.sum() <= high
    assert 1.05 * joined.sum() > high  # a rate that is a twentieth higher is noticed
    # Sizes vary as those of independent coins do: a fixed size has no variance.
    sizes = joined.sum(1)
    expected = n_rows * rate * (1 - rate)
    assert abs(sizes.var() / expected - 1) < 8 * np.sqrt(2 / n_steps)
    assert abs(np.full(n_steps, 20).var() / expected - 1) > 8 * np.sqrt(2 / n_steps)
    low, high = binom.ppf([1e-12, 1 - 1e-12], n_steps, rate**2)
    both = int((joined[:, 0] & joined[:, 1]).sum())
    assert low <= both <= high


def test_the_loader_gives_the_planned_number_of_batches():
    _, _, loader = train(small_network(), rows(64), epochs=3, batch_size=16)
    assert len(loader) == 12
    assert len(list(loader)) == 12
    assert len(loader) == 0


def test_rows_and_labels_must_match():
    features, labels = rows(10)
    with pytest.raises(CorrDPError, match="got 10 and 9"):
        train(small_network(), (features, labels[:9]))


@pytest.mark.parametrize("batch_size", [None, 20])
@pytest.mark.parametrize("method", ["corr", "standard"])
def test_the_certificate_is_that_of_the_plan(method, batch_size):
    policy = small_policy()
    module, _, _ = train(
        small_network(), rows(200), policy=policy, method=method, batch_size=batch_size
    )
    certificate = module.certificate()
    certificate.verify(policy)
    assert certificate.epsilon <= 1.0
    assert certificate.replayable_noise
    assert module.plan.method == method
    whole = certificate.classes[WHOLE_RECORD].epsilon
    assert np.isfinite(whole)
    if method == "standard":
        assert whole <= 1.0  # ordinary differential privacy
    else:
        assert whole > 1.0
        insensitive = certificate.classes["insensitive:x2"]
        assert 1.0 < insensitive.epsilon <= insensitive.allowed_epsilon == 5.0


def test_any_optimizer_steps_on_private_gradients():
    for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop):
        network = small_network()
        module, _, loader = train(network, rows(50))
        from corrdp.torch import PrivateOptimizer

        optimizer = PrivateOptimizer(kind(network.parameters(), lr=0.01), module)
        before = network[2].weight.detach().clone()
        module.backward(*loader.draw())
        optimizer.step()
        assert not torch.equal(before, network[2].weight)


def test_a_checkpoint_resumes_with_the_privacy_spent(tmp_path):
    path = tmp_path / "training.pt"
    whole = small_network()
    run(train(whole, rows(50), epochs=6))
    first = small_network()
    training = train(first, rows(50), epochs=6)
    run(training, n_steps=4)
    save_checkpoint(training, path)
    second = small_network(seed=9)
    resumed = train(second, rows(50), epochs=6)
    load_checkpoint(resumed, path)
    assert resumed.module.steps_charged == 4
    assert len(resumed.loader) == 2
    run(resumed)
    for one, other in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)  # the noise went on where it stopped
    with pytest.raises(BudgetError, match="planned steps are spent"):
        resumed.module.backward(*rows(50))


@pytest.mark.parametrize("random_state", [0, None])
def test_a_training_is_not_taken_back_to_fewer_steps(random_state, tmp_path):
    path = tmp_path / "training.pt"
    network = small_network()
    training = train(network, rows(50), random_state=random_state)
    run(training, n_steps=2)
    save_checkpoint(training, path)
    load_checkpoint(training, path)  # nothing was released since
    run(training, n_steps=1)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    with pytest.raises(GuaranteeVoidError, match="charged for 3 steps, the checkpoint"):
        load_checkpoint(training, path)
    assert training.module.steps_charged == 3
    assert all(map(torch.equal, before, network.parameters()))


@pytest.mark.parametrize("n_steps", [2, 3])
def test_steps_of_this_training_are_not_forgotten_for_those_of_another(
    n_steps, tmp_path
):
    """Two trainings of one plan: seven steps would be released where five are paid."""
    path = tmp_path / "training.pt"
    other = train(small_network(), rows(50), random_state=None)
    run(other, n_steps=3)
    save_checkpoint(other, path)
    training = train(small_network(), rows(50), random_state=None)
    run(training, n_steps=n_steps)
    with pytest.raises(GuaranteeVoidError, match="of another one knows nothing"):
        load_checkpoint(training, path)
    assert training.module.steps_charged == n_steps
    fresh = train(small_network(), rows(50), random_state=None)
    for _ in range(2):  # nothing was released in between
        load_checkpoint(fresh, path)
    assert fresh.module.steps_charged == 3


def test_a_checkpoint_is_still_known_after_another_could_not_be_written(tmp_path):
    path = tmp_path / "training.pt"
    training = train(small_network(), rows(50), random_state=None)
    run(training, n_steps=2)
    save_checkpoint(training, path)
    with pytest.raises(RuntimeError, match="directory"):
        save_checkpoint(training, tmp_path / "nowhere" / "training.pt")
    load_checkpoint(training, path)
    assert training.module.steps_charged == 2


def test_a_parameter_that_joined_the_optimizer_later_is_not_stepped_on():
    network = small_network()
    network[2].requires_grad_(False)
    inner = torch.optim.SGD(network[0].parameters(), lr=0.1)
    module, optimizer, loader = make_private(
        network,
        inner,
        rows(50),
        loss=squared,
        policy=small_policy(),
        epsilon=1.0,
        delta=1e-5,
        epochs=3,
        method="standard",
    )
    network[2].requires_grad_(True)
    inner.add_param_group({"params": list(network[2].parameters())})
    features, labels = loader.draw()
    squared(network(features), labels).mean().backward()
    before = network[2].weight.detach().clone()
    module.backward(features, labels)
    with pytest.raises(GuaranteeVoidError, match="did not know or found frozen"):
        optimizer.step()
    assert torch.equal(before, network[2].weight)


def test_what_cannot_be_differentiated_is_refused_before_it_is_charged():
    network = small_network()
    module, _, loader = train(network, rows(50))
    batch = loader.draw()
    with torch.inference_mode(), pytest.raises(CorrDPError, match="inference mode"):
        module.backward(*batch)
    network[0].requires_grad_(False)
    with pytest.raises(CorrDPError, match="frozen after make_private"):
        module.backward(*batch)
    assert module.steps_charged == 0
    network[0].requires_grad_(True)
    module.backward(*batch)
    assert module.steps_charged == 1


def test_a_frozen_parameter_is_not_stepped_on():
    network = small_network()
    network[0].requires_grad_(False)
    module, optimizer, loader = train(network, rows(50), method="standard")
    network[0].requires_grad_(True)
    features, labels = loader.draw()
    squared(network(features), labels).mean().backward()
    before = network[0].weight.detach().clone()
    module.backward(features, labels)
    with pytest.raises(GuaranteeVoidError, match="found frozen has a gradient"):
        optimizer.step()
    assert torch.equal(before, network[0].weight)
    optimizer.zero_grad()
    module.backward(*loader.draw())
    optimizer.step()
    assert torch.equal(before, network[0].weight)


def test_restarting_a_seed_would_repeat_noise_and_is_refused(tmp_path):
    path = tmp_path / "training.pt"
    training = train(small_network(), rows(50), random_state=None)
    run(training, n_steps=1)
    save_checkpoint(training, path)
    seeded = train(small_network(), rows(50), random_state=0)
    with pytest.raises(GuaranteeVoidError, match="repeat noise"):
        load_checkpoint(seeded, path)


def test_steps_of_a_checkpoint_that_does_not_fit_count(tmp_path):
    """Another module of as many numbers: what was loaded of it stays, and is paid."""
    path = tmp_path / "training.pt"
    data = rows(50)
    wide = nn.Sequential(nn.Linear(5, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    flat = nn.Sequential(nn.Linear(5, 2), nn.Tanh(), nn.Linear(3, 1, bias=False))
    flat = nn.Sequential(flat[0], nn.Tanh(), nn.ConstantPad1d((0, 1), 0.0), flat[2])
    training = train(wide, data, method="standard")
    run(training, n_steps=3)
    save_checkpoint(training, path)
    fresh = train(flat.double(), data, method="standard")
    with pytest.raises(CorrDPError, match="does not fit the module"):
        load_checkpoint(fresh, path)
    assert torch.equal(flat[0].weight, wide[0].weight)
    assert fresh.module.steps_charged == 3
    assert len(fresh.loader) == 2


@pytest.mark.parametrize(
    "damage",
    [
        {"steps_charged": math.nan},
        {"steps_charged": -1},
        {"steps_charged": 6},
        {"steps_drawn": "2"},
        {"steps_charged": None},
        {"reference": ...},
    ],
)
def test_checkpoints_that_do_not_hold_all_are_refused(damage, tmp_path):
    """Not a number is never below any number of steps, nor beyond those planned."""
    path = tmp_path / "training.pt"
    training = train(small_network(), rows(50))
    run(training, n_steps=2)
    save_checkpoint(training, path)
    document = torch.load(path) | damage
    torch.save({k: v for k, v in document.items() if v is not ...}, path)
    fresh = train(small_network(), rows(50))
    with pytest.raises(CorrDPError, match="is damaged"):
        load_checkpoint(fresh, path)
    assert fresh.module.steps_charged == 0


def test_a_checkpoint_of_another_plan_is_refused(tmp_path):
    path = tmp_path / "training.pt"
    save_checkpoint(train(small_network(), rows(50)), path)
    other = train(small_network(), rows(50), epsilon=2.0)
    with pytest.raises(GuaranteeVoidError, match="another plan"):
        load_checkpoint(other, path)


def test_files_that_are_no_checkpoints_are_refused(tmp_path):
    path = tmp_path / "other.pt"
    training = train(small_network(), rows(50))
    with pytest.raises(CorrDPError, match="cannot read the checkpoint"):
        load_checkpoint(training, path)
    torch.save({"schema": "other"}, path)
    with pytest.raises(CorrDPError, match="checkpoint schema"):
        load_checkpoint(training, path)


def test_secret_noise_differs_between_runs():
    gradients = []
    for _ in range(2):
        network = small_network()
        module, _, loader = train(network, rows(50), random_state=None)
        module.backward(*loader.draw())
        gradients.append(network[0].weight.grad.clone())
        assert not module.certificate().replayable_noise
    assert not torch.equal(*gradients)

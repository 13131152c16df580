"""What a review of the proofs found: each is refused, bounded or told."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from corrdp.accounting import WHOLE_RECORD, Group, NoisePlan, SensitivityTable
from corrdp.certificate import Component, LeakageClaim
from corrdp.estimators._mlp import MLPRegressor
from corrdp.exceptions import GuaranteeVoidError
from corrdp.torch._clipping import GroupClipper
from corrdp.torch._layers import trained_layers
from corrdp.torch._planning import grouped, plan_network
from unit.torch.networks import (
    example_gradients,
    facts_of,
    flat_sum,
    rows,
    small_network,
    small_policy,
    squared,
    train,
)

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


def distance(outputs, labels):
    """The gradient is NaN where outputs equal labels; the loss is 0."""
    return ((outputs[:, 0] - labels) ** 2).sqrt()


def exact_labels(network, features, labels, index):
    """Make the loss of one example zero."""
    labels = labels.clone()
    with torch.no_grad():
        labels[index] = network(features)[index, 0]
    return labels


@LAYOUTS
def test_a_gradient_that_is_not_finite_contributes_nothing(layout):
    network, (features, labels) = small_network(), rows(6)
    labels = exact_labels(network, features, labels, 2)
    module, _, _ = train(network, (features, labels), loss=distance, **layout)
    both = module.clipped_sum(features, labels)
    kept = torch.arange(6) != 2
    without = module.clipped_sum(features[kept], labels[kept])
    if not module.plan.layout.clips_influence:
        for name, value in both.items():
            assert torch.allclose(value, without[name], rtol=1e-12, atol=1e-14)
        return
    # Input weights keep the signal at the reference, which is finite.
    assert all(torch.isfinite(value).all() for value in both.values())
    assert torch.allclose(both["2.weight"], without["2.weight"])


@LAYOUTS
def test_a_broken_gradient_stays_finite_in_the_release(layout):
    network, (features, labels) = small_network(), rows(6)
    labels = exact_labels(network, features, labels, 2)
    module, _, loader = train(network, (features, labels), loss=distance, **layout)
    module.backward(*loader.draw())
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())


@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e200])
@pytest.mark.parametrize("influence", [0.0, 0.1, 0.5])
def test_a_signal_that_sensitive_features_break_stays_within_their_influence(
    broken, influence
):
    network = small_network()
    layout = grouped(facts_of(network, small_policy()), influence)
    layers = trained_layers(network)
    clipper = GroupClipper(layers, layout)
    generator = torch.Generator().manual_seed(3)

    def normal(*shape):
        return torch.randn(*shape, generator=generator).double()

    codes, signal, reference = normal(4, 5), normal(4, 4), 5 * normal(4, 4)
    hidden, last = normal(4, 4), normal(4, 1)

    def released(codes, signal, reference):
        out = {
            (la.name, k): p.detach() * 0
            for la in layers
            for k, p in la.parameters.items()
        }
        clipper.add_sum(
            {"0": codes, "2": hidden}, {"0": signal, "2": last}, reference, out
        )
        assert all(torch.isfinite(value).all() for value in out.values())
        return out["0", "weight"]

    other_codes, other_signal = codes.clone(), signal.clone()
    other_codes[1, :2] = 0.7  # the sensitive columns
    other_signal[1, 0] = broken
    moved = released(codes, signal, reference) - released(
        other_codes, other_signal, reference
    )
    columns = [g.name for g in layout.groups].index("input:insensitive")
    group = layout.groups[columns]
    assert moved[:, 2:].norm() <= 2 * group.influence_bound * (1 + 1e-9)
    # A reference that is broken is so for both neighbors: nothing moves.
    broken_reference = reference.clone()
    broken_reference[1, 0] = broken
    moved = released(codes, signal, broken_reference) - released(
        other_codes, other_signal, broken_reference
    )
    assert moved[:, 2:].norm() <= 1e-12


def test_a_sum_that_is_not_finite_is_never_released(monkeypatch):
    network = small_network()
    module, _, loader = train(network, rows())

    def planted(self, activations, backprops, reference_backprop, out, **named):
        for value in out.values():
            value.fill_(math.nan)

    monkeypatch.setattr(GroupClipper, "add_sum", planted)
    with pytest.raises(
        GuaranteeVoidError, match="clipped sum of a batch is not finite"
    ):
        module.backward(*loader.draw())
    assert module.steps_charged == 1
    assert not module.gradient_is_fresh
    assert all(p.grad is None for p in network.parameters())


def changed_in_place(loader):
    features, labels = loader.draw()
    return features.mul_(2.0), labels


FOREIGN = {
    "rows of its own": lambda loader: rows(40),
    "all rows": lambda loader: (loader.features, loader.labels),
    "a slice": lambda loader: tuple(part[:2] for part in loader.draw()),
    "copies": lambda loader: tuple(part.clone() for part in loader.draw()),
    "other labels": lambda loader: (loader.draw()[0], loader.draw()[1]),
    "changed in place": changed_in_place,
    "empty": lambda loader: tuple(part[:0] for part in rows()),
    "of another training": lambda loader: train(small_network(), rows()).loader.draw(),
}


@pytest.mark.parametrize("batch_size", [None, 10])
@pytest.mark.parametrize("name", FOREIGN)
def test_only_batches_of_the_loader_are_taken(name, batch_size):
    if batch_size is None and name == "other labels":
        batch_size = 20  # all rows are the same tensors in every step
    module, _, loader = train(small_network(), rows(40), batch_size=batch_size)
    with pytest.raises(GuaranteeVoidError, match="not drawn by the loader"):
        module.backward(*FOREIGN[name](loader))
    assert module.steps_charged == 0  # nothing was read


@pytest.mark.parametrize("batch_size", [None, 10])
def test_a_batch_is_taken_once(batch_size):
    module, _, loader = train(small_network(), rows(40), batch_size=batch_size)
    first, second = loader.draw(), loader.draw()
    module.backward(*second)
    module.backward(*first)
    with pytest.raises(GuaranteeVoidError, match="used before"):
        module.backward(*first)


def earlier_release(noise_scale):
    table = SensitivityTable(
        groups=(Group("counts", 1),),
        classes=(WHOLE_RECORD,),
        bounds=np.array([[1.0]]),
        contribution=np.array([1.0]),
    )
    plan = NoisePlan(table, np.array([noise_scale]), {WHOLE_RECORD: math.inf}, 1e-5)
    return Component("leakage", plan=plan)


def test_an_earlier_release_without_noise_is_not_free():
    bare = facts_of(small_network(), small_policy(), spent=(earlier_release(0.0),))
    with pytest.raises(GuaranteeVoidError, match=r"'leakage' has no noise.*declare"):
        plan_network(bare)
    noisy = facts_of(small_network(), small_policy(), spent=(earlier_release(50.0),))
    assert plan_network(noisy).noise.fits


@pytest.mark.parametrize("replayable", [False, True])
def test_what_the_leakage_rests_on_is_on_the_certificate(replayable):
    module, _, _ = train(
        small_network(),
        rows(),
        leakage_assumptions=["rows are independent"],
        replayable_leakage=replayable,
        random_state=None,
    )
    certificate = module.certificate()
    assert "rows are independent" in certificate.assumptions
    assert any("every example by itself" in text for text in certificate.assumptions)
    assert certificate.replayable_noise is replayable
    assert module.generator_state() is None  # the noise of training is secret


class Table:
    """A leakage table that was released with a seed."""

    relation = "one_insensitive"
    assumptions = ("rows are independent draws",)
    replayable_noise = True
    components = ()

    def distances(self, calibration, *, policy=None):
        del policy
        return {"x2": 0.1, "x3": 0.1, "x4": 0.1}

    def claim(self, calibration, *, policy=None):
        del policy
        return LeakageClaim("public", self.distances(calibration))

    def require_policy(self, policy):
        assert len(policy.insensitive) == 3


@pytest.mark.filterwarnings("ignore::corrdp.exceptions.UtilityWarning")
def test_an_estimator_passes_on_what_its_table_rests_on():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{i}": generator.uniform(size=80) for i in range(5)})
    frame["y"] = generator.uniform(size=80)
    model = MLPRegressor(
        small_policy(), epsilon=1.0, delta=1e-5, leakage=Table(), n_steps=2
    ).fit(frame, frame["y"])
    assert "rows are independent draws" in model.certificate_.assumptions
    assert model.certificate_.replayable_noise


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_a_linear_layer_with_other_parameters_is_clipped_by_their_gradient():
    network, (features, labels) = small_network(), rows(6)
    nn.utils.weight_norm(network[0])  # trains weight_g and weight_v
    module, _, _ = train(network, (features, labels), method="standard", clip_norm=0.1)
    found = module.clipped_sum(features, labels)
    gradients = example_gradients(network, features, labels)
    wanted = flat_sum([{name: g[name] for name in found} for g in gradients], 0.1)
    flat = torch.cat([value.flatten() for value in found.values()])
    assert torch.allclose(flat, wanted, rtol=1e-8, atol=1e-12)

"""Values at the edge: no record stops a training or moves it beyond its bound."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from corrdp.accounting import WHOLE_RECORD
from corrdp.exceptions import CorrDPError, GuaranteeVoidError, PolicyError
from corrdp.policy import CategoryDomain, Feature, NumberDomain, Policy, policy_blocks
from corrdp.torch import (
    _clipping,
    _make_private,
    _passes,
    _randomness,
    _reference,
)
from corrdp.torch._domain import check_codes, projected
from corrdp.torch._rows import row_norms
from corrdp.training._layout import central_reference, standardizing_scale
from unit.torch.networks import (
    rows,
    small_network,
    small_policy,
    squared,
    train,
)
from unit.torch.replaying import clipped_sum, neighbor_movement, released_parts

pytestmark = pytest.mark.torch

METHODS = pytest.mark.parametrize("method", ["corr", "layered", "standard"])
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
LABELS = (math.nan, math.inf, -math.inf, 1e200, 1e30, -1e30)


@METHODS
@TYPES
@pytest.mark.parametrize("label", LABELS)
def test_no_label_stops_training(method, dtype, label):
    network = small_network().to(dtype)
    features, labels = rows()
    labels[3] = label
    features, labels = features.to(dtype), labels.to(dtype)
    module, optimizer, loader = train(network, (features, labels), method=method)
    for batch in loader:
        module.backward(*batch)
        optimizer.step()
    assert module.steps_charged == 5
    assert all(torch.isfinite(p).all() for p in network.parameters())


@METHODS
@pytest.mark.parametrize("label", [*LABELS[:3], 1e60])
def test_a_broken_loss_is_its_own_row_alone(method, label):
    # Others contribute what they did; the row itself what its definition says.
    network, (features, labels) = small_network(), rows()
    labels[3] = label
    training = train(network, (features, labels), method=method, epsilon=1e4)
    module, _, loader = training
    module.backward(*loader.draw())
    noise = np.random.default_rng(0).standard_normal(29)
    wanted = clipped_sum(
        network,
        module.plan.layout,
        torch.zeros(5).double(),
        features,
        labels,
        squared,
    )
    scale = module.plan.noise.noise_scale
    drawn = released_parts(training, noise)
    for found, one, part, deviation in zip(
        released_parts(training), wanted, drawn, scale, strict=True
    ):
        assert torch.allclose(found, one + deviation * part, rtol=1e-8, atol=1e-9)


def test_anomaly_detection_does_not_stop_training():
    network, (features, labels) = small_network(), rows()
    labels[3] = math.nan
    module, _, loader = train(network, (features, labels))
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        module.backward(*loader.draw())
        assert torch.is_anomaly_enabled()
    assert torch.isfinite(network[0].weight.grad).all()


def test_anomaly_detection_does_not_stop_what_torch_differentiates():
    network = nn.Sequential(nn.Linear(5, 4), nn.PReLU(4), nn.Linear(4, 1)).double()
    features, labels = rows()
    labels[3] = math.nan
    module, _, loader = train(network, (features, labels))
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        module.backward(*loader.draw())
    assert torch.isfinite(network[1].weight.grad).all()


class Filled(nn.Module):
    """A layer of its own making that fills in what is missing."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1.0, 1.0, 5).double().view(5, 1))

    def forward(self, features):
        filled = torch.nan_to_num(features, 0.0, math.inf, -math.inf)
        return filled @ self.weight


def test_rows_with_missing_values_count_whatever_others_hold():
    network = nn.Sequential(nn.Flatten(), Filled())
    features, labels = rows(40)
    features = features[:, None]
    features[:, 0, 0] = math.nan  # missing in all rows
    module, _, _ = train(network, (features, labels), method="standard")
    changed = features.clone()
    changed[0, 0, 1] = math.inf
    before, after = (module.clipped_sum(x, labels) for x in (features, changed))
    (name,) = before
    assert before[name].norm() > 5.0
    assert (after[name] - before[name]).norm() <= 2.0 * (1 + 1e-12)


def leave(network):
    """Leave the parameters where they start."""


def enlarge(network):
    with torch.no_grad():
        network[2].weight.mul_(1e6)


def overflow(network):
    """Let sensitive codes near their ends overflow the first layer."""
    with torch.no_grad():
        network[0].weight[:, :2] = torch.finfo(network[0].weight.dtype).max


def adversarial_row(rng, dtype):
    tiny = {torch.float32: 1e-23, torch.float64: 1e-170}[dtype]
    sizes = [0.0, tiny] if rng.random() < 0.3 else [-0.5, 0.5, 0.0, tiny, 0.1]
    codes = rng.choice(sizes, size=5)
    label = rng.choice([0.0, 1.0, math.nan, math.inf, 1e30, 1e18, -1e25])
    if dtype == torch.float64 and label > 1:
        label = rng.choice([label, 1e180])
    return torch.tensor(codes).to(dtype), torch.tensor(label).to(dtype)


def bare_network():
    """No bias makes up for norms of codes that are too small to be squared."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(5, 4, bias=False), nn.Tanh(), nn.Linear(4, 1, bias=False)
    ).double()


def movements(start, class_name, dtype, method, build=small_network, n_trials=40):
    """How far a step moves between neighbors, by group, over its bound."""
    rng = np.random.default_rng(7)
    features, labels = (part.to(dtype) for part in rows(4))
    network = build().to(dtype)
    training = train(
        network, (features, labels), method=method, epsilon=1e6, epochs=2 * n_trials
    )
    start(network)
    bounds = training.module.plan.noise.table.rows_of(class_name)[0]
    worst = np.zeros(len(bounds))
    for _ in range(n_trials):
        row, label = adversarial_row(rng, dtype)
        other, other_label = adversarial_row(rng, dtype)
        if class_name == "sensitive":
            other[2:], other_label = row[2:], label
        moved = neighbor_movement(training, ((row, label), (other, other_label)))
        worst = np.maximum(worst, moved / bounds)
    return worst


@TYPES
@METHODS
@pytest.mark.parametrize("class_name", ["sensitive", WHOLE_RECORD])
@pytest.mark.parametrize("start", [leave, enlarge, overflow])
def test_no_neighbor_moves_a_step_beyond_its_bound(start, class_name, method, dtype):
    worst = movements(start, class_name, dtype, method)
    assert worst.max() <= 1 + 1e-4
    if class_name == WHOLE_RECORD:
        assert worst.max() > 0.45  # the search gets near: a clipped row against none


@TYPES
def test_norms_whose_squares_are_lost_are_bounded(dtype, monkeypatch):
    setting = leave, WHOLE_RECORD, dtype, "layered", bare_network
    assert movements(*setting).max() <= 1 + 1e-4

    def planted(rows):
        return torch.linalg.vector_norm(rows, dim=1)

    monkeypatch.setattr(_passes, "_kernel", None)  # which adds squares as doubles
    assert movements(*setting).max() <= 1 + 1e-4
    monkeypatch.setattr(_clipping, "row_norms", planted)
    assert movements(*setting).max() > 2


@TYPES
def test_norms_are_upper_bounds_however_small_entries_are(dtype):
    for exponent in range(-320, 39):
        row = torch.full((1, 7), 10.0**exponent, dtype=dtype)
        true = math.sqrt(7) * float(row[0, 0])
        found = float(row_norms(row))
        assert found >= true * (1 - 1e-6)
        if 1e-15 < true < 1e18:
            assert found == pytest.approx(true, rel=1e-6)


def test_norms_that_do_not_fit_are_refused_beforehand():
    data = tuple(part.float() for part in rows())
    with pytest.raises(CorrDPError, match=r"clip_norm=1e\+38 over 16 rows"):
        train(small_network().float(), data, clip_norm=1e38)
    with pytest.raises(CorrDPError, match="digits of the noise are lost"):
        train(small_network().float(), data, clip_norm=1e-40)


class Gated(nn.Module):
    """Multiplies insensitive columns by a sensitive one before they are read."""

    def __init__(self, change):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(5, 4).double()
        self.last = nn.Linear(4, 1).double()
        self.change = change

    def forward(self, features):
        self.change(features)
        return self.last(torch.tanh(self.first(features)))


def gate(features):
    features[:, 2:] *= features[:, :1]


def gate_without_a_trace(features):
    features.data[:, 2:] *= features.data[:, :1]


@METHODS
@pytest.mark.parametrize("change", [gate, gate_without_a_trace])
def test_a_module_that_changes_its_input_in_place_is_refused(change, method):
    with pytest.raises(GuaranteeVoidError, match="changes its input in place"):
        train(Gated(change), rows(), method=method)


@pytest.mark.parametrize(
    ("change", "method"),
    [(gate, "corr"), (gate_without_a_trace, "corr"), (gate, "standard")],
)
def test_an_input_that_is_changed_later_is_refused_in_the_step(change, method):
    network = Gated(lambda features: None)
    module, _, loader = train(network, rows(), method=method)
    network.change = change
    with pytest.raises(GuaranteeVoidError, match="changes its input in place"):
        module.backward(*loader.draw())
    assert all(p.grad is None for p in network.parameters())


def masked_network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(5, 40), nn.Dropout(0.5), nn.Tanh(), nn.Linear(40, 1)
    ).double()


def gradients_with(torch_seed, random_state, batch_size=None):
    network = masked_network()
    module, _, loader = train(
        network,
        rows(40),
        method="standard",
        random_state=random_state,
        batch_size=batch_size,
        epochs=1,
        epsilon=1e6,
        calibration="theorem",  # whose noise of sampled steps is quick to plan
    )
    torch.manual_seed(torch_seed)
    before = torch.get_rng_state()
    module.backward(*next(iter(loader)))
    assert torch.equal(torch.get_rng_state(), before)  # left alone
    return torch.cat([p.grad.flatten() for p in network.parameters()])


@pytest.mark.parametrize("batch_size", [None, 20])
def test_masks_are_of_the_secret_generator(batch_size):
    one = gradients_with(1, 0, batch_size)
    assert torch.equal(one, gradients_with(2, 0, batch_size))  # no seed of torch's
    other = gradients_with(1, 1, batch_size)
    assert (one - other).norm() > 0.05 * one.norm()  # far beyond the noise


def test_masks_differ_from_step_to_step():
    network = masked_network()
    module, _, loader = train(network, rows(40), method="standard", epsilon=1e6)
    gradients = []
    for batch in loader:
        module.backward(*batch)  # the parameters stay where they are
        gradients.append(network[3].weight.grad.clone())
    differences = [(a - b).norm() for a, b in itertools.pairwise(gradients)]
    assert min(differences) > 0.05 * gradients[0].norm()


def test_random_layers_that_start_later_are_refused():
    network = masked_network()
    network[1].p = 0.0
    training = train(
        network, rows(40), method="standard", calibration="theorem", batch_size=20
    )
    assert not training.module._sum._randomness._is_drawn_from
    network[1].p = 0.5
    with pytest.raises(GuaranteeVoidError, match="drew from torch's generator"):
        training.module.backward(*training.loader.draw())


def test_a_state_that_is_not_understood_is_refused(monkeypatch):
    monkeypatch.setattr(_randomness, "_FIRST_WORD", 4)
    with pytest.raises(GuaranteeVoidError, match="keeps the state of its generator"):
        train(masked_network(), rows(), method="standard")


POLICY = Policy(
    (
        Feature("age", "sensitive", NumberDomain(0, 100)),
        Feature("ill", "sensitive", CategoryDomain(("no", "yes", "unknown"))),
        Feature("side", "insensitive", CategoryDomain(("a", "b")), leakage=0.3),
    ),
)
BLOCKS = policy_blocks(POLICY)
ROW = (0.2, 0.0, 1.0, 0.0, 0.0, 1.0)
OUTSIDE = {
    "number": (0, 0.6),
    "far": (0, 1e6),
    "NaN": (0, math.nan),
    "infinite": (0, math.inf),
    "two levels": (1, 1.0),
    "no level": (2, 0.0),
    "negative level": (3, -0.2),
    "insensitive": (4, 1.0),
}


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OUTSIDE)
def test_values_that_are_no_codes_are_refused(name, dtype, scaled, monkeypatch):
    codes = torch.tensor([ROW] * 3, dtype=torch.float64)
    column, value = OUTSIDE[name]
    spoiled = codes.clone()
    spoiled[1, column] = value
    scale = standardizing_scale(BLOCKS) if scaled else None
    arguments = {"code_scale": scale, "reference": np.zeros(6)} if scaled else {}

    def prepared(codes):
        if scaled:
            center = torch.tensor(central_reference(BLOCKS))
            codes = (codes - center) * torch.tensor(scale)
        return codes.to(dtype), torch.zeros(3, dtype=dtype)

    def made(codes):
        network = small_network(n_inputs=6).to(dtype)
        return train(network, prepared(codes), policy=POLICY, **arguments)

    made(codes)
    with pytest.raises(PolicyError, match="no codes of the policy") as refused:
        made(spoiled)
    assert str(value) not in str(refused.value)
    monkeypatch.setattr(_make_private, "check_codes", lambda *given: None)  # planted
    made(spoiled)


def test_rounding_of_codes_is_no_reason_to_refuse():
    generator = torch.Generator().manual_seed(0)
    codes = (torch.rand(10_000, 1, generator=generator) - 0.5).sign() / 2
    blocks = policy_blocks(Policy((Feature("x", "sensitive", NumberDomain(0, 1)),)))
    for center, scale in ((0.0, 3.464), (1000.0, 0.37), (-7.3, 1e-3)):
        moved = (codes.double() * scale + center).float()
        check_codes(moved, blocks, np.array([center]), np.array([scale]))
    check_codes(torch.empty(0, 1), blocks)
    check_codes(torch.zeros(3, 1, dtype=torch.int64), blocks)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reference": np.zeros(4)}, "reference must hold 5 finite numbers"),
        ({"reference": np.full(5, math.nan)}, "reference must hold 5 finite"),
        ({"code_scale": np.zeros(5)}, "code_scale must be positive, got 0"),
        ({"code_scale": np.ones((5, 1))}, "code_scale must hold 5 finite"),
    ],
)
def test_public_rows_are_checked(change, message):
    with pytest.raises(CorrDPError, match=message):
        train(small_network(), rows(), **change)


@pytest.mark.parametrize("value", [1e6, -1e6, math.nan, math.inf])
def test_no_row_moves_the_reference_beyond_its_diameter(value, monkeypatch):
    # Rows that change after make_private looked at them: drawn into the domain.
    policy, scale = small_policy(), np.full(5, 2.0)

    def released(spoiled):
        features, labels = (2 * part for part in rows(50))
        training = train(
            small_network(),
            (features, labels),
            policy=policy,
            reference=np.zeros(5),
            code_scale=scale,
        )
        if spoiled:
            features[3, 0] = value
        training.module._release_reference()
        return training.module.reference.numpy() / scale

    one, other = released(False), released(True)
    largest = 1.0 / 50  # the diameter over the number of rows
    assert abs(one - other).max() <= largest
    assert abs(other).max() <= 0.5
    monkeypatch.setattr(_reference, "projected", lambda codes, block: codes)  # planted
    moved = abs(one - released(True)).max()
    assert not moved <= largest


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_projected_rows_are_no_farther_apart_than_the_diameter(block):
    rng = np.random.default_rng(0)
    width = block.stop - block.start
    codes = rng.normal(size=(2000, width)) * 10.0 ** rng.integers(-3, 4, size=(2000, 1))
    codes[::7] = math.nan
    codes[1::7, 0] = math.inf
    inside = projected(codes, block)
    distance = np.linalg.norm(inside[:1000] - inside[1000:], axis=1)
    assert distance.max() <= block.diameter * (1 + 1e-12)
    assert distance.max() > 0.9 * block.diameter
    assert projected(inside, block) == pytest.approx(inside, abs=1e-15)
    alone = np.vstack([projected(codes[i : i + 1], block) for i in range(50)])
    assert np.array_equal(alone, inside[:50])  # a function of the row


def test_words_about_a_label_out_of_range_are_dropped():
    """Torch says which label; a refusal of ours says what kind of error it was."""
    features, labels = rows()
    labels = (labels > 0).long()

    def loss(outputs, labels):
        both = torch.stack((outputs[:, 0], -outputs[:, 0]), dim=1)
        return nn.functional.cross_entropy(both, labels, reduction="none")

    data = features, labels.where(torch.arange(len(labels)) != 3, 73)
    module, _, loader = train(small_network(), data, loss=loss)

    def trained():
        for batch in loader:
            module.backward(*batch)

    with pytest.raises(CorrDPError, match=r"stopped at a batch \(IndexE") as caught:
        trained()
    assert "73" not in str(caught.value)
    assert caught.value.__context__ is None
    assert 1 <= module.steps_charged <= 5


class _Stops(torch.autograd.Function):
    @staticmethod
    def forward(context, given):
        context.save_for_backward(given)
        return given.clone()

    @staticmethod
    def backward(context, signal):
        (given,) = context.saved_tensors
        if float(given.abs().max()) > 70:
            raise ValueError(f"{float(given.abs().max())} is too large")
        return signal


class StopsInItsGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 3).double(), nn.Linear(3, 1).double()

    def forward(self, features):
        return self.last(_Stops.apply(self.first(features)))


@pytest.mark.parametrize("residual_bound", [None, 1.0])
def test_words_of_a_gradient_that_stops_are_dropped(residual_bound):
    features, labels = rows()
    module, _, loader = train(
        StopsInItsGradient(), (features, labels), residual_bound=residual_bound
    )
    with torch.no_grad():
        module.module.first.bias.fill_(73.0)
    batch = loader.draw()
    with pytest.raises(CorrDPError, match=r"stopped at a batch \(ValueE") as caught:
        module.backward(*batch)
    assert "7" not in str(caught.value)
    assert caught.value.__context__ is None
    assert module.steps_charged == 1
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_default_type_of_torch_changes_no_step():
    """The compiled pass has the type of the parameters, whatever new tensors have."""
    data = tuple(part.float() for part in rows())
    found = []
    for default in (torch.float32, torch.float64):
        training = train(small_network().float(), data)
        torch.set_default_dtype(default)
        try:
            training.module.backward(*training.loader.draw())
        finally:
            torch.set_default_dtype(torch.float32)
        found.append([parameter.grad for parameter in training.module.parameters()])
    assert all(map(torch.equal, *found))

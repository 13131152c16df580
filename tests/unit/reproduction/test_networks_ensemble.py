"""Models trained together are the models that would be trained alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from corrdp.accounting import WHOLE_RECORD
from corrdp.certificate import Calibration
from corrdp.reproduction._networks_clipping import (
    Clipper,
    NetworkShape,
    Rows,
    _factor,
    _square,
)
from corrdp.reproduction._networks_ensemble import (
    Schedule,
    constant_steps,
    train_together,
    without_privacy,
)
from corrdp.torch._layout import flat_layout
from corrdp.torch._planning import grouped, plan_network
from corrdp.torch._private import PrivateModule
from corrdp.torch._theorem import experiment_plan
from unit.torch.networks import (
    brute_force_parts,
    example_gradients,
    facts_of,
    flat_sum,
    group_parts,
    rows,
    small_policy,
    train,
)

pytestmark = pytest.mark.torch

SHAPE = NetworkShape(5, 4, 1)
EXACT = {"rtol": 1e-10, "atol": 1e-12}


def network_of(seed=0, shape=SHAPE):
    return shape.build(seed).double()


def table(n_rows=60, seed=1):
    return Rows(*rows(n_rows, seed=seed))


def flat(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def named(vector, network):
    parts = vector.split([p.numel() for p in network.parameters()])
    return {
        name: part.view_as(p)
        for (name, p), part in zip(network.named_parameters(), parts, strict=True)
    }


def sum_of(clipper, layout, network, data):
    made = clipper([layout], SHAPE, flat(network))
    made.read(data)
    return made.clipped_sum(flat(network)[None])[0]


def small_layout(kind, clip_norm=0.5):
    facts = facts_of(network_of(), small_policy(), clip_norm=clip_norm)
    if kind == "flat":
        return flat_layout(facts.layers).with_clip_norm(clip_norm)
    if kind == "layered":
        return plan_network(facts, method="layered").layout
    return grouped(facts, 0.1)


class Unclipped(Clipper):
    """Forgets the norm."""

    def __init__(self, layouts, shape, example):
        super().__init__(layouts, shape, example)
        self._norms = torch.full_like(self._norms, 1e30)


class WrongOrder(Clipper):
    """Clips the true gradient alone, then bounds the influence."""

    def _signal(self, reference, difference, code_square, group, norm):
        true = reference + difference
        true = true * _factor(code_square * _square(true), norm)[:, None]
        apart = true - reference
        bound = self._influence[:, group, None]
        share = _factor(code_square * _square(apart), bound)[:, None]
        return reference + share * apart


def equals_brute_force(clipper, kind):
    network, layout = network_of(), small_layout(kind)
    data = table()
    total = sum_of(clipper, layout, network, data)
    if kind == "flat":
        gradients = example_gradients(network, data.codes, data.labels)
        return torch.allclose(total, flat_sum(gradients, 0.5), **EXACT)
    if kind == "layered":  # nothing is put at a reference
        layout = replace(layout, sensitive=np.zeros(5, dtype=bool), input_layer="0")
        layout = replace(layout, reference=np.zeros(5))
    expected = brute_force_parts(network, layout, data.codes, data.labels)
    own = group_parts(layout, named(total, network))
    return all(
        torch.allclose(a, b, **EXACT) for a, b in zip(own, expected, strict=True)
    )


@pytest.mark.parametrize("kind", ["flat", "layered", "grouped"])
def test_sums_equal_brute_force(kind):
    assert equals_brute_force(Clipper, kind)
    assert not equals_brute_force(Unclipped, kind)


def test_the_wrong_order_is_not_brute_force():
    assert not equals_brute_force(WrongOrder, "grouped")


def respects_bounds(clipper):
    """Search large rows for a contribution beyond the norm of its group."""
    layout = small_layout("grouped")
    for seed in range(20):
        network = network_of(seed)
        data = table(1, seed=seed)
        data = Rows(30.0 * data.codes, 30.0 * data.labels)
        total = sum_of(clipper, layout, network, data)
        parts = group_parts(layout, named(total, network))
        for group, part in zip(layout.groups, parts, strict=True):
            if float(part.norm()) > group.clip_norm * (1 + 1e-9):
                return False
    return True


def test_no_row_contributes_more_than_the_norm_of_its_group():
    assert respects_bounds(Clipper)
    assert not respects_bounds(Unclipped)
    assert not respects_bounds(WrongOrder)


def alone(plan_kind, batch_size, n_steps=7):
    """Return what `make_private` trains by itself, with its plan."""
    network = network_of()
    data = rows(60)
    arguments = {"clip_norm": 0.5, "batch_size": batch_size}
    arguments["epochs"] = n_steps if batch_size is None else n_steps * batch_size / 60
    arguments["calibration"] = "theorem" if plan_kind == "theorem" else "certified"
    arguments["method"] = plan_kind if plan_kind in ("standard", "layered") else "corr"
    module, optimizer, loader = train(network, data, **arguments)
    if plan_kind == "experiment":
        facts = facts_of(
            network,
            small_policy(),
            n_rows=60,
            n_steps=n_steps,
            rate=loader.rate,
            clip_norm=0.5,
        )
        module = PrivateModule(
            network,
            facts.layers,
            loss=module._loss,
            plan=experiment_plan(facts, "corr"),
            terms=module.terms,
            loader=loader,
            generator=module._generator,
            has_random_layers=False,
        )
        optimizer._module = module
    for batch in loader:
        module.backward(*batch)
        optimizer.step()
    return flat(network), module.plan


@pytest.mark.parametrize("batch_size", [None, 20])
@pytest.mark.parametrize(
    "kind", ["standard", "layered", "corr", "theorem", "experiment"]
)
def test_training_equals_that_of_make_private(kind, batch_size):
    expected, plan = alone(kind, batch_size)
    trained = train_together(
        table(),
        flat(network_of()),
        [plan, without_privacy(plan), plan],
        shape=SHAPE,
        schedule=Schedule(constant_steps(0.01)),
        random_state=0,
    )
    assert torch.allclose(trained[0], expected, **EXACT)
    assert torch.equal(trained[0], trained[2])
    assert not torch.allclose(trained[1], expected, rtol=1e-3)


def test_momentum_and_averaging_equal_those_of_torch():
    _, plan = alone("standard", None)
    network = network_of()
    module, _, loader = train(network, rows(60), clip_norm=0.5, epochs=7)
    module = PrivateModule(
        network,
        module._layers,
        loss=module._loss,
        plan=plan,
        terms=module.terms,
        loader=loader,
        generator=module._generator,
        has_random_layers=False,
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    seen = []
    for batch in loader:
        module.backward(*batch)
        optimizer.step()
        seen.append(flat(network))
    trained = train_together(
        table(),
        flat(network_of()),
        [plan],
        shape=SHAPE,
        schedule=Schedule(constant_steps(0.01), momentum=0.9, averages=True),
        random_state=0,
    )
    assert torch.allclose(trained[0], torch.stack(seen[3:]).mean(0), **EXACT)


def test_classes_are_trained_as_make_private_trains_them():
    shape = NetworkShape(5, 4, 3)
    features, _ = rows(60)
    labels = torch.arange(60) % 3
    network = network_of(shape=shape)

    def loss(outputs, labels):
        return torch.nn.functional.cross_entropy(outputs, labels, reduction="none")

    module, optimizer, loader = train(network, (features, labels), loss=loss)
    for batch in loader:
        module.backward(*batch)
        optimizer.step()
    trained = train_together(
        Rows(features, labels),
        flat(network_of(shape=shape)),
        [module.plan],
        shape=shape,
        schedule=Schedule(constant_steps(0.01)),
        random_state=0,
    )
    assert torch.allclose(trained[0], flat(network), **EXACT)


def test_repeated_rows_may_be_counted():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, size=(80, 5)).astype(float)
    codes[40:] = codes[:40]
    labels = codes[:, 0] / 3
    counted = Rows.distinct(codes, labels)
    assert counted.n_rows == 80
    assert len(counted.codes) <= 40
    network = SHAPE.build(0)
    for kind in ("flat", "layered", "grouped"):
        layout = small_layout(kind)
        one = sum_of(Clipper, layout, network, Rows.of(codes, labels))
        other = sum_of(Clipper, layout, network, counted)
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)


def test_the_experiments_lower_noise_on_insensitive_columns_and_the_first_bias():
    facts = facts_of(
        network_of(), small_policy(leakage=0.36), clip_norm=2.0, n_steps=50, n_rows=400
    )
    full = math.sqrt((math.log(1e5) + 1) * 4.0 * 50)  # on the sum over all rows
    lowered = {"corr": 0.6, "semi": 0.0, "standard": 1.0}
    for method, factor in lowered.items():
        plan = experiment_plan(facts, method)
        scale = dict(
            zip(
                (group.name for group in plan.noise_layout.groups),
                plan.noise.noise_scale,
                strict=True,
            )
        )
        assert scale["input:x0"] == pytest.approx(full)
        assert scale["input:x2"] == pytest.approx(factor * full)
        assert scale["layer:0.bias"] == pytest.approx(factor * full)
        assert scale["layer:2"] == pytest.approx(full)
        assert plan.calibration is Calibration.THEOREM


def test_less_noise_proves_less():
    facts = facts_of(network_of(), small_policy(leakage=0.36), n_steps=50)
    proved = {
        method: experiment_plan(facts, method).noise.epsilon(WHOLE_RECORD)
        for method in ("standard", "corr", "semi")
    }
    assert proved["standard"] < proved["corr"] < proved["semi"] == math.inf
    certified = plan_network(facts, method="standard").noise
    assert certified.epsilon(WHOLE_RECORD) <= 1.0 < proved["standard"]  # E5

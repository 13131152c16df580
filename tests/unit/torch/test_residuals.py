"""Clipping in units of the residual weighs no record by its label."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score
from torch import nn

from corrdp import MLPClassifier
from corrdp.exceptions import GuaranteeVoidError
from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy
from corrdp.torch import mlp as _mlp
from corrdp.torch.mlp import CLIP_NORM
from unit.torch.networks import (
    facts_of,
    group_parts,
    rows,
    small_network,
    small_policy,
    squared,
    train,
)
from unit.torch.test_sensitivity import worst_movement

pytestmark = pytest.mark.torch

ROOT = math.sqrt(2.0)


def cross_entropy(outputs, labels):
    return nn.functional.cross_entropy(outputs, labels.long(), reduction="none")


def wild_network(n_outputs):
    network = small_network(n_outputs=n_outputs)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.0)
    return network


def training_of(kind, **changes):
    """A training by groups whose residuals are bounded."""
    n_outputs = 3 if kind == "classes" else 1
    loss = cross_entropy if kind == "classes" else squared
    arguments = {"loss": loss, "residual_bound": ROOT, "clip_norm": 1.0}
    features, labels = rows()
    labels = (labels.abs() * 2).clamp(0, n_outputs - 1) if n_outputs > 1 else labels
    network = wild_network(n_outputs)
    return train(network, (features, labels), **(arguments | changes))


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_no_neighbor_moves_a_group_beyond_its_bound(kind):
    training = training_of(kind)
    module, layout = training.module, training.module.plan.layout
    assert layout.bounds_residuals
    assert layout.clips_influence
    facts = facts_of(module.module, small_policy())
    table = layout.sensitivity_table(facts.classes)

    def contribution(row, label):
        label = label.abs().clamp_max(2).floor() if kind == "classes" else label
        sums = module.clipped_sum(row[None], label)
        return dict(enumerate(group_parts(layout, sums)))

    for neighbor in facts.classes:
        worst = worst_movement(layout, neighbor.features, contribution, seed=5)
        bounds = table.rows_of(neighbor.name)[0]
        for index, value in worst.items():
            assert value <= bounds[index] * (1 + 1e-9), (neighbor.name, index)


def test_the_norm_of_insensitive_weights_ignores_sensitive_features():
    # The residual of the record itself would let sensitive features scale the norm:
    # the true residual vanishes, that at the reference does not.
    training = training_of("numbers", clip_norm=0.01)
    module, layout = training.module, training.module.plan.layout
    index = [g.name for g in layout.groups].index("input:insensitive")
    generator = torch.Generator().manual_seed(3)
    moved = 0.0
    for _ in range(50):
        first = torch.rand(1, 5, generator=generator).double() - 0.5
        second = first.clone()
        second[:, :2] = torch.rand(1, 2, generator=generator).double() - 0.5
        label = module.module(first).detach()[0]  # no residual at all
        parts = [
            group_parts(layout, module.clipped_sum(row, label))[index]
            for row in (first, second)
        ]
        moved = max(moved, float((parts[0] - parts[1]).norm()))
    assert moved <= 2 * layout.groups[index].influence_bound * (1 + 1e-9)


def test_two_labels_have_one_factor():
    # With true chances the expected contribution is zero, whatever is cut.
    network = small_network(n_outputs=2)
    features, labels = rows()
    data = features, (labels > 0).double()
    found = {}
    for bound in (ROOT, None):
        module = train(
            network,
            data,
            loss=cross_entropy,
            method="layered",
            clip_norm=0.3,
            residual_bound=bound,
        ).module
        left = []
        for row in features:
            chances = torch.softmax(network(row[None]), 1)[0].detach()
            sums = [
                module.clipped_sum(row[None], torch.tensor([float(label)]))
                for label in (0, 1)
            ]
            for name in sums[0]:
                parts = [s[name] for s in sums]
                assert float(parts[0].norm()) > 0
                mean = chances[0] * parts[0] + chances[1] * parts[1]
                left.append(float(mean.norm() / parts[0].norm()))
        found[bound] = max(left)
    assert found[ROOT] <= 1e-9
    assert found[None] > 0.05  # plain clipping weighs labels


@pytest.mark.parametrize("residual_bound", [ROOT, None])
def test_a_constant_matches_the_base_rate(residual_bound):
    # Nothing to learn but the rate, nearly no noise, all gradients cut.
    policy = small_policy()
    features = torch.zeros(500, 5).double()
    labels = (torch.arange(500) % 5 > 0).double()  # four fifths
    network = small_network(n_outputs=2)
    training = train(
        network,
        (features, labels),
        policy=policy,
        loss=cross_entropy,
        method="layered",
        clip_norm=0.5,
        residual_bound=residual_bound,
        epsilon=5000.0,
        epochs=400,
    )
    for group in training.optimizer.param_groups:
        group["lr"] = 1.0
    for batch in training.loader:
        training.module.backward(*batch)
        training.optimizer.step()
    chance = float(torch.softmax(network(features[:1]).detach(), 1)[0, 1])
    if residual_bound is None:
        assert chance > 0.85  # the fault
    else:
        assert chance == pytest.approx(0.8, abs=0.02)


def test_long_residuals_are_cut_before_they_are_propagated():
    network = nn.Linear(5, 1).double()
    features, _ = rows(1)
    for label in (1e3, 1e6):
        module = train(
            network,
            rows(),
            method="standard",
            clip_norm=100.0,
            residual_bound=0.5,
        ).module
        sums = module.clipped_sum(features, torch.tensor([label]).double())
        assert float(sums["bias"].abs()) == pytest.approx(0.5)
        assert torch.allclose(sums["weight"], -0.5 * features)


@pytest.mark.parametrize("method", ["corr", "layered", "standard"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e200])
def test_a_broken_residual_is_its_own_row_alone(method, value):
    features, labels = rows()
    module = training_of("numbers", method=method).module
    kept = torch.arange(len(labels)) != 3
    labels[3] = value
    both = module.clipped_sum(features, labels)
    without = module.clipped_sum(features[kept], labels[kept])
    norm = module.plan.layout.clip_norm
    for name, total in both.items():
        assert torch.isfinite(total).all()
        assert float((total - without[name]).norm()) <= norm * (1 + 1e-9)
        if value != 1e200:
            assert torch.allclose(total, without[name], rtol=1e-12, atol=1e-12)


def test_outputs_must_be_one_tensor():
    """Tried before training: in the first step it would be charged for nothing."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(5, 1).double()

        def forward(self, features):
            said = self.inner(features)
            return said, said

    with pytest.raises(GuaranteeVoidError, match="one tensor with one row per example"):
        train(
            Both(),
            rows(),
            loss=lambda outputs, labels: squared(outputs[0], labels),
            method="standard",
            residual_bound=1.0,
        )


def test_plans_say_in_which_units_they_clip():
    plan = training_of("numbers").module.plan
    assert "norms per residual of 1.414" in plan.to_text()
    assert plan.to_json()["residual_bound"] == ROOT
    assert "residual_bound" not in train(small_network(), rows()).module.plan.to_json()


def test_centered_units_are_read_as_plain_ones():
    network = _mlp.build_network(3, (4, 5), 2, 0, centered=True)
    features = np.random.default_rng(0).normal(size=(6, 3))
    values = features
    for index, (weight, bias) in enumerate(_mlp.read_weights(network)):
        if index > 0:
            values = np.logaddexp(0.0, values)
        values = values @ weight.T + bias
    said = network(torch.tensor(features, dtype=torch.float32)).detach().numpy()
    assert said == pytest.approx(values, abs=1e-5)
    plain = _mlp.build_network(3, (4, 5), 2, 0)
    said = plain(torch.tensor(features, dtype=torch.float32)).detach().numpy()
    assert not np.allclose(said, values, atol=1e-2)


COUNTS = Policy(
    (
        *(
            Feature(f"n{i}", "insensitive", NumberDomain(0, 10), leakage=0.5)
            for i in range(4)
        ),
        Feature("age", "sensitive", NumberDomain(18, 75)),
        Feature("group", "sensitive", CategoryDomain(tuple("abc"))),
    ),
    Label("y", CategoryDomain(("0", "1")), score=0.0),
)


def skewed_counts(n_rows, seed=0):
    """Counts at the end of their range, as few as in records of courts."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.6, size=(n_rows, 4)).clip(0, 10)
    age = rng.uniform(18, 75, n_rows)
    group = rng.choice(list("abc"), n_rows, p=[0.6, 0.3, 0.1])
    odds = 0.8 * counts[:, 0] + 0.5 * counts[:, 1] - 0.03 * (age - 40) - 1.0
    y = rng.random(n_rows) < 1 / (1 + np.exp(-odds))
    frame = pd.DataFrame({f"n{i}": counts[:, i] for i in range(4)})
    return frame.assign(age=age, group=group, y=y.astype(int).astype(str))


def scores(epsilon, n_seeds=3):
    """Mean score, log loss and prediction on new rows."""
    test = skewed_counts(2000, seed=1)
    truth = (test["y"] == "1").to_numpy()
    found = []
    for seed in range(n_seeds):
        model = MLPClassifier(
            COUNTS,
            epsilon=epsilon,
            delta=1e-5,
            random_state=seed,
            hidden_units=(10,),
            clip_norm=CLIP_NORM["classification"],  # said, so that the network stays
        ).fit(skewed_counts(2000))
        chance = model.predict_proba(test)[:, 1]
        found.append(
            (roc_auc_score(truth, chance), log_loss(truth, chance), chance.mean())
        )
    rate = truth.mean()
    constant = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
    return np.mean(found, axis=0), constant, rate


def test_more_budget_is_no_worse_and_no_worse_than_a_constant():
    (little, _, _), _, _ = scores(0.5)
    (much, loss, prediction), constant, rate = scores(3.0)
    assert much >= little - 0.01
    assert loss < constant - 0.03
    assert prediction == pytest.approx(rate, abs=0.03)


def test_plain_clipping_is_the_fault(monkeypatch):
    monkeypatch.setitem(_mlp.RESIDUAL_BOUND, "classification", None)
    (_, loss, prediction), constant, rate = scores(3.0, n_seeds=1)
    assert abs(prediction - rate) > 0.05
    assert loss > constant - 0.03

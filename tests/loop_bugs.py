"""Small trainings for audits of the loop, and bugs planted into the code that runs."""

import math
from dataclasses import replace

import numpy as np
import torch

from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy
from corrdp.torch import PoissonLoader, PrivateModule, make_private
from corrdp.torch._input_weights import InputWeightClipper
from corrdp.torch._reference import ReferencePlan


def squared_error(outputs, labels):
    return (outputs.squeeze(1) - labels) ** 2


def cross_entropy(outputs, labels):
    return torch.nn.functional.cross_entropy(outputs, labels, reduction="none")


def a_training(
    *,
    classes=False,
    batch_size=None,
    n_insensitive=4,
    epsilon=16.0,
    epsilon_cap=10.0,
    n_steps=2,
    random_state=0,
):
    """Return a training of a few steps: numbers or classes, full batches or samples.

    With many insensitive columns their weights get most of what the class of sensitive
    features may cost, so that a bound on influence matters.
    """
    torch.manual_seed(0)
    n_rows = 50
    names = [f"x{index}" for index in range(n_insensitive)]
    domain = CategoryDomain(("n", "y")) if classes else NumberDomain(0, 1)
    policy = Policy(
        (
            Feature("s", "sensitive", NumberDomain(0, 1)),
            *(
                Feature(n, "insensitive", NumberDomain(0, 1), leakage=0.1)
                for n in names
            ),
        ),
        Label("y", domain, 0.0),
        epsilon_cap=epsilon_cap,
    )
    n_columns = 1 + n_insensitive
    network = torch.nn.Sequential(
        torch.nn.Linear(n_columns, 3),
        torch.nn.Tanh(),
        torch.nn.Linear(3, 2 if classes else 1),
    )
    labels = torch.zeros(n_rows, dtype=torch.long if classes else torch.float32)
    sampled = batch_size is not None
    return make_private(
        network,
        torch.optim.SGD(network.parameters(), lr=0.1),
        (torch.zeros(n_rows, n_columns), labels),
        loss=cross_entropy if classes else squared_error,
        policy=policy,
        epsilon=epsilon,
        delta=1e-5,
        epochs=n_steps * batch_size / n_rows if sampled else n_steps,
        batch_size=batch_size,
        method="standard" if sampled else "corr",
        fall_back=False,
        code_scale=None if sampled else np.ones(n_columns),
        residual_bound=2**0.5 if classes else None,
        random_state=random_state,
    )


def less_noise(monkeypatch):
    """Four fifths of the noise that is priced."""
    honest = PrivateModule.noisy_sum

    def planted(module, total):
        return total + 0.8 * (honest(module, total) - total)

    monkeypatch.setattr(PrivateModule, "noisy_sum", planted)


def influence_bound_doubled(monkeypatch):
    honest = InputWeightClipper.__init__

    def planted(self, layout, like):
        honest(self, layout, like)
        self._influence = 2.0 * self._influence
        self._bounds = 2.0 * self._bounds  # of the compiled pass

    monkeypatch.setattr(InputWeightClipper, "__init__", planted)


def influence_not_clipped(monkeypatch):
    honest = InputWeightClipper.__init__

    def planted(self, layout, like):
        honest(self, layout, like)
        self._bounds = self._bounds + math.inf  # of the compiled pass

    monkeypatch.setattr(InputWeightClipper, "__init__", planted)
    monkeypatch.setattr(
        InputWeightClipper, "_within_influence", lambda self, norms: 1 + 0 * norms
    )


def noise_used_twice(monkeypatch):
    """Every second step has the noise of the step before."""
    honest, kept = PrivateModule.noisy_sum, {}

    def planted(module, total):
        if module.steps_charged % 2:
            kept["noise"] = honest(module, total) - total
        return total + kept["noise"]

    monkeypatch.setattr(PrivateModule, "noisy_sum", planted)


def reference_without_noise(monkeypatch):
    honest = ReferencePlan.release_total

    def planted(self, total, n_rows, generator):
        bare = replace(self, deviation=np.zeros_like(self.deviation))
        return honest(bare, total, n_rows, generator)

    monkeypatch.setattr(ReferencePlan, "release_total", planted)


def backward_unclipped(monkeypatch):
    """`backward` alone: the clipped sum that tests call stays as it is."""

    def planted(module, features, labels):
        module._loader.take_back(features, labels)
        module.progress.steps_charged += 1
        if not module.progress.reference_is_known:
            module._release_reference()
        losses = module._loss(module.module(features), labels)
        raw = torch.autograd.grad(losses.sum(), module.trained_parameters())
        total = torch.cat([part.flatten() for part in raw])
        gradient = module.noisy_sum(total).div_(module._expected_batch)
        module._released.place(gradient)
        module.progress.gradient_is_fresh = True

    monkeypatch.setattr(PrivateModule, "backward", planted)


def first_row_drawn_twice_as_often(monkeypatch):
    honest = PoissonLoader.draw

    def planted(loader):
        features, labels = honest(loader)
        first = loader.features[:1]
        is_in = bool((features == first).all(1).any())
        again = loader.rate / (1.0 - loader.rate)  # twice the rate in all
        if not is_in and loader._generator.random() < again:
            features = torch.cat([features, first])
            labels = torch.cat([labels, loader.labels[:1]])
        loader._handed_out.clear()
        return loader._hand_out(features, labels)

    monkeypatch.setattr(PoissonLoader, "draw", planted)


SAMPLED = {"batch_size": 10, "epsilon": 30.0}
WIDE = {"n_insensitive": 40, "epsilon": 8.0, "epsilon_cap": 1000.0}
# The bug, the training it is planted into, the class that shows it, and runs to see it.
LOOP_BUGS = {
    "noise x 0.8": (less_noise, {}, "whole_record", 3000),
    "influence bound x 2": (influence_bound_doubled, WIDE, "sensitive", 1200),
    "influence clip removed": (influence_not_clipped, WIDE, "sensitive", 600),
    "influence clip removed, classes": (
        influence_not_clipped,
        {"classes": True, **WIDE},
        "sensitive",
        800,
    ),
    "noise used twice": (noise_used_twice, {}, "sensitive", 400),
    "reference without noise": (reference_without_noise, {}, "sensitive", 400),
    "backward unclipped": (backward_unclipped, {}, "sensitive", 400),
    "row at twice the rate": (
        first_row_drawn_twice_as_often,
        SAMPLED,
        "whole_record",
        1500,
    ),
}

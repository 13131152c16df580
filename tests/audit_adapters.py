"""Networks and linear models for audits of the code that trains, and planted bugs."""

from functools import cache

import numpy as np
import torch

import corrdp.torch.mlp as mlp
from audit_mutants import DELTA, audited_policy, training_plan
from corrdp.auditing import descent_challenges, network_challenges
from corrdp.estimators import LogisticRegression, MLPRegressor
from corrdp.torch import PrivateModule
from corrdp.torch._batch_sum import BatchSum
from corrdp.training import Descent

N_ROWS = 200


@cache
def linear_plan(label):
    return training_plan(audited_policy(label=label))


def linear_steps(label="category", descent=Descent):
    return descent_challenges(linear_plan(label), delta=DELTA, descent=descent)


def network(kind=MLPRegressor, **settings):
    label = "number" if kind is MLPRegressor else "category"
    settings = {"epsilon": 2.0, "delta": DELTA, "hidden_units": (8,)} | settings
    return kind(audited_policy(label=label), random_state=0, **settings)


def network_steps(kind=MLPRegressor, **settings):
    return network_challenges(network(kind, fall_back=False, **settings), n_rows=N_ROWS)


def with_less_noise(monkeypatch, factor):
    """Divide the noise of every step of a network."""
    honest = PrivateModule.noisy_sum

    def planted(module, total):
        return total + (honest(module, total) - total) / factor

    monkeypatch.setattr(PrivateModule, "noisy_sum", planted)


def without_clipping(monkeypatch):
    """Take the clipping out of the sum that a step of a network adds noise to."""

    def planted(sums, features, labels):
        kind = mlp.squared_error if labels.is_floating_point() else mlp.cross_entropy
        total = kind(sums._module(features), labels).sum()
        for part in sums.parts(sums.total):
            (raw,) = torch.autograd.grad(total, part.parameter, retain_graph=True)
            part.view.copy_(raw)

    monkeypatch.setattr(BatchSum, "_write_pass", planted)


def theorem_model(**settings):
    """Return logistic regression with the paper's noise; leakage is small."""
    settings = {"epsilon": 2.0, "n_steps": 50} | settings
    return LogisticRegression(
        audited_policy(leakage=0.01), delta=DELTA, calibration="theorem", **settings
    )


def experiments_constant(epsilon=2.0, n_rows=500, n_steps=50):
    """Return the constant at which sensitive features get about their due noise."""
    plan = theorem_model().theorem_plan(n_rows)
    variance = plan.noise.noise_scale.max() ** 2 / n_rows**2
    return float(variance * epsilon**2 / (np.log(1 / DELTA) + 1))

"""The paper's two networks: Sepsis and Medical Cost, by its noise and by proof."""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score

from corrdp.certificate import Calibration, LeakageClaim
from corrdp.estimators import MLPClassifier, MLPRegressor, scaled_codes
from corrdp.policy import (
    Method,
    NumberDomain,
    PolicyEncoder,
    neighbor_classes,
    policy_blocks,
    protected_policy,
)
from corrdp.reproduction._data import load_table
from corrdp.reproduction._experiments import (
    Cell,
    CellResult,
    Experiment,
    implied_epsilon,
)
from corrdp.torch.mlp import (
    CLIP_NORM,
    RESIDUAL_BOUND,
    as_tensors,
    build_network,
    cross_entropy,
    squared_error,
)
from corrdp.torch.networks import (
    NetworkPlan,
    NetworkPlanInputs,
    ReleaseTerms,
    experiment_plan,
    trained_layers,
    training_by_plan,
)

_NO_CLIPPING = 1e30


def train_network_cell(cell: Cell, *, first_seed: int = 0) -> CellResult:
    """Train all seeds of a cell; a seed decides rows, start, batches and noise.

    Seeds count from `first_seed` on. Methods of a seed differ in their plan only.

    Guarantee
    ---------
    ``provable`` of the result is what its plan proves (`docs/theory/networks.md`);
    scores are computed from the rows and are not private.
    """
    by_theorem = cell.calibration is Calibration.THEOREM
    score = _score_by_theorem if by_theorem else _score_certified
    scores = tuple(
        score(cell, seed) for seed in range(first_seed, first_seed + cell.n_seeds)
    )
    if not cell.is_private:
        return CellResult(scores)
    if not by_theorem:
        planned = certified_model(cell, 0).planned_training(_n_rows(cell.experiment))
        certificate = planned.module.certificate()
        provable = {name: own.epsilon for name, own in certificate.classes.items()}
        return CellResult(scores, provable, certificate.epsilon)
    plan, experiment = experiment_plan_of(cell), cell.experiment
    provable = {name: plan.epsilon(name) for name in plan.noise.table.class_names}
    policy = protected_policy(load_table(experiment, 0).policy, Method(cell.method))
    constant = experiment.clip_norm**2 * experiment.n_steps / _n_rows(experiment) ** 2
    return CellResult(
        scores,
        provable,
        implied_epsilon(neighbor_classes(policy), provable),
        experiment.clip_norm,
        constant,
    )


def certified_model(cell: Cell, seed: int) -> MLPClassifier | MLPRegressor:
    """Return the estimator of a seed, which stays a network whatever it expects."""
    experiment = cell.experiment
    kind = MLPClassifier if experiment.classifies else MLPRegressor
    return kind(
        load_table(experiment, seed).policy,
        epsilon=cell.epsilon if cell.is_private else None,
        delta=experiment.delta,
        method=cell.method,
        hidden_units=(experiment.hidden_units,),
        clip_norm=CLIP_NORM[_kind(experiment)],  # its default, said: no line instead
        random_state=seed,
        research=True,
    )


def experiment_plan_of(cell: Cell) -> NetworkPlan:
    """Return the noise of section 5 for a cell, with one clipping norm."""
    experiment = cell.experiment
    policy = protected_policy(load_table(experiment, 0).policy, Method.CORR)
    blocks = policy_blocks(policy)
    n_rows, batch_size = _n_rows(experiment), experiment.batch_size
    sampled = batch_size is not None and batch_size < n_rows
    facts = NetworkPlanInputs(
        layers=trained_layers(_network(experiment, 0)),
        blocks=blocks,
        reference=np.zeros(blocks[-1].stop),
        policy=policy,
        classes=neighbor_classes(policy),
        budget=cell.budget,
        n_rows=n_rows,
        n_steps=experiment.n_steps,
        rate=batch_size / n_rows if sampled and batch_size is not None else None,
        clip_norm=experiment.clip_norm,
        residual_bound=RESIDUAL_BOUND[_kind(experiment)] or math.inf,
    )
    method = cell.method if cell.is_private else "standard"
    plan = experiment_plan(facts, cast("Literal['corr', 'semi', 'standard']", method))
    return plan if cell.is_private else _without_privacy(plan)


def _without_privacy(plan: NetworkPlan) -> NetworkPlan:
    """Return the plan of the same training with neither clipping nor noise.

    Guarantee
    ---------
    None, and the plan says so: its price is infinite (`docs/theory/networks.md`).
    """
    noise = replace(plan.noise, noise_scale=np.zeros_like(plan.noise.noise_scale))
    layout = plan.layout.with_clip_norm(_NO_CLIPPING)
    return replace(plan, method="nonprivate", layout=layout, noise=noise)


def _score_certified(cell: Cell, seed: int) -> float:
    table = load_table(cell.experiment, seed)
    assert table.policy.label is not None  # every table of the paper has a target
    labels, domain = table.frame[table.policy.label.name], table.policy.label.domain
    if isinstance(domain, NumberDomain):
        labels = labels.clip(domain.lower, domain.upper)
    return float(
        certified_model(cell, seed).fit(table.frame).score(table.frame, labels)
    )


def _score_by_theorem(cell: Cell, seed: int) -> float:
    """Train with constant steps from torch's own start; score the last iterate."""
    experiment = cell.experiment
    codes, labels = _encoded(experiment, seed)
    network = _network(experiment, seed)
    policy = load_table(experiment, 0).policy
    module, optimizer, loader = training_by_plan(
        network,
        torch.optim.SGD(network.parameters(), lr=experiment.step_size),
        as_tensors(codes, labels, _n_outputs(experiment)),
        experiment_plan_of(cell),
        loss=cross_entropy if experiment.classifies else squared_error,
        terms=ReleaseTerms(policy, cell.budget, LeakageClaim.declared(policy)),
        random_state=seed,
    )
    for batch in loader:
        module.backward(*batch)
        optimizer.step()
    with torch.no_grad():
        outputs = network(torch.tensor(codes, dtype=torch.float32)).numpy()
    if experiment.classifies:
        return float(accuracy_score(labels, outputs.argmax(1)))
    return float(r2_score(labels, outputs[:, 0]))


@lru_cache(maxsize=2)
def _encoded(
    experiment: Experiment, seed: int
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    table = load_table(experiment, seed)
    assert table.policy.label is not None  # every table of the paper has a target
    encoder = PolicyEncoder(table.policy).fit(table.frame)
    labels = encoder.encode_label(table.frame[table.policy.label.name])
    kind = np.int64 if experiment.classifies else np.float64
    return scaled_codes(encoder, table.frame), np.asarray(labels, dtype=kind)


def _network(experiment: Experiment, seed: int) -> torch.nn.Sequential:
    n_inputs = policy_blocks(load_table(experiment, 0).policy)[-1].stop
    widths = (experiment.hidden_units,)
    return build_network(n_inputs, widths, _n_outputs(experiment), seed)


def _kind(experiment: Experiment) -> str:
    return "classification" if experiment.classifies else "regression"


def _n_outputs(experiment: Experiment) -> int:
    return 2 if experiment.classifies else 1


def _n_rows(experiment: Experiment) -> int:
    assert experiment.n_rows is not None  # experiments with networks draw rows
    return experiment.n_rows

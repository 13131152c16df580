"""The paper's two networks: Sepsis and Medical Cost, by its noise and by proof."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import r2_score
from torch import Tensor

from corrdp._typing import FloatArray
from corrdp.accounting import WHOLE_RECORD
from corrdp.certificate import Calibration
from corrdp.estimators import MLPRegressor, scaled_codes
from corrdp.policy import (
    Budget,
    Method,
    Policy,
    PolicyEncoder,
    neighbor_classes,
    policy_blocks,
    protected_policy,
)
from corrdp.reproduction._data import load_table
from corrdp.reproduction._experiments import Cell, CellResult, Experiment
from corrdp.reproduction._networks_clipping import NetworkShape, Rows
from corrdp.reproduction._networks_ensemble import (
    Schedule,
    constant_steps,
    train_together,
    without_privacy,
)
from corrdp.torch.mlp import (
    CLIP_NORM,
    MOMENTUM,
    RESIDUAL_BOUND,
    Weights,
    default_rate,
    is_centered,
    train_plainly,
)
from corrdp.torch.networks import (
    NetworkPlan,
    NetworkPlanInputs,
    experiment_plan,
    plan_network,
)
from corrdp.training import standardizing_scale


def train_network_cells(
    cells: Sequence[Cell], *, first_seed: int = 0
) -> list[CellResult]:
    """Train all seeds of cells that share experiment, calibration and seeds.

    Models of one seed are trained together: same rows, start, batches and standard
    normal noise, so that cells differ in their plan only. Seeds count from
    `first_seed` on.

    Guarantee
    ---------
    ``provable`` of every result is what its plan proves (`docs/theory/networks.md`);
    scores are computed from the rows and are not private.
    """
    experiment, calibration = cells[0].experiment, cells[0].calibration
    plans = [plan_cell(cell) for cell in cells]
    # Cells that add the same noise, having fallen back, are trained once.
    different = {_noise(plan): plan for plan in plans if plan is not None}
    scores: list[list[float]] = [[] for _ in cells]
    for seed in range(first_seed, first_seed + cells[0].n_seeds):
        data = _Data(experiment, seed)
        known = {}
        if different:
            trained = data.train(list(different.values()), calibration)
            known = dict(zip(different, data.scores(trained), strict=True))
        for plan, own in zip(plans, scores, strict=True):
            own.append(data.plain_score() if plan is None else known[_noise(plan)])
    return [
        _result(cell, plan, own)
        for cell, plan, own in zip(cells, plans, scores, strict=True)
    ]


def _noise(plan: NetworkPlan) -> tuple[Any, ...]:
    """Return all that a model depends on apart from the seed."""
    return plan.layout.groups, plan.noise.noise_scale.tobytes()


def _result(cell: Cell, plan: NetworkPlan | None, scores: list[float]) -> CellResult:
    if plan is None or not cell.is_private:
        return CellResult(tuple(scores))
    by_theorem = cell.calibration is Calibration.THEOREM
    experiment = cell.experiment
    provable = {name: plan.epsilon(name) for name in plan.noise.table.class_names}
    clip_norm = plan.layout.groups[0].clip_norm
    constant = clip_norm**2 * plan.noise.n_steps / _n_rows(experiment) ** 2
    return CellResult(
        scores=tuple(scores),
        provable=provable,
        provable_epsilon=_implied_epsilon(cell, provable),
        lipschitz=clip_norm if by_theorem else None,
        constant=constant if by_theorem else None,
    )


def _implied_epsilon(cell: Cell, provable: Mapping[str, float]) -> float:
    """Return the largest distance times epsilon of what is promised."""
    policy = protected_policy(_policy(cell.experiment), Method(cell.method))
    distance = {c.name: c.distance for c in neighbor_classes(policy) if c.promised}
    whole = provable.get(WHOLE_RECORD, math.inf)
    return max(
        d * min(provable.get(name, whole), whole) for name, d in distance.items()
    )


@lru_cache(maxsize=256)
def plan_cell(cell: Cell) -> NetworkPlan | None:
    """Return the plan of a cell; None for plain minimization."""
    if cell.calibration is Calibration.THEOREM:
        name = cell.method if cell.is_private else "standard"
        epsilon = cell.epsilon if cell.is_private else 1.0
        facts = _plan_inputs(cell.experiment, cell.calibration, Method.CORR, epsilon)
        plan = experiment_plan(facts, cast("Literal['corr', 'semi', 'standard']", name))
        return plan if cell.is_private else without_privacy(plan)
    if not cell.is_private:
        return None
    method = Method(cell.method)
    return plan_network(
        _plan_inputs(cell.experiment, cell.calibration, method, cell.epsilon),
        method="layered" if method is Method.STANDARD else "corr",
    )


def _plan_inputs(
    experiment: Experiment, calibration: Calibration, method: Method, epsilon: float
) -> NetworkPlanInputs:
    """Return what a plan depends on: the paper's settings, or our defaults."""
    policy = protected_policy(_policy(experiment), method)
    blocks = policy_blocks(policy)
    n_rows, batch_size = _n_rows(experiment), experiment.batch_size
    by_theorem = calibration is Calibration.THEOREM
    sampled = by_theorem and batch_size is not None and batch_size < n_rows
    return NetworkPlanInputs(
        layers=_shape(experiment).layers(),
        blocks=blocks,
        reference=np.zeros(blocks[-1].stop),
        code_scale=None if by_theorem else standardizing_scale(blocks),
        policy=policy,
        classes=neighbor_classes(policy),
        budget=Budget(epsilon=epsilon, delta=experiment.delta),
        n_rows=n_rows,
        n_steps=experiment.n_steps if by_theorem else MLPRegressor().n_steps,
        rate=batch_size / n_rows if sampled and batch_size is not None else None,
        clip_norm=experiment.clip_norm if by_theorem else CLIP_NORM[_kind(experiment)],
        residual_bound=RESIDUAL_BOUND[_kind(experiment)] or math.inf,
    )


class _Data:
    """Rows of one seed, encoded, with training and scoring on them."""

    def __init__(self, experiment: Experiment, seed: int) -> None:
        self._experiment = experiment
        self._seed = seed
        self._shape = _shape(experiment)
        self._codes, self._labels = _encoded(experiment, seed)

    def train(self, plans: Sequence[NetworkPlan], calibration: Calibration) -> Tensor:
        rows = Rows.of(self._codes, self._labels)
        if plans[0].noise.rate is None:
            rows = Rows.distinct(self._codes, self._labels)
        if calibration is Calibration.THEOREM:
            schedule = Schedule(constant_steps(self._experiment.step_size))
        else:
            schedule = _library_schedule(rows.n_rows, _kind(self._experiment))
        shape = replace(
            self._shape, centered=is_centered(_kind(self._experiment), calibration)
        )
        return train_together(
            rows,
            shape.start(self._seed, calm=calibration is Calibration.CERTIFIED),
            plans,
            shape=shape,
            schedule=schedule,
            random_state=self._seed,
        )

    def scores(self, parameters: Tensor) -> list[float]:
        codes = torch.tensor(self._codes, dtype=parameters.dtype)
        outputs = self._shape.outputs(parameters, codes).numpy()
        return [self._score(one) for one in outputs]

    def plain_score(self) -> float:
        weights = train_plainly(
            self._codes,
            self._labels,
            hidden_units=(self._shape.n_hidden,),
            n_outputs=self._shape.n_outputs,
            random_state=self._seed,
        )
        return self.scores(_flat(weights))[0]

    def _score(self, outputs: FloatArray) -> float:
        if self._shape.n_outputs == 1:
            return float(r2_score(self._labels, outputs[0]))
        return float(np.mean(outputs.argmax(0) == self._labels))


def _flat(weights: Weights) -> Tensor:
    parts = [part.ravel() for layer in weights for part in layer]
    return torch.tensor(np.concatenate(parts), dtype=torch.float32)[None]


def _library_schedule(n_rows: int, kind: str) -> Schedule:
    """Return how the estimators use gradients by default."""
    rate = cache(lambda plan: default_rate(plan, n_rows, kind))

    def step_size(plan: NetworkPlan, step: int) -> float:
        left = 1.0 - step / plan.noise.n_steps
        return float(rate(plan) * left * (1.0 - MOMENTUM))

    return Schedule(step_size, momentum=MOMENTUM, averages=True)


@lru_cache(maxsize=16)
def _policy(experiment: Experiment) -> Policy:
    """Return the declared policy, which is the same for all seeds."""
    return load_table(experiment, 0).policy


def _encoded(experiment: Experiment, seed: int) -> tuple[FloatArray, NDArray[Any]]:
    table = load_table(experiment, seed)
    assert table.policy.label is not None  # all tables have a target
    encoder = PolicyEncoder(table.policy).fit(table.frame)
    labels = encoder.encode_label(table.frame[table.policy.label.name])
    kind = np.int64 if _kind(experiment) == "classification" else np.float64
    return scaled_codes(encoder, table.frame), np.asarray(labels, dtype=kind)


def _shape(experiment: Experiment) -> NetworkShape:
    blocks = policy_blocks(_policy(experiment))
    n_outputs = 2 if _kind(experiment) == "classification" else 1
    return NetworkShape(blocks[-1].stop, experiment.hidden_units, n_outputs)


def _kind(experiment: Experiment) -> str:
    return "classification" if experiment.metric == "accuracy" else "regression"


def _n_rows(experiment: Experiment) -> int:
    assert experiment.n_rows is not None  # experiments with networks draw rows
    return experiment.n_rows

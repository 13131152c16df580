"""Linear models with the paper's noise, and what that noise proves."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from corrdp._random import noise_generator
from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError
from corrdp.policy import neighbor_classes
from corrdp.reproduction._data import PaperRows, paper_rows, typical_gradient_norm
from corrdp.reproduction._experiments import (
    Cell,
    CellResult,
    Experiment,
    Model,
    implied_epsilon,
)
from corrdp.training import (
    LARGEST_PARAMETER,
    GradientSums,
    LogisticLoss,
    SquaredLoss,
    TheoremPlan,
    iterates_by_theorem,
    sums_by_theorem,
    theorem_plan,
)

_RESIDUAL_BOUND = 1.0  # of Medical Cost: the range of its label


def paper_plan(cell: Cell) -> TheoremPlan:
    """Return the noise of section 5 with C = L^2 T / n^2, and the paper's steps.

    Logistic regression: L is the largest norm of a row of the declared domain, which
    the encoder enforces. Medical Cost: residuals are clipped to the label's range,
    and L is twice that times the largest norm. Synthetic data: gradients are not
    bounded at all and L is `typical_gradient_norm`.

    The library's squared loss is half of the paper's: its gradients and L are half as
    large, and its steps twice.

    Guarantee
    ---------
    What ``noise`` of the plan proves for all parameters that training may visit, but
    of synthetic data, whose gradients it does not bound (`docs/theory/paper_noise.md`).
    """
    experiment = cell.experiment
    rows = paper_rows(experiment)
    by_half = _by_half(experiment)
    unbounded = experiment.data == "synthetic"
    plan = theorem_plan(
        rows.layout,
        neighbor_classes(rows.policy),
        rows.leakage,
        budget=cell.budget,
        epsilon_cap=rows.policy.epsilon_cap,
        n_rows=len(rows.codes),
        loss=(
            LogisticLoss()
            if experiment.model is Model.LOGISTIC
            else SquaredLoss(_RESIDUAL_BOUND)
        ),
        method=cell.method if cell.is_private else "standard",
        n_steps=experiment.n_steps,
        floor=False,
        lipschitz=typical_gradient_norm(experiment) / by_half if unbounded else None,
        label_bounds=rows.label_bounds,
        step_size=by_half * experiment.step_size,
    )
    return plan if cell.is_private else plan.without_noise()


def proved(cell: Cell, plan: TheoremPlan) -> CellResult:
    """Return what the plan of a cell proves, as a result without scores.

    Guarantee
    ---------
    ``provable`` alone; infinite where a group that moves has no noise, or moves without
    bound (`docs/theory/paper_noise.md`).
    """
    if not cell.is_private:
        return CellResult(())
    experiment = cell.experiment
    rows = paper_rows(experiment)
    classes = neighbor_classes(rows.policy)
    provable = {
        c.name: math.inf
        if experiment.data == "synthetic"
        else plan.noise.epsilon(c.name)
        for c in classes
        if c.promised
    }
    lipschitz = _by_half(experiment) * plan.lipschitz
    return CellResult(
        (),
        provable,
        implied_epsilon(classes, provable),
        lipschitz,
        constant=lipschitz**2 * experiment.n_steps / len(rows.codes) ** 2,
    )


def train_by_theorem(cells: Sequence[Cell]) -> list[CellResult]:
    """Train all seeds of linear or logistic cells of one experiment together.

    Guarantee
    ---------
    What each result's ``provable`` says, which may be nothing: this is research on
    public tables (`docs/theory/paper_noise.md`).
    """
    experiment = cells[0].experiment
    rows = paper_rows(experiment)
    plans = [paper_plan(cell) for cell in cells]
    if cells[0].method == "partial":  # `together` keeps it apart
        rows = rows.without_sensitive()
        plans = [replace(plan, layout=rows.layout) for plan in plans]
    n_models = [cell.n_seeds if cell.is_private else 1 for cell in cells]
    iterates = iterates_by_theorem(
        _sums(experiment, rows, plans[0]),
        [plan for plan, n in zip(plans, n_models, strict=True) for _ in range(n)],
        [
            noise_generator(seed, purpose="reproduction")
            for n in n_models
            for seed in range(n)
        ],
    )
    (coefs,) = deque(iterates, maxlen=1)
    if np.abs(coefs).max() >= LARGEST_PARAMETER:
        raise CorrDPError(
            f"gradient descent with step_size={experiment.step_size!r} left the "
            f"parameters below {LARGEST_PARAMETER:g}. Lower the step size."
        )
    scores = [plans[0].loss.quality(rows.features @ c, rows.labels) for c in coefs]
    ends = np.cumsum(n_models)
    return [
        replace(proved(cell, plan), scores=tuple(scores[end - n : end]))
        for cell, plan, n, end in zip(cells, plans, n_models, ends, strict=True)
    ]


def _by_half(experiment: Experiment) -> float:
    """Return the paper's loss in units of the library's."""
    return 2.0 if experiment.model is Model.LINEAR else 1.0


def _sums(experiment: Experiment, rows: PaperRows, plan: TheoremPlan) -> GradientSums:
    if experiment.data == "synthetic":
        return ridge_sums(rows.features, rows.labels, ridge=1.0)
    return sums_by_theorem(rows.codes, rows.labels, plan)


def ridge_sums(
    features: FloatArray, labels: FloatArray, *, ridge: float
) -> GradientSums:
    """Return gradients of unclipped least squares, for which rows are their moments.

    Of half the squared errors plus half of ``ridge |coef|^2``; a step costs the square
    of the number of columns, whatever the rows.

    Guarantee
    ---------
    None: sums before noise, which nothing bounds (`docs/theory/paper_noise.md`).
    """
    curvature = features.T @ features + ridge * np.eye(features.shape[1])
    pull = features.T @ labels
    return lambda coefs: np.asarray(coefs @ curvature - pull)

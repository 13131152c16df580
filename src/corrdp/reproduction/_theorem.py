"""The paper's noise for linear models, what it proves, and the models trained by it."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from corrdp._typing import FloatArray
from corrdp.accounting import NoisePlan, experiment_leakage, experiment_noise_variance
from corrdp.policy import neighbor_classes
from corrdp.reproduction._data import (
    PaperRows,
    load_table,
    paper_rows,
    typical_gradient_norm,
)
from corrdp.reproduction._descent import GramMoments, MeanGradient, RowBlocks, descend
from corrdp.reproduction._experiments import Cell, CellResult, Experiment, Model
from corrdp.training import GradientSensitivity, LogisticLoss, Loss, SquaredLoss

_RESIDUAL_BOUND = 1.0  # of Medical Cost: the range of its label


def paper_noise(cell: Cell) -> tuple[FloatArray, CellResult]:
    """Return the noise of section 5 with C = L^2 T / n^2, and a result without scores.

    Noise is the deviation on the mean gradient, one per column.

    Logistic regression: L is the largest norm of a row of the declared domain, which
    the encoder enforces. Medical Cost: residuals are clipped to the label's range,
    and L is twice that times the largest norm. Synthetic data: gradients are not
    bounded at all and L is `typical_gradient_norm`, so that nothing is proved.

    Guarantee
    ---------
    ``provable`` alone, for all parameters that training may visit: the moves of
    `GradientSensitivity` priced by `NoisePlan`; infinite where a group that moves has
    no noise, or moves without bound (`docs/theory/paper_noise.md`).
    """
    experiment = cell.experiment
    rows = paper_rows(experiment)
    bounded = experiment.data != "synthetic"
    per_unit = 2.0 if experiment.model is Model.LINEAR else 1.0  # of the residual
    loss: Loss = (
        LogisticLoss()
        if experiment.model is Model.LOGISTIC
        else SquaredLoss(_RESIDUAL_BOUND)
    )
    classes = neighbor_classes(load_table(experiment).policy)
    if bounded:
        sensitivity = GradientSensitivity(
            loss, rows.layout, classes, label_bounds=rows.label_bounds
        )
        lipschitz = per_unit * float(np.linalg.norm(sensitivity.contribution()))
    else:
        lipschitz = typical_gradient_norm(experiment, rows)
    constant = lipschitz**2 * experiment.n_steps / rows.n_rows**2
    variance = experiment_noise_variance(
        experiment_leakage(
            rows.leakage,
            sensitive=rows.sensitive,
            method=cell.method,  # type: ignore[arg-type]
        ),
        epsilon=cell.epsilon,
        delta=experiment.delta,
        constant=constant,
    )
    promised = [c for c in classes if c.promised]
    provable = dict.fromkeys((c.name for c in promised), math.inf)
    if bounded:
        plan = NoisePlan(
            sensitivity.table(),
            rows.n_rows * np.sqrt(variance) / per_unit,
            dict.fromkeys((c.name for c in classes), math.inf),
            experiment.delta,
            experiment.n_steps,
        )
        provable = {c.name: plan.epsilon(c.name) for c in promised}
    implied = max(c.distance * provable[c.name] for c in promised)
    scale = np.sqrt(variance)[rows.layout.column_groups]
    return scale, CellResult((), provable, implied, lipschitz, constant)


def train_by_theorem(cells: Sequence[Cell]) -> list[CellResult]:
    """Train all seeds of linear or logistic cells of one experiment together.

    Guarantee
    ---------
    What each result's ``provable`` says, which may be nothing: this is research on
    public tables (`docs/theory/paper_noise.md`).
    """
    experiment = cells[0].experiment
    rows = paper_rows(experiment)
    still = np.zeros(rows.layout.n_columns), CellResult(())
    plans = [paper_noise(cell) if cell.is_private else still for cell in cells]
    n_models = [cell.n_seeds if cell.is_private else 1 for cell in cells]
    scales = [
        np.repeat(scale[:, None], count, axis=1)
        for (scale, _), count in zip(plans, n_models, strict=True)
    ]
    seeds = [seed for count in n_models for seed in range(count)]
    without = [cell.method == "partial" for cell in cells]
    assert all(without) or not any(without)  # `together` keeps them apart
    coefs = descend(
        _gradients(experiment, rows, insensitive_only=without[0]),
        np.hstack(scales),
        step_size=experiment.step_size,
        n_steps=experiment.n_steps,
        seeds=seeds,
    )
    scores = rows.scores(coefs, model=experiment.model)
    by_cell = np.split(scores, np.cumsum(n_models)[:-1])
    return [
        replace(proved, scores=tuple(own.tolist()))
        for (_, proved), own in zip(plans, by_cell, strict=True)
    ]


def _gradients(
    experiment: Experiment, rows: PaperRows, *, insensitive_only: bool
) -> MeanGradient:
    """Return the rows in the form that is fastest for the model."""
    features = rows.features
    if insensitive_only:
        features = np.where(rows.sensitive_columns, 0.0, features)
    table = features, rows.labels, rows.counts
    if experiment.data == "synthetic":
        return GramMoments(*table, ridge=1.0 / rows.n_rows)
    if experiment.model is Model.LINEAR:
        return RowBlocks(*table, residual_bound=_RESIDUAL_BOUND)
    with suppress(ImportError):  # numba comes with the extra "fast"
        from corrdp.reproduction._logistic_kernel import LogisticRows

        return LogisticRows.of(*table, rows.number_columns)
    return RowBlocks(*table, residual_bound=None)

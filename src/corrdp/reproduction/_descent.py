"""Noisy gradient descent of many linear models at once, as the paper runs it.

A model is a column of one matrix. Every model of a seed sees the same standard normal
draws, scaled by its own noise, so methods and epsilons are compared pairwise; and the
draws depend on the seed alone, not on which models happen to be trained together.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from corrdp._random import noise_generator
from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError

_STEPS_DRAWN_TOGETHER = 250
_ROWS_PER_BLOCK = 512  # scores of a block for some hundred models stay in the cache


def descend_on_gram(
    features: FloatArray,
    labels: FloatArray,
    counts: FloatArray,
    noise_scale: FloatArray,
    *,
    ridge: float,
    step_size: float,
    n_steps: int,
    seeds: Sequence[int],
) -> FloatArray:
    """Return the last iterates of least squares, whose rows matter by their moments.

    The gradient of the mean of ``(y - x . coef)^2 + ridge |coef|^2`` needs the Gram
    matrix alone: a step costs the square of the number of columns, whatever the rows.

    Parameters
    ----------
    features : array of float, shape (n_rows, n_columns)
        Rows.
    labels, counts : array of float, shape (n_rows,)
        Labels, and how many rows are equal.
    noise_scale : array of float, shape (n_columns, n_models)
        Deviation of the noise on the mean gradient.
    ridge, step_size, n_steps
        Of the descent, which starts at 0.
    seeds : sequence of int, length n_models
        Seed of each model.

    Returns
    -------
    coefs : array of float, shape (n_columns, n_models)

    Guarantee
    ---------
    None: gradients are not bounded (`docs/theory/paper_noise.md`).
    """
    weighted = features * (counts / counts.sum())[:, None]
    curvature = 2.0 * (weighted.T @ features + ridge * np.eye(features.shape[1]))
    pull = 2.0 * (weighted.T @ labels)[:, None]
    coefs = np.zeros_like(noise_scale)
    for noise in _noise(noise_scale, n_steps, seeds):
        gradient = curvature @ coefs - pull + noise
        coefs -= step_size * gradient
    return _finite(coefs)


def descend_on_rows(
    features: FloatArray,
    labels: FloatArray,
    counts: FloatArray,
    noise_scale: FloatArray,
    *,
    residual_bound: float | None,
    step_size: float,
    n_steps: int,
    seeds: Sequence[int],
    rows_per_block: int = _ROWS_PER_BLOCK,
) -> FloatArray:
    """Return the last iterates of logistic regression, or of clipped least squares.

    One pass over the rows serves all models; single precision, blocks of rows.

    Parameters
    ----------
    features, labels, counts, noise_scale, step_size, n_steps, seeds
        As for `descend_on_gram`.
    residual_bound : float, optional
        Least squares: ``2 (x . coef - y)`` is the residual, clipped to twice this;
        None for logistic regression, whose residual is below 1 by itself.
    rows_per_block : int
        Rows whose scores are held at once.

    Guarantee
    ---------
    One record moves the mean gradient as `GradientSensitivity` says; the noise is the
    caller's (`docs/theory/paper_noise.md`).
    """
    share = (counts / counts.sum()).astype(np.float32)[:, None]
    X = np.ascontiguousarray(features, dtype=np.float32)
    y = labels.astype(np.float32)[:, None]
    transposed = np.ascontiguousarray((X * share).T)
    coefs = np.zeros_like(noise_scale, dtype=np.float32)
    blocks = [
        slice(start, min(start + rows_per_block, len(X)))
        for start in range(0, len(X), rows_per_block)
    ]
    space = np.empty((rows_per_block, coefs.shape[1]), dtype=np.float32)
    for noise in _noise(noise_scale.astype(np.float32), n_steps, seeds):
        gradient = noise
        for block in blocks:
            residual = space[: block.stop - block.start]
            np.matmul(X[block], coefs, out=residual)
            if residual_bound is None:
                _subtract_label_from_probability(residual, y[block])
            else:
                residual -= y[block]
                np.clip(residual, -residual_bound, residual_bound, out=residual)
                residual *= 2.0
            gradient += transposed[:, block] @ residual
        coefs -= np.float32(step_size) * gradient
    return _finite(coefs.astype(np.float64))


def _subtract_label_from_probability(
    score: NDArray[np.float32], y: NDArray[np.float32]
) -> None:
    """Replace scores by ``expit(score) - y`` in place."""
    np.clip(score, -30.0, 30.0, out=score)  # exp must not overflow
    np.negative(score, out=score)
    np.exp(score, out=score)
    score += 1.0
    np.reciprocal(score, out=score)
    score -= y


def _noise(
    noise_scale: NDArray[np.floating], n_steps: int, seeds: Sequence[int]
) -> Iterator[NDArray[np.floating]]:
    """Yield the scaled noise of every step, shape (n_columns, n_models)."""
    n_columns = noise_scale.shape[0]
    distinct = sorted(set(seeds))
    place = np.array([distinct.index(seed) for seed in seeds])
    generators = [noise_generator(seed, purpose="reproduction") for seed in distinct]
    for start in range(0, n_steps, _STEPS_DRAWN_TOGETHER):
        count = min(_STEPS_DRAWN_TOGETHER, n_steps - start)
        drawn = np.stack(
            [
                generator.standard_normal((count, n_columns), dtype=np.float32)
                for generator in generators
            ],
            axis=2,
        )
        for step in drawn:
            yield step[:, place] * noise_scale


def _finite(coefs: FloatArray) -> FloatArray:
    if not np.isfinite(coefs).all():
        raise CorrDPError(
            "gradient descent left the finite numbers. Lower the step size."
        )
    return coefs

"""Noisy gradient descent of many linear models at once, as the paper runs it.

A model is a column of one matrix. Every model of a seed sees the same standard normal
draws, scaled by its own noise, so methods and epsilons are compared pairwise; and the
draws depend on the seed alone, not on which models happen to be trained together.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from corrdp._random import noise_generator
from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError

_STEPS_DRAWN_TOGETHER = 250
_ROWS_PER_BLOCK = 512  # scores of a block for some hundred models stay in the cache


class MeanGradient(Protocol):
    """Rows, in whatever form yields the mean gradient of many models."""

    @property
    def dtype(self) -> type[Any]:
        """Precision of the gradients."""

    def mean_gradient(self, coefs: NDArray[Any]) -> NDArray[Any]:
        """Return the mean gradient at each column, shape (n_columns, n_models)."""


class GramMoments:
    """Least squares without clipping: rows matter by their moments alone.

    The gradient of the mean of ``(y - x . coef)^2 + ridge |coef|^2`` needs the Gram
    matrix: a step costs the square of the number of columns, whatever the rows.
    """

    dtype = np.float64

    def __init__(
        self,
        features: FloatArray,
        labels: FloatArray,
        counts: FloatArray,
        *,
        ridge: float = 0.0,
    ) -> None:
        weighted = features * (counts / counts.sum())[:, None]
        penalty = ridge * np.eye(features.shape[1])
        self._curvature = 2.0 * (weighted.T @ features + penalty)
        self._pull = 2.0 * (weighted.T @ labels)[:, None]

    def mean_gradient(self, coefs: NDArray[Any]) -> NDArray[Any]:
        """Return the mean gradient at each column, shape (n_columns, n_models)."""
        return np.asarray(self._curvature @ coefs - self._pull)


class RowBlocks:
    """Any rows: one pass in blocks serves all models, in single precision.

    Parameters
    ----------
    features, labels, counts
        As for `GramMoments`.
    residual_bound : float, optional
        Least squares: ``x . coef - y`` is clipped to this and doubled; None for
        logistic regression, whose residual is below 1 by itself.
    """

    dtype = np.float32

    def __init__(
        self,
        features: FloatArray,
        labels: FloatArray,
        counts: FloatArray,
        *,
        residual_bound: float | None,
    ) -> None:
        share = (counts / counts.sum())[:, None]
        self._bound = residual_bound
        self._blocks = [
            (
                np.ascontiguousarray(features[rows], dtype=np.float32),
                np.ascontiguousarray((features[rows] * share[rows]).T, np.float32),
                labels[rows, None].astype(np.float32),
            )
            for rows in (
                slice(start, start + _ROWS_PER_BLOCK)
                for start in range(0, len(features), _ROWS_PER_BLOCK)
            )
        ]

    def mean_gradient(self, coefs: NDArray[Any]) -> NDArray[Any]:
        """Return the mean gradient at each column, shape (n_columns, n_models)."""
        gradient = np.zeros_like(coefs)
        for rows, weighted, y in self._blocks:
            residual = rows @ coefs
            if self._bound is None:
                _subtract_label_from_probability(residual, y)
            else:
                residual -= y
                np.clip(residual, -self._bound, self._bound, out=residual)
                residual *= 2.0
            gradient += weighted @ residual
        return gradient


def descend(
    rows: MeanGradient,
    noise_scale: FloatArray,
    *,
    step_size: float,
    n_steps: int,
    seeds: Sequence[int],
) -> FloatArray:
    """Return the last iterates of models that start at 0.

    Parameters
    ----------
    rows : MeanGradient
        What is descended.
    noise_scale : array of float, shape (n_columns, n_models)
        Deviation of the noise on the mean gradient.
    step_size, n_steps : float, int
        Constant step, number of steps.
    seeds : sequence of int, length n_models
        Seed of each model.

    Guarantee
    ---------
    None by itself: how far one record moves the mean is a matter of `rows`, the noise
    is the caller's, and seeds make it replayable (`docs/theory/paper_noise.md`).
    """
    scale = noise_scale.astype(rows.dtype)
    coefs = np.zeros_like(scale)
    for noise in _noise(scale, n_steps, seeds):
        noise += rows.mean_gradient(coefs)
        noise *= step_size
        coefs -= noise
    if not np.isfinite(coefs).all():
        raise CorrDPError(
            f"gradient descent with step_size={step_size!r} left the finite numbers. "
            "Lower the step size."
        )
    last: FloatArray = coefs.astype(np.float64)
    return last


def _noise(
    noise_scale: NDArray[Any], n_steps: int, seeds: Sequence[int]
) -> Iterator[NDArray[Any]]:
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

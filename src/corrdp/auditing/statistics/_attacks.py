"""Attacks: scores that tell outputs on two neighbors apart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError

FittedScore: TypeAlias = Callable[[FloatArray], FloatArray]

_LEAST = 1e-100  # of numbers whose squares are far from what floats can hold
_RIDGE = 1e-10  # of a standardized coordinate: finds noise that is missing altogether


class Attack(Protocol):
    """A recipe for a score that is larger on the second neighbor."""

    @property
    def name(self) -> str:
        """Name shown in results."""

    def fit(self, first: FloatArray, second: FloatArray) -> FittedScore:
        """Return the score, from outputs on the two neighbors, one row per run."""


@dataclass(frozen=True)
class LinearAttack:
    """Fisher's discriminant, fitted to outputs: the black-box attack.

    It needs no knowledge of the mechanism. Directions in which outputs hardly vary
    weigh most, so noise that is missing, halved or used twice stands out.
    """

    name: str = "linear"

    def fit(self, first: FloatArray, second: FloatArray) -> FittedScore:
        """Return the projection on the discriminant direction."""
        unit = _unit(first, second)
        first, second = first / unit, second / unit
        center = (first.mean(axis=0) + second.mean(axis=0)) / 2.0
        spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2.0)
        scale = np.where(spread > 0.0, spread, 1.0)
        shift = (second.mean(axis=0) - first.mean(axis=0)) / scale
        residuals = np.vstack(
            [first - first.mean(axis=0), second - second.mean(axis=0)]
        )
        residuals /= scale
        covariance = residuals.T @ residuals / residuals.shape[0]
        covariance[np.diag_indices_from(covariance)] += _RIDGE
        direction = np.linalg.solve(covariance, shift) / scale
        return lambda outputs: np.asarray((outputs / unit - center) @ direction)


def _unit(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return by what columns are divided whose squares are not numbers any more.

    Without it outputs of 1e200, or of 1e-200, would pass for ones that tell nothing.
    """
    largest = np.maximum(np.abs(first), np.abs(second)).max(axis=0)
    usual = (largest == 0.0) | ((largest > _LEAST) & (largest < 1.0 / _LEAST))
    return np.where(usual, 1.0, largest)


@dataclass(frozen=True)
class LikelihoodAttack:
    """A score that is known in advance: the white-box attack.

    It gives one number per run, larger on the second neighbor; best is the logarithm of
    the likelihood ratio.
    """

    score: FittedScore
    name: str = "likelihood"

    def fit(self, first: FloatArray, second: FloatArray) -> FittedScore:
        """Return the score; there is nothing to fit."""
        del first, second
        return self.score


def check_scores(name: str, scores: FloatArray, count: int) -> FloatArray:
    """Return scores, or raise unless they are so many numbers.

    Guarantee
    ---------
    NaN exceeds no threshold: an attack that scores it tests nothing, and no verdict
    may rest on it (`docs/theory/audit.md`).
    """
    if scores.shape != (count,) or np.isnan(scores).any():
        raise CorrDPError(
            f"{name} must give {count} numbers, and none that is NaN, got shape "
            f"{scores.shape}. Score 0 where nothing is known."
        )
    return scores


def gaussian_score(
    first: FloatArray, second: FloatArray, noise_scale: FloatArray
) -> FittedScore:
    """Return the log likelihood ratio of two means under known Gaussian noise.

    `noise_scale` is the standard deviation of every output; outputs without noise are
    left to the linear attack.
    """
    noisy = noise_scale > 0.0
    direction = np.zeros_like(noise_scale)
    direction[noisy] = (second - first)[noisy] / noise_scale[noisy] ** 2
    center = (first + second) / 2.0
    return lambda outputs: np.asarray((outputs - center) @ direction)

"""Attribute inference: what CorrDP does not bound, measured.

An adversary knows a person's label and insensitive features, has the model, and
guesses a sensitive feature. No theorem of CorrDP bounds the success; part of it is
statistics of the population, which any useful model carries (erratum E26).
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from corrdp._typing import FloatArray, IntArray, JSONObject
from corrdp.auditing.statistics import clopper_pearson
from corrdp.exceptions import CorrDPError

LabelLikelihood = Callable[[int], FloatArray]


@dataclass(frozen=True)
class AttributeInference:
    """How often a sensitive feature was guessed.

    Parameters
    ----------
    feature : str
        The sensitive feature.
    method : str
        What trained the model that was attacked.
    accuracy : float
        Share of correct guesses from label, insensitive features and model.
    accuracy_lower, accuracy_upper : float
        Bounds on it that hold together at 95 % confidence.
    prior_accuracy : float
        Share without the model: from the insensitive features alone.
    n_targets : int
        Number of people attacked.
    """

    feature: str
    method: str
    accuracy: float
    accuracy_lower: float
    accuracy_upper: float
    prior_accuracy: float
    n_targets: int

    @property
    def advantage(self) -> float:
        """Accuracy gained by having the model."""
        return self.accuracy - self.prior_accuracy

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return asdict(self) | {"advantage": self.advantage}


def infer_attribute(
    likelihood: LabelLikelihood,
    prior: FloatArray,
    truth: IntArray,
    *,
    feature: str,
    method: str,
) -> AttributeInference:
    """Guess a sensitive feature by Bayes' rule and compare with the prior alone.

    Parameters
    ----------
    likelihood : callable
        From a level of the feature, the probability the model gives to each target's
        true label if the feature had that level, shape (n_targets,).
    prior : array of float, shape (n_targets, n_levels)
        Probability of every level given what else the adversary knows.
    truth : array of int, shape (n_targets,)
        True levels.
    feature, method : str
        Names for the report.

    Returns
    -------
    result : AttributeInference

    Notes
    -----
    The attack of Fredrikson et al. (2014): choose the level of largest prior times
    likelihood. The result depends on private rows without noise; it is for research.
    """
    truth = np.asarray(truth)
    if truth.size == 0:
        raise CorrDPError("there is nobody to attack. Pass at least one target.")
    if prior.ndim != 2 or prior.shape[0] != truth.size:
        raise CorrDPError(
            f"prior must have one row per target, {truth.size}, got shape "
            f"{prior.shape}. Pass probabilities by target and level."
        )
    given = np.stack([likelihood(level) for level in range(prior.shape[1])], axis=1)
    guesses = np.argmax(prior * given, axis=1)
    n_correct = int(np.count_nonzero(guesses == truth))
    lower, upper = clopper_pearson(n_correct, truth.size, failure_probability=0.025)
    return AttributeInference(
        feature=feature,
        method=method,
        accuracy=n_correct / truth.size,
        accuracy_lower=float(lower),
        accuracy_upper=float(upper),
        prior_accuracy=float(np.mean(np.argmax(prior, axis=1) == truth)),
        n_targets=truth.size,
    )


def conditional_prior(
    known: IntArray, levels: IntArray, targets: IntArray, n_levels: int
) -> FloatArray:
    """Return the smoothed shares of every level among public rows like each target.

    Parameters
    ----------
    known : array of int, shape (n_rows, n_known)
        Discrete insensitive features of public rows.
    levels : array of int, shape (n_rows,)
        Their sensitive level.
    targets : array of int, shape (n_targets, n_known)
        The same features of the targets.
    n_levels : int
        Number of levels.

    Returns
    -------
    prior : array of float, shape (n_targets, n_levels)
    """
    both = np.vstack([known, targets])
    cells = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    overall = np.bincount(levels, minlength=n_levels) / levels.size
    counts = np.zeros((int(cells.max()) + 1, n_levels))
    np.add.at(counts, (cells[: len(known)], levels), 1.0)
    smoothed = counts + overall
    shares = smoothed / smoothed.sum(axis=1, keepdims=True)
    return np.asarray(shares[cells[len(known) :]])

"""Challenges for noisy sums of sampled records: batches against their price."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, xlog1py
from scipy.stats import binom

from corrdp._typing import FloatArray, IntArray
from corrdp.accounting import SampledGaussianEvent
from corrdp.auditing._challenge import Challenge
from corrdp.auditing.statistics import (
    Claim,
    FittedScore,
    LikelihoodAttack,
    LinearAttack,
)

Sampler = Callable[
    [int, np.random.Generator], tuple[NDArray[np.bool_], IntArray]
]  # so many batches: is the target in, and how many others are

Parts = Sequence[FloatArray]  # of every step: what each row adds, shape (n_rows, n)


def sampled_score(
    first: Parts, second: Parts, noise_scale: Sequence[FloatArray], *, rate: float
) -> FittedScore:
    """Return the log likelihood ratio of two tables whose rows are drawn in each step.

    A step of a few rows is a mixture over all samples of them; given the parameters,
    steps are independent. Outputs of all steps stand in a row, `noise_scale` is that of
    every step; what has no noise is left to the linear attack.
    """

    def log_density(outputs: FloatArray, parts: Parts) -> FloatArray:
        n_rows = len(parts[0])
        drawn = np.array(list(product((0.0, 1.0), repeat=n_rows)))
        n_drawn = drawn.sum(axis=1)
        weights = n_drawn * np.log(rate) + xlog1py(n_rows - n_drawn, -rate)
        total = np.zeros(len(outputs))
        steps = np.split(outputs, len(parts), axis=1)
        for seen, part, scale in zip(steps, parts, noise_scale, strict=True):
            own = scale > 0.0
            unit = scale[own]
            centers = (drawn @ part)[:, own] / unit
            gaps = (seen[:, own] / unit)[:, None, :] - centers
            total += logsumexp(weights - 0.5 * (gaps**2).sum(axis=2), axis=1)
        return total

    return lambda outputs: np.asarray(
        log_density(outputs, second) - log_density(outputs, first)
    )


@dataclass(frozen=True)
class SampledSum:
    """Noisy sums over sampled batches, along the direction of one record.

    Parameters
    ----------
    rate : float
        Probability that a record takes part.
    n_records : int
        Number of records, the target among them.
    contribution, change : float
        Largest contribution of a record and how far it may change, in units of the
        noise. All other records pull the other way, which tells batches apart.
    n_steps : int
        Number of batches.
    """

    rate: float
    n_records: int
    contribution: float
    change: float
    n_steps: int

    def poisson(
        self, count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_], IntArray]:
        """Draw batches in which every record takes part by its own coin."""
        others = rng.binomial(self.n_records - 1, self.rate, count)
        return rng.random(count) < self.rate, others

    def fixed_size(
        self, count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_], IntArray]:
        """Draw batches of ``rate * n_records`` records without replacement."""
        present = rng.random(count) < self.batch_size / self.n_records
        return present, self.batch_size - present.astype(np.int64)

    @property
    def batch_size(self) -> int:
        """Size of a fixed batch."""
        return round(self.rate * self.n_records)

    def challenge(
        self, sampler: Sampler, *, sampling: str, delta: float, class_name: str
    ) -> Challenge[float]:
        """Challenge batches drawn by `sampler` against the price of `sampling`.

        Parameters
        ----------
        sampler : callable
            Draws so many batches: whether the target is in, how many others are.
        sampling : {"poisson", "fixed_size"}
            What the accountant was told.
        delta : float
            Where epsilons are read.
        class_name : str
            Neighbor class whose change is claimed.

        Guarantee
        ---------
        Two records of one class: the target contributes `contribution`, or that
        minus `change` (`docs/theory/audit.md`).
        """
        event = SampledGaussianEvent(
            rate=self.rate,
            contribution=self.contribution,
            change=self.change,
            n_steps=self.n_steps,
            sampling=sampling,
        )

        def sample(own: float, n_runs: int, rng: np.random.Generator) -> FloatArray:
            present, others = sampler(n_runs * self.n_steps, rng)
            total = present * own - others * self.contribution
            noisy = total + rng.standard_normal(total.size)
            return noisy.reshape(n_runs, self.n_steps)

        ends = (self.contribution - self.change, self.contribution)
        others = np.arange(self.n_records)
        weights = binom.logpmf(others, self.n_records - 1, self.rate)
        batch = self.batch_size
        hypotheses = {
            "poisson": [
                (math.log(self.rate), 1, others, weights),
                (math.log1p(-self.rate), 0, others, weights),
            ],
            "fixed_size": [
                (math.log(self.rate), 1, np.array([batch - 1]), np.zeros(1)),
                (math.log1p(-self.rate), 0, np.array([batch]), np.zeros(1)),
            ],
        }
        return Challenge(
            target=f"{sampling} batches, white box",
            class_name=class_name,
            claim=Claim((event,), delta),
            first=ends[0],
            second=ends[1],
            sample=sample,
            attacks=(
                *(
                    LikelihoodAttack(self._score(ends, parts), f"{name} likelihood")
                    for name, parts in hypotheses.items()
                ),
                LinearAttack(),
            ),
            n_runs=10_000,
        )

    def _score(
        self,
        ends: tuple[float, float],
        parts: list[tuple[float, int, IntArray, FloatArray]],
    ) -> Callable[[FloatArray], FloatArray]:
        """Return the log likelihood ratio of all steps under one way of sampling."""

        def log_density(outputs: FloatArray, own: float) -> FloatArray:
            centers = np.concatenate(
                [present * own - n * self.contribution for _, present, n, _ in parts]
            )
            weights = np.concatenate([w + inner for w, _, _, inner in parts])
            gaps = outputs[..., None] - centers
            return np.asarray(logsumexp(weights - gaps**2 / 2.0, axis=-1))

        def score(outputs: FloatArray) -> FloatArray:
            first, second = (log_density(outputs, own) for own in ends)
            return np.asarray(np.sum(second - first, axis=1))

        return score

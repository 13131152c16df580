"""The reference for sensitive codes: their mean, released once before training."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from corrdp._typing import FloatArray, IntArray
from corrdp.accounting import NoisePlan, gaussian_epsilon, gaussian_mu, plan_noise
from corrdp.mechanisms import column_sum_sensitivity
from corrdp.policy import ColumnRole
from corrdp.torch._facts import NetworkFacts

SHARE = 0.02  # of the budget, in squares of Gaussian-DP parameters
_NOMINAL_SPREAD = 0.25  # of means over tables, in diameters of a domain


@dataclass(frozen=True, eq=False)
class ReferencePlan:
    """Noise on the mean of sensitive codes.

    Parameters
    ----------
    noise : NoisePlan
        Noise on the sums, by block.
    center, scale : array of float, shape (n_columns,)
        Features are codes that were moved so that their center is `center`, and
        multiplied by `scale`.
    columns : array of int
        Encoded columns of sensitive features.
    deviation : array of float
        Standard deviation of the noise on each of their sums.
    diameter : array of float
        Diameter of the domain that each belongs to.
    """

    noise: NoisePlan
    center: FloatArray
    scale: FloatArray
    columns: IntArray
    deviation: FloatArray
    diameter: FloatArray

    def release(self, features: Tensor, generator: np.random.Generator) -> FloatArray:
        """Return the center with sensitive codes near their mean, shape (n_columns,).

        Parameters
        ----------
        features : Tensor, shape (n, n_columns)
            All rows.
        generator : numpy.random.Generator
            Source of noise.

        Guarantee
        ---------
        One Gaussian release of `noise` (`docs/theory/networks.md`, section 3); drawing
        the mean towards the center is post-processing.
        """
        own, n_rows = self.columns, len(features)
        apart = features.numpy(force=True)[:, own].astype(np.float64)
        total = ((apart - self.center[own]) / self.scale[own]).sum(0)
        noise = self.deviation * generator.standard_normal(own.size)
        variance = (self.deviation / n_rows) ** 2
        spread = (_NOMINAL_SPREAD * self.diameter) ** 2
        mean = (total + noise) / n_rows * spread / (spread + variance)
        reference = self.center.copy()
        reference[own] += mean.clip(-self.diameter, self.diameter) * self.scale[own]
        return reference


def plan_reference(facts: NetworkFacts) -> ReferencePlan:
    """Return the noise of the release; it depends on public numbers alone.

    Guarantee
    ---------
    Every class pays `SHARE` of its budget at most (`docs/theory/networks.md`, section
    3); the encoder keeps codes inside their domains (`docs/theory/encoder.md`).
    """
    assert facts.code_scale is not None
    blocks = [b for b in facts.blocks if b.role is ColumnRole.SENSITIVE]
    delta = facts.budget.delta
    allowed = {
        name: epsilon
        if np.isinf(epsilon)
        else gaussian_epsilon(
            mu=np.sqrt(SHARE) * gaussian_mu(epsilon=epsilon, delta=delta), delta=delta
        )
        for name, epsilon in facts.allowed_epsilon.items()
    }
    table = column_sum_sensitivity(blocks, facts.classes)
    noise = plan_noise(table, allowed_epsilon=allowed, delta=delta)
    width = [block.stop - block.start for block in blocks]
    return ReferencePlan(
        noise=noise,
        center=facts.reference,
        scale=facts.code_scale,
        columns=np.concatenate([np.arange(b.start, b.stop) for b in blocks]),
        deviation=np.repeat(noise.noise_scale, width),
        diameter=np.repeat([block.diameter for block in blocks], width),
    )

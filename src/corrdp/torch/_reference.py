"""The reference for sensitive codes: their mean, released once before training."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from corrdp._typing import FloatArray, IntArray
from corrdp.accounting import NoisePlan, gaussian_epsilon, gaussian_mu, plan_noise
from corrdp.mechanisms import column_sum_sensitivity
from corrdp.policy import Block, ColumnRole
from corrdp.torch._domain import code_range, projected
from corrdp.torch._plan_inputs import NetworkPlanInputs
from corrdp.training import central_reference

SHARE = 0.02  # of the budget, in squares of Gaussian-DP parameters
_NOMINAL_SPREAD = 0.25  # of means over tables, in diameters of a domain


@dataclass(frozen=True, eq=False)
class ReferencePlan:
    """Noise on the mean of sensitive codes, whose `blocks` these are.

    `noise` is by block, `deviation` that of the sum of each of their columns. Features
    are codes that were moved so that their center is `center`, and multiplied by
    `scale`, both of shape (n_columns,).
    """

    noise: NoisePlan
    center: FloatArray
    scale: FloatArray
    blocks: tuple[Block, ...]
    deviation: FloatArray

    @property
    def columns(self) -> IntArray:
        """Encoded columns of sensitive features."""
        return np.concatenate([np.arange(b.start, b.stop) for b in self.blocks])

    def release(self, features: Tensor, generator: np.random.Generator) -> FloatArray:
        """Return the center with sensitive codes near their mean, shape (n_columns,).

        Guarantee
        ---------
        One Gaussian release of `noise` (`docs/theory/networks.md`, section 3): every
        row is drawn into the domain first, whatever it holds. Drawing the mean towards
        the center and into the domain is post-processing.
        """
        return self.release_total(self.total(features), len(features), generator)

    def total(self, features: Tensor) -> FloatArray:
        """Return the sum of sensitive codes, each row drawn into the domain first.

        Not private. A row moves it as `docs/theory/networks.md`, section 3, says.
        """
        return np.concatenate(
            [projected(self._codes(features, b), b).sum(axis=0) for b in self.blocks]
        )

    def release_total(
        self, total: FloatArray, n_rows: int, generator: np.random.Generator
    ) -> FloatArray:
        """Return what `release` does, of a sum over all rows.

        Guarantee
        ---------
        That of `release` (`docs/theory/networks.md`, section 3).
        """
        own = self.columns
        noisy = total + self.deviation * generator.standard_normal(own.size)
        middle = central_reference(self.blocks)[own]
        width = [block.stop - block.start for block in self.blocks]
        diameter = np.repeat([block.diameter for block in self.blocks], width)
        variance = (self.deviation / n_rows) ** 2
        spread = (_NOMINAL_SPREAD * diameter) ** 2
        kept = np.divide(
            spread, spread + variance, out=np.zeros(own.size), where=spread > 0.0
        )
        mean = middle + (noisy / n_rows - middle) * kept
        low, high = np.repeat([code_range(b) for b in self.blocks], width, axis=0).T
        reference = self.center.copy()
        reference[own] += (mean.clip(low, high) - middle) * self.scale[own]
        return reference

    def _codes(self, features: Tensor, block: Block) -> FloatArray:
        """Return the codes of a block, as the encoder made them."""
        own = block.columns
        moved = features[:, own].numpy(force=True).astype(np.float64)
        codes = (moved - self.center[own]) / self.scale[own]
        return codes + central_reference((block,))[own]


def plan_reference(facts: NetworkPlanInputs) -> ReferencePlan:
    """Return the noise of the release; it depends on public numbers alone.

    Guarantee
    ---------
    Every class pays `SHARE` of its budget at most (`docs/theory/networks.md`, section
    3): rows are drawn into their domains before they are summed.
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
        blocks=tuple(blocks),
        deviation=np.repeat(noise.noise_scale, width),
    )

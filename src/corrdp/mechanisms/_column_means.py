"""Sums of encoded columns, the query that reads each feature by itself, and means."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corrdp._display import html_card
from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import check_count
from corrdp.accounting import (
    WHOLE_RECORD,
    Group,
    NoisePlan,
    SensitivityTable,
    plan_noise,
)
from corrdp.certificate import Certificate, Component, LeakageClaim, certify
from corrdp.policy import (
    Block,
    Budget,
    NeighborClass,
    Policy,
    allowed_epsilons,
    neighbor_classes,
    policy_blocks,
)


def column_sum_sensitivity(
    blocks: Sequence[Block], classes: Sequence[NeighborClass]
) -> SensitivityTable:
    """Return how far the sum of encoded rows moves under each neighbor class.

    Parameters
    ----------
    blocks : sequence of Block
        Blocks of the encoder, each with its radius and diameter.
    classes : sequence of NeighborClass
        Classes of the policy, ``whole_record`` included.

    Returns
    -------
    table : SensitivityTable
        One row per class, one group per block.

    Guarantee
    ---------
    Replacing one record moves a block of the sum by at most the diameter of the
    block's domain if the class may change its feature, else not at all
    (`docs/theory/encoder.md`): the encoder keeps every row inside the domain.
    """
    bounds = np.zeros((len(classes), len(blocks)))
    places: dict[str, list[int]] = defaultdict(list)
    for place, block in enumerate(blocks):
        places[block.feature].append(place)
    diameters = np.array([block.diameter for block in blocks])
    for row, neighbor in enumerate(classes):
        own = [place for name in neighbor.features for place in places.get(name, ())]
        bounds[row, own] = diameters[own]
    return SensitivityTable(
        groups=tuple(
            Group(block.name, block.stop - block.start, (block.feature,))
            for block in blocks
        ),
        classes=tuple(neighbor.name for neighbor in classes),
        bounds=bounds,
        contribution=np.array([block.radius for block in blocks]),
    )


def noisy_column_sums(
    sums: FloatArray,
    noise_scale: FloatArray,
    blocks: Sequence[Block],
    rng: np.random.Generator,
) -> FloatArray:
    """Return sums of encoded columns with Gaussian noise, one scale per block.

    Parameters
    ----------
    sums : array of float, shape (..., n_codes)
        Sums of encoded rows; audits pass one row per run.
    noise_scale : array of float, shape (n_blocks,)
        Standard deviation of every column of a block.
    blocks : sequence of Block
        Blocks of the encoder.
    rng : numpy Generator
        Source of the noise.

    Guarantee
    ---------
    That of the noise scales: an allocation for `column_sum_sensitivity`
    (`docs/theory/allocation.md`) keeps every class within its mu.
    """
    widths = [block.stop - block.start for block in blocks]
    noise = rng.standard_normal(sums.shape) * np.repeat(noise_scale, widths)
    return np.asarray(sums + noise)


@dataclass(frozen=True, eq=False)
class MeanPlan:
    """Noise of the column sums under a policy, and under ordinary DP.

    Parameters
    ----------
    noise : NoisePlan
        Noise on the sums.
    ordinary : NoisePlan
        The same epsilon spent on the whole record: ordinary replace-one DP.
    certificate : Certificate
        What `noise` proves.
    n_rows : int
        Public number of rows; noise on a mean is noise on the sum divided by it.
    """

    noise: NoisePlan
    ordinary: NoisePlan
    certificate: Certificate
    n_rows: int

    @property
    def mean_noise_scale(self) -> FloatArray:
        """Standard deviation of each group's mean."""
        return self.noise.noise_scale / self.n_rows

    @property
    def variance_ratio(self) -> float:
        """Total variance relative to ordinary DP at the same epsilon."""
        return self.noise.weighted_variance / self.ordinary.weighted_variance

    def _scales(self) -> list[tuple[Group, float, float]]:
        """Return every group, with the noise of its mean under both plans."""
        own = self.mean_noise_scale.tolist()
        ordinary = (self.ordinary.noise_scale / self.n_rows).tolist()
        return list(zip(self.noise.table.groups, own, ordinary, strict=True))

    def _repr_html_(self) -> str:
        return html_card(
            "Plan of column means",
            [f"{self.n_rows} rows"],
            ("column", "noise", "ordinary DP"),
            [(group.name, own, ordinary) for group, own, ordinary in self._scales()],
        )

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "n_rows": self.n_rows,
            "groups": [
                {
                    "name": group.name,
                    "columns": group.size,
                    "noise_scale": own,
                    "ordinary_noise_scale": ordinary,
                }
                for group, own, ordinary in self._scales()
            ],
            "variance_ratio": self.variance_ratio,
            "certificate": self.certificate.to_dict(),
        }


def plan_means(policy: Policy, *, budget: Budget, n_rows: int) -> MeanPlan:
    """Plan the release of the means of all encoded columns.

    Parameters
    ----------
    policy : Policy
        With declared leakage of every insensitive feature.
    budget : Budget
        Epsilon and delta of the release.
    n_rows : int
        Public number of rows.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for the policy: `docs/theory/encoder.md` bounds the
    sums, `docs/theory/allocation.md` keeps every class within its epsilon. Public
    columns never change between neighbors and need no noise.
    """
    check_count("n_rows", n_rows)
    budget.warn_if_large_delta(n_rows)
    classes = neighbor_classes(policy)
    table = column_sum_sensitivity(policy_blocks(policy), classes)
    allowed = allowed_epsilons(
        classes, epsilon=budget.epsilon, epsilon_cap=policy.epsilon_cap
    )
    noise = plan_noise(table, allowed_epsilon=allowed, delta=budget.delta)
    ordinary = plan_noise(
        table,
        allowed_epsilon=dict.fromkeys(allowed, np.inf) | {WHOLE_RECORD: budget.epsilon},
        delta=budget.delta,
    )
    certificate = certify(
        policy,
        [Component("column means", plan=noise)],
        budget=budget,
        leakage=LeakageClaim.declared(policy),
    )
    return MeanPlan(noise, ordinary, certificate, n_rows)

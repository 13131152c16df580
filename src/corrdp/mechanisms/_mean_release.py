"""Plan and certificate of the means of all encoded columns, before data is touched."""

from dataclasses import dataclass

import numpy as np

from corrdp._display import html_card
from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import check_count
from corrdp.accounting import WHOLE_RECORD, NoisePlan, plan_noise
from corrdp.certificate import Certificate, Component, LeakageClaim, certify
from corrdp.mechanisms._column_sums import column_sum_sensitivity
from corrdp.policy import (
    Budget,
    Policy,
    allowed_epsilons,
    neighbor_classes,
    policy_blocks,
)


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

    def _repr_html_(self) -> str:
        scales = zip(
            self.noise.table.groups,
            self.mean_noise_scale,
            self.ordinary.noise_scale / self.n_rows,
            strict=True,
        )
        return html_card(
            "Plan of column means",
            [f"{self.n_rows} rows"],
            ("column", "noise", "ordinary DP"),
            [(group.name, float(own), float(plain)) for group, own, plain in scales],
        )

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "n_rows": self.n_rows,
            "groups": [
                {
                    "name": group.name,
                    "columns": group.size,
                    "noise_scale": float(scale),
                    "ordinary_noise_scale": float(ordinary),
                }
                for group, scale, ordinary in zip(
                    self.noise.table.groups,
                    self.mean_noise_scale,
                    self.ordinary.noise_scale / self.n_rows,
                    strict=True,
                )
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

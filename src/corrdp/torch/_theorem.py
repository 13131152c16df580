"""The paper's noise for networks, Eq. (5), and what can be proved for it."""

import math

import numpy as np

from corrdp.accounting import (
    WHOLE_RECORD,
    NoisePlan,
    SensitivityTable,
    paper_network_noise_variance,
)
from corrdp.certificate import Calibration
from corrdp.policy import ColumnRole
from corrdp.torch._facts import NetworkFacts, NetworkPlan
from corrdp.torch._layout import NetworkLayout, flat_layout, grouped_layout


def theorem_plan(facts: NetworkFacts, method: str) -> NetworkPlan:
    """Return flat clipping with the noise of Eq. (5) by input column.

    Guarantee
    ---------
    Asymptotic: Assumptions 3.1-3.3 and 3.11 of the paper and unstated constants. The
    price in the plan is what is proved for the same noise, infinite if public or
    semi-private columns have none: `docs/theory/networks.md`, section 6.
    """
    clipping = flat_layout(facts.layers).with_clip_norm(facts.clip_norm)
    groups = grouped_layout(
        facts.layers,
        facts.blocks,
        facts.reference,
        input_layer=facts.input_layer,
        by_feature=True,
    )
    noise_scale = _noise_scale(facts, groups, uniform=method == "standard")
    n_groups = len(groups.groups)
    table = SensitivityTable(
        groups=groups.table_groups(),
        classes=(WHOLE_RECORD,) * n_groups,  # what other classes are priced by, too
        bounds=2.0 * facts.clip_norm * np.eye(n_groups),
        contribution=np.full(n_groups, facts.clip_norm),
    )
    noise = NoisePlan(
        table,
        noise_scale,
        {WHOLE_RECORD: math.inf},
        facts.budget.delta,
        facts.n_steps,
        facts.rate,
    )
    return NetworkPlan(method, Calibration.THEOREM, clipping, groups, noise)


def _noise_scale(
    facts: NetworkFacts, groups: NetworkLayout, *, uniform: bool
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the deviation on the sum over a batch, per group."""
    leakage = np.ones(facts.blocks[-1].stop)
    distance = {
        feature: neighbor.distance
        for neighbor in facts.classes
        if neighbor.name.startswith(ColumnRole.INSENSITIVE.value)
        for feature in neighbor.features
    }
    public = set()
    for block in facts.blocks:
        if block.role is ColumnRole.INSENSITIVE and not uniform:
            leakage[block.columns] = distance[block.feature]
        elif block.role is ColumnRole.PUBLIC and not uniform:
            leakage[block.columns] = 0.0
            public.add(block.feature)
    variance = paper_network_noise_variance(
        leakage,
        epsilon=facts.budget.epsilon,
        delta=facts.budget.delta,
        lipschitz=facts.clip_norm,
        n_steps=facts.n_steps,
        n_rows=facts.n_rows,
        n_sensitive=int(groups.sensitive.sum()),
        first_layer_width=1,
    )
    start = {b.feature: b.start for b in reversed(facts.blocks)}
    scale = [
        math.sqrt(variance.first_layer[start[group.features[0]], 0])
        if group.features
        else math.sqrt(variance.other)
        for group in groups.groups
    ]
    bare = [bool(public & set(group.features)) for group in groups.groups]
    return np.where(bare, 0.0, np.array(scale) * facts.expected_batch)

"""The paper's noise for networks, Eq. (5), and what can be proved for it."""

import math
from typing import Literal

import numpy as np

from corrdp._typing import FloatArray
from corrdp.accounting import (
    WHOLE_RECORD,
    NoisePlan,
    SensitivityTable,
    experiment_leakage,
    experiment_noise_variance,
    paper_network_noise_variance,
)
from corrdp.certificate import Calibration
from corrdp.policy import ColumnRole
from corrdp.torch._layout import BIAS, NetworkLayout, flat_layout, grouped_layout
from corrdp.torch._plan_inputs import NetworkPlan, NetworkPlanInputs


def theorem_plan(facts: NetworkPlanInputs, method: str) -> NetworkPlan:
    """Return flat clipping with the noise of Eq. (5) by input column.

    Guarantee
    ---------
    Asymptotic: Assumptions 3.1-3.3 and 3.11 of the paper and unstated constants. The
    price in the plan is what is proved for the same noise, infinite if public or
    semi-private columns have none: `docs/theory/networks.md`, section 6.
    """
    groups = _groups_by_feature(facts)
    noise_scale = _noise_scale(facts, groups, uniform=method == "standard")
    return _flatly_clipped(facts, method, groups, noise_scale)


def experiment_plan(
    facts: NetworkPlanInputs, method: Literal["corr", "semi", "standard"]
) -> NetworkPlan:
    """Return flat clipping with the noise of the paper's experiments (section 5).

    Unlike Eq. (5) they have no floor under the leakage (erratum E3), and the noise on
    the first bias is lowered like that on insensitive columns (E21), here by the
    largest of their leakages. The constant is ``C = L^2 T / n^2``, L the clipping norm.
    Roles and leakage are those of the declared policy, whatever the method: noise by
    leakage, none on insensitive columns (``semi``), or equal noise.

    Guarantee
    ---------
    None that the paper proves. The price in the plan is what is proved for the same
    noise, infinite for ``semi``: `docs/theory/networks.md`, section 6.
    """
    groups = _groups_by_feature(facts)
    distance = _insensitive_distance(facts)
    lowered = {
        group.name: distance[group.features[0]]
        for group in groups.groups
        if group.features and group.features[0] in distance
    }
    entry_bias = f"layer:{groups.input_layer}.{BIAS}"
    lowered[entry_bias] = max(distance.values(), default=1.0)
    multiplier = experiment_leakage(
        [lowered.get(group.name, 1.0) for group in groups.groups],
        sensitive=np.array([group.name not in lowered for group in groups.groups]),
        method=method,
    )
    variance = experiment_noise_variance(
        multiplier,
        epsilon=facts.budget.epsilon,
        delta=facts.budget.delta,
        constant=facts.clip_norm**2 * facts.n_steps / facts.n_rows**2,
    )
    noise_scale = np.sqrt(variance) * facts.expected_batch
    return _flatly_clipped(facts, method, groups, noise_scale)


def _flatly_clipped(
    facts: NetworkPlanInputs,
    method: str,
    groups: NetworkLayout,
    noise_scale: FloatArray,
) -> NetworkPlan:
    n_groups = len(groups.groups)
    table = SensitivityTable(
        groups=groups.table_groups(),
        classes=(WHOLE_RECORD,) * n_groups,  # what other classes are priced by, too
        bounds=2.0 * facts.clip_norm * np.eye(n_groups),
        # In units of the noise a record is largest if all of it has the least noise.
        contribution=facts.clip_norm * (np.arange(n_groups) == noise_scale.argmin()),
    )
    noise = NoisePlan(
        table,
        noise_scale,
        {WHOLE_RECORD: math.inf},
        facts.budget.delta,
        facts.n_steps,
        facts.rate,
    )
    clipping = flat_layout(facts.layers).with_clip_norm(facts.clip_norm)
    return NetworkPlan(method, Calibration.THEOREM, clipping, groups, noise)


def _groups_by_feature(facts: NetworkPlanInputs) -> NetworkLayout:
    return grouped_layout(
        facts.layers,
        facts.blocks,
        facts.reference,
        input_layer=facts.input_layer,
        by_feature=True,
    )


def _insensitive_distance(facts: NetworkPlanInputs) -> dict[str, float]:
    """Return the distance of every insensitive feature, or of the block."""
    return {
        feature: neighbor.distance
        for neighbor in facts.classes
        if neighbor.name.startswith(ColumnRole.INSENSITIVE.value)
        for feature in neighbor.features
    }


def _noise_scale(
    facts: NetworkPlanInputs, groups: NetworkLayout, *, uniform: bool
) -> FloatArray:
    """Return the deviation on the sum over a batch, per group."""
    leakage = np.ones(facts.blocks[-1].stop)
    distance = _insensitive_distance(facts)
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

"""The default rule: groups, norms and noise from public numbers alone."""

import math
from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from corrdp.accounting import WHOLE_RECORD, plan_noise
from corrdp.certificate import Calibration
from corrdp.exceptions import CorrDPError
from corrdp.policy import Block, BlockKind, ColumnRole
from corrdp.torch._facts import NetworkFacts, NetworkPlan
from corrdp.torch._layout import (
    NetworkLayout,
    ParameterGroup,
    flat_layout,
    grouped_layout,
)
from corrdp.torch._theorem import theorem_plan

METHODS = ("corr", "standard")
INFLUENCE = 0.1  # influence bound in units of a group's clipping norm
INPUT_SHARE = 0.3  # backprops at the first layer are smaller than at the last
BIAS_CONSTANT = 0.12


def plan_network(
    facts: NetworkFacts,
    *,
    method: str = "corr",
    calibration: Calibration = Calibration.CERTIFIED,
    fall_back: bool = True,
) -> NetworkPlan:
    """Return groups and noise for a training.

    Parameters
    ----------
    facts : NetworkFacts
        Public numbers and the shape of the module.
    method : {"corr", "standard"}
        Noise by groups, or one norm and one noise scale.
    calibration : Calibration
        ``certified`` or ``theorem``.
    fall_back : bool
        Take plain noise, which is valid for every policy, where the rule predicts
        less error of it.

    Guarantee
    ---------
    ``certified``: every class stays within its allowed epsilon
    (`docs/theory/networks.md`). ``theorem``: asymptotic, Eq. (5) of the paper. A
    function of public numbers: choosing costs nothing.
    """
    if method not in METHODS:
        raise CorrDPError(
            f"method must be one of {', '.join(METHODS)}, got method={method!r}. "
            "Choose one."
        )
    if calibration is Calibration.THEOREM:
        return theorem_plan(facts, method)
    candidates = []
    if method == "standard" or fall_back:
        flat = _flat(facts)
        candidates.append((_deviation(facts, flat), "standard", flat))
    if method == "corr" and not (fall_back and _nothing_to_bound(facts)):
        layout = grouped(facts, INFLUENCE)
        error = _deviation(facts, layout) + _influence_bias(facts)
        candidates.append((error, "corr", layout))
    error, chosen, layout = min(candidates, key=lambda candidate: candidate[0])
    allowed = facts.allowed_epsilon
    if chosen == "standard":
        allowed |= {WHOLE_RECORD: facts.left(WHOLE_RECORD, facts.budget.epsilon)}
    noise = plan_noise(
        layout.sensitivity_table(facts.classes),
        allowed_epsilon=allowed,
        delta=facts.budget.delta,
        n_steps=facts.n_steps,
        rate=facts.rate,
    )
    return NetworkPlan(chosen, calibration, layout, layout, noise, error)


def _nothing_to_bound(facts: NetworkFacts) -> bool:
    """Return whether no input columns could have the influence on them bounded."""
    return len({b.role is ColumnRole.SENSITIVE for b in facts.blocks}) == 1


def _influence_bias(facts: NetworkFacts) -> float:
    """Return what bounding the influence costs, in units of the noise deviation.

    It grows with the share of sensitive features in the nominal variance. The constant
    was fixed on a handful of problems.
    """
    variance = _nominal_variance(facts.blocks)
    sensitive = {b.feature for b in facts.blocks if b.role is ColumnRole.SENSITIVE}
    share = sum(variance[name] for name in sensitive) / sum(variance.values())
    return BIAS_CONSTANT * share


def _flat(facts: NetworkFacts) -> NetworkLayout:
    return flat_layout(facts.layers).with_clip_norm(facts.clip_norm)


def grouped(facts: NetworkFacts, influence: float) -> NetworkLayout:
    """Return groups that share the clipping norm by nominal size of gradients."""
    layout = grouped_layout(
        facts.layers,
        facts.blocks,
        facts.reference,
        input_layer=facts.input_layer,
        by_feature=facts.by_feature,
    )
    nominal = _nominal_squares(facts, layout)
    total = sum(nominal.values())
    sensitive = layout.sensitive_features

    def share(group: ParameterGroup) -> ParameterGroup:
        norm = facts.clip_norm * math.sqrt(nominal[group.name] / total)
        bounded = bool(group.features) and not sensitive & set(group.features)
        return replace(
            group,
            clip_norm=norm,
            influence_bound=influence * norm if bounded else math.inf,
        )

    return replace(layout, groups=tuple(share(group) for group in layout.groups))


def _nominal_squares(facts: NetworkFacts, layout: NetworkLayout) -> dict[str, float]:
    """Return the nominal square of the gradient of every group.

    Input columns count by their nominal variance, the first bias as a column of ones,
    other linear layers by half their inputs, everything else as one.
    """
    variance = _nominal_variance(facts.blocks)
    fan_in = {
        f"layer:{layer.name}": layer.module.in_features
        for layer in facts.layers
        if isinstance(layer.module, nn.Linear)
    }
    return {
        group.name: (
            INPUT_SHARE * sum(variance[feature] for feature in group.features)
            if group.features
            else 1.0 + fan_in[group.name] / 2
            if group.name in fan_in
            else INPUT_SHARE
        )
        for group in layout.groups
    }


def _nominal_variance(blocks: Sequence[Block]) -> dict[str, float]:
    total: dict[str, float] = {}
    for block in blocks:
        own = 1.0 / 3.0 if block.kind is BlockKind.NUMBER else 2.0 / 3.0
        total[block.feature] = total.get(block.feature, 0.0) + own
    return total


def _deviation(facts: NetworkFacts, layout: NetworkLayout) -> float:
    """Return the noise on one mean gradient, all coordinates, per clipping norm."""
    plan = plan_noise(
        layout.sensitivity_table(facts.classes),
        allowed_epsilon=facts.allowed_epsilon,
        delta=facts.budget.delta,
    )
    return math.sqrt(plan.weighted_variance) / facts.n_rows / facts.clip_norm

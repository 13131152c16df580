"""The default rule: groups, norms and noise from public numbers alone."""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

import numpy as np
from torch import nn

from corrdp._validate import check_choice, check_real
from corrdp.accounting import (
    WHOLE_RECORD,
    NoisePlan,
    gaussian_epsilon,
    plan_noise,
    sampled_epsilon,
)
from corrdp.certificate import Calibration, Component
from corrdp.exceptions import BudgetError, CorrDPError
from corrdp.policy import Block, BlockKind, ColumnRole
from corrdp.torch._layers import Layer
from corrdp.torch._layout import (
    WEIGHT,
    NetworkLayout,
    flat_layout,
    grouped_layout,
    layered_layout,
    tower_layout,
)
from corrdp.torch._plan_inputs import NetworkPlan, NetworkPlanInputs
from corrdp.torch._reference import plan_reference
from corrdp.torch._theorem import theorem_plan
from corrdp.training import spent_square

METHODS = ("corr", "layered", "standard")
INPUT_SHARE = 2.0  # how much more room first-layer gradients are given
BIAS_CONSTANT = 1.0 / 3.0
FAR_BIAS_CONSTANT = 1.0  # if the reference may lie far from the data
_ROUND_OFF = 1e-6  # pricing rounds the last digits


def plan_network(
    facts: NetworkPlanInputs,
    *,
    method: str = "corr",
    calibration: Calibration = Calibration.CERTIFIED,
    fall_back: bool = True,
) -> NetworkPlan:
    """Return groups and noise for a training; arguments are those of `make_private`.

    Where the rule predicts less error of noise by layer, which is valid for every
    policy, ``corr`` takes it if it may `fall_back`.

    Guarantee
    ---------
    ``certified``: every class stays within its allowed epsilon
    (`docs/theory/networks.md`). ``theorem``: asymptotic, Eq. (5) of the paper. A
    function of public numbers: choosing costs nothing.
    """
    check_choice("method", method, METHODS)
    if calibration is Calibration.THEOREM:
        if facts.towers:
            raise CorrDPError(
                "calibration='theorem' knows the first layer alone. Leave towers out, "
                "or choose calibration='certified'."
            )
        return theorem_plan(facts, "corr" if method == "corr" else "standard")
    fall_back = fall_back and facts.leaves_whole_record
    candidates = []
    if method == "standard":
        candidates.append((0.0, "standard", _flat(facts)))
    elif method == "layered" or fall_back:
        layout = _layered(facts)
        candidates.append((_deviation(facts, layout), "layered", layout))
    if method == "corr" and not (fall_back and _nothing_to_bound(facts)):
        layout = grouped(facts, facts.influence)
        error = _deviation(facts, layout) + _influence_bias(facts)
        candidates.append((error, "corr", layout))
    _, chosen, layout = min(candidates, key=lambda candidate: candidate[0])
    layout = replace(layout, residual_bound=facts.residual_bound)
    deviation = _deviation(facts, layout)
    reference = None
    if layout.clips_influence and _releases_reference(facts):
        reference = plan_reference(facts)
        release = Component("reference", plan=reference.noise)
        facts = replace(facts, spent=(*facts.spent, release))
    allowed = dict(facts.allowed_epsilon)
    if chosen != "corr":
        whole = facts.remaining_epsilon(WHOLE_RECORD, facts.budget.epsilon)
        allowed[WHOLE_RECORD] = whole
    noise = plan_noise(
        layout.sensitivity_table(facts.classes),
        allowed_epsilon=allowed,
        delta=facts.budget.delta,
        n_steps=facts.n_steps,
        rate=facts.rate,
    )
    return NetworkPlan(chosen, calibration, layout, layout, noise, deviation, reference)


def epsilon_of_noise(
    noise_multiplier: float,
    *,
    epsilon: float | None,
    delta: float,
    n_steps: int,
    rate: float | None,
    method: str,
    spent: Sequence[Component] = (),
) -> float:
    """Return the epsilon that flat clipping with so much noise keeps at `delta`.

    `noise_multiplier` is a standard deviation in units of the clipping norm, `rate` a
    Poisson sampling rate. An `epsilon` beside it is refused, and every `method` but
    ``standard``, since others have several noise scales. What was `spent` on the same
    rows before is part of it.

    Guarantee
    ---------
    One record moves a sum by twice the clipping norm (`docs/theory/networks.md`,
    section 2), priced as `docs/theory/gaussian.md` and `docs/theory/sampling.md` say;
    squares of Gaussian-DP parameters add up, and no class was charged more before than
    the whole record.
    """
    if epsilon is not None:
        raise BudgetError(
            f"both epsilon={epsilon!r} and noise_multiplier={noise_multiplier!r} are "
            "given, and one follows from the other. Give one."
        )
    if method != "standard":
        raise CorrDPError(
            f"noise_multiplier is for method='standard' and certified noise, which has "
            f"one scale, got {method!r}. Give epsilon instead."
        )
    noise = check_real("noise_multiplier", noise_multiplier, lower=0.0, open_lower=True)
    if rate is None:
        mu = 2.0 * math.sqrt(n_steps) / noise
        before = spent_square(spent, WHOLE_RECORD)
        if math.isinf(before):
            raise BudgetError(
                "earlier releases have no noise where a whole record moves, so that no "
                "epsilon follows from noise_multiplier. Give epsilon instead."
            )
        mu = math.sqrt(mu**2 + before)
        return gaussian_epsilon(mu=mu, delta=delta) * (1.0 + _ROUND_OFF)
    return (1.0 + _ROUND_OFF) * sampled_epsilon(
        rate=rate,
        contribution=1.0 / noise,
        change=2.0 / noise,
        n_steps=n_steps,
        delta=delta,
    )


def plan_given_noise(facts: NetworkPlanInputs, noise_multiplier: float) -> NetworkPlan:
    """Return flat clipping with the noise that was asked for.

    Guarantee
    ---------
    Priced like any plan; `facts.budget` holds what `epsilon_of_noise` returned
    (`docs/theory/networks.md`, section 2).
    """
    layout = replace(_flat(facts), residual_bound=facts.residual_bound)
    epsilon = facts.remaining_epsilon(WHOLE_RECORD, facts.budget.epsilon)
    table = layout.sensitivity_table(facts.classes)
    noise = NoisePlan(
        table,
        np.array([noise_multiplier * facts.clip_norm]),
        dict.fromkeys(table.class_names, epsilon),
        facts.budget.delta,
        facts.n_steps,
        facts.rate,
    )
    return NetworkPlan("standard", Calibration.CERTIFIED, layout, layout, noise)


def _nothing_to_bound(facts: NetworkPlanInputs) -> bool:
    """Return whether no input columns could have the influence on them bounded."""
    return len({b.role is ColumnRole.SENSITIVE for b in facts.blocks}) == 1


def _influence_bias(facts: NetworkPlanInputs) -> float:
    """Return what bounding the influence costs, in units of the noise deviation.

    It grows with the share of sensitive features in the nominal variance. Constants and
    power were fixed on synthetic tables made for the purpose.
    """
    variance = _nominal_variance(facts.blocks)
    sensitive = {b.feature for b in facts.blocks if b.role is ColumnRole.SENSITIVE}
    share = sum(variance[name] for name in sensitive) / sum(variance.values())
    near = _releases_reference(facts)
    return (BIAS_CONSTANT if near else FAR_BIAS_CONSTANT) * math.pow(share, 1.5)


def _releases_reference(facts: NetworkPlanInputs) -> bool:
    """Return whether the mean of sensitive codes may be released beforehand."""
    return facts.code_scale is not None and facts.rate is None


def _flat(facts: NetworkPlanInputs) -> NetworkLayout:
    return flat_layout(facts.layers).with_clip_norm(facts.clip_norm)


def _nominal_layers(facts: NetworkPlanInputs) -> dict[str, float]:
    """Return the nominal square of the gradient of every layer, by its group."""
    return {f"layer:{layer.name}": _nominal_square(layer) for layer in facts.layers}


def _layered(facts: NetworkPlanInputs) -> NetworkLayout:
    layout = layered_layout(facts.layers)
    first = facts.layers[0]
    inputs = sum(_nominal_variance(facts.blocks).values())
    own = {f"layer:{first.name}": INPUT_SHARE * (1.0 + inputs)}
    return _sharing_norm(layout, facts.clip_norm, _nominal_layers(facts) | own)


def grouped(facts: NetworkPlanInputs, influence: float) -> NetworkLayout:
    """Return groups that share the clipping norm by nominal size of gradients."""
    if facts.towers:
        return _towered(facts, influence)
    layout = grouped_layout(
        facts.layers,
        facts.blocks,
        facts.reference,
        input_layer=facts.input_layer,
        by_feature=facts.by_feature,
    )
    layout = _sharing_norm(layout, facts.clip_norm, _nominal_squares(facts, layout))
    bounded = {
        index
        for index, group in enumerate(layout.groups)
        if group.features and layout.sensitive_features.isdisjoint(group.features)
    }
    return _with_influence(layout, bounded, influence)


def _towered(facts: NetworkPlanInputs, influence: float) -> NetworkLayout:
    """Return layers that share the clipping norm, with bounds on those of towers."""
    layout = tower_layout(facts.layers, facts.blocks, facts.reference, facts.towers)
    layout = _sharing_norm(layout, facts.clip_norm, _nominal_layers(facts))
    bounded = {layout.parameter_groups[name, WEIGHT] for name in layout.towers}
    return _with_influence(layout, bounded, influence)


def _with_influence(
    layout: NetworkLayout, bounded: Container[int], influence: float
) -> NetworkLayout:
    """Return the layout with the influence on some groups bounded, by their norms.

    Unless there is nothing that could have any: a second pass would be the first.
    """
    if not layout.sensitive_features:
        return layout
    groups = tuple(
        replace(group, influence_bound=influence * group.clip_norm)
        if index in bounded
        else group
        for index, group in enumerate(layout.groups)
    )
    return replace(layout, groups=groups)


def _sharing_norm(
    layout: NetworkLayout, clip_norm: float, nominal: Mapping[str, float]
) -> NetworkLayout:
    """Return the layout with norms whose squares share one by nominal squares."""
    total = sum(nominal.values())
    groups = tuple(
        replace(group, clip_norm=clip_norm * math.sqrt(nominal[group.name] / total))
        for group in layout.groups
    )
    return replace(layout, groups=groups)


def _nominal_squares(
    facts: NetworkPlanInputs, layout: NetworkLayout
) -> dict[str, float]:
    """Return the nominal square of the gradient of every group.

    Input columns count by their nominal variance, the first bias as a column of ones,
    other linear layers by half their inputs, everything else as one.
    """
    variance = _nominal_variance(facts.blocks)
    layers = _nominal_layers(facts)
    return {
        group.name: INPUT_SHARE * sum(variance[name] for name in group.features)
        if group.features
        else layers.get(group.name, INPUT_SHARE)
        for group in layout.groups
    }


def _nominal_square(layer: Layer) -> float:
    if isinstance(layer.module, nn.Linear):
        return 1.0 + layer.module.in_features / 2
    return 1.0


def _nominal_variance(blocks: Sequence[Block]) -> dict[str, float]:
    total: dict[str, float] = {}
    for block in blocks:
        own = 1.0 / 3.0 if block.kind is BlockKind.NUMBER else 2.0 / 3.0
        total[block.feature] = total.get(block.feature, 0.0) + own
    return total


def _deviation(facts: NetworkPlanInputs, layout: NetworkLayout) -> float:
    """Return the noise on one mean gradient, all coordinates, per clipping norm."""
    plan = plan_noise(
        layout.sensitivity_table(facts.classes),
        allowed_epsilon=facts.allowed_epsilon,
        delta=facts.budget.delta,
    )
    return math.sqrt(plan.weighted_variance) / facts.n_rows / facts.clip_norm

"""``corrdp plan``: all noise and its price, before any data is touched."""

import textwrap
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrdp.cli import _options as options
from corrdp.cli._output import JsonOption, show

if TYPE_CHECKING:
    from corrdp.leakage import LeakageTable
    from corrdp.policy import Budget, Policy


# What is to be released.
Planned = StrEnum("Planned", ["MEANS", "LOGISTIC", "LINEAR", "ADDITIVE", "MLP"])


def plan(
    policy: options.PolicyOption,
    rows: Annotated[int, typer.Option(help="Public number of rows.")],
    epsilon: options.EpsilonOption,
    delta: options.DeltaOption,
    model: Annotated[Planned, typer.Option(help="What is released.")] = Planned.MEANS,
    leakage: options.LeakageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the noise of a release and what it proves, without reading data.

    Example: corrdp plan --policy policy.toml --rows 20000 --epsilon 1 --delta 1e-6
    """
    from corrdp.cli._models import Model, estimator_class, read_policy
    from corrdp.policy import Budget

    declared, table = read_policy(policy, leakage)
    budget = Budget(epsilon=epsilon, delta=delta)
    if model is Planned.MEANS:
        document, text = means_plan(declared, budget, rows, table)
    else:
        kind = estimator_class(Model(model.value), declared)
        estimator = kind(declared, epsilon=epsilon, delta=delta, leakage=table)
        planned = network_plan if model is Planned.MLP else training_plan
        document, text = planned(estimator, budget, rows)
        document = {"model": model.value} | document
    show(document, as_json=as_json, text=text)


def means_plan(
    policy: "Policy", budget: "Budget", n_rows: int, leakage: "LeakageTable | None"
) -> tuple[dict[str, Any], str]:
    """Return the plan of column means as a document and in words."""
    from corrdp.mechanisms import plan_means

    if leakage is not None:
        policy = policy.with_leakage(leakage.distances(policy=policy))
    planned = plan_means(policy, budget=budget, n_rows=n_rows)
    groups = planned.noise.table.groups
    reasons = noiseless(policy, {group.name: group.features[0] for group in groups})
    document = planned.to_json()
    document["groups"] = [with_reason(group, reasons) for group in document["groups"]]
    ordinary = (planned.ordinary.noise_scale / n_rows).tolist()
    pairs = zip(planned.mean_noise_scale.tolist(), ordinary, strict=True)
    noise = dict(zip((group.name for group in groups), pairs, strict=True))
    lines = [
        *noise_lines("noise of mean", noise, reasons),
        "",
        f"total variance against ordinary DP: {planned.variance_ratio:.3f}",
        "",
        planned.certificate.to_text(),
    ]
    return document, "\n".join(lines)


def training_plan(
    estimator: Any, budget: "Budget", n_rows: int
) -> tuple[dict[str, Any], str]:
    """Return the plan of a linear or additive model as a document and in words."""
    from corrdp.report import gradient_noise, plan_certificate, plan_verdict

    policy, leakage = estimator.policy, estimator.leakage
    planned, counted = estimator.plan_with_counts(n_rows)
    ordinary = estimator.ordinary_plan(policy, n_rows)
    certificate = plan_certificate(
        policy,
        planned,
        budget=budget,
        leakage=leakage,
        counts=() if counted is None else (counted.component,),
    )
    here, there = gradient_noise(planned), gradient_noise(ordinary)
    noise = {name: (here[name], there[name]) for name in here}
    reasons = noiseless(policy, {f.name: f.name for f in policy.features})
    document = {
        "n_rows": n_rows,
        "n_steps": sum(walk.n_steps for walk in planned.walks),
        "noise": planned.noise,
        "groups": [
            with_reason(
                {"name": name, "noise_scale": own, "ordinary_noise_scale": plain},
                reasons,
            )
            for name, (own, plain) in noise.items()
        ],
        "variance_ratio": (planned.noise_deviation / ordinary.noise_deviation) ** 2,
        "predicted_error": planned.predicted_error,
        "noise_to_signal": planned.noise_to_signal,
        "certificate": certificate.to_dict(),
    }
    verdict = plan_verdict(
        planned, ordinary, epsilon=budget.epsilon, delta=budget.delta
    )
    lines = [
        *textwrap.wrap(verdict, 80),
        "",
        *noise_lines("gradient noise", noise, reasons),
        *joined_lines(document, policy, leakage),
        "",
        planned.to_text(),
        "",
        certificate.to_text(),
    ]
    return document, "\n".join(lines)


def network_plan(
    estimator: Any, budget: "Budget", n_rows: int
) -> tuple[dict[str, Any], str]:
    """Return the plan of a network, or of the line that is trained in its place."""
    policy, leakage = estimator.policy, estimator.leakage
    module = estimator.planned_training(n_rows).module
    planned, certificate = module.plan, module.certificate()
    if estimator.gives_way(planned):
        told = textwrap.wrap(estimator.gives_way_text(planned), 80)
        document, text = training_plan(estimator.linear_model(), budget, n_rows)
        return {"in_place_of": "network"} | document, "\n".join([*told, "", text])
    plain = type(estimator)(
        policy, epsilon=budget.epsilon, delta=budget.delta, method="standard"
    )
    ordinary = plain.planned_training(n_rows).module.plan
    ratio = (planned.deviation / ordinary.deviation) ** 2
    document = {
        "n_rows": n_rows,
        "n_steps": planned.noise.n_steps,
        "noise": planned.method,
        "groups": [
            {"name": name, "step_noise_scale": scale}
            for name, scale in planned.noise.scale_of_group.items()
        ],
        "variance_ratio": ratio,
        "noise_per_clip_norm": planned.deviation,
        "certificate": certificate.to_dict(),
    }
    lines = [
        f"noise of one step, were it the only one: {planned.deviation:.3g} of the "
        "clipping norm",
        f"total variance against ordinary DP: {ratio:.3f}",
        *joined_lines(document, policy, leakage),
        "",
        planned.to_text(),
        "",
        certificate.to_text(),
    ]
    return document, "\n".join(lines)


def joined_lines(
    document: dict[str, Any], policy: "Policy", leakage: "LeakageTable | None"
) -> list[str]:
    """Return which levels count as one, and say so in the document too."""
    joined = {} if leakage is None else leakage.joined_text(policy)
    if joined:
        document["joined"] = dict(joined)
    return [f"joined levels of {name}: {told}" for name, told in joined.items()]


def noiseless(policy: "Policy", features: Mapping[str, str]) -> dict[str, str]:
    """Return why a group needs no noise, for those of its feature that need none."""
    from corrdp.policy import ColumnRole, PolicyEncoder

    n_codes = PolicyEncoder(policy).n_codes
    reasons = {}
    for group, feature in features.items():
        if n_codes.get(feature) == 1:
            reasons[group] = "one value"
        elif policy.feature(feature).role is ColumnRole.PUBLIC:
            reasons[group] = "public"
    return reasons


def with_reason(group: dict[str, Any], reasons: Mapping[str, str]) -> dict[str, Any]:
    """Return a group, and why it has no noise if it has none."""
    reason = reasons.get(group["name"])
    if group["noise_scale"] > 0 or reason is None:
        return group
    return group | {"reason": reason}


def noise_lines(
    title: str, noise: Mapping[str, tuple[float, float]], reasons: Mapping[str, str]
) -> list[str]:
    """Return a table of noise against ordinary DP, one line per column."""
    width = max(12, *map(len, noise))
    lines = [f"{'column':<{width}}  {title:>14}  {'ordinary DP':>11}  {'ratio':>6}"]
    for name, (scale, plain) in noise.items():
        shown = f"{scale:14.3g}  {plain:11.3g}"
        ratio = f"{scale / plain:6.3f}" if plain > 0 else "     -"
        if scale == 0 and name in reasons:
            shown, ratio = f"{'none needed':>14}  {plain:11.3g}", "     -"
            ratio += f"  ({reasons[name]})"
        lines.append(f"{name:<{width}}  {shown}  {ratio}")
    return lines

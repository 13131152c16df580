"""``corrdp plan``: all noise and its price, before any data is touched."""

import textwrap
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrdp.cli._options import (
    DeltaOption,
    EpsilonOption,
    LeakageOption,
    PolicyOption,
)
from corrdp.cli._output import JsonOption, show

if TYPE_CHECKING:
    from corrdp.leakage import LeakageTable
    from corrdp.mechanisms import MeanPlan
    from corrdp.policy import Budget, Policy


class Planned(StrEnum):
    """What is to be released."""

    MEANS = "means"
    LOGISTIC = "logistic"
    LINEAR = "linear"
    ADDITIVE = "additive"


def plan(
    policy: PolicyOption,
    rows: Annotated[int, typer.Option(help="Public number of rows.")],
    epsilon: EpsilonOption,
    delta: DeltaOption,
    model: Annotated[Planned, typer.Option(help="What is released.")] = Planned.MEANS,
    leakage: LeakageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the noise of a release and what it proves, without reading data.

    Example: corrdp plan --policy policy.toml --rows 20000 --epsilon 1 --delta 1e-6
    """
    from corrdp.cli._models import policy_with, read_leakage
    from corrdp.policy import Budget, Policy

    declared = Policy.from_file(policy)
    budget = Budget(epsilon=epsilon, delta=delta)
    table = read_leakage(leakage, declared)
    declared = policy_with(table, declared)
    if model is Planned.MEANS:
        from corrdp.mechanisms import plan_means

        if table is not None:
            declared = declared.with_leakage(table.distances(policy=declared))
        planned = plan_means(declared, budget=budget, n_rows=rows)
        show(planned.to_json(), as_json=as_json, text=plan_text(planned))
        return
    document, text = training_plan(model, declared, budget, rows, table)
    show(document, as_json=as_json, text=text)


def plan_text(planned: "MeanPlan") -> str:
    """Return noise by column against ordinary DP, and the budget by class."""
    groups = planned.noise.table.groups
    ordinary = planned.ordinary.noise_scale / planned.n_rows
    lines = noise_lines(
        "noise of mean",
        {
            group.name: (float(scale), float(plain))
            for group, scale, plain in zip(
                groups, planned.mean_noise_scale, ordinary, strict=True
            )
        },
    )
    lines += [
        "",
        f"total variance against ordinary DP: {planned.variance_ratio:.3f}",
        "",
        planned.certificate.to_text(),
    ]
    return "\n".join(lines)


def training_plan(
    model: Planned,
    policy: "Policy",
    budget: "Budget",
    n_rows: int,
    leakage: "LeakageTable | None",
) -> tuple[dict[str, Any], str]:
    """Return the plan of a training run as a document and in words."""
    from corrdp.certificate import LeakageClaim, certify
    from corrdp.cli._models import Model, estimator_class
    from corrdp.report import gradient_noise, plan_verdict

    kind = estimator_class(Model(model.value), policy)
    options: dict[str, Any] = {"epsilon": budget.epsilon, "delta": budget.delta}
    estimator = kind(policy, leakage=leakage, **options)
    planned = estimator.plan(n_rows)
    ordinary = estimator.ordinary_plan(policy, n_rows)
    certificate = certify(
        policy,
        [
            *(() if leakage is None else leakage.components),
            *planned.components(planned.spending.means_cost),
        ],
        budget=budget,
        leakage=LeakageClaim.declared(policy)
        if leakage is None
        else leakage.claim(policy=policy),
    )
    here, there = gradient_noise(planned), gradient_noise(ordinary)
    noise = {name: (here[name], there[name]) for name in here}
    document = {
        "model": model.value,
        "n_rows": n_rows,
        "n_steps": planned.n_steps,
        "noise": planned.noise,
        "groups": [
            {"name": name, "noise_scale": own, "ordinary_noise_scale": plain}
            for name, (own, plain) in noise.items()
        ],
        "variance_ratio": (planned.noise_deviation / ordinary.noise_deviation) ** 2,
        "predicted_error": planned.predicted_error,
        "noise_to_signal": planned.noise_to_signal,
        "certificate": certificate.to_dict(),
    }
    joined = {} if leakage is None else leakage.joined_text(policy)
    if joined:
        document["joined"] = joined
    verdict = plan_verdict(planned, ordinary, **options)
    lines = [
        *textwrap.wrap(verdict, 80),
        "",
        *noise_lines("gradient noise", noise),
        *(f"joined levels of {name}: {told}" for name, told in joined.items()),
        "",
        planned.to_text(),
        "",
        certificate.to_text(),
    ]
    return document, "\n".join(lines)


def noise_lines(title: str, noise: dict[str, tuple[float, float]]) -> list[str]:
    """Return a table of noise against ordinary DP, one line per column."""
    width = max(12, *map(len, noise))
    lines = [f"{'column':<{width}}  {title:>14}  {'ordinary DP':>11}  {'ratio':>6}"]
    for name, (scale, plain) in noise.items():
        ratio = f"{scale / plain:6.3f}" if plain > 0 else "     -"
        lines.append(f"{name:<{width}}  {scale:14.3g}  {plain:11.3g}  {ratio}")
    return lines

"""``corrdp plan``: all noise and its price, before any data is touched."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corrdp.cli._output import JsonOption, show

if TYPE_CHECKING:
    from corrdp.mechanisms import MeanPlan


class Model(StrEnum):
    """What is to be released."""

    MEANS = "means"


def plan(
    policy: Annotated[Path, typer.Option(help="Policy file (TOML).")],
    rows: Annotated[int, typer.Option(help="Public number of rows.")],
    epsilon: Annotated[float, typer.Option(help="Budget of sensitive features.")],
    delta: Annotated[float, typer.Option(help="Failure probability.")],
    model: Annotated[Model, typer.Option(help="What is released.")] = Model.MEANS,
    as_json: JsonOption = False,
) -> None:
    """Print the noise of a release and what it proves, without reading data."""
    from corrdp.mechanisms import plan_means
    from corrdp.policy import Budget, Policy

    del model  # one choice so far
    planned = plan_means(
        Policy.from_file(policy),
        budget=Budget(epsilon=epsilon, delta=delta),
        n_rows=rows,
    )
    show(planned.to_json(), as_json=as_json, text=plan_text(planned))


def plan_text(planned: "MeanPlan") -> str:
    """Return noise by column against ordinary DP, and the budget by class."""
    groups = planned.noise.table.groups
    ordinary = planned.ordinary.noise_scale / planned.n_rows
    width = max(12, *(len(group.name) for group in groups))
    lines = [
        f"{'column':<{width}}  {'noise of mean':>13}  {'ordinary DP':>11}  {'ratio':>6}"
    ]
    for group, scale, plain in zip(
        groups, planned.mean_noise_scale, ordinary, strict=True
    ):
        ratio = f"{scale / plain:6.3f}" if plain > 0 else "     -"
        lines.append(f"{group.name:<{width}}  {scale:13.3g}  {plain:11.3g}  {ratio}")
    lines += [
        "",
        f"total variance against ordinary DP: {planned.variance_ratio:.3f}",
        "",
        planned.certificate.to_text(),
    ]
    return "\n".join(lines)

"""``corrdp account``: the accountant as a calculator."""

from typing import Annotated

import typer

from corrdp._json import encode_number
from corrdp.cli._output import JsonOption, show

app = typer.Typer(
    no_args_is_help=True, help="Price a mechanism: numbers in, epsilon out."
)

DeltaOption = Annotated[float, typer.Option(help="Failure probability.")]


@app.command()
def gaussian(
    mu: Annotated[float, typer.Option(help="Movement in units of the noise.")],
    delta: DeltaOption,
    as_json: JsonOption = False,
) -> None:
    """Epsilon of a Gaussian mechanism, or of any full-batch training run.

    Example: corrdp account gaussian --mu 0.5 --delta 1e-6
    """
    from corrdp.accounting import gaussian_epsilon

    _show(gaussian_epsilon(mu=mu, delta=delta), as_json)


@app.command()
def sampled(
    rate: Annotated[float, typer.Option(help="Poisson sampling rate.")],
    contribution: Annotated[
        float,
        typer.Option(help="Largest norm of a record's part, in units of the noise."),
    ],
    change: Annotated[
        float,
        typer.Option(help="Largest movement within the class, in units of the noise."),
    ],
    steps: Annotated[int, typer.Option(help="Number of steps.")],
    delta: DeltaOption,
    as_json: JsonOption = False,
) -> None:
    """Epsilon of noisy steps on Poisson samples, replace-one neighbors.

    Example: corrdp account sampled --rate 0.01 --contribution 1 --change 0.1 --steps
    1000 --delta 1e-5
    """
    from corrdp.accounting import sampled_epsilon

    epsilon = sampled_epsilon(
        rate=rate, contribution=contribution, change=change, n_steps=steps, delta=delta
    )
    _show(epsilon, as_json)


def _show(epsilon: float, as_json: bool) -> None:
    document = {"epsilon": encode_number(epsilon)}
    show(document, as_json=as_json, text=f"epsilon {epsilon}")

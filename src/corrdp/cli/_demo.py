"""``corrdp demo``: the built-in hospital example, start to finish."""

import json
from pathlib import Path
from typing import Annotated

import typer

from corrdp.cli._output import write_text

ROWS = 20_000
EPSILON = 0.5
DELTA = 1e-6


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the results.")] = Path(
        "demo-output"
    ),
) -> None:
    """Plan and certify a release of the hospital example, and save both."""
    from corrdp.cli._plan import plan_text
    from corrdp.datasets import hospital_policy_text
    from corrdp.mechanisms import plan_means
    from corrdp.policy import Budget, Policy

    text = hospital_policy_text()
    planned = plan_means(
        Policy.from_toml(text), budget=Budget(epsilon=EPSILON, delta=DELTA), n_rows=ROWS
    )
    planned.certificate.verify()
    write_text(out / "policy.toml", text)
    write_text(out / "plan.json", json.dumps(planned.to_json(), indent=2))
    write_text(out / "certificate.json", planned.certificate.to_json())
    write_text(out / "certificate.txt", planned.certificate.to_text())
    print(plan_text(planned))
    print(f"\nSaved policy, plan and certificate in {out}")

"""``corrdp demo``: the built-in hospital example, from a table to a report."""

import shlex
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any

from corrdp._files import csv_text, write_text
from corrdp.cli._options import ResultsOption
from corrdp.exceptions import CorrDPError

STEPS = (
    "init hospital.csv --target readmitted --sensitive diagnosis,income "
    "--public season --label public --out draft.toml",
    "leakage public.csv --policy policy.toml --source public --out leakage.json",
    "plan --policy policy.toml --rows 20000 --epsilon 0.5 --delta 1e-6 "
    "--model logistic --leakage leakage.json",
    "train hospital.csv --policy policy.toml --epsilon 0.5 --delta 1e-6 "
    "--model logistic --leakage leakage.json --public-test public.csv "
    "--title 'Readmission after a hospital stay' --out model",
    "sweep hospital.csv --policy policy.toml --epsilons 0.05,0.2,1 --seeds 3 --methods "
    "corr,standard --leakage leakage.json --research --out sweep",
    "report model --sweep sweep --out report.html",
)


def demo(
    out: ResultsOption = Path("demo-output"),
) -> None:
    """Run the hospital example: init, leakage, plan, train, sweep, report.

    The private table is invented; a second one plays the public study that tells what
    columns give away. Earlier results of the demo in the directory are replaced.

    Example: corrdp demo --out demo-output
    """
    from corrdp.cli._app import app
    from corrdp.datasets import hospital_columns, hospital_policy_text

    _clear(out, hospital_policy_text())
    # The policy first: a demo that breaks off is known by it when it is run again.
    write_text(out / "policy.toml", hospital_policy_text())
    write_text(out / "hospital.csv", _csv(hospital_columns(random_state=0)))
    write_text(out / "public.csv", _csv(hospital_columns(random_state=1)))
    print(f"# An invented private table, a public one and a policy are in {out}.")
    with chdir(out):
        for line in STEPS:
            print(f"\n$ corrdp {line}\n", flush=True)
            app(shlex.split(line), standalone_mode=False)
    print(f"\nThe report is {out / 'report.html'}: open it in a browser.")


def _clear(out: Path, policy: str) -> None:
    """Remove what an earlier demo wrote, and nothing else.

    A directory is that of a demo if it has its policy. Another one may hold models that
    were paid for, and a policy or a table under the names that the demo uses.
    """
    written = out / "policy.toml"
    is_demo = written.is_file() and written.read_bytes() == policy.encode()
    is_empty = not (any(out.iterdir()) if out.is_dir() else out.exists())
    if not (is_demo or is_empty):
        raise CorrDPError(
            f"{str(out)!r} holds files that are not of the demo. Choose another --out, "
            "so that nothing is lost."
        )
    for name in ("model", "sweep"):
        shutil.rmtree(out / name, ignore_errors=True)
    (out / "draft.toml").unlink(missing_ok=True)


def _csv(columns: dict[str, Any]) -> str:
    rows = zip(*(c.tolist() for c in columns.values()), strict=True)
    return csv_text(list(columns), rows, spreadsheet_safe=False)

"""Type the README for tables never seen: from a table to a verified certificate.

``python benchmarks/new_user_path.py [--tables a,b,c]``. Installs into an environment of
its own as the README says (without the exact versions of the tests), then counts and
times commands, the installation among them; nothing is edited by hand, and roles are
the only thing that a person says. Tables come from CORRDP_DATA_DIR/foreign. Writes
docs/results/new_user.json and its table.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAVED = ROOT / "docs" / "results" / "new_user.json"
PAGE = SAVED.with_suffix(".inc")
MOST_COMMANDS = 7


def install(folder: Path) -> float:
    """Install the package and what the README names; return the seconds."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    started = time.perf_counter()
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", f"{ROOT}[files,report]"]
    subprocess.run(pip, check=True)
    return time.perf_counter() - started


def path_of(
    name: str, command: Path, folder: Path, installed: float
) -> list[tuple[str, float]]:
    """Return every command that a new user types for a table, and its seconds."""
    data = Path(os.environ["CORRDP_DATA_DIR"]) / "foreign"
    policy = json.loads((data / f"{name}.json").read_text())["policy"]
    sensitive = [n for n, f in policy["features"].items() if f["role"] == "sensitive"]
    table, budget = str(data / f"{name}.csv.gz"), ("--delta", "1e-6")
    model = "logistic"
    if policy["label"]["type"] == "number":
        model = "linear"
    known = ("--policy", "policy.toml")
    typed = [
        [
            "init",
            table,
            "--target",
            policy["target"],
            "--label",
            "public",
            "--sensitive",
            ",".join(sensitive),
        ],
        ["confirm", "policy.toml", "--all"],
        ["leakage", table, *known, "--epsilon", "0.3", *budget, "--out", "leak.json"],
        [
            "train",
            table,
            *known,
            "--leakage",
            "leak.json",
            "--epsilon",
            "1",
            *budget,
            "--model",
            model,
            "--out",
            "model",
        ],
        ["certificate", "verify", "model"],
    ]
    done = [("pip install", installed)]
    for words in typed:
        started = time.perf_counter()
        run = [str(command), *words]
        subprocess.run(run, cwd=folder, check=True, capture_output=True)
        done.append((" ".join(["corrdp", words[0]]), time.perf_counter() - started))
    return done


def page(found: dict[str, dict[str, float]]) -> str:
    """Return the table of the documentation."""
    steps = list(next(iter(found.values())))
    lines = [
        f"| table | commands | {' | '.join(steps)} | in all |",
        "|---|---|" + "---|" * (len(steps) + 1),
    ]
    for name, seconds in found.items():
        shown = " | ".join(f"{seconds[step]:.1f} s" for step in steps)
        total = sum(seconds.values())
        lines.append(f"| {name} | {len(seconds)} | {shown} | {total:.0f} s |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Save and print seconds by table; fail if there are too many commands."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", default="compas,german,alcohol")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as environment:
        installed = install(Path(environment))
        command = Path(environment) / "bin" / "corrdp"
        for name in options.tables.split(","):
            with tempfile.TemporaryDirectory() as folder:
                done = path_of(name, command, Path(folder), installed)
            if len(done) > MOST_COMMANDS:
                raise SystemExit(f"{name}: more than {MOST_COMMANDS} commands")
            found[name] = {step: round(seconds, 1) for step, seconds in done}
    SAVED.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")
    print(page(found))


if __name__ == "__main__":
    main()

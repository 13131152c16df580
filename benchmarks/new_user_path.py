"""Type the README for tables never seen: from a table to a verified certificate.

``python benchmarks/new_user_path.py [--tables a,b,c] [--save FILE]``. Counts commands
(the installation is the first) and times them; nothing is edited by hand, and roles are
the only thing that a person says. Tables come from CORRDP_DATA_DIR/foreign.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUN = [sys.executable, "-c", "from corrdp.cli import main; main()"]
MOST_COMMANDS = 7


def path_of(name: str, folder: Path) -> list[tuple[str, float]]:
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
    done = [("pip install 'corrdp[files,report]'", 0.0)]
    for words in typed:
        started = time.perf_counter()
        subprocess.run([*RUN, *words], cwd=folder, check=True, capture_output=True)
        done.append((" ".join(["corrdp", words[0]]), time.perf_counter() - started))
    return done


def main() -> None:
    """Print commands and seconds by table; fail if there are too many commands."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", default="compas,german,alcohol")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    found = {}
    for name in options.tables.split(","):
        with tempfile.TemporaryDirectory() as folder:
            done = path_of(name, Path(folder))
        seconds = sum(spent for _, spent in done)
        found[name] = {"commands": len(done), "seconds": round(seconds, 1)}
        print(f"{name}: {len(done)} commands, {seconds:.1f} s", flush=True)
        if len(done) > MOST_COMMANDS:
            raise SystemExit(f"{name}: more than {MOST_COMMANDS} commands")
    if options.save is not None:
        options.save.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

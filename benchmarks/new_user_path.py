"""Type the README for tables never seen: from a table to a verified certificate.

``python benchmarks/new_user_path.py [--tables a,b,c]``. Takes the commands from the
README's own block: its line for a checkout installs into an environment of its own
(without the exact versions of the tests), the others run with the names of this table
put in. Counts and times them, the installation among them; nothing is edited by hand,
and roles are the only thing that a person says. Tables come from
CORRDP_DATA_DIR/foreign. Writes docs/results/new_user.json and its table.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from saved_tables import markdown_table

ROOT = Path(__file__).parents[1]
SAVED = ROOT / "docs" / "results" / "new_user.json"
PAGE = SAVED.with_suffix(".inc")
MOST_COMMANDS = 7
Took = dict[str, float]


def readme_commands() -> tuple[str, list[str]]:
    """Return the README's installation of a checkout, and its commands in order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.split("## On the command line", 1)[1].split("```sh\n", 1)[1]
    lines = [line for line in block.split("```", 1)[0].splitlines() if line.strip()]
    install = lines[0].split("# in a checkout: ")[1]
    assert install.startswith("pip install ")
    return install, [line.split("  #")[0].strip() for line in lines[1:]]


def typed_for(name: str, data: Path) -> list[list[str]]:
    """Return the README's commands up to the certificate, for this table."""
    policy = json.loads((data / f"{name}.json").read_text())["policy"]
    sensitive = [n for n, f in policy["features"].items() if f["role"] == "sensitive"]
    model = "linear" if policy["label"]["type"] == "number" else "logistic"
    said = {
        "data.csv": str(data / f"{name}.csv.gz"),
        "income": policy["target"],
        "age,marital-status": ",".join(sensitive),
        "logistic": model,
    }
    typed = [
        [said.get(word, word) for word in shlex.split(line)]
        for line in readme_commands()[1]
    ]
    wanted = ("init", "confirm", "leakage", "train", "certificate")
    return [words[1:] for words in typed if words[1] in wanted]


def timed(words: list[str], folder: Path) -> Took:
    """Run a command; return the seconds that passed, and those of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    passed = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(passed, 1), "processor_seconds": round(worked, 1)}


def install(folder: Path) -> Took:
    """Install as the README says; return how long that took."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    words = shlex.split(readme_commands()[0])
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", *words[2:]]
    return timed(pip, ROOT)


def path_of(name: str, command: Path, folder: Path, installed: Took) -> dict[str, Took]:
    """Return every command that a new user types for a table, and how long it took."""
    done = {"pip install": installed}
    for words in typed_for(name, Path(os.environ["CORRDP_DATA_DIR"]) / "foreign"):
        done[f"corrdp {words[0]}"] = timed([str(command), *words], folder)
    return done


def page(found: dict[str, dict[str, Took]]) -> str:
    """Return the table of the documentation."""
    steps = list(next(iter(found.values())))
    rows = []
    for name, took in found.items():
        total = {key: sum(took[step][key] for step in steps) for key in took[steps[0]]}
        shown = [
            f"{one['seconds']:.0f} ({one['processor_seconds']:.0f})"
            for one in (*(took[step] for step in steps), total)
        ]
        rows.append([name, str(len(took)), *shown])
    return markdown_table(["table", "commands", *steps, "in all"], rows)


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
            found[name] = done
    SAVED.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")
    print(page(found))


if __name__ == "__main__":
    main()

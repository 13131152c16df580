"""Write docs/tutorial.md: run the commands in tutorial.md.in and keep what they print.

    python docs/tools/write_tutorial.py [path of the corrdp command]

The table is read from CORRDP_DATA_DIR, or from ../shared/data beside the repository.
Noise is drawn anew each time, so numbers differ a little from run to run.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
SOURCE = Path(__file__).with_name("tutorial.md.in")
COMMAND_LINE = re.compile(r"^\$ corrdp (.*)$", re.MULTILINE)
LONGEST_OUTPUT = 34
WIDEST_OUTPUT = 110


def tutorial(command: str) -> str:
    """Run all commands in a folder that holds the table alone; return the page."""
    data = Path(os.environ.get("CORRDP_DATA_DIR", ROOT.parent / "shared" / "data"))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(data / "adult.csv.gz", folder)
        return COMMAND_LINE.sub(
            lambda line: (
                f"{line[0]}\n{output([command, *shlex.split(line[1])], folder)}"
            ),
            SOURCE.read_text(encoding="utf-8"),
        )


def output(words: list[str], folder: str) -> str:
    """Return the beginning of what a command prints."""
    result = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=True
    )
    lines = result.stdout.rstrip().splitlines()
    if len(lines) > LONGEST_OUTPUT:
        lines = [*lines[:LONGEST_OUTPUT], "[...]", lines[-1]]
    return "\n".join(
        line if len(line) <= WIDEST_OUTPUT else f"{line[:WIDEST_OUTPUT]} [...]"
        for line in lines
    )


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "corrdp"
    PAGE.write_text(tutorial(chosen), encoding="utf-8")

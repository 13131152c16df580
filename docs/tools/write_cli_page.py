"""Write docs/cli.md from the help of the commands."""

import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "cli.md"
COMMAND = ["-m", "typer", "corrdp.cli._app", "utils", "docs", "--name", "corrdp"]


def cli_page() -> str:
    """Return the help of every command as Markdown."""
    result = subprocess.run(
        [sys.executable, *COMMAND], capture_output=True, text=True, check=True
    )
    body = result.stdout.replace("# `corrdp`", "# Command line", 1).rstrip()
    return body + "\n"


if __name__ == "__main__":
    PAGE.write_text(cli_page(), encoding="utf-8")

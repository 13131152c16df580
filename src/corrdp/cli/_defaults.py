"""Defaults of options from ``corrdp.toml`` in the current directory.

One table per command, keys as the options are typed: ``[train]`` with ``epsilon = 1``.
What is typed wins. A message on stderr names what was taken from the file, so that no
run depends on it unseen.
"""

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corrdp._suggestions import did_you_mean
from corrdp.exceptions import CorrDPError

DEFAULTS_FILE = Path("corrdp.toml")
MUST_BE_TYPED = frozenset({"accept-new-data", "all", "help", "research", "seed"})
"""Whoever takes a responsibility, or gives up the promise, does so in that run."""


def option_defaults(group: Any, chosen: str | None) -> dict[str, dict[str, Any]]:
    """Return the defaults of every command by parameter, as click takes them.

    Parameters
    ----------
    group : click group
        The command tree.
    chosen : str or None
        The command that runs: what it takes from the file is told.
    """
    if not DEFAULTS_FILE.is_file():
        return {}
    try:
        document = tomllib.loads(DEFAULTS_FILE.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CorrDPError(
            f"cannot read {str(DEFAULTS_FILE)!r} ({type(error).__name__}: {error}). "
            "Correct it, or move it away."
        ) from None
    found = {
        name: _of_command(name, table, group.commands)
        for name, table in document.items()
    }
    if chosen is not None and found.get(chosen):
        told = ", ".join(f"--{option}" for option in document[chosen])
        print(f"corrdp: from {DEFAULTS_FILE}: {told}", file=sys.stderr)
    return found


def _of_command(name: str, table: Any, commands: Mapping[str, Any]) -> dict[str, Any]:
    if name not in commands or hasattr(commands[name], "commands"):
        raise CorrDPError(
            f"{str(DEFAULTS_FILE)!r} has a table [{name}], which is not a command."
            f"{did_you_mean(name, list(commands))} Remove it."
        )
    if not isinstance(table, dict):
        raise CorrDPError(
            f"{name} in {str(DEFAULTS_FILE)!r} must be a table of options, such as "
            f"[{name}] with epsilon = 1."
        )
    options = {
        option.removeprefix("--"): parameter.name
        for parameter in commands[name].params
        for option in parameter.opts
        if option.startswith("--")
    }
    for key in table:
        if key in MUST_BE_TYPED:
            raise CorrDPError(
                f"{str(DEFAULTS_FILE)!r} sets {key!r} for {name}, which has to be "
                "typed in the run that it is for. Remove it from the file."
            )
        if key not in options:
            raise CorrDPError(
                f"{str(DEFAULTS_FILE)!r} sets {key!r} for {name}, which has no option "
                f"--{key}.{did_you_mean(key, list(options))} Correct it."
            )
    return {options[key]: value for key, value in table.items()}

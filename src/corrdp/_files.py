"""Files as corrdp writes them: whole or not at all, private where they hold rows.

A file with something read from private rows, unpaid for (a draft, predictions), is
for its owner alone. All others get the permissions that the user's umask gives.
"""

import csv
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from corrdp.exceptions import CorrDPError

PRIVATE_MODE = 0o600
"""Permissions of files that only their owner may read."""

_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Write a file in one move, so that an interrupted run leaves none half-written.

    Only the owner may read what is `private`, whatever the umask, and whoever could
    read a file that it replaces. Otherwise a file that is replaced keeps its
    permissions. A device or a pipe is refused.
    """
    _refuse_special(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        name = path.parent / f".{path.name}.{secrets.token_hex(8)}"
        # Created with its final permissions: there is no moment at which others may
        # open it, and the kernel applies the umask.
        mode = PRIVATE_MODE if private else 0o666
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            if not private and path.is_file():
                os.chmod(name, path.stat().st_mode & 0o777)
            os.replace(name, path)
        except BaseException:
            name.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cannot_write(path, error) from None


def _refuse_special(path: Path) -> None:
    """Raise if a path names no ordinary file.

    The file that is written takes its name: run by root, ``--out /dev/null`` would
    leave an ordinary file in the place of the device, for all programs.
    """
    is_stream = path.is_symlink() and os.readlink(path).startswith("/proc/")
    is_special = path.exists() and not (path.is_file() or path.is_dir())
    if is_stream or is_special:
        raise CorrDPError(
            f"{str(path)!r} is a device or a pipe, which a file would replace. Choose "
            "another --out."
        )


def require_room(path: Path) -> None:
    """Raise, before anything is paid for, if a result could not be kept at a path.

    What was paid for must neither replace what was paid for before, nor be lost
    because its directory turns out not to take it.
    """
    if path.exists():
        raise CorrDPError(
            f"there is a file {str(path)!r} already, which may have cost budget. "
            "Choose another --out."
        )
    made = [folder for folder in path.parents if not folder.exists()]
    trial = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    write_text(trial, "")
    trial.unlink()
    for folder in made:  # what is refused later leaves nothing behind
        folder.rmdir()


def cannot_write(path: Path, error: OSError) -> CorrDPError:
    """Return what is raised where a file cannot be written."""
    return CorrDPError(
        f"cannot write {str(path)!r} ({error.strerror}). Choose another --out."
    )


def csv_text(
    names: Sequence[str], rows: Iterable[Sequence[Any]], *, spreadsheet_safe: bool
) -> str:
    """Return lines of comma-separated values, the one form of all CSV files here.

    If it is to be `spreadsheet_safe`, texts that a spreadsheet would run as formulas
    get an apostrophe in front; otherwise they are refused.
    """
    guarded = _quoted if spreadsheet_safe else _refused
    lines: list[str] = []
    # A carriage return is quoted only if it ends lines: unquoted, it would begin a
    # new line, and a text behind it would be a cell of its own.
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n")
    writer.writerow([guarded(name) for name in names])
    writer.writerows([guarded(value) for value in row] for row in rows)
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines)


def is_formula(value: Any) -> bool:
    """Return whether a spreadsheet would run a text instead of showing it.

    What begins with ``=``, ``+``, ``-`` or ``@``, or with a tab or carriage return,
    unless it is a plain number such as ``-1``.
    """
    return (
        isinstance(value, str)
        and _FORMULA.match(value) is not None
        and _NUMBER.fullmatch(value) is None
    )


def _quoted(value: Any) -> Any:
    return f"'{value}" if is_formula(value) else value


def _refused(value: Any) -> Any:
    if is_formula(value):  # the value may come from rows, so it is not shown
        raise CorrDPError(
            "a text begins like a formula, which a spreadsheet would run. Pass "
            "--spreadsheet-safe to write it with an apostrophe in front."
        )
    return value

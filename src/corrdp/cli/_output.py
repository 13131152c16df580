"""Printing and saving: JSON alone on standard output, files whole or not at all."""

import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from corrdp._json import encode_number
from corrdp.exceptions import CorrDPError

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else.")
]


def show(document: dict[str, Any], *, as_json: bool, text: str) -> None:
    """Print the document as JSON, or the text."""
    print(json.dumps(document, indent=2, allow_nan=False) if as_json else text)


def show_epsilon(epsilon: float, *, as_json: bool) -> None:
    """Print one epsilon."""
    show(
        {"epsilon": encode_number(epsilon)}, as_json=as_json, text=f"epsilon {epsilon}"
    )


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on standard error that work goes on, if a person is watching."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(what, total=None)
        yield


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error, moved by calls with the numbers done and in all."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def write_text(path: Path, text: str) -> None:
    """Write a file in one move, so that an interrupted run leaves none half-written."""
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


@contextmanager
def results(directory: Path) -> Iterator[Path]:
    """Yield a hidden directory; what is in it moves to `directory` at the end.

    An error or an interruption before the end leaves nothing behind.
    """
    staging = directory / f".unfinished-{secrets.token_hex(8)}"
    try:
        with _explained(directory):
            directory.mkdir(parents=True, exist_ok=True)
            staging.mkdir(mode=0o700)
        yield staging
        with _explained(directory):
            for path in sorted(staging.iterdir()):
                os.replace(path, directory / path.name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        with suppress(OSError):
            directory.rmdir()  # only if it is empty: nothing was finished


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CorrDPError(
            f"cannot write {str(path)!r} ({error.strerror}). Choose another --out."
        ) from None

"""Printing and saving: JSON alone on standard output, files whole or not at all."""

import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from corrdp._files import PRIVATE_MODE, cannot_write, is_formula, write_text
from corrdp._json import parse_json
from corrdp.exceptions import CorrDPError

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else.")
]

_OTHER_FORMATS = frozenset(
    {".arrow", ".db", ".feather", ".gz", ".ipc", ".json", ".jsonl", ".parquet"}
    | {".sqlite", ".tsv", ".xlsx"}
)


def json_text(document: dict[str, Any]) -> str:
    """Return a document as people and programs read it; infinity is no JSON."""
    return json.dumps(document, indent=2, allow_nan=False)


def show(document: dict[str, Any], *, as_json: bool, text: str) -> None:
    """Print the document as JSON, or the text."""
    try:
        print(json_text(document) if as_json else text, flush=True)
    except BrokenPipeError:  # whoever read has seen enough: the command goes on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise CorrDPError(
            f"cannot write to standard output ({type(error).__name__}). What was "
            "charged stays charged: send the output to a place with room."
        ) from None


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on standard error that work goes on and how many rows were read.

    Only if a person is watching.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    from corrdp.tables import watching_rows

    # No clock: how long a run takes may depend on the rows.
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def tell(n_rows: int) -> None:
            progress.update(task, description=f"{what}, {n_rows:,} rows read")

        with watching_rows(tell):
            yield


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error, moved by calls with the numbers done and in all.

    Percentage, rate and time left are shown: only work whose duration is no secret
    (no private rows, or research) may be counted.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None, rate="")

        def tell(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)
            speed = progress.tasks[task].speed
            progress.update(task, rate=rate_words(speed))

        yield tell


def rate_words(per_second: float | None) -> str:
    """Return a rate as people read it: by the second, or by the minute if slow."""
    if not per_second:
        return ""
    if per_second >= 100.0:
        return f"{per_second:,.0f}/s"
    if per_second >= 1.0:
        return f"{per_second:.3g}/s"
    return f"{60.0 * per_second:.3g}/min"


def keep_and_show(
    out: Path | None,
    document: dict[str, Any],
    *,
    as_json: bool,
    text: str,
    page: Callable[[], str] | None = None,
    private: bool = False,
) -> None:
    """Write a document, or its page, if a file was named; print it in any case.

    It may be paid for: a disk that is full by now must not take it away.
    """
    try:
        if out is not None:
            content = json_text(document) if page is None else page()
            write_text(out, content, private=private)
    finally:
        show(document, as_json=as_json, text=text)


def check_out(out: Path, *read: str | Path | None) -> None:
    """Raise if a file would replace what the command reads.

    Of what is read, patterns and tables of databases are no file.
    """
    for path in (Path(name) for name in read if name is not None):
        if out.exists() and path.exists() and out.samefile(path):
            raise CorrDPError(
                f"--out {str(out)!r} is what the command reads. Choose another --out."
            )


def require_csv_name(out: Path) -> None:
    """Raise if the name of a file of rows says that it is of another format."""
    if out.suffix.lower() in _OTHER_FORMATS or out.name == "-":
        raise CorrDPError(
            f"rows are written as CSV, got --out {str(out)!r}. Choose a name that ends "
            "in .csv."
        )


def refuse_other_kind(out: Path, is_same: Callable[[str], bool]) -> None:
    """Raise if a file would be replaced that is not of the kind that is written.

    A ledger, a policy, a table of rows or what was paid for would be gone with it. Its
    name tells nothing of that: what it holds does. An empty file is of every kind.
    """
    if not out.is_file() or out.stat().st_size == 0:
        return
    try:
        if is_same(out.read_text(encoding="utf-8")):
            return
    except (OSError, ValueError):  # no text
        pass
    raise CorrDPError(
        f"there is a file {str(out)!r} already, of another kind than what is written. "
        "Choose another --out, so that nothing is lost."
    )


def has_schema(text: str, *beginnings: str) -> bool:
    """Return whether a text is a JSON object with a schema that begins like this."""
    try:
        document = parse_json(text, "result")
    except CorrDPError:
        return False
    schema = document.get("schema") if isinstance(document, dict) else None
    return isinstance(schema, str) and schema.startswith(beginnings)


def refuse_formulas(texts: Iterable[Any], what: str) -> None:
    """Raise for texts that a spreadsheet would run.

    Declared ones alone, so that a refusal tells nothing of rows.
    """
    unsafe = [text for text in texts if is_formula(text)]
    if unsafe:
        raise CorrDPError(
            f"{len(unsafe)} declared {what} begin like a formula ({unsafe[0]!r}), "
            "which a spreadsheet would run. Pass --spreadsheet-safe to write them with "
            f"an apostrophe in front, or declare other {what}."
        )


@contextmanager
def results(directory: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a hidden directory; what is in it moves to `directory` at the end.

    An error or an interruption before the end leaves nothing behind. If `private`, only
    the owner may read what is written.
    """
    # Inside of it: on the same disk a move is one step, and needs no room.
    staging = directory / f".unfinished-{secrets.token_hex(8)}"
    try:
        with _explained(directory):
            directory.mkdir(parents=True, exist_ok=True)
            staging.mkdir(mode=0o700)
        yield staging
        with _explained(directory):
            for path in sorted(staging.iterdir()):
                if private:
                    path.chmod(PRIVATE_MODE)
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
        raise cannot_write(path, error) from None

"""Printing and saving: JSON alone on standard output, files whole or not at all."""

import json
import os
import tempfile
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


def write_text(path: Path, text: str) -> None:
    """Write a file in one move, so that an interrupted run leaves none half-written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except OSError as error:
        raise CorrDPError(
            f"cannot write {str(path)!r} ({error.strerror}). Choose another --out."
        ) from None

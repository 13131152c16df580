"""JSON that is canonical, that can hold an infinite epsilon, and that is mistrusted.

A file may be cut, edited or something else altogether. Whoever reads one parses it
with `parse_json` or `read_json`, checks its fields with `check_shape`, and builds
objects inside `decoding`: every fault is then a `CorrDPError` that says what to do.
"""

import hashlib
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corrdp.exceptions import CorrDPError


def encode_number(value: float) -> float | str:
    """Return a JSON value for a float that may be infinite."""
    return "inf" if math.isinf(value) and value > 0 else float(value)


def decode_number(value: float | str) -> float:
    """Read what `encode_number` wrote."""
    return math.inf if value == "inf" else float(value)


def canonical_text(document: Any) -> str:
    """Return the one text that equal documents share: sorted keys, no blanks."""
    return json.dumps(
        document,
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
        ensure_ascii=False,
    )


def digest(document: Any) -> str:
    """Return the SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical_text(document).encode()).hexdigest()


class Infinite:
    """In a shape: a number, or the word that `encode_number` writes for infinity."""


def parse_json(text: str, what: str) -> Any:
    """Return the document of a JSON text, or raise `CorrDPError`."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        reason = "it is nested too deeply"
    except json.JSONDecodeError as error:
        reason = f"line {error.lineno}, column {error.colno}"
    except ValueError:  # a number with too many digits, NaN
        reason = "a number cannot be read"
    raise CorrDPError(
        f"the {what} is not JSON ({reason}). Pass a file that corrdp wrote."
    )


def read_json(path: Path, what: str, written_by: str) -> Any:
    """Return the document of a JSON file, or raise `CorrDPError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CorrDPError(
            f"cannot read the {what} {str(path)!r} ({type(error).__name__}). Pass what "
            f"{written_by} wrote."
        ) from None
    return parse_json(text, f"{what} {str(path)!r}")


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Turn whatever a decoder stumbles over into one clear error.

    Only for code that turns a document into objects: what goes wrong there is wrong
    with the document.
    """
    try:
        yield
    except CorrDPError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise CorrDPError(
            f"the {what} is damaged: a field is missing or is not what was written "
            f"({type(error).__name__}). Ask for the original, or write it again."
        ) from None


def check_shape(document: Any, shape: Any, what: str) -> None:
    """Raise `CorrDPError` unless a document has the fields and types of a shape.

    Parameters
    ----------
    document : JSON value
        From a file that may be damaged.
    shape : shape
        ``str``, ``bool``, ``int``, ``float`` (any finite number) or `Infinite`; a
        frozenset of words; a tuple of alternatives, None among them for null;
        ``[shape]`` for a list; ``{...: shape}`` for an object with any names;
        ``{"name": shape}`` for an object that has at least these.
    what : str
        What it is, in words; parts of it are named behind a dot.
    """
    if isinstance(shape, tuple):
        if not any(_fits(document, part) for part in shape):
            raise _wrong(document, what)
    elif isinstance(shape, list):
        if not isinstance(document, list):
            raise _wrong(document, what)
        for index, value in enumerate(document):
            check_shape(value, shape[0], f"{what}[{index}]")
    elif isinstance(shape, dict):
        if not isinstance(document, dict):
            raise _wrong(document, what)
        inner = dict.fromkeys(document, shape[...]) if ... in shape else shape
        for name, part in inner.items():
            if name not in document:
                raise CorrDPError(
                    f"the {what} is damaged: it has no {name!r}. Ask for the original, "
                    "or write it again."
                )
            check_shape(document[name], part, f"{what}.{name}")
    elif not _is(document, shape):
        raise _wrong(document, what)


def _fits(document: Any, shape: Any) -> bool:
    try:
        check_shape(document, shape, "")
    except CorrDPError:
        return False
    return True


def _is(value: Any, kind: Any) -> bool:
    if kind is None:
        return value is None
    if isinstance(kind, frozenset):
        return isinstance(value, str) and value in kind
    if kind is Infinite:
        return value == "inf" or _is(value, float)
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return isinstance(value, kind)


def _wrong(value: Any, what: str) -> CorrDPError:
    return CorrDPError(
        f"the {what} is damaged: it is {type(value).__name__}, which does not belong "
        "there. Ask for the original, or write it again."
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)

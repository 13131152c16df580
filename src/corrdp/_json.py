"""JSON that is canonical, and that can hold an infinite epsilon."""

import hashlib
import json
import math
from typing import Any


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

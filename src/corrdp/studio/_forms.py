"""What the forms of the studio send, and how a person's text becomes a value."""

from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from corrdp.exceptions import CorrDPError

LARGEST_FORM = 4_000_000
Form = dict[str, str]


async def read_form(request: Request) -> Form | None:
    """Return the fields of an ordinary form of reasonable size, or None."""
    kind = request.headers.get("content-type", "").split(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        return None
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_FORM:
            return None
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def number(name: str, form: Form, what: str = "") -> float:
    """Return a number of the form; `what` names it to a person."""
    try:
        return float(form.get(name, ""))
    except ValueError:
        raise CorrDPError(
            f"{what or name} must be a number. Write for example 0.5."
        ) from None


def shown(value: Any) -> str:
    """Return bounds or categories as a person edits them: one per line."""
    return "\n".join(str(entry) for entry in value)


def _lines(text: str) -> list[str]:
    """Return lines as they mean the same to people: browsers send other line ends."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def edited(field: dict[str, Any], text: str) -> list[Any] | None:
    """Return the value that a person wrote for a field, or None if it was left."""
    entries = _lines(text)
    if entries == _lines(shown(field["value"])):
        return None
    if field["key"] == "type":
        raise CorrDPError(
            f"the type of {field['name']!r} cannot be edited here. Go back to the "
            "columns, or edit policy.toml afterwards."
        )
    if field["key"] == "categories":
        return _categories(field["value"], text)
    try:
        return [float(entry) for entry in entries]
    except ValueError:
        raise CorrDPError(
            f"the bounds of {field['name']!r} must be two numbers, one per line."
        ) from None


def _categories(drafted: list[Any], text: str) -> list[Any]:
    """Return the edited list; what was not edited stays what it was.

    The number 0 is no text "0", and blanks around a value are a part of it.
    """
    exact = {str(value): value for value in drafted}
    loose = {str(value).strip(): value for value in drafted}
    of_integers = all(isinstance(value, int) for value in drafted)
    found: list[Any] = []
    for line in text.splitlines():
        entry = line.strip()
        if line in exact or entry in loose:
            found.append(exact.get(line, loose.get(entry)))
        elif entry:
            new_number = of_integers and entry.removeprefix("-").isdecimal()
            found.append(int(entry) if new_number else entry)
    return found

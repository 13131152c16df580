"""Small tables for notebooks: escaped text and nothing that runs."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_CELL = "text-align:left;padding:2px 10px 2px 0;vertical-align:top"
MOST_ROWS = 30


def html_card(
    title: str,
    notes: Iterable[str],
    headers: Sequence[str] = (),
    rows: Iterable[Sequence[Any]] = (),
) -> str:
    """Return a heading, notes of a line each, and at most `MOST_ROWS` rows as HTML.

    Without headers there is no table. Numbers have four digits, None is a dash.
    """
    parts = [f"<strong>{escape(title)}</strong>"]
    parts += [f"<div>{escape(note)}</div>" for note in notes]
    if headers:
        cells = list(rows)
        head = "".join(
            f'<th scope="col" style="{_CELL}">{escape(h)}</th>' for h in headers
        )
        body = "".join(
            "<tr>"
            + "".join(f'<td style="{_CELL}">{escape(_shown(c))}</td>' for c in row)
            + "</tr>"
            for row in cells[:MOST_ROWS]
        )
        parts.append(
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
        if len(cells) > MOST_ROWS:
            parts.append(f"<div>and {len(cells) - MOST_ROWS} more</div>")
    return f'<div class="corrdp">{"".join(parts)}</div>'


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)

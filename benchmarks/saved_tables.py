"""Tables of the documentation, and where they and their figures are saved.

Every benchmark keeps its figures in ``docs/results/<name>.json`` and the table that a
page includes in ``docs/results/<name>.inc``.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown, one line per row."""
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def read_figures(name: str) -> Any:
    """Return the figures that a benchmark has saved."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def save_figures(name: str, figures: Any) -> None:
    """Save the figures of a benchmark."""
    text = json.dumps(figures, indent=1) + "\n"
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")


def save_table(name: str, text: str) -> None:
    """Save the table that a page includes."""
    (RESULTS / f"{name}.inc").write_text(text, encoding="utf-8")

"""Tables of the documentation, and where they and their figures are saved.

Every benchmark keeps its figures in ``docs/results/<name>.json`` and the table that a
page includes in ``docs/results/<name>.inc``.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
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


def measure_tables(
    name: str,
    measure: Callable[[str, Sequence[float], Sequence[int]], Any],
    page: Callable[[dict[str, Any]], str],
    *,
    tables: Sequence[str],
    epsilons: Sequence[float],
    n_seeds: int,
) -> dict[str, Any]:
    """Measure the tables of a command line, save after each, and write the page.

    Parameters
    ----------
    name : str
        Of the benchmark.
    measure : callable
        From a table's name, epsilons and seeds to its figures.
    page : callable
        From all figures by table to the text that a page includes.
    tables, epsilons, n_seeds
        What is measured by default; ``--render`` measures nothing.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", nargs="*", default=tables)
    parser.add_argument("--epsilons", nargs="*", type=float, default=epsilons)
    parser.add_argument("--seeds", type=int, default=n_seeds)
    parser.add_argument("--render", action="store_true")
    chosen = parser.parse_args()
    saved = read_figures(name) if (RESULTS / f"{name}.json").is_file() else {}
    warnings.simplefilter("ignore")  # little signal at small epsilon
    for table in () if chosen.render else chosen.tables:
        saved[table] = measure(table, chosen.epsilons, range(chosen.seeds))
        print(page({table: saved[table]}), flush=True)
        save_figures(name, saved)
    save_table(name, page(saved))
    return saved

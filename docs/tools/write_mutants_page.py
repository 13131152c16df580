"""Write docs/mutants.md from the saved run of planted bugs.

``make mutants`` saves the run; ``python docs/tools/write_mutants_page.py`` writes the
page.
"""

import json
from itertools import groupby
from pathlib import Path

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "mutants.md"
SAVED = DOCS / "results" / "mutants.json"
INTRODUCTION = """# Planted bugs

A test that cannot fail shows nothing. Each line below is an edit of the library that
breaks a claim; `make mutants` makes the edit in a copy of the source, runs the tests
that must notice, and demands that one of them fails which passes without the edit. The
edits stand in `tests/mutants/planted/`. Bugs that the audit must find by attack are on
{doc}`audit`.

"""


def mutants_page(rows: list[dict[str, str]]) -> str:
    """Return the page of a saved run."""
    killed = sum(row["verdict"] == "killed" for row in rows)
    said = (
        f"In saved runs {killed} of {len(rows)} were killed; bugs that are planted and "
    )
    parts = [INTRODUCTION, said + "not listed have not been in one yet.\n"]
    for area, group in groupby(rows, key=lambda row: row["area"]):
        parts.append(f"\n## {area.capitalize()}\n\n")
        parts.append("| bug | what it breaks | file | verdict | test |\n")
        parts.append("|---|---|---|---|---|\n")
        parts += [_line(row) for row in group]
    return "".join(parts)


def _line(row: dict[str, str]) -> str:
    file = row["file"].removeprefix("src/corrdp/")
    test = row["by"]
    if row["verdict"] == "killed":
        test = f"`{test.split(' (')[0].split('::', 1)[-1]}`"
    cells = (row["name"], row["breaks"], f"`{file}`", row["verdict"], test)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def main() -> None:
    rows = json.loads(SAVED.read_text(encoding="utf-8"))
    PAGE.write_text(mutants_page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()

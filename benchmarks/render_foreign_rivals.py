"""Tables of rivals and of plans picked on the answer, for ``docs/defaults.md``."""

from typing import Any

from render_foreign import BINARY, NUMBER, cells
from saved_tables import markdown_table, read_figures, save_table

NAME = "foreign_rivals"
LIMITS = "foreign_limits"
OURS, THEIRS = ("corr", "standard"), ("opacus", "dp_ebm", "adassp")


def page(now: dict[str, Any], rivals: dict[str, Any], limits: dict[str, Any]) -> str:
    """Return both tables as Markdown."""
    header = ["table", "epsilon"]
    header += [f"{method}, excess" for method in ("corr", "standard", *THEIRS)]
    header += ["test score: corr", "standard", "opacus", "dp_ebm"]
    rows = []
    for name in (*BINARY, *NUMBER):
        if name not in rivals:
            continue
        scored = "r_squared" if name in NUMBER else "auc"
        both = {"rows": [*now[name]["rows"], *rivals[name]]}
        excess = cells(both)
        having = {"rows": [row for row in both["rows"] if scored in row]}
        score = cells(having, scored)
        for epsilon in sorted({row["epsilon"] for row in rivals[name]}):
            row = [name, f"{epsilon:g}"]
            for found, methods, digits in (
                (excess, (*OURS, *THEIRS), ".3g"),
                (score, (*OURS, "opacus", "dp_ebm"), ".3f"),
            ):
                row += [
                    f"{found[method, epsilon][0]:{digits}}"
                    if (method, epsilon) in found
                    else ""
                    for method in methods
                ]
            rows.append(row)
    lines = ["### Rivals", "", markdown_table(header, rows)]
    header = ["table", "epsilon", "corr", "best corr", "standard", "best standard"]
    header += ["public rows alone"]
    rows = []
    for name in BINARY:
        for cell in limits.get(name, {"cells": ()})["cells"]:
            shown = [
                f"{cell[method][key]:.3g}"
                for method in OURS
                for key in ("rule", "excess")
            ]
            public = f"{limits[name]['public_only']['excess']:.3g}"
            rows.append([name, f"{cell['epsilon']:g}", *shown, public])
    lines += ["### Plans picked on the answer", "", markdown_table(header, rows)]
    header = ["table", "epsilon", "corr", "noise alone, as planned", "at the optimum"]
    rows = [
        [name, f"{cell['epsilon']:g}", f"{cell['corr']['rule']:.3g}"]
        + [f"{cell['noise alone'][where]:.3g}" for where in ("planned", "optimum")]
        for name in BINARY
        for cell in limits.get(name, {"cells": ()})["cells"]
    ]
    lines += ["### What noise alone permits", "", markdown_table(header, rows)]
    return "\n".join(lines)


if __name__ == "__main__":
    figures = [read_figures(name) for name in ("foreign", NAME, LIMITS)]
    save_table(NAME, page(*figures))

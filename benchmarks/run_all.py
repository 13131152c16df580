"""Run every benchmark, save the figures and render the table of the documentation.

``python benchmarks/run_all.py [name ...]`` runs all, or those named; figures of the
others are kept from the saved run. A benchmark without ``run()`` saves a run of its own
and is left out with a line that says so.
"""

import ast
import importlib.util
import json
import platform
import sys
from pathlib import Path

from saved_tables import markdown_table

ROOT = Path(__file__).parents[1]
SAVED = ROOT / "docs" / "results" / "benchmarks.json"
PAGE = ROOT / "docs" / "benchmarks.md"
HEAD = """\
# Benchmarks

## What CorrDP brings at equal epsilon

![Loss to noise of CorrDP relative to ordinary DP, by epsilon](images/bench-models.svg)

Logistic regression on five public tables, public labels, leakage from a fifth of the
rows; the dashed line is ordinary differential privacy with the same tuning effort.
`compas` has rows enough to gain nothing; `student`, at epsilon 0.1, learns nothing
either way. [How it was measured](defaults.md), [when it helps](when.md).

![Error of synthetic tables, by epsilon](images/bench-synthesis.svg)

Synthetic tables: the same code under ordinary differential privacy, leakage declared
0.3. [How it was measured](synthesis.md).

## From an empty environment to a certificate

The commands of the README, typed by `python benchmarks/new_user_path.py` for three
tables that it does not know; roles are all that a person says. Seconds that passed, and
in brackets those of the processor: it ran beside much other work on the same two cores,
so the latter say more. Installing also waits for the network.

```{include} results/new_user.inc
```

## All measurements

Figures are drawn by `python docs/tools/write_benchmark_figures.py`, tables written by
`make bench`, from saved runs on two cores. The machine was shared, so read ratios
before absolute figures.
"""


def main(names: list[str]) -> None:
    saved = json.loads(SAVED.read_text()) if SAVED.is_file() else {}
    for name, path in chosen(names).items():
        if not has_run(path):
            print(f"{name}: left out, it saves a run of its own: python {path.name}")
            continue
        specification = importlib.util.spec_from_file_location(path.stem, path)
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        sys.modules[path.stem] = module
        specification.loader.exec_module(module)
        saved[name] = {"python": platform.python_version(), "rows": module.run()}
        SAVED.write_text(json.dumps(saved, indent=1) + "\n")
    PAGE.write_text(page(saved))


def chosen(names: list[str]) -> dict[str, Path]:
    """Return the benchmarks of these names, or all of them."""
    found = {
        path.stem.removeprefix("bench_"): path
        for path in sorted(Path(__file__).parent.glob("bench_*.py"))
    }
    for name in names:
        if name not in found:
            sys.exit(f"there is no benchmark {name!r}. Known: {', '.join(found)}.")
    return {name: path for name, path in found.items() if not names or name in names}


def has_run(path: Path) -> bool:
    """Return whether a benchmark gives figures, before what it imports is needed."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return any(isinstance(x, ast.FunctionDef) and x.name == "run" for x in body)


def page(saved: dict) -> str:
    lines = [HEAD.rstrip()]
    for name, run in sorted(saved.items(), key=lambda item: title(item[0])):
        rows = [
            [
                row["name"],
                f"{number(row['value'])} {row['unit']}",
                str(row.get("target") or ""),
                row.get("note") or "",
            ]
            for row in run["rows"]
        ]
        table = markdown_table(["what", "measured", "target", "note"], rows)
        lines.append(f"\n### {title(name)}\n\n{table.rstrip()}")
    return "\n".join(lines) + "\n"


def title(name: str) -> str:
    words = {"cli": "command line", "rivals": "other libraries"}.get(name, name)
    return words.replace("_", " ").capitalize()


def number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main(sys.argv[1:])

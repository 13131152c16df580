"""Run every benchmark, save the figures and render the table of the documentation.

``python benchmarks/run_all.py [name ...]`` runs all, or those named; figures of the
others are kept from the saved run.
"""

import importlib.util
import json
import platform
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAVED = ROOT / "docs" / "results" / "benchmarks.json"
PAGE = ROOT / "docs" / "benchmarks.md"


def main(names: list[str]) -> None:
    saved = json.loads(SAVED.read_text()) if SAVED.is_file() else {}
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        name = path.stem.removeprefix("bench_")
        if names and name not in names:
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


def page(saved: dict) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench` from saved runs on two cores; the machine was not",
        "otherwise idle-tuned, so read ratios before absolute figures.",
    ]
    for name, run in sorted(saved.items()):
        lines += [
            "",
            f"## {name.replace('_', ' ')}",
            "",
            "| what | measured | target | note |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {row['name']} | {number(row['value'])} {row['unit']} "
            f"| {row.get('target') or ''} | {row.get('note') or ''} |"
            for row in run["rows"]
        ]
    return "\n".join(lines) + "\n"


def number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Write what `docs/architecture.md` draws and counts from the source and a saved trace.

``python docs/tools/write_architecture.py`` draws the rooms from the imports of the
source (`docs/figures/rooms.svg`) and writes the walks between the marks of the page,
from `docs/results/walks.json`, which ``docs/tools/trace_walks.py`` saves.
"""

import ast
import json
import re
import tomllib
from html import escape
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
HOUSE = DOCS.parent / "src" / "corrdp"
PAGE = DOCS / "architecture.md"
PICTURE = DOCS / "figures" / "rooms.svg"
WALKS = DOCS / "results" / "walks.json"
LINE, TOP, BOX, WIDTH = 34, 16, 116, 900


def rooms() -> list[str]:
    """Return the packages from the top to the ground, as the contract orders them."""
    text = (DOCS.parent / "pyproject.toml").read_text(encoding="utf-8")
    layers = tomllib.loads(text)["tool"]["importlinter"]["contracts"][0]["layers"]
    names = [name.strip() for layer in layers for name in layer.split("|")]
    return [name for name in names if (HOUSE / name).is_dir()]


def entries() -> dict[str, set[str]]:
    """Return which rooms every room imports from."""
    found: dict[str, set[str]] = {name: set() for name in rooms()}
    for room, entered in found.items():
        for path in sorted((HOUSE / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                entered |= _imported(node)
        entered &= found.keys() - {room}
    return found


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.ImportFrom) and node.module == "corrdp":
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        modules = [node.module or ""]
    elif isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    else:
        return set()
    return {m.split(".")[1] for m in modules if m.startswith("corrdp.")}


def direct(found: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the entries that no longer way explains (transitive reduction)."""

    def reached(room: str) -> set[str]:
        beyond = set(found[room])
        for entered in found[room]:
            beyond |= reached(entered)
        return beyond

    return {
        room: {e for e in into if not any(e in reached(o) for o in into - {e})}
        for room, into in found.items()
    }


def about(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    tree = ast.parse((HOUSE / room / "__init__.py").read_text(encoding="utf-8"))
    line = (ast.get_docstring(tree) or "").split("\n")[0].replace("``", "")
    return line.split(": ", 1)[-1].rstrip(".")


def picture() -> str:
    """Return the rooms, one below the other, and who enters whom, as SVG."""
    order, ways = rooms(), direct(entries())
    middle = {name: TOP + LINE * place + 12 for place, name in enumerate(order)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
        f'{TOP + LINE * len(order)}" font-family="sans-serif" font-size="13" '
        'role="img" aria-label="Packages and which others they import">',
        f'<rect width="{WIDTH}" height="{TOP + LINE * len(order)}" fill="#fff"/>',
    ]
    for name in order:
        for other in sorted(ways[name], key=order.index):
            start, end = middle[name], middle[other]
            reach = 200 - 10 * min(19, (end - start) // LINE + 1)
            parts.append(
                f'<path d="M200 {start} C{reach} {start} {reach} {end} 200 {end}" '
                'fill="none" stroke="#8a94a6" stroke-width="1.2"/>'
            )
    for name, y in middle.items():
        parts.append(
            f'<rect x="200" y="{y - 12}" width="{BOX}" height="24" rx="4" '
            'fill="#eef2f8" stroke="#51617d"/>'
            f'<text x="{200 + BOX // 2}" y="{y + 4}" text-anchor="middle" '
            f'fill="#1c2533">{name}</text>'
            f'<text x="{212 + BOX}" y="{y + 4}" fill="#3a4658">'
            f"{escape(about(name))}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])


def walk_table(saved: dict[str, Any]) -> str:
    """Return how many functions and files each walk meets, and what it repeats."""
    lines = [
        "| walk | functions | files | depth | done, how often |",
        "|---|---|---|---|---|",
    ]
    for name, walk in saved.items():
        told = {words: f" ({n} different)" for words, n in walk["distinct"].items()}
        again = ", ".join(
            f"{words} {count}x{told.get(words, '')}"
            for words, count in walk["again"].items()
        )
        lines.append(
            f"| {name} | {walk['functions']} | {len(walk['files'])} | {walk['depth']} "
            f"| {again} |"
        )
    return "\n".join(lines)


def walk_files(saved: dict[str, Any]) -> str:
    """Return the files of every walk in the order in which it meets them."""
    return "\n\n".join(
        f"**{name}.** " + " → ".join(f"`{file}`" for file in walk["files"])
        for name, walk in saved.items()
    )


def architecture_page(page: str, saved: dict[str, Any]) -> str:
    """Return the page with its generated parts written anew."""
    parts = {
        "walks": walk_table(saved),
        "walk files": walk_files(saved),
    }
    for name, text in parts.items():
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        page, count = re.subn(
            pattern, lambda m, text=text: m[1] + text + m[2], page, flags=re.DOTALL
        )
        assert count == 1, f"the page has no mark {name!r}"
    return page


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    saved_walks = json.loads(WALKS.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(architecture_page(text, saved_walks), encoding="utf-8")

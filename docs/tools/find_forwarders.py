"""List functions that only pass their own arguments on: hops that a reader could skip.

``python docs/tools/find_forwarders.py`` prints every function of the source whose body
is one call with its own parameters and nothing else, those in files of the walks of
`docs/results/walks.json` first. Methods are told apart: a class may offer under its own
name what a function does. So are functions that import what they call, which is how
optional packages stay unread.
"""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[1]
HOUSE = DOCS.parent / "src" / "corrdp"


def forwarders(path: Path) -> Iterator[tuple[str, str]]:
    """Yield name and kind (function, method, lazy) of what only forwards in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for owner in (tree, *(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef))):
        for node in owner.body:
            if isinstance(node, ast.FunctionDef) and _only_forwards(node):
                lazy = any(isinstance(s, ast.ImportFrom) for s in node.body)
                inside = isinstance(owner, ast.ClassDef)
                name = f"{owner.name}.{node.name}" if inside else node.name
                yield name, "method" if inside else "lazy" if lazy else "function"


def _only_forwards(node: ast.FunctionDef) -> bool:
    body = [
        s
        for s in node.body
        if not isinstance(s, ast.Import | ast.ImportFrom)
        and not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
    ]
    call = getattr(body[0], "value", None) if len(body) == 1 else None
    if not isinstance(call, ast.Call) or node.decorator_list:
        return False
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    own = [a.arg for a in given if a.arg not in ("self", "cls")]
    passed = [*call.args, *(k.value for k in call.keywords)]
    names = [a.id if isinstance(a, ast.Name) else "" for a in passed]
    return bool(own) and own == [name for name in names if name != "self"]


if __name__ == "__main__":
    walks = json.loads((DOCS / "results" / "walks.json").read_text(encoding="utf-8"))
    met = {file for walk in walks.values() for file in walk["files"]}
    rows = [
        (str(path.relative_to(HOUSE)) not in met, path.relative_to(HOUSE), name, kind)
        for path in sorted(HOUSE.rglob("*.py"))
        for name, kind in forwarders(path)
    ]
    for off, file, name, kind in sorted(rows):
        print("off the walks" if off else "on a walk", file, name, kind)

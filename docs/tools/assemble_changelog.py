"""Join the fragments of changelog.d into CHANGELOG.md, under *Unreleased*.

``python docs/tools/assemble_changelog.py`` prints what the fragments make; ``--write``
adds them to the changelog and removes them.
"""

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = ("privacy", "added", "changed", "fixed")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*\.(" + "|".join(KINDS) + r")\.md")


def read_fragments(folder: Path) -> dict[str, list[str]]:
    """Return the text of all fragments by kind; an odd name or text is refused."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for path in sorted(folder.iterdir()):
        if path.name == "README.md":
            continue
        named = _NAME.fullmatch(path.name)
        if named is None:
            raise ValueError(f"{path.name} is not <slug>.<{'|'.join(KINDS)}>.md")
        text = path.read_text(encoding="utf-8").strip("\n")
        if not all(line.startswith(("- ", "  ")) for line in text.splitlines() if line):
            raise ValueError(f"{path.name} holds something that is not a bullet")
        if not text.startswith("- "):
            raise ValueError(f"{path.name} does not begin with a bullet")
        found[named[1]].append(text)
    return found


def assemble(changelog: str, fragments: dict[str, list[str]]) -> str:
    """Return the changelog with the fragments at the end of their headings."""
    head, mark, rest = changelog.partition("## [Unreleased]\n")
    if not mark:
        raise ValueError("CHANGELOG.md has no heading [Unreleased]")
    cut = re.search(r"^## ", rest, re.MULTILINE)
    end = cut.start() if cut else len(rest)
    older = rest[end:]
    title, *blocks = re.split(r"^### ", rest[:end], flags=re.MULTILINE)
    sections = dict(block.split("\n", 1) for block in blocks)
    sections = {name: text.strip("\n") for name, text in sections.items()}
    for kind, texts in fragments.items():
        if texts:
            before = sections.get(kind.capitalize())
            joined = [before, *texts] if before else texts
            sections[kind.capitalize()] = "\n".join(joined)
    names = [kind.capitalize() for kind in KINDS if kind.capitalize() in sections]
    names += [name for name in sections if name not in names]
    body = "\n\n".join(f"### {name}\n\n{sections[name]}" for name in names)
    parts = [head, mark, title.rstrip("\n") + "\n", body, "\n"]
    return "".join([*parts, "\n" if older else "", older])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="change CHANGELOG.md")
    chosen = parser.parse_args()
    folder, path = ROOT / "changelog.d", ROOT / "CHANGELOG.md"
    text = assemble(path.read_text(encoding="utf-8"), read_fragments(folder))
    if not chosen.write:
        print(text, end="")
        return
    path.write_text(text, encoding="utf-8")
    for fragment in folder.glob("*.*.md"):
        fragment.unlink()


if __name__ == "__main__":
    main()

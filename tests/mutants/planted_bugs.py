"""Planted bugs: what they are, where they are written down, and whether they fit."""

import ast
import hashlib
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANTED = Path("tests/mutants/planted")
_TEXTS = ("name", "breaks", "file", "old", "new")


class PlantedBugError(Exception):
    """A planted bug is not written as it must be, or no longer fits the source."""


@dataclass(frozen=True, kw_only=True)
class PlantedBug:
    """One edit of the source that a named test must notice.

    Attributes
    ----------
    name, area : str
        Unique name, and the file of `planted/` that holds it.
    breaks : str
        The claim that no longer holds once the edit is made.
    file : str
        Path of the source file, relative to the root of the tree.
    old, new : str
        Text that occurs exactly once in the file, and what replaces it.
    tests : tuple of str
        Test files or node ids that must fail.
    quick : bool
        Whether the bug belongs to the fixed set of every integration run.
    """

    name: str
    area: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    quick: bool = False

    def apply(self, root: Path) -> None:
        """Make the edit in a copy of the tree."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        self._check_text(text)
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")

    def check(self, root: Path) -> None:
        """Raise `PlantedBugError` unless the bug fits the tree."""
        path = root / self.file
        if not self.file.startswith("src/") or not path.is_file():
            raise PlantedBugError(f"{self.name}: no source file {self.file!r}")
        self._check_text(path.read_text(encoding="utf-8"))
        if not self.tests:
            raise PlantedBugError(f"{self.name}: names no test that must catch it")
        for test in self.tests:
            if not test_exists(root, test):
                raise PlantedBugError(f"{self.name}: there is no test {test!r}")

    def _check_text(self, text: str) -> None:
        count = text.count(self.old)
        if count != 1:
            raise PlantedBugError(
                f"{self.name}: `old` must occur once in {self.file}, "
                f"found {count} times"
            )
        if self.old == self.new:
            raise PlantedBugError(f"{self.name}: `new` equals `old`")
        if not self.file.endswith(".py"):
            return
        try:
            ast.parse(text.replace(self.old, self.new))
        except SyntaxError as error:
            raise PlantedBugError(
                f"{self.name}: {self.file} would not be Python: {error.msg}"
            ) from None


def load_bugs(root: Path = ROOT) -> tuple[PlantedBug, ...]:
    """Read all planted bugs of a tree, by area, in the order of its file."""
    bugs: list[PlantedBug] = []
    for path in sorted((root / PLANTED).glob("*.toml")):
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        if set(document) != {"bug"}:
            raise PlantedBugError(f"{path.name}: holds {sorted(document)}, not `bug`")
        bugs += [_bug(entry, path.stem) for entry in document["bug"]]
    names = [bug.name for bug in bugs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PlantedBugError(f"names must be unique, these are not: {twice}")
    return tuple(bugs)


def _bug(entry: dict[str, object], area: str) -> PlantedBug:
    name = entry.get("name", "a bug without a name")
    unknown = set(entry) - {*_TEXTS, "tests", "quick"}
    missing = {*_TEXTS, "tests"} - set(entry)
    if unknown or missing:
        raise PlantedBugError(
            f"{area}: {name}: keys {sorted(unknown)} are unknown, "
            f"{sorted(missing)} are missing"
        )
    texts = {}
    for key in _TEXTS:
        text = entry[key]
        if not isinstance(text, str) or not (text or key == "new"):
            raise PlantedBugError(f"{area}: {name}: {key} must be a text")
        texts[key] = text
    tests, quick = entry["tests"], entry.get("quick", False)
    if not isinstance(tests, list) or not isinstance(quick, bool):
        raise PlantedBugError(f"{area}: {name}: tests is a list, quick true or false")
    return PlantedBug(area=area, tests=tuple(tests), quick=quick, **texts)


def test_exists(root: Path, test: str) -> bool:
    """Say whether a file, or a function in it, exists; nothing is imported."""
    file, *names = test.split("[", 1)[0].split("::")
    path = root / file
    if not names:
        return path.exists()
    if not path.is_file():
        return False
    scope: Sequence[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for name in names:
        found = [
            node
            for node in scope
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        ]
        if not found:
            return False
        scope = found[0].body
    return True


test_exists.__test__ = False  # type: ignore[attr-defined]  # a helper, not a test


def tree_hash(root: Path = ROOT) -> str:
    """Return the hash of all source files: equal trees test equal samples."""
    digest = hashlib.sha256()
    for path in sorted((root / "src").rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def sample_bugs(
    bugs: Iterable[PlantedBug], size: int, seed: str
) -> tuple[PlantedBug, ...]:
    """Choose bugs by hash, so that the choice is fixed by the seed alone."""

    def rank(bug: PlantedBug) -> str:
        return hashlib.sha256(f"{seed}\0{bug.name}".encode()).hexdigest()

    return tuple(sorted(bugs, key=rank)[:size])

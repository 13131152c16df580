"""What every file of the package must obey."""

import ast
import importlib
import inspect
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import corrdp

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "corrdp").rglob("*.py"))
PACKAGES = [
    name
    for _, name, is_package in pkgutil.iter_modules(corrdp.__path__, "corrdp.")
    if is_package
]
# Functions and classes whose names say that they add noise, clip, sample or price.
GUARANTEED = re.compile(
    r"noise|clip|epsilon|certif|sensitivity|allocat|mechanism", re.IGNORECASE
)
LONGEST_FILE = 600
SAME_LINES = 6  # of the same logic are too many in two files


def public_definitions(path: Path) -> list[ast.FunctionDef | ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_outgrows_the_limit(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("package", ["corrdp", *PACKAGES])
def test_exports_exist_and_are_documented(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert module.__doc__


def test_theory_notes_that_docstrings_cite_exist():
    cited = set()
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        cited |= set(re.findall(r"docs/theory/\w+\.md", text))
    assert cited
    missing = sorted(note for note in cited if not (ROOT / note).is_file())
    assert missing == []


def test_guarantee_sections_cite_a_theory_note_or_the_paper():
    incomplete = []
    for path in SOURCES:
        for node in public_definitions(path):
            doc = ast.get_docstring(node) or ""
            if "Guarantee\n" not in doc:
                continue
            section = doc.split("Guarantee\n", 1)[1]
            if not re.search(r"docs/theory/|Theorem|asymptotic", section):
                incomplete.append(f"{path.name}:{node.name}")
    assert incomplete == []


@pytest.mark.parametrize(
    "package", ["accounting", "certificate", "mechanisms", "queries", "training"]
)
def test_functions_that_price_or_add_noise_state_their_guarantee(package):
    module = importlib.import_module(f"corrdp.{package}")
    missing = [
        name
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
        and GUARANTEED.search(name)
        and "Guarantee\n" not in (inspect.getdoc(getattr(module, name)) or "")
    ]
    assert missing == []


def test_every_theory_note_is_in_the_documentation():
    index = (ROOT / "docs" / "theory" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^(\w+)$", index, re.MULTILINE))
    notes = {path.stem for path in (ROOT / "docs" / "theory").glob("*.md")} - {"index"}
    assert notes <= listed


@pytest.mark.parametrize("word", ["eps", "tol_eps"])
def test_no_parameter_is_called_eps(word):
    offenders = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.arg) and node.arg == word:
                offenders.append(f"{path.name}:{node.lineno}")
    assert offenders == []


def asks_for_the_class_of_a_loss(path: Path) -> list[str]:
    """Return where a file decides by `isinstance` what a loss could say of itself."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "isinstance"
        and re.search(r"\w+Loss\b", ast.unparse(node.args[1]))
    ]


def test_losses_speak_for_themselves(tmp_path, monkeypatch):
    assert [
        place for path in SOURCES for place in asks_for_the_class_of_a_loss(path)
    ] == []
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    planted = tmp_path / "ladder.py"
    planted.write_text("1\nisinstance(plan.loss, LogisticLoss | HuberLoss)\n")
    assert asks_for_the_class_of_a_loss(planted) == ["ladder.py:2"]


def runs_of_logic(path: Path) -> dict[str, str]:
    """Return runs of two statements or more over six lines or more, and where they are.

    Docstrings and signatures do not count: estimators of scikit-learn repeat the
    parameters that they share.
    """
    found = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or isinstance(node, ast.Module | ast.ClassDef):
            continue
        steps = [s for s in body if not isinstance(s, ast.Expr | ast.Import)]
        for first in range(len(steps)):
            lines = 0
            for last in range(first, len(steps)):
                lines += steps[last].end_lineno - steps[last].lineno + 1
                if lines >= SAME_LINES and last > first:
                    text = "\n".join(map(ast.unparse, steps[first : last + 1]))
                    found[text] = f"{path.name}:{steps[first].lineno}"
                    break
    return found


def repeated(paths: list[Path]) -> list[str]:
    known: dict[str, str] = {}
    again = []
    for path in paths:
        own = runs_of_logic(path)
        again += [f"{known[text]} and {own[text]}" for text in own if text in known]
        known |= own
    return again


def test_no_logic_stands_in_two_files(tmp_path):
    assert repeated(SOURCES) == []
    text = (
        "def f(a):\n    b = [\n        a,\n        1,\n    ]\n\n    b += [\n        a]"
    )
    for name in ("one.py", "other.py"):
        (tmp_path / name).write_text(text)
    planted = [tmp_path / "one.py", tmp_path / "other.py"]
    assert repeated(planted) == ["one.py:2 and other.py:2"]


# Names that say more than what they call: a word of conditions, writing to a frozen
# event, a refusal without a result, one changed field.
WORDS = {"col", "_set", "check_columns", "_with_spending"}


def test_no_function_only_passes_its_arguments_on(tmp_path):
    tool = runpy.run_path(str(ROOT / "docs" / "tools" / "find_forwarders.py"))
    found = {
        name
        for path in SOURCES
        for name, kind in tool["forwarders"](path)
        if kind == "function"
    }
    assert found <= WORDS
    planted = tmp_path / "hop.py"
    planted.write_text("def hop(a, *, b):\n    return far(a, b=b)\n")
    assert list(tool["forwarders"](planted)) == [("hop", "function")]


@pytest.mark.parametrize(
    "place",
    [
        "corrdp.training.kernels._grids.Grids",
        "corrdp.training.kernels._grids.Models",
        "corrdp.training.kernels._grids.Tiles",
        "corrdp.training.sensitivity._scores.CornerScores",
        "corrdp.training.sensitivity._table.ChangedPairs",
        "corrdp.training.sensitivity._table.InfluencedCells",
        "corrdp.training.sensitivity._table.MovementTable",
    ],
)
def test_what_compiled_functions_take_stays_where_it_is(place):
    # numba keeps compiled functions on disk, under the modules of what they take. It
    # reads the list before it looks whether the source has changed, so that a class
    # that moved is an import error for whoever upgrades in place.
    module, name = place.rsplit(".", 1)
    assert getattr(importlib.import_module(module), name).__module__ == module


def test_tables_of_optional_packages_are_imported_where_they_are_made():
    """The core installs none of them; a module that imports one would not load."""
    optional = {"duckdb", "pandas", "polars", "pyarrow"}
    optional_rooms = {"studio"}  # is loaded by its own command, and reads files
    for path in SOURCES:
        if path.parent.name in optional_rooms:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {name.partition(".")[0] for name in names} & optional, path.name

"""The documentation says what the code does."""

import doctest
import json
import re
import runpy
import shlex
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "test.lock"
SAVED_BENCHMARKS = ROOT / "docs" / "results" / "benchmarks.json"


def test_readme_examples_run_in_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failures, tests = doctest.testfile(
        str(ROOT / "README.md"), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert tests > 0
    assert failures == 0


@pytest.mark.skipif(
    f"typer=={metadata.version('typer')}" not in LOCK.read_text("utf-8").splitlines(),
    reason="the page shows help texts as the locked typer prints them",
)
def test_command_line_page_is_the_help_text():
    tools = runpy.run_path(str(ROOT / "docs" / "tools" / "write_cli_page.py"))
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == tools["cli_page"](), "run python docs/tools/write_cli_page.py"


def test_benchmark_page_is_made_from_the_saved_run():
    tools = runpy.run_path(str(ROOT / "benchmarks" / "run_all.py"))
    saved = json.loads(SAVED_BENCHMARKS.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert page == tools["page"](saved), "run python benchmarks/run_all.py"


def test_benchmarks_that_save_runs_of_their_own_are_left_out(capsys, monkeypatch):
    """Named or not: one without run() ended the run of all others."""
    tools = runpy.run_path(str(ROOT / "benchmarks" / "run_all.py"))
    every = tools["chosen"]([])
    own = [name for name, path in every.items() if not tools["has_run"](path)]
    assert 0 < len(own) < len(every)
    saved = json.loads(SAVED_BENCHMARKS.read_text(encoding="utf-8"))
    assert set(saved) <= set(every) - set(own)
    written = {}
    keep = lambda path, text: written.update({path: text})  # noqa: E731
    monkeypatch.setattr(Path, "write_text", keep)
    tools["main"](own)
    assert list(written) == [ROOT / "docs" / "benchmarks.md"]
    assert capsys.readouterr().out.count("left out") == len(own)
    with pytest.raises(SystemExit, match="no benchmark 'absent'"):
        tools["main"](["absent"])


def test_figures_come_first_on_the_benchmark_page():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[.+?\]\((.+?)\)", page.split("\n|", 1)[0])
    assert len(pictures) >= 2
    assert all((ROOT / "docs" / name).is_file() for name in pictures)


def test_the_readme_leads_to_a_certificate_in_few_commands():
    """What benchmarks/new_user_path.py types is what the README says."""
    import json

    import typer

    from corrdp.cli._app import app

    tools = runpy.run_path(str(ROOT / "benchmarks" / "new_user_path.py"))
    install, commands = tools["readme_commands"]()
    assert install == "pip install '.[files,report,studio]' pandas"
    known = typer.main.get_command(app)
    for line in commands:
        name, *words = shlex.split(line)[1:]
        command = known.commands[name]
        if name == "certificate":
            command, words = command.commands[words[0]], words[1:]
        command.make_context(name, words)  # raises for unknown options
    saved = json.loads((ROOT / "docs" / "results" / "new_user.json").read_text())
    assert len(saved) >= 3
    assert all(len(steps) <= tools["MOST_COMMANDS"] for steps in saved.values())


def test_every_page_is_reached_from_a_table_of_contents():
    docs = ROOT / "docs"
    pages = {
        str(path.relative_to(docs).with_suffix(""))
        for path in docs.rglob("*.md")
        if "_build" not in path.parts
    }
    listed = {"index"}
    for index in docs.rglob("index.md"):
        if "_build" in index.parts:
            continue
        folder = index.parent.relative_to(docs)
        for block in re.findall(
            r"```\{toctree\}(.*?)```", index.read_text(encoding="utf-8"), re.DOTALL
        ):
            listed |= {
                str(folder / line.strip())
                for line in block.splitlines()
                if line.strip() and not line.startswith(":")
            }
    assert pages - listed == set()


def test_no_page_has_the_name_of_one_that_sphinx_writes():
    """Sphinx writes its own search.html over that of a page called search."""
    own = {"search", "genindex", "py-modindex"}
    assert not own & {page.stem for page in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem
)
def test_no_formula_is_left_in_dollars(page):
    """Formulas that the parser did not see as such were shown as text, in proofs."""
    settings = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    assert dollars(page.read_text(encoding="utf-8"), settings) == []


def test_formulas_that_are_left_in_dollars_are_found():
    settings = {"myst_enable_extensions": ["dollarmath"]}
    text = "Let\n$$x = 1$$\nand $y$."
    inline = settings | {"myst_dmath_double_inline": True}
    assert dollars(text, inline) == []
    assert dollars(text, settings) != []
    assert dollars("Let\n$$x\n- y$$", inline) != []  # a list, to the parser


def dollars(text, settings):
    """Return texts of a page that hold a dollar outside of formulas and code."""
    from markdown_it.renderer import RendererHTML
    from myst_parser.config.main import MdParserConfig
    from myst_parser.parsers.mdit import create_md_parser

    config = MdParserConfig(
        enable_extensions=set(settings["myst_enable_extensions"]),
        dmath_double_inline=settings.get("myst_dmath_double_inline", False),
    )
    tokens = create_md_parser(config, RendererHTML).parse(text)
    inner = [child for token in tokens for child in token.children or ()]
    return [t.content for t in inner if t.type == "text" and "$" in t.content]


def test_every_list_of_file_formats_is_whole():
    """JSON lines were read for a while before any list but one named them."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    lists = re.compile(r"\bCSV\b[^.;:]*\bParquet\b[^.;:]*\bArrow\b")
    found = [
        (page.name, line)
        for page in pages
        for line in lists.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(found) > 10  # the help of commands among them
    assert [place for place in found if "JSON lines" not in place[1]] == []


def test_every_extra_that_pages_install_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    known = set(project["project"]["optional-dependencies"])
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        named = re.findall(r"(?:corrdp|\.)\[([a-z,]+)\]", page.read_text("utf-8"))
        extras = {extra for names in named for extra in names.split(",")}
        assert extras <= known, page.name

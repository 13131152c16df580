"""The documentation says what the code does."""

import doctest
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_readme_examples_run_in_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failures, tests = doctest.testfile(
        str(ROOT / "README.md"), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert tests > 0
    assert failures == 0


def test_command_line_page_is_the_help_text():
    tools = runpy.run_path(str(ROOT / "docs" / "tools" / "write_cli_page.py"))
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == tools["cli_page"](), "run python docs/tools/write_cli_page.py"


def test_benchmark_page_is_made_from_the_saved_run():
    import json

    tools = runpy.run_path(str(ROOT / "benchmarks" / "run_all.py"))
    saved = json.loads((ROOT / "docs" / "results" / "benchmarks.json").read_text())
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert page == tools["page"](saved), "run python benchmarks/run_all.py"


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

"""The runner of planted bugs tells killed, surviving and broken ones apart."""

import textwrap
from dataclasses import replace

import pytest

from mutants.planted_bugs import (
    PlantedBug,
    PlantedBugError,
    load_bugs,
    sample_bugs,
    tree_hash,
)
from mutants.run import (
    BROKEN,
    KILLED,
    SURVIVED,
    Verdict,
    choose,
    parse,
    save,
    table,
    try_bugs,
)
from mutants.trial import Workplace, compiled_files

SOURCE = """
    def doubled(x):
        return 2 * x


    def unwatched(x):
        return 3 * x
"""
COMPILED = """
    from numba import njit

    from corrdp.inner import factor


    @njit(cache=True)
    def compiled(x):
        return factor() * x
"""
INNER = """
    from numba import njit


    @njit(cache=True)
    def factor():
        return 5
"""
TESTS = """
    import subprocess
    import sys

    import pytest

    from corrdp import doubled


    def test_doubled():
        assert doubled(2) == 4


    def test_in_another_process():
        code = "import corrdp; print(corrdp.doubled(3))"
        command = [sys.executable, "-c", code]
        printed = subprocess.run(command, capture_output=True, text=True).stdout
        assert printed.strip() == "6"


    def test_compiled():
        from corrdp.outer import compiled

        assert compiled(1) == 5


    def test_wrong_on_the_clean_tree():
        assert doubled(2) == 5


    @pytest.mark.skip(reason="never runs")
    def test_skipped():
        raise AssertionError
"""
BUGS = '''
    [[bug]]
    name = "{name}"
    breaks = "a claim"
    file = "src/corrdp/__init__.py"
    old = """{old}"""
    new = """{new}"""
    tests = ["tests/test_it.py::{test}"]
'''


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A package called corrdp that is not the library."""
    root = tmp_path_factory.mktemp("tree")
    for folder in ("src/corrdp", "tests/mutants/planted"):
        (root / folder).mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "src/corrdp/__init__.py").write_text(textwrap.dedent(SOURCE))
    (root / "src/corrdp/outer.py").write_text(textwrap.dedent(COMPILED))
    (root / "src/corrdp/inner.py").write_text(textwrap.dedent(INNER))
    (root / "tests/test_it.py").write_text(textwrap.dedent(TESTS))
    return root


def bug(test="test_doubled", *, old="2 * x", new="4 * x", name="wrong"):
    return PlantedBug(
        name=name,
        area="toy",
        breaks="a claim",
        file="src/corrdp/__init__.py",
        old=old,
        new=new,
        tests=(f"tests/test_it.py::{test}",),
    )


def verdicts(tree, *bugs):
    named = [replace(bug, name=str(i)) for i, bug in enumerate(bugs)]
    before = (tree / "src/corrdp/__init__.py").read_text()
    found = try_bugs(named, root=tree, n_jobs=2)
    assert (tree / "src/corrdp/__init__.py").read_text() == before
    return found


def test_killed_surviving_and_broken_bugs_are_told_apart(tree):
    found = verdicts(
        tree,
        bug(),
        bug("test_in_another_process"),
        bug(old="3 * x"),
        bug("test_wrong_on_the_clean_tree"),
        bug("test_skipped"),
        bug(new="4 * y"),
        bug(old="def doubled", new="def tripled"),
    )
    assert [each.verdict for each in found] == [
        *(KILLED, KILLED, SURVIVED),
        *(BROKEN, BROKEN, BROKEN, BROKEN),
    ]
    assert found[0].detail == "tests/test_it.py::test_doubled (AssertionError)"
    assert "fails on the clean tree too" in found[3].detail
    assert found[4].detail == "no test ran"
    assert "NameError" in found[5].detail
    assert "cannot be collected" in found[6].detail
    assert table(found).endswith("2 of 7 killed")


def test_machine_code_of_one_tree_is_not_that_of_the_next(tree, tmp_path):
    """Numba keeps what it inlined into a caller when only the other file changes."""
    assert compiled_files(tree) == {"src/corrdp/inner.py", "src/corrdp/outer.py"}
    place = Workplace(tree, tmp_path / "place")
    test = "tests/test_it.py::test_compiled"
    assert place.clean([test]).failed == {}
    edit = bug("test_compiled", old="return 5", new="return 6")
    wrong = place.plant(replace(edit, file="src/corrdp/inner.py"))
    assert wrong.failed == {test: "AssertionError"}
    assert place.clean([test]).failed == {}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (bug(old="9 * x"), "found 0 times"),
        (bug(old="* x"), "found 2 times"),
        (bug(new="2 * x"), "equals"),
        (bug(new="2 * ("), "would not be Python"),
        (bug("test_gone"), "there is no test"),
        (replace(bug(), tests=()), "names no test"),
        (replace(bug(), file="src/corrdp/gone.py"), "no source file"),
        (replace(bug(), file="tests/test_it.py"), "no source file"),
    ],
)
def test_bugs_that_do_not_fit_are_refused(tree, wrong, words):
    with pytest.raises(PlantedBugError, match=words):
        try_bugs([wrong], root=tree)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BUGS + BUGS, "unique"),
        (BUGS + "    quik = true", "unknown"),
        (BUGS.replace("breaks", "claim"), "missing"),
        (BUGS.replace('"a claim"', "3"), "must be a text"),
        (BUGS.replace("[[bug]]", "[[bugs]]"), "not `bug`"),
    ],
)
def test_files_that_are_not_as_described_are_refused(tree, text, words):
    path = tree / "tests/mutants/planted/toy.toml"
    filled = {"name": "a", "old": "2 * x", "new": "", "test": "test_doubled"}
    for key, word in filled.items():
        text = text.replace(f"{{{key}}}", word)
    path.write_text(textwrap.dedent(text))
    with pytest.raises(PlantedBugError, match=words):
        load_bugs(tree)
    path.unlink()


def test_samples_depend_on_the_source_alone(tree):
    bugs = [bug(name=str(i)) for i in range(20)]
    first = sample_bugs(bugs, 5, tree_hash(tree))
    assert first == sample_bugs(bugs[::-1], 5, tree_hash(tree))
    assert len({each.name for each in first}) == 5
    assert first != sample_bugs(bugs, 5, "another tree")
    quick = [replace(each, quick=each.name in "01") for each in bugs]
    options = parse(["--quick", "--sample", "3", "--sample-seed", "a"])
    chosen = choose(quick, options)
    assert len(chosen) == 5
    assert {"0", "1"} <= {each.name for each in chosen}
    assert choose(quick, options) == chosen


def test_saved_runs_are_merged(tmp_path):
    path = tmp_path / "mutants.json"
    bugs = [bug(), bug(old="3 * x", name="other")]
    save([Verdict(bugs[0], KILLED, "by a test", 1.0)], bugs, path)
    first = path.read_text()
    save((), bugs, path)
    assert path.read_text() == first
    assert '"verdict": "killed"' in first
    save((), bugs[1:], path)
    assert "wrong" not in path.read_text()

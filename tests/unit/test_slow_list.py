"""The list of slow tests: what stays in the quick run, and what is marked."""

import runpy
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
TOOL = runpy.run_path(str(TESTS / "tools" / "list_slow.py"))

RUN = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_one[1]" time="2.0"/>
<testcase classname="tests.unit.test_a" name="test_one[2]" time="3.0"/>
<testcase classname="tests.unit.test_a.TestB" name="test_two" time="1.0"/>
</testsuite></testsuites>"""


def test_parameters_of_a_test_count_together(tmp_path):
    report = tmp_path / "run.xml"
    report.write_text(RUN)
    assert TOOL["seconds_by_test"](report) == {
        "tests.unit.test_a.test_one": 5.0,
        "tests.unit.test_a.TestB.test_two": 1.0,
    }


def test_the_quickest_stay_within_the_limit():
    seconds = Counter({"a": 1.0, "b": 2.0, "c": 30.0, "d": 0.5})
    assert TOOL["slow_tests"](seconds, 4.0) == ["c"]
    assert TOOL["slow_tests"](seconds, 3.0) == ["b", "c"]


def test_the_list_is_in_order_and_marks_its_tests(request):
    names = (TESTS / "slow.txt").read_text("utf-8").split()
    assert names == sorted(set(names))
    modules = {path.stem for path in TESTS.rglob("test_*.py")}
    tests = [name for name in names if name.startswith("tests.")]
    assert all(set(name.split(".")) & modules for name in tests)

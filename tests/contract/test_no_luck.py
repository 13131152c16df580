"""No test depends on the clock, on chance or on how busy the machine is."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CLOCKS = {
    *("perf_counter", "perf_counter_ns", "process_time", "process_time_ns"),
    *("monotonic", "monotonic_ns", "thread_time", "time_ns", "now", "utcnow", "today"),
}
# The one profile of hypothesis; what prints how long a trial took, and ends a hang.
EXEMPT = {"conftest.py", "mutants/run.py", "mutants/trial.py"}
FILES = {str(path.relative_to(TESTS)): path for path in TESTS.rglob("*.py")}


def clock_uses(text):
    """Return lines that read a clock, or decide by seconds passed.

    >>> clock_uses("assert report.seconds < 2")
    [1]
    >>> clock_uses("t = time.monotonic()")
    [1]
    >>> clock_uses("@settings(deadline=200)\\ndef test(): pass")
    [1]
    >>> clock_uses("subprocess.run(c, timeout=3)")
    [1]
    >>> clock_uses("@settings(max_examples=5)\\ndef test(): time.sleep(1)")
    []
    """
    lines = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            attributes = {s.attr for s in sides if isinstance(s, ast.Attribute)}
            if attributes & {"seconds", "elapsed", "duration"}:
                lines.append(node.lineno)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            owner = getattr(getattr(node.func, "value", None), "id", "")
            reads = name in CLOCKS or (
                owner == "time" and name in ("time", "monotonic")
            )
            words = {keyword.arg for keyword in node.keywords}
            own_rules = name in ("settings", "register_profile") and words & {
                *("deadline", "derandomize", "database", "suppress_health_check"),
            }
            if reads or own_rules or "timeout" in words:
                lines.append(node.lineno)
    return lines


@pytest.mark.parametrize("name", sorted(FILES.keys() - EXEMPT))
def test_no_test_reads_a_clock(name):
    assert clock_uses(FILES[name].read_text(encoding="utf-8")) == []

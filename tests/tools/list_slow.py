"""Write tests/slow.txt from a timed run: what `make quick` leaves out.

``make slow`` runs all tests, timed by `processor_time.py`, and calls this. The quickest
test functions that together take `QUICK_SECONDS` on one core stay; all others are
marked ``slow``. Tests are told by their names: one that is new, or has become slow,
stays in the quick run until the list is written again.
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

LIST = Path(__file__).parents[1] / "slow.txt"
QUICK_SECONDS = 75.0  # of one core; imports and collection take as much again


def seconds_by_test(report: Path) -> Counter[str]:
    """Return the time of every test function, all its parameters together."""
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = case.attrib["name"].split("[")[0]
        owner = case.attrib["classname"]
        seconds[f"{owner}.{name}"] += float(case.attrib["time"])
    return seconds


def slow_tests(seconds: Counter[str], limit: float = QUICK_SECONDS) -> list[str]:
    """Return all but the quickest functions that together stay within the limit."""
    slow, total = [], 0.0
    for name, own in sorted(seconds.items(), key=lambda item: (item[1], item[0])):
        total += own
        if total > limit:
            slow.append(name)
    return sorted(slow)


def main(report: str) -> None:
    """Write the list."""
    LIST.write_text("\n".join(slow_tests(seconds_by_test(Path(report)))) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

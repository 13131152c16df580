"""Power and false alarms of audits of the loop that trains networks.

Run: python benchmarks/bench_audit_loop.py [--sound N] [--out FILE]. Bugs are those of
tests/loop_bugs.py; sound trainings are audited with fresh noise, all classes of a small
policy, and none may be called broken except with probability .01 over all of them.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from corrdp.auditing import audit, loop_challenges  # noqa: E402
from loop_bugs import LOOP_BUGS, SAMPLED, WIDE, a_training  # noqa: E402

SOUND = ({}, SAMPLED, WIDE, {"classes": True, **WIDE})
CLASSES = ("sensitive", "insensitive:x0", "whole_record")


def bugs():
    """Return by bug whether it is caught, by what, and how long that takes."""
    found = {}
    for name, (plant, settings, class_name, n_runs) in LOOP_BUGS.items():
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            started = time.perf_counter()
            challenges = loop_challenges(
                a_training(**settings), class_names=(class_name,), n_runs=n_runs
            )
            report = audit(challenges, n_comparisons=100, random_state=7)
            (result,) = report.results
            found[name] = {
                "caught": not report.passed,
                "class": class_name,
                "attack": result.attack,
                "certified_epsilon": result.certified_epsilon,
                "audited_epsilon": result.audited_epsilon,
                "seconds": round(time.perf_counter() - started, 1),
            }
            print(name, found[name], flush=True)
    return found


def sound(n_audits):
    """Return how many audits of sound trainings raised a false alarm."""
    alarms = 0
    for number in range(n_audits):
        settings = SOUND[number % len(SOUND)]
        challenges = loop_challenges(
            a_training(**settings, random_state=number),
            class_names=CLASSES,
            random_state=number,
        )
        report = audit(
            challenges,
            n_runs=200,
            n_comparisons=n_audits * len(challenges),
            random_state=number,
        )
        alarms += not report.passed
        print(number, report.passed, flush=True)
    return {"audits": n_audits, "false_alarms": alarms}


def main():
    """Run both halves and save them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sound", type=int, default=100)
    parser.add_argument("--out", default=str(ROOT / "docs/results/audit_loop.json"))
    given = parser.parse_args()
    document = {"sound": sound(given.sound), "bugs": bugs()}
    Path(given.out).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

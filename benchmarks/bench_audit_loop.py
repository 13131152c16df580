"""Power and false alarms of audits of the code that trains.

Run: python benchmarks/bench_audit_loop.py [--part NAME ...] [--out FILE]. The parts
are `bugs` (the loop of networks, tests/loop_bugs.py), `linear` (tests/linear_bugs.py)
and `sound`, where trainings without a bug are audited with fresh noise, and none may be
called broken except with probability .01 over all of them. `--sound FIRST LAST` runs
some of these. What is saved stays until its part is run again; `--render` writes the
tables of the documentation from it.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from saved_tables import RESULTS, markdown_table, read_figures, save_table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

CLASSES = ("sensitive", "insensitive:x0", "whole_record")
N_SOUND = 100


def described(report, seconds):
    """Return what is kept of an audit: its worst class."""
    worst = max(report.results, key=lambda result: result.tightness)
    return {
        "caught": not report.passed,
        "class": worst.class_name,
        "attack": worst.attack,
        "runs": worst.n_runs,
        "certified_epsilon": worst.certified_epsilon,
        "audited_epsilon": worst.audited_epsilon,
        "seconds": round(seconds, 1),
    }


def bugs():
    """Yield by bug of the loop whether it is caught, by what, and in what time."""
    import pytest

    from corrdp.auditing import audit, loop_challenges
    from loop_bugs import LOOP_BUGS, a_training

    for name, (plant, settings, class_name, n_runs) in LOOP_BUGS.items():
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            started = time.process_time()
            challenges = loop_challenges(
                a_training(**settings), class_names=(class_name,), n_runs=n_runs
            )
            report = audit(challenges, n_comparisons=100, random_state=7)
            yield f"networks: {name}", described(report, time.process_time() - started)


def linear():
    """Yield the same for linear models on samples and in epochs."""
    from corrdp.auditing import audit
    from linear_bugs import LINEAR_BUGS

    for name, challenges in LINEAR_BUGS.items():
        started = time.process_time()
        report = audit(challenges(), n_comparisons=100, random_state=7)
        yield name, described(report, time.process_time() - started)


def sound(first, last):
    """Yield by number of a sound training whether its audit raised a false alarm."""
    from corrdp.auditing import audit, loop_challenges
    from linear_bugs import epoch_steps, sampled_steps
    from loop_bugs import SAMPLED, WIDE, a_training

    networks = ({}, SAMPLED, WIDE, {"classes": True, **WIDE})
    linear_kinds = (
        lambda seed: sampled_steps(n_runs=200, seed=seed),
        lambda seed: sampled_steps(rate=0.2, cost=4.0, n_runs=200, seed=seed),
        lambda seed: epoch_steps(seed=seed),
        lambda seed: epoch_steps(label="number", seed=seed),
    )
    for number in range(first, last):
        kind = number % 8
        if kind < 4:
            challenges = loop_challenges(
                a_training(**networks[kind], random_state=number),
                class_names=(CLASSES[number // 8 % 3],),
                random_state=number,
            )
        else:
            challenges = linear_kinds[kind - 4](number)
        report = audit(
            challenges,
            n_runs=200 if kind < 6 else 4000,
            n_comparisons=N_SOUND * 4,
            random_state=number,
        )
        yield str(number), not report.passed


def render():
    """Write the table of the documentation from what is saved."""
    save_table("audit_loop", table(read_figures("audit_loop")))


def table(saved):
    """Return the table of bugs, and a line on sound trainings."""
    header = ["planted bug", "class", "claimed", "proved", "by", "seconds", "caught"]
    rows = [
        [
            name,
            f"`{row['class']}`",
            f"{row['certified_epsilon']:.3g}",
            f"{row['audited_epsilon']:.3g}",
            row["attack"],
            f"{row['seconds']:.0f}",
            "yes" if row["caught"] else "no",
        ]
        for name, row in saved["bugs"].items()
    ]
    alarms = saved["sound"]
    raised = sum(alarms.values())
    sound = f"Sound trainings: {raised} false alarms in {len(alarms)} audits."
    return f"{markdown_table(header, rows)}\n{sound}\n"


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", nargs="*", default=["bugs", "linear", "sound"])
    parser.add_argument("--sound", nargs=2, type=int, default=[0, N_SOUND])
    parser.add_argument("--out", default=str(RESULTS / "audit_loop.json"))
    parser.add_argument("--render", action="store_true")
    given = parser.parse_args()
    if given.render:
        render()
        return
    measure(given.part, given.sound, Path(given.out))


def measure(parts, numbers, out):
    """Run parts and save them one result at a time."""
    for part, results in (
        ("bugs", bugs if "bugs" in parts else None),
        ("bugs", linear if "linear" in parts else None),
        ("sound", (lambda: sound(*numbers)) if "sound" in parts else None),
    ):
        for name, result in results() if results else ():
            saved = {"bugs": {}, "sound": {}}
            if out.exists():
                saved = json.loads(out.read_text(encoding="utf-8"))
            saved[part][name] = result
            out.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
            print(name, result, flush=True)


def run():
    """Run everything and return what the page of all benchmarks shows."""
    out = RESULTS / "audit_loop.json"
    measure(("bugs", "linear", "sound"), (0, N_SOUND), out)
    render()
    saved = json.loads(out.read_text(encoding="utf-8"))
    planted = saved["bugs"].values()
    return [
        {
            "name": "bugs of the code that trains, caught",
            "value": sum(row["caught"] for row in planted) / len(planted),
            "unit": "share",
            "target": "1",
            "note": f"{len(planted)} bugs",
        },
        {
            "name": "slowest of them",
            "value": max(row["seconds"] for row in planted),
            "unit": "s",
            "target": "below 120",
            "note": "time of one core",
        },
        {
            "name": "false alarms on sound trainings",
            "value": float(sum(saved["sound"].values())),
            "unit": "",
            "target": f"0 of {N_SOUND}",
        },
    ]


if __name__ == "__main__":
    main()

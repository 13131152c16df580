"""Start-up of the command, the demo from end to end, and the size of its report."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = Path(sys.executable).with_name("corrdp")
HELP_RUNS = 15
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run() -> list[dict]:
    started = [seconds(COMMAND, "--help") for _ in range(HELP_RUNS)]
    bare = [seconds(sys.executable, "-c", "import typer") for _ in range(HELP_RUNS)]
    with tempfile.TemporaryDirectory() as folder:
        demo = seconds(COMMAND, "demo", "--out", folder)
        size = (Path(folder) / "report.html").stat().st_size
    return [
        {
            "name": "corrdp --help",
            "value": min(started),
            "unit": "s",
            "target": "< 0.4",
            "note": f"fastest of {HELP_RUNS}, median {statistics.median(started):.2f}",
        },
        {
            "name": "corrdp --help against import typer",
            "value": min(started) / min(bare),
            "unit": "x",
            "target": "",
            "note": "what the command adds to its framework",
        },
        {
            "name": "corrdp demo",
            "value": demo,
            "unit": "s",
            "target": "< 60",
            "note": "20,000 rows; init, leakage, plan, train, sweep, report",
        },
        {
            "name": "report of the demo",
            "value": size / 1e6,
            "unit": "MB",
            "target": "< 6",
            "note": "one file, charts and their library inside",
        },
    ]


def seconds(*words: object) -> float:
    start = time.perf_counter()
    subprocess.run(
        [str(word) for word in words],
        check=True,
        capture_output=True,
        env=os.environ | ONE_THREAD,
    )
    return time.perf_counter() - start


if __name__ == "__main__":
    for row in run():
        print(
            f"{row['name']:<40} {row['value']:8.3f} {row['unit']:<3} "
            f"{row['target']:<8} {row['note']}"
        )

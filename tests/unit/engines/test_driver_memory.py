"""Rows stay on workers: not a byte of them is in the driver's memory, even in errors.

The driver is a process of its own; this one reads its memory while it waits.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine_commands import written_table
from engine_examples import MARKER

DRIVER = """
import sys
from corrdp.cli import main
control = sys.stdin.readline()  # is looked for as well: the search does find things
try:
    main()
except SystemExit as left:
    code = left.code
print("ended", code, flush=True)
sys.stdin.readline()
"""


def memory(pid):
    """Yield what a process holds of its own, mapped files apart."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as held:
        for line in lines:
            span, rights, _, _, inode, *_ = line.split()
            if "w" not in rights or inode != "0":
                continue
            start, end = (int(number, 16) for number in span.split("-"))
            held.seek(start)
            try:
                yield held.read(end - start)
            except OSError:  # pages of the kernel
                continue


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory in /proc")
@pytest.mark.parametrize("engine", ["dask", "ray", "spark"])
def test_a_refused_row_is_not_in_the_drivers_memory(engine, tmp_path):
    pytest.importorskip({"dask": "distributed", "spark": "pyspark"}.get(engine, engine))
    frame = written_table(tmp_path).astype(str)
    for row in (0, 40):
        frame.iloc[row] = [f"{MARKER}-{name}" for name in frame.columns]
    frame[:100].to_csv(tmp_path / "table" / "a.csv", index=False)
    asked = ["query", tmp_path / "table", "--policy", tmp_path / "policy.toml"]
    asked += ["--ask", "count() by sex", "--engine", engine]
    asked += ["--epsilon", "1", "--delta", "1e-6"]
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", DRIVER, *map(str, asked)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as driver:
        print("C0NTR0L", file=driver.stdin, flush=True)
        told = driver.stdout.readline()
        held = b"".join(memory(driver.pid))
        rest = driver.communicate("\n")
    assert "ended 0" not in told
    assert re.search(rb"C0NTR0L", held)
    assert "a worker refused the column 'sex'" in rest[1]
    assert not re.search(MARKER.encode(), held)
    assert MARKER not in told + "".join(rest)

"""Tables larger than memory: memory, rates, recovery (`docs/large_tables.md`).

Run ``python benchmarks/bench_scale.py``; every figure is measured in a process of its
own. Times are those of a machine that others may use, too: read ratios first.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from corrdp import LogisticRegression
from corrdp.policy import (
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
)

MEMORY_ROWS = 3_000_000
FEW_ROWS = 1_000_000
FILE_ROWS = 4_000_000
WIDE_COLUMNS = 1_000
LIMIT = 6 * 10**8  # bytes of anonymous memory for a fit from files
STEPS = 20
PASSES = 8
LEVELS = tuple("abcde")


def policy(n_columns: int = 10) -> Policy:
    """Return a policy with numbers and categories of five levels in turns."""
    features = []
    for i in range(n_columns):
        role = ColumnRole.SENSITIVE if i % 5 == 0 else ColumnRole.INSENSITIVE
        domain = NumberDomain(0, 1) if i % 2 else CategoryDomain(LEVELS)
        leakage = None if role is ColumnRole.SENSITIVE else 0.05 + 0.9 * (i % 53) / 100
        features.append(Feature(f"x{i}", role, domain, leakage))
    return Policy(tuple(features), Label("y", CategoryDomain(("no", "yes")), score=0.0))


def model(**options) -> LogisticRegression:
    chosen = {"epsilon": 1.0, "delta": 1e-9, "random_state": 0, "n_steps": STEPS}
    return LogisticRegression(policy(), **chosen | options)


def batches(n_rows: int):
    """Yield a table of five numbers and five texts, a part at a time."""
    import pyarrow as pa

    texts = pa.array(LEVELS)
    for start in range(0, n_rows, 2**18):
        rng = np.random.default_rng(start)
        size = min(2**18, n_rows - start)
        columns = {}
        for i in range(10):
            columns[f"x{i}"] = (
                pa.array(rng.random(size))
                if i % 2
                else texts.take(pa.array(rng.integers(5, size=size)))
            )
        labels = pa.array(("no", "yes")).take(pa.array(rng.integers(2, size=size)))
        yield pa.table(columns | {"y": labels})


def write(path: Path, n_rows: int) -> None:
    from pyarrow import parquet

    writer = None
    for table in batches(n_rows):
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def status(name: str) -> int:
    """Return a line of the process's own memory, in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) * 1024


def fit_in_memory(n_rows: int) -> dict:
    import pyarrow as pa

    model().fit(pa.concat_tables(batches(2**12)))  # what is loaded and compiled once
    table = pa.concat_tables(batches(n_rows))
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    model().fit(table)
    return {"bytes_per_row": (status("VmHWM") - before) / n_rows}


def fit_from_file(path: str, limit: int) -> dict:
    import pyarrow as pa

    model().fit(pa.concat_tables(batches(2**12)))
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], status("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    fitted = model().fit(path)
    done.set()
    watcher.join()
    return {
        "seconds": time.perf_counter() - started,
        "anonymous": peak[0],
        "n_rows": fitted.plan_.n_rows,
    }


def _tiles(path: str, folder: str):
    from corrdp.estimators._tiled import RowsInBatches
    from corrdp.training import write_tiles

    encoder = PolicyEncoder(policy())
    rows = RowsInBatches(
        path, None, encoder, lambda y: encoder.encode_label(y).astype(float)
    )
    file, key = Path(folder) / "bench.tiles", b"k" * 32
    started, used = time.perf_counter(), time.process_time()
    table = write_tiles(file, rows, encoder.blocks_, compiled=True, key=key, facts={})
    spent = time.perf_counter() - started, time.process_time() - used
    return table, key, spent


def _question(table, plan):
    rows = table.prepared().grouped(plan.layout)
    coef = np.full(plan.layout.n_columns, 0.1)
    return rows, coef


def rates(path: str, folder: str) -> dict:
    """Compare passes over a map, over memory, and over a file that must be read."""
    from dataclasses import replace

    from corrdp.training import open_tiles

    os.environ["NUMBA_NUM_THREADS"] = "1"
    table, key, (seconds, used) = _tiles(path, folder)
    plan = model().plan(table.n_rows)
    held = [
        replace(
            segment,
            tiles=replace(segment.tiles, values=segment.tiles.values.copy()),
        )
        for segment in table.segments
    ]
    memory = replace(table, segments=held)
    found = {}
    for name, rows in (("map", table), ("memory", memory)):
        grouped, coef = _question(rows, plan)
        grouped.gradient_sum(coef, residual_bound=None)
        times = []
        for _ in range(PASSES):
            started = time.perf_counter()
            total = grouped.gradient_sum(coef, residual_bound=None)
            times.append(time.perf_counter() - started)
        found[name] = min(times)
        found[f"{name}_bits"] = total[0].tobytes().hex()
    n_rows = table.n_rows
    blocks, file = table.layout.blocks, table.path
    del table, grouped, rows
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    cold = open_tiles(file, blocks, compiled=True, key=key, check=False)
    grouped, coef = _question(cold, plan)
    started = time.perf_counter()
    grouped.gradient_sum(coef, residual_bound=None)
    found["cold"] = time.perf_counter() - started
    return found | {
        "build": 1e6 * seconds / n_rows,
        "build_cpu": 1e6 * used / n_rows,
        "bytes_per_row": file.stat().st_size / n_rows,
    }


def workers(path: str, folder: str) -> dict:
    """Time steps with one and two workers, and the step in which one is killed."""
    from corrdp.training import SegmentWorkers

    table, key, _ = _tiles(path, folder)
    plan = model().plan(table.n_rows)
    found = {}
    bits = set()
    for count in (1, 2):
        with SegmentWorkers(table, count, key=key) as host:
            rows = table.prepared(host).grouped(plan.layout)
            coef = np.full(plan.layout.n_columns, 0.1)
            times = []
            for step in range(PASSES + 2):
                if count == 2 and step == PASSES + 1:
                    os.kill(host.workers[0].process.pid, signal.SIGKILL)
                started = time.perf_counter()
                total, _ = rows.gradient_sum(coef, residual_bound=None)
                times.append(time.perf_counter() - started)
                bits.add(total.tobytes())
            found[f"step_{count}"] = min(times[1 : PASSES + 1])
            if count == 2:
                found["killed"] = times[-1]
    return found | {"same_bits": len(bits) == 1}


def plan_wide() -> dict:
    wide = LogisticRegression(policy(WIDE_COLUMNS), epsilon=1.0, delta=1e-9)
    LogisticRegression(policy(10), epsilon=1.0, delta=1e-9).plan(10**6)
    started, used = time.perf_counter(), time.process_time()
    wide.plan(10**6)
    return {
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - used,
    }


def alone(name: str, *arguments) -> dict:
    """Return what a function of this file gives in a process of its own."""
    code = (
        f"import sys, json; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
        f"import bench_scale as b; print(json.dumps(b.{name}(*{arguments!r})))"
    )
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=environment | {"NUMBA_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def run() -> list[dict]:
    """Measure and return the rows of the benchmark page."""
    rows = []

    def add(name: str, value: float, unit: str, target: str, note: str = "") -> None:
        rows.append(
            {"name": name, "value": value, "unit": unit, "target": target, "note": note}
        )
        print(f"{name:<52} {value:10.4g} {unit:<8} {target}", flush=True)

    wide = alone("plan_wide")
    note = f"of the processor; {wide['seconds']:.2g} s by the clock"
    add(f"plan, {WIDE_COLUMNS} raw columns", wide["cpu"], "s", "< 2 s", note)
    found = alone("fit_in_memory", MEMORY_ROWS)
    note = f"{MEMORY_ROWS} rows, 30 encoded columns"
    add(
        "fit from memory, peak above the table",
        found["bytes_per_row"],
        "B/row",
        "< 100 B/row",
        note,
    )
    with tempfile.TemporaryDirectory() as folder:
        small, large = (Path(folder) / name for name in ("s.parquet", "l.parquet"))
        write(small, FEW_ROWS)
        write(large, FILE_ROWS)
        for path, n_rows in ((small, FEW_ROWS), (large, FILE_ROWS)):
            found = alone("fit_from_file", str(path), LIMIT)
            assert found["n_rows"] == n_rows
            add(
                f"fit from Parquet, {n_rows} rows, anonymous memory",
                found["anonymous"] / 1e6,
                "MB",
                "< 600 MB",
                f"RLIMIT_DATA {LIMIT // 10**6} MB; {STEPS} steps in all "
                f"{found['seconds']:.3g} s",
            )
        found = alone("rates", str(small), folder)
        assert found["map_bits"] == found["memory_bits"]
        add("rate on the map / in memory", found["memory"] / found["map"], "", "> 0.9")
        add(
            "rate with cold pages / in memory",
            found["memory"] / found["cold"],
            "",
            "> 0.25",
            "first pass after the file left the page cache",
        )
        add(
            "encode and write tiles",
            found["build_cpu"],
            "us/row",
            "< 1.3 us/row",
            f"of the processor; {found['build']:.3g} us/row by the clock",
        )
        add("tiles", found["bytes_per_row"], "B/row", "")
        found = alone("workers", str(large), folder)
        assert found["same_bits"]
        add(
            "two workers against one",
            found["step_1"] / found["step_2"],
            "times",
            "> 1.7",
            f"{FILE_ROWS} rows, {found['step_1']:.3g} and {found['step_2']:.3g} s/step",
        )
        add("step after kill -9 of a worker", found["killed"], "s", "< 15 s, same bits")
    return rows


if __name__ == "__main__":
    run()

"""Tables larger than memory: memory, rates, recovery (`docs/large_tables.md`).

``python benchmarks/bench_scale.py [part ...]`` measures all parts, or those named,
saves them and writes the table of the page; ``--render`` writes it from the saved run.
Every figure is measured in a process of its own. Times are those of a machine that
others may use, too: the load is saved with them, and ratios say more. ``--files``
names a folder where the generated tables are kept for the next part, half a GB.
"""

import argparse
import gc
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
from saved_tables import markdown_table, read_figures, save_figures, save_table

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
FILE_ROWS = 10_000_000
LEAKAGE_ROWS = 100_000_000
SAMPLING_RATE = 0.01
WIDE_COLUMNS = 1_000
LIMIT = 6 * 10**8  # bytes of anonymous memory for a fit from files
STEPS = 20
PASSES = 8
LEVELS = tuple("abcde")


def policy(n_columns: int = 10, bins: int | None = None) -> Policy:
    """Return a policy with numbers and categories of five levels in turns."""
    features = []
    for i in range(n_columns):
        role = ColumnRole.SENSITIVE if i % 5 == 0 else ColumnRole.INSENSITIVE
        number = NumberDomain(0, 1, bins=bins)
        domain = number if i % 2 else CategoryDomain(LEVELS)
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


def write(path: Path, n_rows: int) -> Path:
    from pyarrow import parquet

    writer = None
    for table in batches(n_rows):
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()
    return path


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


def watched(work) -> dict:
    """Return the time of some work and the most anonymous memory meanwhile."""
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], status("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    started, used = time.perf_counter(), time.process_time()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    spent = time.perf_counter() - started, time.process_time() - used
    return {"seconds": spent[0], "cpu": spent[1], "anonymous": peak[0]}


def fit_from_file(path: str, limit: int) -> dict:
    import pyarrow as pa

    model().fit(pa.concat_tables(batches(2**12)))
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    fitted = model()
    found = watched(lambda: fitted.fit(path))
    return found | {"n_rows": fitted.plan_.n_rows}


def sampled(path: str, folder: str, limit: int) -> dict:
    """Train on samples of rows in a file; the budget of steps is given, not found."""
    from corrdp.training import SampledBudget, descend_sampled_tiled

    _tiles(path, folder, few=True, in_order=True)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    spent = []

    def work() -> None:
        table, _, _ = _tiles(path, folder, in_order=True)
        plan = model().plan(table.n_rows)
        names = [c.name for c in plan.spending.classes if c.promised]
        budget = SampledBudget(SAMPLING_RATE, STEPS, 0.5, dict.fromkeys(names, 0.6))
        used = time.process_time()
        descend_sampled_tiled(table, plan, budget, np.random.default_rng(0))
        spent.append((time.process_time() - used) / STEPS)

    return watched(work) | {"step": spent[0]}


def leakage(path: str, limit: int) -> dict:
    """Release the leakage of a table in a file, all counts of which are exact."""
    from corrdp.leakage import estimate_leakage

    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    declared = policy(bins=8)
    return watched(
        lambda: estimate_leakage(path, declared, epsilon=1.0, delta=1e-10, n_threads=1)
    )


def command(path: str, folder: str) -> dict:
    """Train from the command line; charts of the report need more than a fit does."""
    chosen, peak = Path(folder) / "policy.toml", 0
    policy().to_file(chosen)
    place = Path(folder) / "trained"
    line = [
        *(sys.executable, "-W", "ignore", "-c"),
        "from corrdp.cli import main; main()",
        *("train", path, "--policy", str(chosen), "--model", "logistic"),
        *("--epsilon", "0.003", "--delta", "1e-9", "--out", str(place)),
    ]
    started = time.perf_counter()
    with subprocess.Popen(
        line,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        while process.poll() is None:
            time.sleep(0.1)
            try:
                text = Path(f"/proc/{process.pid}/status").read_text()
                peak = max(peak, int(text.split("RssAnon:")[1].split()[0]) * 1024)
            except (OSError, IndexError):
                continue  # it has just ended
        seconds = time.perf_counter() - started
        if process.returncode:
            raise RuntimeError(process.stderr.read().decode()[-2000:])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    steps = LogisticRegression(policy(), epsilon=0.003, delta=1e-9).plan(FILE_ROWS)
    return {
        "seconds": seconds,
        "cpu": used.ru_utime + used.ru_stime,
        "anonymous": peak,
        "n_steps": steps.n_steps,
    }


def _tiles(path: str, folder: str, *, few: bool = False, in_order: bool = False):
    from corrdp.estimators._rows import RowsInBatches
    from corrdp.training import write_tiles

    encoder = PolicyEncoder(policy())
    rows = RowsInBatches(
        path, None, encoder, lambda y: encoder.encode_label(y).astype(float)
    )
    if few:  # to load and compile what is needed
        rows = [next(iter(rows))]
    file, key = Path(folder) / "bench.tiles", b"k" * 32
    started, used = time.perf_counter(), time.process_time()
    table = write_tiles(
        file,
        rows,
        encoder.blocks_,
        compiled=not in_order,
        key=key,
        facts={},
        in_order=in_order,
    )
    spent = time.perf_counter() - started, time.process_time() - used
    return table, key, spent


def _question(table, plan):
    rows = table.prepared().grouped(plan.layout)
    coef = np.full(plan.layout.n_columns, 0.1)
    return rows, coef


def rates(path: str, folder: str) -> dict:
    """Compare passes over a map, over memory, and over a file that must be read."""
    from dataclasses import replace

    os.environ["NUMBA_NUM_THREADS"] = "1"
    _tiles(path, folder, few=True)
    table, _key, (seconds, used) = _tiles(path, folder)
    plan = model().plan(table.n_rows)
    held = []
    for segment in table.segments:
        stored = {
            name: getattr(segment.tiles, name).copy() for name in ("values", "binary")
        }
        held.append(replace(segment, tiles=replace(segment.tiles, **stored)))
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
    return found | {
        "build": 1e6 * seconds / table.n_rows,
        "build_cpu": 1e6 * used / table.n_rows,
        "bytes_per_row": table.file.size / table.n_rows,
    }


def cold(folder: str) -> dict:
    """Time passes over tiles that are on disk alone, and bare reads of that file."""
    import pyarrow as pa

    from corrdp.training import open_tiles

    os.environ["NUMBA_NUM_THREADS"] = "1"
    model().fit(pa.concat_tables(batches(2**12)))  # what is loaded and compiled once
    file, key = Path(folder) / "bench.tiles", b"k" * 32
    blocks = PolicyEncoder(policy()).blocks_
    buffer = bytearray(2**22)
    found: dict[str, list] = {"cold": [], "disk": [], "read": []}
    for _ in range(PASSES):
        table = open_tiles(file, blocks, compiled=True, key=key, check=False)
        rows, coef = _question(table, model().plan(table.n_rows))
        _leave_page_cache(file)
        before = _read_bytes()
        started = time.perf_counter()
        rows.gradient_sum(coef, residual_bound=None)
        found["cold"].append(time.perf_counter() - started)
        found["read"].append(_read_bytes() - before)
        del table, rows  # a mapped page stays in memory
        gc.collect()
        _leave_page_cache(file)
        started = time.perf_counter()
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(buffer):
                pass
        found["disk"].append(time.perf_counter() - started)
    return {name: float(np.median(values)) for name, values in found.items()}


def _leave_page_cache(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read_bytes() -> int:
    """Return how many bytes this process has had read from disk."""
    text = Path("/proc/self/io").read_text()
    return int(text.split("read_bytes:")[1].split()[0])


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


class Tables:
    """Generated tables in a folder, each written when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, n_rows: int) -> str:
        """Return the path of a table with so many rows."""
        path = self.folder / f"{n_rows}.parquet"
        if not path.exists():
            write(path.with_suffix(".part"), n_rows).rename(path)
        return str(path)

    def repeated(self, n_rows: int, times: int) -> str:
        """Return a directory in which a table lies so many times."""
        directory = self.folder / f"{times}x{n_rows}"
        directory.mkdir(exist_ok=True)
        for number in range(times):
            link = directory / f"{number}.parquet"
            if not link.exists():
                os.link(self.of(n_rows), link)
        return str(directory)


def _plan(tables: Tables) -> dict:
    return alone("plan_wide")


def _memory(tables: Tables) -> dict:
    return alone("fit_in_memory", MEMORY_ROWS)


def _few(tables: Tables) -> dict:
    return alone("fit_from_file", tables.of(FEW_ROWS), LIMIT)


def _many(tables: Tables) -> dict:
    return alone("fit_from_file", tables.of(FILE_ROWS), LIMIT)


def _sampled(tables: Tables) -> dict:
    return alone("sampled", tables.of(FILE_ROWS), str(tables.folder), LIMIT)


def _rates(tables: Tables) -> dict:
    found = alone("rates", tables.of(FEW_ROWS), str(tables.folder))
    assert found.pop("map_bits") == found.pop("memory_bits")
    found |= alone("cold", str(tables.folder))
    gigabytes = 1e-9 * found["bytes_per_row"] * FEW_ROWS
    return found | {
        "read_rate": gigabytes / found["disk"],
        "pass_rate": gigabytes / found["memory"],
    }


def _workers(tables: Tables) -> dict:
    found = alone("workers", tables.of(FILE_ROWS), str(tables.folder))
    assert found["same_bits"]
    return found


def _command(tables: Tables) -> dict:
    return alone("command", tables.of(FILE_ROWS), str(tables.folder))


def _leakage(tables: Tables) -> dict:
    source = tables.repeated(FILE_ROWS, LEAKAGE_ROWS // FILE_ROWS)
    return alone("leakage", source, LIMIT)


PARTS = {
    "plan": _plan,
    "memory": _memory,
    "few": _few,
    "many": _many,
    "rates": _rates,
    "workers": _workers,
    "sampled": _sampled,
    "command": _command,
    "leakage": _leakage,
}


def measured(parts: list[str], folder: Path) -> dict:
    """Measure the named parts, save each with the load, and return all of them."""
    for name in parts:
        before = os.getloadavg()[0]
        found = PARTS[name](Tables(folder)) | {"load": [before, os.getloadavg()[0]]}
        print(name, json.dumps(found), flush=True)
        save_figures("scale", _saved() | {name: found})
    return _saved()


def _saved() -> dict:
    try:
        return read_figures("scale")
    except FileNotFoundError:
        return {}


def _figures(saved: dict) -> list[dict]:
    """Return the rows of the tables, of the parts that were measured."""
    rows = []

    def add(part: str, what: str, key, unit: str, target: str, note: str = "") -> None:
        if part not in saved:
            return
        found = saved[part]
        load = "-".join(f"{load:.0f}" for load in sorted(found["load"]))
        rows.append(
            {
                "name": what,
                "value": float(key(found)),
                "unit": unit,
                "target": target,
                "note": note.format_map(found)
                + ("; " if note else "")
                + f"load {load}",
            }
        )

    add(
        "plan",
        f"plan, {WIDE_COLUMNS:,} raw columns",
        lambda f: f["cpu"],
        "s",
        "< 2 s",
        "of the processor; {seconds:.2g} s by the clock",
    )
    add(
        "memory",
        f"fit from memory, {MEMORY_ROWS:,} rows, peak above the table",
        lambda f: f["bytes_per_row"],
        "B/row",
        "< 100 B/row",
    )
    limit = f"under RLIMIT_DATA of {LIMIT // 10**6} MB"
    for part, n_rows in (("few", FEW_ROWS), ("many", FILE_ROWS)):
        add(
            part,
            f"fit from Parquet, {n_rows:,} rows, anonymous memory",
            lambda f: f["anonymous"] / 1e6,
            "MB",
            "< 600 MB",
            f"{limit}; {STEPS} steps, {{cpu:.3g}} s of the processor in all, "
            "{seconds:.3g} s by the clock",
        )
    add(
        "command",
        f"`corrdp train` from Parquet, {FILE_ROWS:,} rows, anonymous memory",
        lambda f: f["anonymous"] / 1e6,
        "MB",
        "",
        "no limit, with the charts of the report; {n_steps} steps, {cpu:.3g} s of the "
        "processor in all, {seconds:.3g} s by the clock",
    )
    add(
        "sampled",
        f"fit on samples of 1 %, {FILE_ROWS:,} rows, anonymous memory",
        lambda f: f["anonymous"] / 1e6,
        "MB",
        "< 600 MB",
        f"{limit}; {{step:.2g}} s of the processor per step, {{cpu:.3g}} s in all",
    )
    add(
        "rates",
        "rate on the map / in memory",
        lambda f: f["memory"] / f["map"],
        "",
        "> 0.9",
    )
    add(
        "rates",
        "rate with cold pages / in memory",
        lambda f: f["memory"] / f["cold"],
        "",
        "> 0.25",
        "pass after the file left the page cache, {read:.2g} bytes read",
    )
    add(
        "rates",
        "rate with cold pages / bare read of the same file from disk",
        lambda f: f["disk"] / f["cold"],
        "",
        "",
        "what no code can pass: this disk reads {read_rate:.2g} GB/s where the pass "
        "in memory takes {pass_rate:.2g} GB/s",
    )
    add(
        "rates",
        "encode and write tiles",
        lambda f: f["build_cpu"],
        "us/row",
        "< 1.3 us/row",
        "of the processor; {build:.3g} us/row by the clock",
    )
    add("rates", "tiles", lambda f: f["bytes_per_row"], "B/row", "")
    add(
        "workers",
        f"two workers against one, {FILE_ROWS:,} rows",
        lambda f: f["step_1"] / f["step_2"],
        "times",
        "> 1.7",
        "{step_1:.3g} and {step_2:.3g} s/step",
    )
    add(
        "workers",
        "step in which a worker is killed",
        lambda f: f["killed"],
        "s",
        "< 15 s, same bits",
    )
    add(
        "leakage",
        f"leakage from Parquet, {LEAKAGE_ROWS:,} rows, anonymous memory",
        lambda f: f["anonymous"] / 1e6,
        "MB",
        "< 600 MB",
        f"{limit}; a directory in which one file of {FILE_ROWS:,} rows lies ten "
        "times; {cpu:.3g} s of the processor, {seconds:.3g} s by the clock",
    )
    return rows


def render(saved: dict) -> str:
    """Return the table of the page."""
    return markdown_table(
        ["", "measured", "wanted", "note"],
        [
            [r["name"], f"{r['value']:.3g} {r['unit']}".strip(), r["target"], r["note"]]
            for r in _figures(saved)
        ],
    )


def run() -> list[dict]:
    """Measure everything and return the rows of the benchmark page."""
    with tempfile.TemporaryDirectory() as folder:
        return _figures(measured(list(PARTS), Path(folder)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--files", type=Path)
    parser.add_argument("--render", action="store_true")
    chosen = parser.parse_args()
    if chosen.render:
        figures = read_figures("scale")
    else:
        with tempfile.TemporaryDirectory() as folder:
            place = chosen.files or Path(folder)
            figures = measured(chosen.parts or list(PARTS), place)
    save_table("scale", render(figures))

"""Time and memory of counting leakage tables, against a plain group-by.

Each case runs in a process of its own, so that its peak memory is its own.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SENSITIVE, INSENSITIVE, CODES = 5, 15, 10
ROWS = 10_000_000
FILE_ROWS = 50_000_000
GROUP_BY_ROWS = 1_000_000


def names():
    return [f"s{i}" for i in range(SENSITIVE)], [f"u{i}" for i in range(INSENSITIVE)]


def layout(sensitive, insensitive):
    from corrdp.leakage import CountLayout

    n_codes = dict.fromkeys([*sensitive, *insensitive], CODES)
    return CountLayout(n_codes, tuple(sensitive), {u: (u,) for u in insensitive})


def random_codes(n_rows, columns):
    generator = np.random.default_rng(0)
    return {c: generator.integers(0, CODES, n_rows, dtype=np.uint8) for c in columns}


def numbered_policy(sensitive, insensitive):
    from corrdp.policy import CategoryDomain, Feature, Policy

    domain = CategoryDomain(tuple(str(code) for code in range(CODES)))
    return Policy(
        tuple(
            Feature(name, "sensitive" if name in sensitive else "insensitive", domain)
            for name in [*sensitive, *insensitive]
        )
    )


def case_codes(n_rows, n_threads):
    """Count every table from codes, and turn the counts into bounds."""
    from corrdp.leakage import TableWords, count_codes, metric_named, plug_in_leakage

    sensitive, insensitive = names()
    tables = layout(sensitive, insensitive)
    chunk = random_codes(n_rows, [*sensitive, *insensitive])
    start, processor = time.perf_counter(), time.process_time()
    counts = count_codes([chunk], tables, n_threads=n_threads)
    texts = [[str(code) for code in range(CODES)]]
    words = TableWords(texts, [1.0 - np.eye(CODES)] * SENSITIVE)
    for table in counts.tables:
        plug_in_leakage(
            table,
            words,
            metric=metric_named("total_variation"),
            failure_probability=1e-4,
        )
    return {
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - processor,
    }


def case_group_by(n_rows):
    """Count the same tables by pandas, and count them here, on the same rows."""
    import pandas as pd

    from corrdp.leakage import count_codes

    sensitive, insensitive = names()
    chunk = random_codes(n_rows, [*sensitive, *insensitive])
    frame = pd.DataFrame(chunk)
    start = time.perf_counter()
    for name in insensitive:
        frame.groupby([name, *sensitive]).size()
    theirs = time.perf_counter() - start
    start = time.perf_counter()
    count_codes([chunk], layout(sensitive, insensitive), n_threads=1)
    return {"pandas": theirs, "ours": time.perf_counter() - start}


def write_parquet(path, n_rows, columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(1)
    schema = pa.schema([(name, pa.int8()) for name in columns])
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for start in range(0, n_rows, 2**20):
            size = min(2**20, n_rows - start)
            arrays = [
                pa.array(generator.integers(0, CODES, size, dtype=np.int8))
                for _ in columns
            ]
            writer.write_table(pa.table(arrays, schema=schema))


def case_parquet(path, n_columns):
    """Estimate leakage from a Parquet file that is never held whole."""
    from corrdp.leakage import estimate_leakage

    columns = [f"c{i}" for i in range(int(n_columns))]
    policy = numbered_policy(columns[:2], columns[2:])
    start = time.perf_counter()
    estimate_leakage(path, policy, source="public")
    return {"seconds": time.perf_counter() - start}


def measured(case, *arguments):
    """Run one case in a new process; return its figures and peak memory in MB."""
    command = [sys.executable, __file__, "--case", case, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def run(*, rows=ROWS, file_rows=FILE_ROWS) -> list[dict]:
    threads = min(2, os.cpu_count() or 1)
    result = []

    def add(name, value, unit, target, note):
        result.append(
            {
                "name": name,
                "value": round(value, 3),
                "unit": unit,
                "target": target,
                "note": note,
            }
        )

    what = f"{rows:,} rows, 20 features (5 sensitive, 10 codes), 15 tables of 1M cells"
    two = measured("codes", rows, threads)
    add("all leakage tables", two["seconds"], "s", "< 5", what)
    add("peak memory of it", two["peak_mb"], "MB", "< 2000", "codes and tables")
    add("processor time of it", two["processor_seconds"], "s", "", "all threads")
    one = measured("codes", rows, 1)
    add("the same on one thread", one["seconds"], "s", "", what)
    ratio = measured("group_by", GROUP_BY_ROWS)
    add(
        "pandas groupby over ours",
        ratio["pandas"] / ratio["ours"],
        "times",
        "> 1",
        f"{GROUP_BY_ROWS:,} rows, one thread each",
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path, file_rows, [f"c{i}" for i in range(6)])
        file = measured("parquet", path, 6)
        size = path.stat().st_size / 2**20
    add(
        "Parquet file, public leakage",
        file["seconds"],
        "s",
        "",
        f"{file_rows:,} rows, 6 integer columns, {size:.0f} MB",
    )
    add("peak memory of it", file["peak_mb"], "MB", "< 1000", "the whole process")
    return result


def print_table(rows):
    for row in rows:
        print(
            f"{row['name']:<30} {row['value']:>10} {row['unit']:<6} "
            f"{row['target']:<8} {row['note']}"
        )


CASES = {"codes": case_codes, "group_by": case_group_by, "parquet": case_parquet}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        case, *arguments = sys.argv[2:]
        figures = CASES[case](*(int(a) if a.isdigit() else a for a in arguments))
        figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(figures))
    else:
        print_table(run())

"""Spark on this machine, and tables that misbehave; workers import it, too."""

import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from corrdp.engines._spark import SparkEngine
from engine_examples import MARKER

LOG = "spark.log"


def spark_session(directory, master="local[2,4]"):
    """Start Spark on this machine; a task may fail three times before a job does."""
    from pyspark.sql import SparkSession

    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing("Java 17 is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run what the driver runs
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Compiling for speed takes longer than all the jobs of the tests.
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{java} -Dderby.system.home={directory}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.extraJavaOptions": java,
        "spark.executor.memory": "512m",
        "spark.local.dir": str(directory),
        "spark.python.daemon.module": "spark_daemon",
        "spark.shuffle.io.retryWait": "1s",  # three times, for files that are gone
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(master).appName("tests")
    for name, value in options.items():
        builder = builder.config(name, value)
    # Java prints where this process does when it starts.
    printed, saved = os.open(directory / LOG, os.O_CREAT | os.O_WRONLY), os.dup(2)
    os.dup2(printed, 2)
    try:
        return builder.getOrCreate()
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(printed)


def spark_frame(spark, frame, n_partitions):
    """Return a pandas frame as one of Spark, in partitions of rows that are mixed."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return spark.createDataFrame(table).repartition(n_partitions)


def kept_tables(spark):
    """Return the numbers of what Spark keeps."""
    return list(spark.sparkContext._jsc.getPersistentRDDs().keySet())


def forget_blocks(spark, kept):
    """Drop cached partitions, as if executors had died; they are evaluated again."""
    for number in kept:
        spark.sparkContext._jsc.sc().unpersistRDD(number, True)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A maker or a question for a worker that has the compiled kernel."""

    inner: object

    @property
    def columns(self):
        return self.inner.columns

    def __call__(self, table):
        with self._kernel():
            return self.inner(table)

    def answer(self, part):
        with self._kernel():
            return self.inner.answer(part)

    @contextmanager
    def _kernel(self):
        with pytest.MonkeyPatch.context() as patch:
            with_compiled_kernel(patch)
            yield


def with_compiled_kernel(monkeypatch):
    """Take the compiled kernel in this process."""
    pytest.importorskip("numba", reason="needs the extra fast")
    from corrdp.training.kernels import _compiled
    from corrdp.training.rows import _questions

    monkeypatch.setattr(_questions, "_kernel", _compiled)


def compiled_workers(monkeypatch):
    """Let workers use the compiled kernel, which `spark_daemon` takes from them."""
    start, replies = SparkEngine.start, SparkEngine.replies
    monkeypatch.setattr(
        SparkEngine, "start", lambda self, make: start(self, Compiled(make))
    )
    monkeypatch.setattr(
        SparkEngine,
        "replies",
        lambda self, step, question: replies(self, step, Compiled(question)),
    )


@dataclass(frozen=True)
class ChangingRows:
    """Rows that are others once there is a file of that name."""

    path: Path

    def __call__(self, batches):
        changed = self.path.exists()
        return (batch.slice(1) if changed else batch for batch in batches)


@dataclass(frozen=True)
class QuotingRows:
    """Raises what a careless reader raises."""

    def __call__(self, batches):
        for _ in batches:
            raise ValueError(f"a row: {MARKER}")
        yield from ()

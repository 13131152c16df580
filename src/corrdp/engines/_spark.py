"""Spark hosts partitions as cached bytes: one job per question, no noise in a task.

Spark logs what a task stumbled over on the driver: the text of a cell that cannot be
cast, the traceback of a function of the user's. That log is silent while partitions are
asked; executors keep logs of their own.
"""

import logging
import os
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from corrdp.engines._file_parts import PIECE
from corrdp.engines._parts import (
    Asked,
    Failed,
    Maker,
    Part,
    PlacedQuestion,
    Question,
    Reply,
    answered,
    asked_at,
    made,
)
from corrdp.exceptions import GuaranteeVoidError

# Spark holds a cell in one array of the JVM, and a row in one Arrow batch.
_CHUNK_BYTES = 2**24
_KEPT = "place long, number long, count long, chunk binary"
_REPLIES = "reply binary"


class SparkEngine:
    """Partitions of a `pyspark.sql.DataFrame`, made once and kept by Spark.

    What was made is persisted in memory and on disk, so a frame is evaluated once; the
    partitions of an executor that is lost are evaluated again from their lineage, and
    their marks say whether the rows are the same.
    """

    def __init__(self, frame: Any, n_hosts: int | None = None) -> None:
        del n_hosts  # the session's own
        self._frame = frame
        self._kept: Any = None
        self._places: dict[int, int] = {}
        self._speak: Callable[[bool], None] | None = None
        self._busy = False  # a job was begun and has not ended

    def start(self, make: Maker) -> int:
        """Make every partition in one job; what is fetched is which there are."""
        from pyspark import StorageLevel
        from pyspark.sql import functions

        self._speak = quiet_logs(self._frame)
        # Names of our own: Spark reads a dot in a name as a field of a struct.
        rows = self._frame.select(
            *(
                functions.col(_quoted(name)).alias(f"column_{i}")
                for i, name in enumerate(make.columns)
            )
        )
        kept = _mapped(rows, partial(_made_rows, make), _KEPT)
        self._kept = kept.persist(StorageLevel.MEMORY_AND_DISK)
        places = {row.place for row in self._collected(self._kept.select("place"))}
        self._places = {place: i for i, place in enumerate(sorted(places))}
        return len(places)

    def replies(self, step: int, question: Asked) -> Iterator[Reply]:
        """Run one job; its rows are replies."""
        if isinstance(question, PlacedQuestion):
            question = _Renumbered(question, self._places)
        job = _mapped(self._kept, partial(_reply_rows, step, question), _REPLIES)
        for row in self._collected(job):
            reply: Reply = pickle.loads(bytes(row.reply))
            if reply.place not in self._places:
                raise GuaranteeVoidError(
                    "a partition that was empty has rows now. Nothing was released of "
                    "this step. Pass a table that is read alike every time, for "
                    "example one that was written to files."
                )
            yield reply._replace(place=self._places[reply.place])

    def _collected(self, job: Any) -> list[Any]:
        self._busy = True
        rows: list[Any] = job.collect()
        self._busy = False
        return rows

    def close(self) -> None:
        """Let Spark forget the partitions."""
        kept, self._kept = self._kept, None
        speak, self._speak = self._speak, None
        try:
            if kept is not None:
                kept.unpersist()
        finally:
            if speak is not None:
                speak(self._busy)


@dataclass(frozen=True, eq=False)
class _Renumbered:
    """A question by Spark's numbers of partitions; empty ones have no place."""

    question: PlacedQuestion
    places: dict[int, int]

    def at(self, place: int) -> Question:
        return asked_at(self.places[place], self.question)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def _no_word_of_pandas() -> Iterator[None]:
    """Silence PySpark's warning: rows pass as Arrow, whichever pandas is beside."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        yield


def _mapped(frame: Any, function: Any, schema: str) -> Any:
    with _no_word_of_pandas():
        return frame.mapInArrow(function, schema)


def _made_rows(make: Maker, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield what a partition was made into, in pieces; runs on a worker.

    A partition without rows yields nothing: there is no telling what its types are.
    """
    import pyarrow as pa
    from pyspark import TaskContext

    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    context = TaskContext.get()
    assert context is not None  # there is one in every task
    table = pa.Table.from_batches(held).rename_columns(list(make.columns))
    part: Part | Failed = made(make, table)
    content = pickle.dumps(part)
    starts = range(0, len(content), _CHUNK_BYTES)
    for number, start in enumerate(starts):
        yield pa.RecordBatch.from_pydict(
            {
                "place": [context.partitionId()],
                "number": [number],
                "count": [len(starts)],
                "chunk": [content[start : start + _CHUNK_BYTES]],
            }
        )


def _reply_rows(step: int, question: Asked, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the replies of partitions that arrive in pieces; runs on a worker."""
    import pyarrow as pa

    pieces: dict[int, dict[int, bytes]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            place = pieces.setdefault(row["place"], {})
            place[row["number"]] = row["chunk"]
            if len(place) < row["count"]:
                continue
            del pieces[row["place"]]
            part = pickle.loads(b"".join(place[i] for i in range(row["count"])))
            reply = answered(part, row["place"], step, question)
            yield pa.RecordBatch.from_pydict({"reply": [pickle.dumps(reply)]})


_LOGGER = "org.apache.spark"
_OF_PYSPARK = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_PATIENCE = 60.0
_LOCK = threading.Lock()
# Fits that run side by side: the first silences, the last one restores.
_FITS = [0]
_RESTORE: list[Callable[[], None]] = []


def quiet_logs(frame: Any) -> Callable[[bool], None]:
    """Silence Spark's log on the driver; return what lets it speak again.

    That is told whether a job failed: its other tasks may then still run, and fail as
    loudly, so they are waited for. If there is no end of them the log stays silent
    until another fit has ended. With Spark Connect the log is the server's, and is left
    unless the server is one of this process.
    """
    from pyspark import SparkContext

    classic = type(frame).__module__.startswith("pyspark.sql.classic")
    context = (
        frame.sparkSession.sparkContext
        if classic
        else SparkContext._active_spark_context  # noqa: SLF001
    )
    with _LOCK:
        _FITS[0] += 1
        if not _RESTORE:
            _RESTORE.append(_silent_python())
            if context is not None:
                _RESTORE.append(_silent_java(context))

    def speak(failed: bool) -> None:
        with _LOCK:
            _FITS[0] -= 1
            if _FITS[0] or (failed and context is not None and not _idle(context)):
                return
            while _RESTORE:
                _RESTORE.pop()()

    return speak


def _nothing(record: logging.LogRecord) -> bool:
    del record
    return False


def _silent_python() -> Callable[[], None]:
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in _OF_PYSPARK]
    for logger in loggers:
        logger.addFilter(_nothing)

    def speak() -> None:
        for logger in loggers:
            logger.removeFilter(_nothing)

    return speak


def _silent_java(context: Any) -> Callable[[], None]:
    log4j = context._jvm.org.apache.logging.log4j  # noqa: SLF001
    loggers = log4j.LogManager.getContext(False)
    configuration = loggers.getConfiguration()
    had_its_own = configuration.getLoggers().containsKey(_LOGGER)
    level = configuration.getLoggerConfig(_LOGGER).getLevel()
    log4j.core.config.Configurator.setLevel(_LOGGER, log4j.Level.OFF)

    def speak() -> None:
        if had_its_own:
            log4j.core.config.Configurator.setLevel(_LOGGER, level)
        else:  # as its parents are, and as they will be
            configuration.removeLogger(_LOGGER)
            loggers.updateLoggers()

    return speak


def _idle(context: Any) -> bool:
    """Wait until no task runs; return whether that came true in a minute."""
    spark = context._jsc.sc()  # noqa: SLF001
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        spark.listenerBus().waitUntilEmpty()  # an end is told after it was logged
        executors = spark.statusTracker().getExecutorInfos()
        if not any(executor.numRunningTasks() for executor in executors):
            return True
        time.sleep(0.05)
    return False


def joined(address: str | None) -> Callable[[], None]:
    """Join a cluster, or start one on this machine; return what ends it."""
    from pyspark.sql import SparkSession

    if address is None and SparkSession.getActiveSession() is not None:
        return lambda: None  # others have started it
    builder = SparkSession.builder.appName("corrdp")
    if address is not None and address.startswith("sc://"):
        builder = builder.remote(address)
    else:
        if address is None or address.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # One failure of a task ends a job on local[*].
        builder = builder.master(address or "local[*,4]")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    return builder.getOrCreate().stop  # type: ignore[no-any-return]


def table_of_pieces(pieces: Sequence[str]) -> Any:
    """Return a table of pieces of files, about one in each partition."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    with _no_word_of_pandas():
        rows = spark.createDataFrame([(piece,) for piece in pieces], f"{PIECE} string")
    return rows.repartition(len(pieces))

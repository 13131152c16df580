"""Spark's log on the driver, silent while partitions are asked.

Spark logs what a task stumbled over on the driver: the text of a cell that cannot be
cast, the traceback of a function of the user's. Executors keep logs of their own.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

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
    until another fit has ended.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Whose session it is. With Spark Connect the log is the server's, and is left
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

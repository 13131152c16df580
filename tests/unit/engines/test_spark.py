"""Spark: the model of one process, whatever dies; no row on the driver."""

import io
import logging
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from corrdp.engines import HostedParts
from corrdp.estimators import _promises
from corrdp.exceptions import CorrDPError, GuaranteeVoidError, PolicyError
from corrdp.policy import NumberDomain
from corrdp.spark import (
    LinearRegression,
    LogisticRegression,
    answer_queries,
    estimate_leakage,
)
from corrdp.training.kernels import _plain
from corrdp.training.rows import _questions
from descent_examples import example_frame as sampled_frame
from engine_commands import commands_agree
from engine_examples import (
    MARKER,
    NAMED,
    SUMS_DIGEST,
    bits,
    deadly_steps,
    poisoned_frame,
    refused,
    sampled_model,
    sums_digest,
)
from linear_model_examples import (
    example_frame,
    example_policy,
    regression_frame,
    regression_policy,
)
from recorded_noise import RecordedGenerator
from spark_session import (
    LOG,
    ChangingRows,
    QuotingRows,
    compiled_workers,
    forget_blocks,
    kept_tables,
    spark_frame,
    spark_session,
    with_compiled_kernel,
)

pytest.importorskip("pyspark", reason="needs the extra spark")
# Spark warns of pandas, which is not used here, and leaves sockets to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FRAME = example_frame(1500)
STEPS = 6
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark(home):
    session = spark_session(home)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _kernel_of_the_workers(monkeypatch):
    monkeypatch.setattr(_questions, "_kernel", _plain)


def _fitted(rows):
    return LogisticRegression(example_policy(), n_steps=STEPS, **BUDGET).fit(rows)


def _losing(monkeypatch, spark, steps, changes=None):
    """Drop all that Spark keeps before the given questions, counted from 1."""
    ask, asked, kept, lost = HostedParts.ask, [0], [], []

    def losing(self, question):
        asked[0] += 1
        kept.extend(kept_tables(spark) if asked[0] == 1 else ())
        if asked[0] in steps:
            lost.append(len(kept))
            forget_blocks(spark, kept)
            if changes is not None:
                changes.touch()
        return ask(self, question)

    monkeypatch.setattr(HostedParts, "ask", losing)
    return lost


def test_the_model_is_that_of_one_process_whatever_dies(spark, tmp_path, monkeypatch):
    drawn, found = [], []
    # Facts, column sums, then steps: the first, one in the middle, the last.
    steps = (3, 5, 2 + STEPS)
    died = deadly_steps(monkeypatch, tmp_path, steps)
    for rows in (FRAME, spark_frame(spark, FRAME, 3)):
        rng = RecordedGenerator(0)
        monkeypatch.setattr(_promises, "noise_generator", lambda state, rng=rng: rng)
        found.append(bits(_fitted(rows)))
        drawn.append([(name, numbers.shape) for name, numbers in rng.taken()])
    assert found[0] == found[1]
    assert died() == list(steps)
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 1 + STEPS  # means once, then one draw per step


def test_samples_are_those_of_one_process_whatever_dies(spark, tmp_path, monkeypatch):
    expected = sampled_model()
    died = deadly_steps(monkeypatch, tmp_path, (3,))  # facts, then steps
    table = pa.Table.from_pandas(sampled_frame(), preserve_index=False)
    rows = spark.createDataFrame(table)  # in order
    empty_first = rows.where("a > 2").union(rows)  # partitions without a place
    assert sampled_model(empty_first) == expected
    assert died() == [3]


def test_lost_partitions_are_read_again_and_must_be_what_they_were(
    spark, tmp_path, monkeypatch
):
    rows = spark_frame(spark, FRAME, 2)
    expected = bits(_fitted(FRAME))
    with monkeypatch.context() as patch:
        lost = _losing(patch, spark, (3, 5, 2 + STEPS))
        # Shuffled and sorted, and what is read again passes all of that again.
        assert bits(_fitted(rows.orderBy("age"))) == expected
        assert lost == [1, 1, 1]
    for name, ask in (("fit", _fitted), ("query", _counted)):
        changes = tmp_path / name
        changing = rows.mapInArrow(ChangingRows(changes), rows.schema)
        with monkeypatch.context() as patch:
            lost = _losing(patch, spark, (1,), changes)
            with pytest.raises(GuaranteeVoidError, match="other rows than before"):
                ask(changing)
        assert lost == [1]


def _counted(rows):
    return answer_queries(rows, _binned(), ["count() by city"], **BUDGET)


def _binned():
    age, *others = example_policy().features
    binned = replace(age, domain=NumberDomain(0, 100, bins=8))
    return replace(example_policy(), features=(binned, *others))


def test_numbers_leakage_and_queries(spark):
    frame = regression_frame()[:900]
    models = [
        LinearRegression(regression_policy(), n_steps=3, **BUDGET).fit(rows)
        for rows in (frame, spark_frame(spark, frame, 2))
    ]
    assert bits(models[0]) == bits(models[1])
    # More partitions than rows leave some of them empty.
    few = FRAME[:3]
    for frame, n_partitions in ((FRAME, 2), (few, 5)):
        sources = (frame, spark_frame(spark, frame, n_partitions))
        tables = [
            estimate_leakage(rows, _binned(), research=True, **BUDGET).to_dict()
            for rows in sources
        ]
        assert tables[0] == tables[1]
    questions = ["mean(age)", "count() by city"]
    answers = [
        answer_queries(rows, _binned(), questions, **BUDGET).answers for rows in sources
    ]
    assert answers[0] == answers[1]
    with pytest.raises(CorrDPError, match="the table has no rows"):
        _fitted(sources[1].limit(0))
    assert sums_digest(spark_frame(spark, FRAME, 3)) == SUMS_DIGEST


def test_a_poisoned_row_stays_on_its_worker(spark, home, capfd, caplog):
    from pyspark.logger import PySparkLogger

    poisoned = np.arange(len(FRAME)) == 900
    rows = spark_frame(spark, poisoned_frame(FRAME, 900), 2)
    # A cast that quotes the cell, and a function of the user's that does.
    text = spark_frame(
        spark, FRAME.assign(age=np.where(poisoned, MARKER, FRAME.age.astype(str))), 2
    )
    cast = text.withColumn("age", text["age"].cast("double"))
    quoting = rows.mapInArrow(QuotingRows(), rows.schema)
    heard = io.StringIO()
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).addHandler(logging.StreamHandler(heard))
    told = [
        refused(lambda: _fitted(rows), PolicyError, NAMED),
        refused(lambda: _counted(rows), PolicyError, NAMED),
        refused(lambda: _fitted(cast), CorrDPError, r"\(NumberFormatException\)"),
        refused(lambda: _fitted(quoting), CorrDPError, r"\(PythonException\)"),
    ]
    told += [*capfd.readouterr(), caplog.text, heard.getvalue()]
    assert MARKER not in "".join(told) + (home / LOG).read_text()
    # After a fit Spark says again what it has to say.
    with pytest.raises(Exception, match=MARKER):
        cast.collect()
    assert MARKER in (home / LOG).read_text()
    assert MARKER in heard.getvalue()


def test_workers_without_the_kernel_of_the_driver_are_refused(spark, monkeypatch):
    with_compiled_kernel(monkeypatch)
    with pytest.raises(CorrDPError, match="another kernel than this process"):
        _fitted(spark_frame(spark, FRAME, 2))


def test_the_compiled_kernel_answers_alike(spark, monkeypatch):
    with_compiled_kernel(monkeypatch)
    compiled_workers(monkeypatch)
    assert bits(_fitted(spark_frame(spark, FRAME, 2))) == bits(_fitted(FRAME))


def test_commands_give_files_to_the_engine(spark, tmp_path, monkeypatch):
    commands_agree(tmp_path, monkeypatch, "spark", commands=2)

"""Dask: the model of one process, whatever dies; no row on the driver."""

import logging
from dataclasses import replace

import pytest

from corrdp.dask import (
    LinearRegression,
    LogisticRegression,
    answer_queries,
    estimate_leakage,
)
from corrdp.estimators import _promises
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import NumberDomain
from descent_examples import example_frame as sampled_frame
from engine_commands import commands_agree, refused_cell
from engine_examples import (
    MARKER,
    NAMED,
    SUMS_DIGEST,
    bits,
    deadly_steps,
    poisoned_frame,
    quote_a_row,
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

distributed = pytest.importorskip("distributed", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")

FRAME = example_frame(1500)
STEPS = 6
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
# A cluster on a busy machine may take minutes to start, and nothing here is timed.
PATIENT = {"distributed.comm.timeouts.connect": "600s"}


@pytest.fixture(scope="module")
def client():
    import dask

    with (
        dask.config.set(PATIENT),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def _fitted(rows):
    return LogisticRegression(example_policy(), n_steps=STEPS, **BUDGET).fit(rows)


def test_the_model_is_that_of_one_process_whatever_dies(client, tmp_path, monkeypatch):
    drawn, found = [], []
    # Facts, column sums, then steps: the first, one in the middle, the last.
    steps = (3, 5, 2 + STEPS)
    died = deadly_steps(monkeypatch, tmp_path, steps)
    for rows in (FRAME, dd.from_pandas(FRAME, npartitions=3)):
        rng = RecordedGenerator(0)
        monkeypatch.setattr(_promises, "noise_generator", lambda state, rng=rng: rng)
        found.append(bits(_fitted(rows)))
        drawn.append([(name, numbers.shape) for name, numbers in rng.taken()])
    assert found[0] == found[1]
    assert died() == list(steps)
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 1 + STEPS  # means once, then one draw per step


def test_samples_are_those_of_one_process_whatever_dies(client, tmp_path, monkeypatch):
    expected = sampled_model()
    died = deadly_steps(monkeypatch, tmp_path, (3,))  # facts, then steps
    frame = sampled_frame()
    assert sampled_model(dd.from_pandas(frame, npartitions=3)) == expected
    assert died() == [3]


def test_numbers_leakage_and_queries(client):
    frame = regression_frame()[:900]
    models = [
        LinearRegression(regression_policy(), n_steps=3, **BUDGET).fit(rows)
        for rows in (frame, dd.from_pandas(frame, npartitions=2))
    ]
    assert bits(models[0]) == bits(models[1])
    age, *others = example_policy().features
    binned = replace(age, domain=NumberDomain(0, 100, bins=8))
    policy = replace(example_policy(), features=(binned, *others))
    sources = (FRAME, dd.from_pandas(FRAME, npartitions=3))
    tables = [
        estimate_leakage(rows, policy, research=True, **BUDGET).to_dict()
        for rows in sources
    ]
    assert tables[0] == tables[1]
    answers = [
        answer_queries(rows, policy, ["mean(age)", "count() by city"], **BUDGET).answers
        for rows in sources
    ]
    assert answers[0] == answers[1]
    assert sums_digest(dd.from_pandas(FRAME, npartitions=3)) == SUMS_DIGEST


def test_a_poisoned_row_stays_on_its_worker(client, capfd, caplog):
    rows = dd.from_pandas(poisoned_frame(FRAME, 900), npartitions=3)
    # A reader that quotes what it stumbles over fails before our code is asked.
    quoting = dd.from_pandas(FRAME, npartitions=2).map_partitions(
        quote_a_row, meta=FRAME.iloc[:0]
    )
    told = refused(lambda: _fitted(rows), PolicyError, NAMED)
    told += refused(lambda: _counted(rows), PolicyError, NAMED)
    told += refused(lambda: _fitted(quoting), CorrDPError, r"failed \(ValueError\)")
    assert MARKER not in told + caplog.text + "".join(capfd.readouterr())


def _counted(rows):
    return answer_queries(rows, example_policy(), ["count() by city"], **BUDGET)


def test_without_a_client_there_is_nobody_to_ask(monkeypatch):
    def none():
        raise ValueError("no client")

    monkeypatch.setattr(distributed, "get_client", none)
    with pytest.raises(CorrDPError, match="there is no Dask client"):
        _fitted(dd.from_pandas(FRAME, npartitions=2))


def test_commands_give_files_to_the_engine(client, tmp_path, monkeypatch):
    commands_agree(tmp_path, monkeypatch, "dask")


def test_a_command_names_the_column_of_a_refused_cell(client, tmp_path):
    result = refused_cell(tmp_path, "dask")
    assert result.code != 0
    assert "a worker refused the column 'sex'" in result.stderr
    assert MARKER not in result.stdout + result.stderr

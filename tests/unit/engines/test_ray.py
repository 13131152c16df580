"""Ray: the model of one process, whatever dies; no row on the driver."""

import logging
import os
import sys
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from corrdp.estimators import _promises
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import NumberDomain
from corrdp.ray import (
    LinearRegression,
    LogisticRegression,
    answer_queries,
    estimate_leakage,
)
from descent_examples import example_frame as sampled_frame
from engine_commands import commands_agree
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

ray = pytest.importorskip("ray", reason="needs the extra ray")
pytest.importorskip("ray.data", reason="needs the extra ray")
# Ray warns of what it will change and leaves sockets to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FRAME = example_frame(1500)
STEPS = 6
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    home = tmp_path_factory.mktemp("home")
    patch.setenv("HOME", str(home))  # where Ray keeps the token of its cluster
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        logging_level=logging.CRITICAL,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()
    patch.undo()


def _dataset(frame, n_blocks=3):
    tables = [
        pa.Table.from_pandas(frame.iloc[rows], preserve_index=False)
        for rows in np.array_split(np.arange(len(frame)), n_blocks)
    ]
    return ray.data.from_arrow(tables)


def _fitted(rows, **options):
    model = LogisticRegression(example_policy(), n_steps=STEPS, **options, **BUDGET)
    return model.fit(rows)


def test_the_model_is_that_of_one_process_whatever_dies(tmp_path, monkeypatch):
    drawn, found = [], []
    # Facts, column sums, then steps: the first, one in the middle, the last.
    steps = (3, 5, 2 + STEPS)
    died = deadly_steps(monkeypatch, tmp_path, steps)
    for rows in (FRAME, _dataset(FRAME)):
        rng = RecordedGenerator(0)
        monkeypatch.setattr(_promises, "noise_generator", lambda state, rng=rng: rng)
        found.append(bits(_fitted(rows)))
        drawn.append([(name, numbers.shape) for name, numbers in rng.taken()])
    assert found[0] == found[1]
    assert died() == list(steps)
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 1 + STEPS  # means once, then one draw per step


def test_samples_are_those_of_one_process_whatever_dies(tmp_path, monkeypatch):
    expected = sampled_model()
    died = deadly_steps(monkeypatch, tmp_path, (3,))  # facts, then steps
    frame = sampled_frame()
    assert sampled_model(_dataset(frame)) == expected
    assert died() == [3]


def test_samples_are_those_of_one_process_whichever_block_comes_first():
    frame = sampled_frame()
    first = frame.index[0]

    def late(block):
        if first in block["place"].to_pylist():
            time.sleep(2.0)
        return block.drop_columns("place")

    rows = _dataset(frame.assign(place=frame.index))
    late_first = rows.map_batches(late, batch_format="pyarrow")
    assert sampled_model(late_first) == sampled_model()
    assert not late_first.context.execution_options.preserve_order  # as it was


def test_numbers_leakage_and_queries():
    frame = regression_frame()[:900]
    models = [
        LinearRegression(regression_policy(), n_steps=3, **BUDGET).fit(rows)
        for rows in (frame, _dataset(frame, 2))
    ]
    assert bits(models[0]) == bits(models[1])
    age, *others = example_policy().features
    binned = replace(age, domain=NumberDomain(0, 100, bins=8))
    policy = replace(example_policy(), features=(binned, *others))
    sources = (FRAME, _dataset(FRAME))
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
    assert sums_digest(_dataset(FRAME)) == SUMS_DIGEST


def test_a_poisoned_row_stays_on_its_worker(capfd, caplog):
    rows = _dataset(poisoned_frame(FRAME, 900))
    quoting = _dataset(FRAME).map_batches(quote_a_row, batch_format="pyarrow")
    told = refused(lambda: _fitted(rows, n_jobs=1), PolicyError, NAMED)
    told += refused(lambda: _fitted(quoting), CorrDPError, "the engine failed")
    assert MARKER not in told + caplog.text + "".join(capfd.readouterr())


def test_commands_give_files_to_the_engine(tmp_path, monkeypatch):
    commands_agree(tmp_path, monkeypatch, "ray", commands=2)

"""Segments answer integers that add up, whoever hosts them and whatever dies."""

import os
import signal

import numpy as np
import pytest

from corrdp.exceptions import CorrDPError
from corrdp.policy import PolicyEncoder
from corrdp.training import (
    SegmentWorkers,
    descend,
    descend_tiled,
    open_tiles,
    prepare_rows,
    tiled_in_memory,
    write_tiles,
)
from corrdp.training.rows import _segments, _workers
from corrdp.training.rows._questions import SegmentsHere
from descent_examples import example_plan, example_policy, example_rows
from recorded_noise import RecordedGenerator

KEY = b"k" * 32
N_ROWS = 3000
BLOCKS = PolicyEncoder(example_policy()).blocks_


def _batches(codes, labels, size):
    for start in range(0, len(codes), size):
        yield codes[start : start + size], labels[start : start + size]


@pytest.fixture
def small_segments(monkeypatch):
    monkeypatch.setattr(_segments, "_LEAST_ROWS", 512)
    monkeypatch.setattr(_segments, "_MOST_ROWS", 512)


def _written(path, codes, labels, size=700, *, compiled=True):
    return write_tiles(
        path,
        _batches(codes, labels, size),
        BLOCKS,
        compiled=compiled,
        key=KEY,
        facts={},
    )


def _bits(model):
    numbers = np.append(model.coef, model.intercept)
    return numbers.tobytes(), model.noise_scale.tobytes()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("outputs", [(), (3,)])
@pytest.mark.parametrize("anchored", [False, True])
def test_segments_add_up_to_the_whole(compiled, outputs, anchored, small_segments):
    codes, labels = example_rows(N_ROWS)
    rng = np.random.default_rng(1)
    layout = example_plan().layout
    coef, anchor = rng.normal(size=(2, layout.n_columns, *outputs))
    whole = prepare_rows(codes, labels, layout, compiled=compiled).grouped(layout)
    table = tiled_in_memory(_batches(codes, labels, 100), BLOCKS, compiled=compiled)
    parts = table.prepared().grouped(layout)
    assert len(table.segments) == 6
    assert isinstance(parts.prepared.host, SegmentsHere)
    for bound in [None] if outputs else [None, 0.3]:
        terms = {"residual_bound": bound, "anchor": anchor if anchored else None}
        expected, n_inside = whole.gradient_sum(coef, **terms)
        found, n_found = parts.gradient_sum(coef, **terms)
        assert found.tobytes() == expected.tobytes()
        assert n_found == n_inside


@pytest.mark.parametrize("logistic", [True, False])
def test_batches_and_files_leave_the_model_as_it_is(logistic, small_segments, tmp_path):
    codes, labels = example_rows(N_ROWS)
    labels = labels if logistic else labels - 0.5
    plan = example_plan(N_ROWS, logistic=logistic).with_steps(12)
    found = set()
    for size in (1, 511, 512, 3000):
        table = tiled_in_memory(_batches(codes, labels, size), BLOCKS, compiled=True)
        found.add(_bits(descend_tiled(table, plan, np.random.default_rng(0))))
    mapped = _written(tmp_path / "tiles", codes, labels)
    found.add(_bits(descend_tiled(mapped, plan, np.random.default_rng(0))))
    kept = open_tiles(tmp_path / "tiles", BLOCKS, compiled=True, key=KEY)
    found.add(_bits(descend_tiled(kept, plan, np.random.default_rng(0))))
    assert len(found) == 1


def test_one_segment_is_training_as_it_was():
    codes, labels = example_rows(N_ROWS)
    plan = example_plan(N_ROWS).with_steps(12)
    table = tiled_in_memory(_batches(codes, labels, 1000), BLOCKS, compiled=True)
    assert len(table.segments) == 1
    tiled = descend_tiled(table, plan, np.random.default_rng(0))
    assert _bits(tiled) == _bits(descend(codes, labels, plan, np.random.default_rng(0)))


def test_mapped_tiles_cannot_be_written_to(tmp_path):
    codes, labels = example_rows(600)
    for table in (
        _written(tmp_path / "tiles", codes, labels),
        tiled_in_memory(_batches(codes, labels, 100), BLOCKS, compiled=True),
    ):
        with pytest.raises(ValueError, match="read-only"):
            table.segments[0].tiles.values[0, 0] = 1.0


class _Killing(SegmentWorkers):
    """Workers of which one is killed before some steps, while it is asked."""

    kills = ()

    def _ask(self, place, questions, answers, replaced):
        super()._ask(place, questions, answers, replaced)
        if self._step in self.kills and place == 0 and replaced[0] == 0:
            os.kill(self.workers[0].process.pid, signal.SIGKILL)


def test_any_number_of_workers_and_any_death_give_the_same_model(
    small_segments, tmp_path
):
    codes, labels = example_rows(N_ROWS)
    n_steps = 6
    plan = example_plan(N_ROWS).with_steps(n_steps)
    table = _written(tmp_path / "tiles", codes, labels)
    alone = RecordedGenerator(0)
    expected = _bits(descend_tiled(table, plan, alone))
    drawn = [numbers.shape for _, numbers in alone.taken()]
    for n_workers, kills in ((2, (1, 4, n_steps)), (3, ())):
        with _Killing(table, n_workers, key=KEY) as workers:
            workers.kills = kills
            first = {worker.process.pid for worker in workers.workers}
            rng = RecordedGenerator(0)
            model = descend_tiled(table, plan, rng, host=workers)
            now = {worker.process.pid for worker in workers.workers}
        assert _bits(model) == expected
        assert len(now - first) == (1 if kills else 0)  # the last of three in a row
        # Means once, then one draw per step: no more than one process draws.
        assert [numbers.shape for _, numbers in rng.taken()] == drawn
        assert len(drawn) == 1 + n_steps
        assert all(worker.process.poll() is not None for worker in workers.workers)


_TWICE = """
import sys
from multiprocessing.connection import Connection
from corrdp.training.rows import _workers
send = Connection.send
def twice(self, message):
    send(self, message)
    send(self, message)
Connection.send = twice
_workers.serve(sys.argv[1])
"""

_FAILING = """
import sys
from corrdp.training.rows import _workers
from corrdp.training.rows._questions import GradientQuestion
def fail(self, rows):
    print("a row: MARKER")
    raise ValueError("a row: MARKER")
GradientQuestion.answer = fail
_workers.serve(sys.argv[1])
"""


def test_repeated_and_late_answers_count_once(small_segments, tmp_path, monkeypatch):
    codes, labels = example_rows(N_ROWS)
    plan = example_plan(N_ROWS).with_steps(5)
    table = _written(tmp_path / "tiles", codes, labels)
    expected = _bits(descend_tiled(table, plan, np.random.default_rng(0)))
    monkeypatch.setattr(_workers, "_PROGRAM", _TWICE)
    with SegmentWorkers(table, 2, key=KEY) as workers:
        model = descend_tiled(table, plan, np.random.default_rng(0), host=workers)
    assert _bits(model) == expected


def test_a_failing_worker_is_named_by_the_kind_of_its_error_alone(
    small_segments, tmp_path, monkeypatch, capfd
):
    codes, labels = example_rows(N_ROWS)
    table = _written(tmp_path / "tiles", codes, labels)
    monkeypatch.setattr(_workers, "_PROGRAM", _FAILING)
    plan = example_plan(N_ROWS).with_steps(2)
    with (
        SegmentWorkers(table, 1, key=KEY) as workers,
        pytest.raises(CorrDPError) as caught,
    ):
        descend_tiled(table, plan, np.random.default_rng(0), host=workers)
    assert "a worker failed (ValueError)" in str(caught.value)
    assert "MARKER" not in "".join((str(caught.value), *capfd.readouterr()))


def test_a_worker_that_cannot_live_is_given_up(small_segments, tmp_path, monkeypatch):
    codes, labels = example_rows(N_ROWS)
    table = _written(tmp_path / "tiles", codes, labels)
    monkeypatch.setattr(_workers, "_PROGRAM", "raise SystemExit(3)")
    plan = example_plan(N_ROWS).with_steps(2)
    with (
        SegmentWorkers(table, 1, key=KEY) as workers,
        pytest.raises(CorrDPError, match="ended 4 times in one step"),
    ):
        descend_tiled(table, plan, np.random.default_rng(0), host=workers)


def test_workers_need_a_file():
    codes, labels = example_rows(600)
    table = tiled_in_memory(_batches(codes, labels, 100), BLOCKS, compiled=True)
    with pytest.raises(CorrDPError, match="the table has none"):
        SegmentWorkers(table, 2, key=KEY)


def test_segments_are_a_function_of_the_policy():
    assert [_segments.segment_rows(n) for n in (1, 30, 100, 10**6)] == [
        2**16,
        2**16,
        2**15,
        2**12,
    ]

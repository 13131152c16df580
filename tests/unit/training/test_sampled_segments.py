"""Samples are drawn once, before anybody is asked, and the model is always the same."""

import os
import signal
from itertools import pairwise

import numpy as np
import pytest

from corrdp.engines import HostedParts
from corrdp.estimators._rows import PartTiler
from corrdp.exceptions import GuaranteeVoidError
from corrdp.policy import PolicyEncoder
from corrdp.training import (
    HostedTable,
    SampledBudget,
    SegmentWorkers,
    _sampled_descent,
    descend_sampled,
    descend_sampled_tiled,
    prepare_rows,
    tiled_in_memory,
    write_tiles,
)
from corrdp.training.rows import _segments
from corrdp.training.rows._questions import SampledQuestion
from descent_examples import example_frame, example_plan, example_policy, example_rows
from engine_examples import HeldTable, HereEngine
from recorded_noise import RecordedGenerator

KEY = b"k" * 32
N_ROWS = 3000
N_STEPS = 5
POLICY = example_policy()
BLOCKS = PolicyEncoder(POLICY).blocks_


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch):
    monkeypatch.setattr(_segments, "_LEAST_ROWS", 512)
    monkeypatch.setattr(_segments, "_MOST_ROWS", 512)


def _budget(plan, rate=0.1):
    promised = [c.name for c in plan.spending.classes if c.promised]
    return SampledBudget(rate, N_STEPS, 0.5, dict.fromkeys(promised, 0.6))


def _batches(codes, labels, size=700):
    for start in range(0, len(codes), size):
        yield codes[start : start + size], labels[start : start + size]


def _bits(model):
    return np.append(*model).tobytes()


def _alone(*, logistic=True, rate=0.1):
    """Return the model of rows in memory, what was drawn, and the plan."""
    codes, labels = example_rows(N_ROWS)
    plan = example_plan(N_ROWS, logistic=logistic)
    rng = RecordedGenerator(0)
    model = descend_sampled(codes, labels, plan, _budget(plan, rate), rng)
    return _bits(model), _drawn(rng), plan


def _drawn(rng):
    return [(name, numbers.tobytes()) for name, numbers in rng.taken()]


@pytest.mark.parametrize("logistic", [True, False])
@pytest.mark.parametrize("rate", [1e-9, 0.1, 1.0])
def test_batches_and_files_leave_the_model_as_it_is(logistic, rate, tmp_path):
    expected, drawn, plan = _alone(logistic=logistic, rate=rate)
    codes, labels = example_rows(N_ROWS)
    options = {"compiled": False, "in_order": True}
    tables = [
        tiled_in_memory(_batches(codes, labels, size), BLOCKS, **options)
        for size in (1, 511, 3000)
    ]
    tables.append(
        write_tiles(
            tmp_path / "tiles",
            _batches(codes, labels),
            BLOCKS,
            key=KEY,
            facts={},
            **options,
        )
    )
    for table in tables:
        assert len(table.segments) == 6
        rng = RecordedGenerator(0)
        model = descend_sampled_tiled(table, plan, _budget(plan, rate), rng)
        assert _bits(model) == expected
        assert _drawn(rng) == drawn


class _Killing(SegmentWorkers):
    """Workers of which one is killed before some steps, while it is asked."""

    kills = ()

    def _ask(self, place, questions, answers, replaced):
        super()._ask(place, questions, answers, replaced)
        if self._step in self.kills and place == 0 and replaced[0] == 0:
            os.kill(self.workers[0].process.pid, signal.SIGKILL)


def test_a_retry_asks_for_the_rows_that_were_drawn(tmp_path):
    expected, drawn, plan = _alone()
    table = write_tiles(
        tmp_path / "tiles",
        _batches(*example_rows(N_ROWS)),
        BLOCKS,
        compiled=False,
        key=KEY,
        facts={},
        in_order=True,
    )
    for n_workers, kills in ((2, (1, N_STEPS)), (3, ())):
        with _Killing(table, n_workers, key=KEY) as workers:
            workers.kills = kills
            first = {worker.process.pid for worker in workers.workers}
            rng = RecordedGenerator(0)
            model = descend_sampled_tiled(table, plan, _budget(plan), rng, host=workers)
            now = {worker.process.pid for worker in workers.workers}
        assert _bits(model) == expected
        assert bool(now - first) == bool(kills)
        # One coin per row and one noise per step, as in one process.
        assert _drawn(rng) == drawn
        assert len(drawn) == 2 * N_STEPS


def _hosted(frame, cuts, **options):
    held = HeldTable([frame[a:b] for a, b in pairwise(cuts)], **options)
    make = PartTiler(POLICY, compiled=False, key=b"k", in_order=True)
    return HostedParts(HereEngine(held), make)


@pytest.mark.parametrize("cuts", [(0, N_ROWS), (0, 1, 1100, 1100, 2999, N_ROWS)])
def test_partitions_are_asked_for_their_own_rows(cuts):
    expected, drawn, plan = _alone()

    def backwards(step, replies):  # in another order, each twice
        return [*replies[::-1], *replies]

    with _hosted(example_frame(N_ROWS), cuts, trouble=backwards) as parts:
        table = HostedTable(parts.ask, BLOCKS, compiled=False)
        rng = RecordedGenerator(0)
        model = descend_sampled_tiled(table, plan, _budget(plan), rng)
    assert _bits(model) == expected
    assert _drawn(rng) == drawn


def test_a_partition_that_is_made_again_must_have_its_rows_in_order():
    expected, _, plan = _alone()
    frame = example_frame(N_ROWS)
    for again, same in ((frame[:900], True), (frame[:900][::-1], False)):
        remade = {3: {0: again}}
        with _hosted(frame, (0, 900, N_ROWS), remade=remade) as parts:
            table = HostedTable(parts.ask, BLOCKS, compiled=False)
            rng = np.random.default_rng(0)
            if same:
                model = descend_sampled_tiled(table, plan, _budget(plan), rng)
                assert _bits(model) == expected
                continue
            with pytest.raises(GuaranteeVoidError, match="other rows than before"):
                descend_sampled_tiled(table, plan, _budget(plan), rng)


def test_coins_drawn_in_parts_are_those_drawn_at_once(monkeypatch):
    expected = np.flatnonzero(np.random.default_rng(3).random(1000) < 0.3)
    monkeypatch.setattr(_sampled_descent, "_DRAWN_AT_ONCE", 64)
    rng = np.random.default_rng(3)
    assert (_sampled_descent._poisson_sample(1000, 0.3, rng) == expected).all()


def test_drawn_rows_are_taken_from_their_places():
    codes, labels = example_rows(N_ROWS)
    layout = example_plan().layout
    rows = prepare_rows(codes, labels, layout, compiled=False, sort_rows=False).rows
    numbers = np.flatnonzero(np.arange(N_ROWS) % 7 == 3)
    few = prepare_rows(
        codes[numbers], labels[numbers], layout, compiled=False, sort_rows=False
    ).rows
    for taken, whole in zip(rows.taken(numbers), few, strict=True):
        assert (taken[0] == whole[0]).all()
        assert (taken[1] == whole[1]).all()
    assert rows.taken(numbers[:0]).n_rows == 0


def test_a_sample_is_cut_where_segments_end():
    drawn = np.array([0, 4, 5, 9, 2**33])
    parts = SampledQuestion(None, drawn).cut([5, 0, 5, 2**34])
    assert [part.drawn.tolist() for part in parts] == [[0, 4], [], [0, 4], [2**33 - 10]]
    assert [part.drawn.itemsize for part in parts] == [4, 4, 4, 8]

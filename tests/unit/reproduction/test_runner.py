"""What is stored is not run again, and an interruption loses nothing that was done."""

import json
import math
from dataclasses import replace

import pytest

from corrdp.exceptions import CorrDPError
from corrdp.reproduction import EXPERIMENTS, Calibration, Cell, CellResult, experiments
from corrdp.reproduction._runner import CellCache, effort, run_cells, together

SMALL = replace(EXPERIMENTS["synthetic"].quick(), n_rows=50, n_steps=5)


class Trainer:
    """Counts what it is asked to train; may stop on the way."""

    def __init__(self, stop_after=math.inf, error=KeyboardInterrupt):
        self.trained = []
        self.stop_after = stop_after
        self.error = error

    def __call__(self, cells):
        if len(self.trained) >= self.stop_after:
            raise self.error
        self.trained += cells
        return [
            CellResult((0.5,) * cell.n_seeds, {"sensitive": cell.epsilon}, cell.epsilon)
            for cell in cells
        ]


@pytest.fixture
def cells():
    return list(SMALL.cells(2))


def test_a_second_run_does_no_work(tmp_path, cells):
    cache = CellCache(tmp_path)
    first = run_cells(cells, cache, trainer=Trainer())
    again = Trainer()
    assert run_cells(cells, cache, trainer=again) == first
    assert again.trained == []


@pytest.mark.parametrize(
    "change",
    [
        {"n_steps": 6},
        {"step_size": 0.002},
        {"n_rows": 51},
        {"delta": 1e-6},
        {"n_sensitive": 11},
    ],
    ids=str,
)
def test_another_setting_is_other_work(tmp_path, cells, change):
    cache = CellCache(tmp_path)
    run_cells(cells, cache, trainer=Trainer())
    changed = list(replace(SMALL, **change).cells(2))
    again = Trainer()
    run_cells(changed, cache, trainer=again)
    assert sorted(again.trained, key=str) == sorted(changed, key=str)


def test_more_seeds_are_other_work_and_a_new_title_is_not(tmp_path, cells):
    cache = CellCache(tmp_path)
    run_cells(cells, cache, trainer=Trainer())
    again = Trainer()
    run_cells(replace(SMALL, title="Renamed").cells(2), cache, trainer=again)
    assert again.trained == []
    run_cells(SMALL.cells(3), cache, trainer=again)
    assert len(again.trained) == len(cells)


def test_another_version_of_the_algorithm_is_other_work(tmp_path, cells, monkeypatch):
    cache = CellCache(tmp_path)
    run_cells(cells, cache, trainer=Trainer())
    monkeypatch.setattr("corrdp.reproduction._experiments.ALGORITHM", -1)
    again = Trainer()
    run_cells(cells, cache, trainer=again)
    assert len(again.trained) == len(cells)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, CorrDPError])
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, cells, error):
    cache = CellCache(tmp_path)
    stopped = Trainer(stop_after=3, error=error)
    with pytest.raises(error):
        run_cells(cells, cache, trainer=stopped)
    stored = sorted(tmp_path.iterdir())
    assert len(stored) == len(stopped.trained) > 0
    assert all(json.loads(path.read_text())["scores"] for path in stored)
    rest = Trainer()
    results = run_cells(cells, cache, trainer=rest)
    assert set(rest.trained).isdisjoint(stopped.trained)
    assert set(results) == set(cells)


def test_stored_results_come_back_equal(tmp_path):
    cell = Cell(SMALL, Calibration.THEOREM, "semi", 0.3, 2)
    result = CellResult((0.1, -2.5), {"sensitive": math.inf}, math.inf, 3.0, 0.25)
    cache = CellCache(tmp_path / "deep" / "er")
    assert cache.get(cell) is None
    cache.put(cell, result)
    assert cache.get(cell) == result


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cell = Cell(SMALL, Calibration.THEOREM, "semi", 0.3, 2)
    with pytest.raises(CorrDPError, match=r"cannot write.*Choose another"):
        CellCache(tmp_path / "file").put(cell, CellResult((0.1, 0.2)))


def test_processes_train_the_same_models_as_one(tmp_path):
    cells = [cell for cell in SMALL.cells(2) if cell.calibration == "theorem"]
    steps = []
    alone = run_cells(cells, CellCache(tmp_path / "one"))
    shared = run_cells(
        cells,
        CellCache(tmp_path / "two"),
        jobs=2,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert shared == alone
    assert steps[0][0] == 0
    assert steps[-1][0] == steps[-1][1] > 0
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


def test_an_error_in_a_process_reaches_the_caller(tmp_path):
    broken = replace(SMALL, step_size=1e200)
    cells = [cell for cell in broken.cells(2) if cell.calibration == "theorem"]
    with pytest.raises(CorrDPError, match="Lower the step size"):
        run_cells(cells, CellCache(tmp_path), jobs=2)


def test_cells_that_share_a_pass_go_together():
    groups = together(EXPERIMENTS["adult"].cells(20))
    sizes = {(g[0].calibration.value, g[0].method): len(g) for g in groups}
    assert sizes["theorem", "corr"] == 10
    assert sizes["certified", "corr"] == 1
    assert all(effort(group) > 0 for group in groups)
    assert sum(len(group) for group in groups) == 64
    alone = together(EXPERIMENTS["sepsis"].cells(20))
    assert {len(group) for group in alone} == {1}


def test_names_of_the_command_line():
    assert len(experiments("all")) == 10
    assert [e.n_sensitive for e in experiments("synthetic-ms")] == [5, 20, 50, 80]
    assert experiments("tables") == ()
    assert experiments("adult", quick=True)[0].n_rows == 500
    with pytest.raises(CorrDPError, match="must be one of"):
        experiments("figure-3")

"""Running cells: what is stored is not run again, the rest is shared over processes.

Which trainer a cell needs decides which cells are trained together.
"""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from threadpoolctl import threadpool_limits

from corrdp._files import write_text
from corrdp.certificate import Calibration
from corrdp.estimators import sweep
from corrdp.exceptions import CorrDPError
from corrdp.reproduction._data import load_table
from corrdp.reproduction._experiments import Cell, CellResult, Model
from corrdp.reproduction._theorem import train_by_theorem

Progress = Callable[[int, int], None]
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
# Work of one model at one step, relative to a pass over one row of one column.
_CERTIFIED_STEPS = 500
_CERTIFIED_EFFORT = 4.0
_NETWORK_EFFORT = 4.0


def train(cells: Sequence[Cell]) -> list[CellResult]:
    """Train cells that go `together`; results in their order.

    Guarantee
    ---------
    Each result states what is proved for it (`docs/theory/paper_noise.md`).
    """
    first = cells[0]
    if first.experiment.model is Model.NETWORK:
        return [_train_network(cell) for cell in cells]
    if first.calibration is Calibration.CERTIFIED:
        return [train_certified(cell) for cell in cells]
    return train_by_theorem(cells)


def _train_network(cell: Cell) -> CellResult:
    import torch

    from corrdp.reproduction._networks import train_network_cell

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small matrices: threads would only wait for each other
    try:
        return train_network_cell(cell)
    finally:
        torch.set_num_threads(n_threads)


def together(cells: Iterable[Cell]) -> list[tuple[Cell, ...]]:
    """Group cells so that one pass over the rows serves many models.

    Linear models of one method under the paper's noise share a pass; all others are
    trained cell by cell. A group is lost if a run is interrupted, so it stays small.
    """
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        by_theorem = cell.calibration is Calibration.THEOREM
        shares = by_theorem and cell.experiment.model is not Model.NETWORK
        alone = None if shares else cell.epsilon
        key = (cell.experiment.name, cell.calibration, cell.method, alone)
        groups.setdefault(key, []).append(cell)
    return [tuple(group) for group in groups.values()]


def effort(cells: Sequence[Cell]) -> float:
    """Return a rough measure of work, by which the time left is told."""
    experiment = cells[0].experiment
    n_models = sum(cell.n_seeds if cell.is_private else 1 for cell in cells)
    rows = experiment.n_rows or 40_000
    if experiment.model is Model.NETWORK:
        rows = experiment.batch_size or rows
        return _NETWORK_EFFORT * rows * experiment.n_steps * n_models
    if cells[0].calibration is Calibration.CERTIFIED:
        return _CERTIFIED_EFFORT * rows * _CERTIFIED_STEPS * n_models
    if experiment.data == "synthetic":
        rows = 100  # the Gram matrix
    return float(rows * experiment.n_steps * n_models)


def train_certified(cell: Cell) -> CellResult:
    """Train all seeds of a linear or logistic cell by the estimators' default rule.

    Guarantee
    ---------
    Each model by itself keeps its method's promise at its epsilon
    (`docs/theory/default_rule.md`): ``corr`` the policy's, ``standard`` ordinary DP,
    ``semi`` that of sensitive features and nothing about the others. Their scores
    are computed without noise: research on public tables.
    """
    experiment = cell.experiment
    table = load_table(experiment)
    result = sweep(
        table.frame,
        policy=table.policy,
        methods=[cell.method],
        epsilons=[cell.budget.epsilon],
        delta=experiment.delta,
        seeds=cell.n_seeds,
        model=experiment.model.value,
        research=True,
    )
    scores = tuple(row["score"] for row in result.rows)
    if not cell.is_private:
        return CellResult(scores)
    return CellResult(scores, {"sensitive": cell.epsilon}, cell.epsilon)


class CellCache:
    """Results by cell; a changed setting is another file, so nothing goes stale.

    The directory is created when the first result is stored.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)

    def get(self, cell: Cell) -> CellResult | None:
        """Return a stored result, or None."""
        try:
            text = self._path(cell).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return CellResult.from_json(json.loads(text))

    def put(self, cell: Cell, result: CellResult) -> None:
        """Store a result whole or not at all."""
        document = cell.to_json() | result.to_json()
        write_text(self._path(cell), json.dumps(document, allow_nan=False))

    def _path(self, cell: Cell) -> Path:
        name = f"{cell.experiment.name}-{cell.method}-{cell.key()[:20]}.json"
        return self._directory / name


def run_cells(
    cells: Iterable[Cell],
    cache: CellCache,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    trainer: Callable[[Sequence[Cell]], list[CellResult]] = train,
) -> dict[Cell, CellResult]:
    """Return the result of every cell; train only those that are not stored.

    Every finished group of cells is stored at once, so an interrupted run goes on
    from there. With one of `jobs` there are no processes but this one, otherwise each
    has one thread, and `trainer`, which trains cells that go together, must be
    importable. `progress` is told the work done and the work in all.
    """
    wanted = list(cells)
    done = {cell: cache.get(cell) for cell in wanted}
    missing = [cell for cell, result in done.items() if result is None]
    # The longest first, so that no process ends alone with a long group.
    groups = sorted(together(missing), key=effort, reverse=True)
    total, finished = round(sum(effort(group) for group in groups)), 0.0
    if progress is not None:
        progress(0, total)

    def keep(group: Sequence[Cell], results: Sequence[CellResult]) -> None:
        nonlocal finished
        for cell, result in zip(group, results, strict=True):
            cache.put(cell, result)
            done[cell] = result
        finished += effort(group)
        if progress is not None:
            progress(round(finished), total)

    if jobs == 1 or len(groups) < 2:
        with threadpool_limits(1):
            for group in groups:
                keep(group, trainer(group))
    else:
        _share(groups, min(jobs, len(groups)), trainer, keep)
    return {cell: result for cell in wanted if (result := done[cell]) is not None}


def _share(
    groups: Sequence[tuple[Cell, ...]],
    jobs: int,
    trainer: Callable[[Sequence[Cell]], list[CellResult]],
    keep: Callable[[Sequence[Cell], Sequence[CellResult]], None],
) -> None:
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ |= dict.fromkeys(_ONE_THREAD, "1")  # read when a process starts
    executor = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_leave_interrupts_to_the_parent,
    )
    try:
        running: dict[Future[list[CellResult]], tuple[Cell, ...]] = {
            executor.submit(trainer, group): group for group in groups
        }
        while running:
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                keep(running.pop(future), future.result())
    except BrokenProcessPool:
        raise CorrDPError(
            "a training process ended early, perhaps for want of memory. Finished "
            "cells are stored: run again, with fewer jobs."
        ) from None
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()  # what they were training is lost, the rest stored
        raise
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

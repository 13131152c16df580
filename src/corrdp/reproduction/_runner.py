"""Running cells: what is stored is not run again, the rest is shared over processes."""

import json
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from corrdp._json import decode_number, encode_number
from corrdp.exceptions import CorrDPError
from corrdp.reproduction._experiments import Cell, CellResult
from corrdp.reproduction._training import effort, together, train

Progress = Callable[[int, int], None]
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class CellCache:
    """Results by cell; a changed setting is another file, so nothing goes stale.

    Parameters
    ----------
    directory : path
        Where the files are; created when the first result is stored.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)

    def get(self, cell: Cell) -> CellResult | None:
        """Return a stored result, or None."""
        try:
            text = self._path(cell).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        document = json.loads(text)
        return CellResult(
            scores=tuple(document["scores"]),
            provable={k: decode_number(v) for k, v in document["provable"].items()},
            provable_epsilon=decode_number(document["provable_epsilon"]),
            lipschitz=document["lipschitz"],
            constant=document["constant"],
        )

    def put(self, cell: Cell, result: CellResult) -> None:
        """Store a result whole or not at all."""
        document: dict[str, Any] = {
            "experiment": cell.experiment.name,
            "calibration": cell.calibration.value,
            "method": cell.method,
            "epsilon": encode_number(cell.epsilon),
            "scores": list(result.scores),
            "provable": {k: encode_number(v) for k, v in result.provable.items()},
            "provable_epsilon": encode_number(result.provable_epsilon),
            "lipschitz": result.lipschitz,
            "constant": result.constant,
        }
        path = self._path(cell)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(document, file, allow_nan=False)
                os.replace(name, path)
            except BaseException:
                os.unlink(name)
                raise
        except OSError as error:
            raise CorrDPError(
                f"cannot write {str(path.parent)!r} ({error.strerror}). Choose another "
                "directory."
            ) from None

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
    from there.

    Parameters
    ----------
    cells : iterable of Cell
        What is wanted.
    cache : CellCache
        Where results are stored.
    jobs : int
        Processes, with one thread each; 1 for none but this one.
    progress : callable, optional
        Called with the work done and the work in all.
    trainer : callable
        Trains cells that go together; must be importable if `jobs` is above 1.
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

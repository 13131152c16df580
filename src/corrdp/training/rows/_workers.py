"""Segments hosted by processes of this machine: they answer, the driver adds noise.

A worker maps the file of tiles, is asked at public parameters and answers integers. One
that dies is replaced and its segments are asked again: the answers are the same ones
(`docs/theory/scale.md`, Proposition 2).
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NamedTuple, Self

from corrdp._validate import check_count
from corrdp.exceptions import CorrDPError
from corrdp.tables import ArrayFile
from corrdp.training.rows._questions import Answer, StepQuestion, added
from corrdp.training.rows._segments import Segment, TiledTable

MOST_REPLACED = 3
"""How often the worker of some segments is replaced in one step."""

_PROGRAM = """
import sys
from corrdp.training.rows._workers import serve
serve(sys.argv[1])
"""
_ONE_THREAD = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PATIENCE = 5.0  # seconds until a worker that was told to end is ended


class _Ask(NamedTuple):
    step: int
    questions: tuple[StepQuestion, ...]
    segments: tuple[int, ...]


class _Worker(NamedTuple):
    process: "subprocess.Popen[bytes]"
    connection: "Connection[Any, Any]"
    segments: tuple[int, ...]


class SegmentWorkers:
    """Processes that host the segments of a mapped table.

    Parameters
    ----------
    table : TiledTable
        With a file.
    n_workers : int
        How many processes; no more than there are segments are started.
    key : bytes
        Of the file.

    Guarantee
    ---------
    `total` is the sum of one answer of every segment to one question, whatever
    workers die or answer twice; no noise is drawn in a worker, and no row leaves one
    (`docs/theory/scale.md`, Proposition 2).
    """

    def __init__(self, table: TiledTable, n_workers: int, *, key: bytes) -> None:
        if table.file is None:
            raise CorrDPError("workers map a file, and the table has none. Write it.")
        self._file, self._key = table.file, key
        self._sizes = [segment.tiles.n_rows for segment in table.segments]
        self._n_segments = len(table.segments)
        count = min(check_count("n_jobs", n_workers), self._n_segments)
        cuts = [i * self._n_segments // count for i in range(count + 1)]
        self._step = 0
        self.workers: list[_Worker] = []
        for first, last in pairwise(cuts):
            self.workers.append(self._started(tuple(range(first, last))))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.connection.close()
        for worker in self.workers:
            try:
                worker.process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()

    def total(self, question: StepQuestion) -> Answer:
        """Return the sum of the answers of all segments, each counted once."""
        self._step += 1
        questions = question.cut(self._sizes)  # once: a retry asks the same again
        answers: dict[int, Answer] = {}
        replaced = [0] * len(self.workers)
        for place in range(len(self.workers)):
            self._ask(place, questions, answers, replaced)
        while len(answers) < self._n_segments:
            places = {worker.connection: i for i, worker in enumerate(self.workers)}
            for ready in wait(list(places)):
                place = places[ready]  # type: ignore[index]
                try:
                    step, segment, answer = self.workers[place].connection.recv()
                except (EOFError, OSError):  # it is gone
                    self._replace(place, replaced)
                    self._ask(place, questions, answers, replaced)
                    continue
                if segment is None:
                    raise CorrDPError(
                        f"a worker failed ({answer}). Nothing was released. Run again "
                        "with n_jobs=1 to see where."
                    )
                if step == self._step:  # a late answer to an earlier step is dropped
                    answers.setdefault(segment, answer)
        return added([answers[segment] for segment in range(self._n_segments)])

    def _ask(
        self,
        place: int,
        questions: Sequence[StepQuestion],
        answers: dict[int, Answer],
        replaced: list[int],
    ) -> None:
        """Ask a worker for its segments that have not answered."""
        while True:
            worker = self.workers[place]
            missing = tuple(i for i in worker.segments if i not in answers)
            try:
                asked = tuple(questions[i] for i in missing)
                worker.connection.send(_Ask(self._step, asked, missing))
                return
            except OSError:  # it died before it was asked
                self._replace(place, replaced)

    def _replace(self, place: int, replaced: list[int]) -> None:
        gone = self.workers[place]
        gone.connection.close()
        gone.process.kill()
        gone.process.wait()
        replaced[place] += 1
        if replaced[place] > MOST_REPLACED:
            raise CorrDPError(
                f"a worker ended {replaced[place]} times in one step (last exit code "
                f"{gone.process.returncode}). Nothing more was released. Is there "
                "memory for so many? Pass fewer n_jobs."
            )
        self.workers[place] = self._started(gone.segments)

    def _started(self, segments: tuple[int, ...]) -> _Worker:
        ours, theirs = Pipe()
        paths = [str(Path(entry or ".").resolve()) for entry in sys.path]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        environment |= dict.fromkeys(_ONE_THREAD, "1")
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno())],
                pass_fds=[theirs.fileno(), self._file.number],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # a traceback could quote what it holds
            )
        finally:
            theirs.close()
        with suppress(OSError):  # one that is dead already is found out when asked
            ours.send((self._file.number, self._key))
        return _Worker(process, ours, segments)


def serve(handle: str) -> None:
    """Answer questions until the driver is gone: what a worker does."""
    connection: Connection[Any, Any] = Connection(int(handle))
    try:
        number, key = connection.recv()
        file = ArrayFile(number, key=key, check=False)
        while True:
            step, questions, segments = connection.recv()
            for question, segment in zip(questions, segments, strict=True):
                tiles = Segment.of_arrays(file.segments[segment]).tiles
                connection.send((step, segment, question.answer(tiles)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the driver has what it wants, or has died
    except Exception as error:
        connection.send((0, None, type(error).__name__))

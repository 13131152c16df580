"""Partitions that stay where they are: made once, asked often, never fetched.

An engine calls two functions on its workers. `made` turns a partition into what
answers questions; `answered` asks it. Neither raises, since engines send and log what
tasks raise, with their arguments: a failure becomes the kind of an error and the name
of a column. The driver counts one reply of every partition to every question
(`docs/theory/scale.md`, Proposition 4).
"""

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import (
    Any,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from corrdp.exceptions import CorrDPError, GuaranteeVoidError, PolicyError

Answer: TypeAlias = tuple[NDArray[np.int64], ...]
"""Integers that one partition answers; equally shaped for all partitions."""

_T = TypeVar("_T")

# Compiled kernels have threads of their own, and not all of them can be entered twice.
_ONE_AT_A_TIME = threading.Lock()


class Part(Protocol):
    """What a partition was made into."""

    @property
    def mark(self) -> int:
        """What tells rows from other rows, or sums from other sums if those are kept.

        A partition that is made again after its worker was lost must have the same.
        """
        ...


class Maker(Protocol):
    """From the rows of a partition to what answers questions; sent to workers."""

    @property
    def columns(self) -> Sequence[str]:
        """Columns that are read, which are all that a driver names in a message."""
        ...

    def __call__(self, table: Any) -> Part:
        """Return what is kept of a table in memory: pandas or pyarrow."""
        ...


class Question(Protocol):
    """What all partitions are asked; holds public numbers alone."""

    def answer(self, part: Any) -> Answer:
        """Return what one partition adds."""
        ...


@runtime_checkable
class PlacedQuestion(Protocol):
    """What partitions are asked where each is asked something of its own."""

    def at(self, place: int) -> Question:
        """Return what the partition at a place is asked."""
        ...


Asked: TypeAlias = Question | PlacedQuestion


def asked_at(place: int, question: Asked) -> Question:
    """Return what one partition is asked; engines may call it before they send."""
    return question.at(place) if isinstance(question, PlacedQuestion) else question


@dataclass(frozen=True)
class Failed:
    """All that is told of an error on a worker."""

    kind: str  # name of the error's class
    column: str | None = None  # declared, that the message named if it was one of ours
    mark: int = 0  # as of a part


class Reply(NamedTuple):
    """What a worker sends for one partition."""

    step: int
    place: int
    mark: int
    answer: Answer | Failed


def made(make: Maker, table: Any) -> Part | Failed:
    """Return what a partition was made into; never raises. Runs on a worker."""
    try:
        return make(table)
    except Exception as error:
        return _failed(error, getattr(make, "named_columns", make.columns))


def answered(part: Any, place: int, step: int, question: Asked) -> Reply:
    """Return the reply of a partition; never raises. Runs on a worker."""
    if isinstance(part, Failed):
        return Reply(step, place, part.mark, part)
    try:
        with _ONE_AT_A_TIME:
            own = asked_at(place, question)
            return Reply(step, place, part.mark, own.answer(part))
    except Exception as error:
        return Reply(step, place, part.mark, _failed(error, ()))


def _failed(error: Exception, columns: Sequence[str]) -> Failed:
    """Tell the kind of an error and which declared column it is about.

    Messages of our own refusals quote columns as the policy does; what is sent is one
    of the declared names, whatever the message says.
    """
    named = None
    if isinstance(error, CorrDPError):
        text = str(error)
        named = next((c for c in columns if repr(c) in text), None)
    return Failed(type(error).__name__, named)


def mark_of(sums: Answer) -> int:
    """Return the mark of a partition of which sums alone are kept."""
    digest = hashlib.blake2b(digest_size=8)
    for part in sums:
        digest.update(np.ascontiguousarray(part).tobytes())
    return int.from_bytes(digest.digest(), "big")


@dataclass(frozen=True)
class _Marks:
    """Asks for nothing but the mark, which every reply has."""

    def answer(self, part: Any) -> Answer:
        return ()


class Engine(Protocol):
    """An engine that hosts partitions: all that differs between Ray, Spark and Dask."""

    def start(self, make: Maker) -> int:
        """Make every partition where it is; return how many there are."""
        ...

    def replies(self, step: int, question: Asked) -> Iterator[Reply]:
        """Ask every partition; yield replies as they come, of earlier steps too."""
        ...

    def close(self) -> None:
        """Let go of what was made."""
        ...


class HostedParts:
    """Partitions of one table, asked as a whole.

    Guarantee
    ---------
    `ask` returns one answer of every partition to this question, in the order of the
    partitions, or raises: whatever workers die, answer late or more than once. The
    marks of all partitions are known before the first question, so that one which is
    made again later is recognized. No row is fetched, and no random number is drawn on
    a worker (`docs/theory/scale.md`, Proposition 4).
    """

    def __init__(self, engine: Engine, make: Maker) -> None:
        self._engine = engine
        self._step = 0
        self._marks: dict[int, int] = {}
        try:
            self._n_parts: int = told_by_kind(lambda: engine.start(make))
            if self._n_parts == 0:
                raise CorrDPError(
                    "the table has no rows. Pass a table with at least one."
                )
            told_by_kind(lambda: self._answers(0, _Marks()))
        except BaseException:
            engine.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()

    def ask(self, question: Asked) -> list[Answer]:
        """Return the answers of all partitions, each counted once, in their order."""
        self._step += 1
        step = self._step
        return told_by_kind(lambda: self._answers(step, question))

    def _answers(self, step: int, question: Asked) -> list[Answer]:
        answers: dict[int, Answer] = {}
        for reply in self._engine.replies(step, question):
            if reply.step != step:  # a late answer to an earlier question
                continue
            if isinstance(reply.answer, Failed):
                raise _refusal(reply.answer)
            self._check_same_rows(reply)
            answers.setdefault(reply.place, reply.answer)  # the first one counts
        missing = self._n_parts - len(answers)
        if missing:
            raise CorrDPError(
                f"{missing} of {self._n_parts} partitions did not answer. Nothing was "
                "released of this step. See the engine's own log of lost workers."
            )
        return [answers[place] for place in range(self._n_parts)]

    def _check_same_rows(self, reply: Reply) -> None:
        if self._marks.setdefault(reply.place, reply.mark) != reply.mark:
            raise GuaranteeVoidError(
                "a partition that was read again has other rows than before. Nothing "
                "was released of this step. Pass a table that is read alike every "
                "time, for example one that was written to files."
            )


def _refusal(failed: Failed) -> CorrDPError:
    if failed.column is not None:
        return PolicyError(
            f"a worker refused the column {failed.column!r} ({failed.kind}). Nothing "
            "was released of this step. Compare the column with its declaration in "
            "the policy."
        )
    return CorrDPError(
        f"a worker failed ({failed.kind}). Nothing was released of this step. Fit on "
        "a few public rows in one process to see where."
    )


def told_by_kind(work: Callable[[], _T]) -> _T:
    """Return what `work` returns; errors of an engine may quote rows and are dropped.

    Raised outside of the `except` block, so that no traceback carries the other error.
    Ray makes classes of its own from those of others, which are no refusals of ours.
    """
    try:
        return work()
    except Exception as error:
        if type(error).__module__ == CorrDPError.__module__:
            raise
        kind = type(error).__name__
    raise CorrDPError(
        f"the engine failed ({kind}). Nothing was released of this step. See the "
        "engine's own log."
    )

"""Tables that an engine holds, known by their type alone, and sessions of engines.

All that differs between engines stands in the module of each; none is imported before
a table or a command asks for it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from corrdp._typing import IntArray
from corrdp.engines import _dask, _ray, _spark
from corrdp.engines._file_parts import EngineFiles, FileMaker
from corrdp.engines._parts import (
    Answer,
    Engine,
    HostedParts,
    Maker,
    mark_of,
    told_by_kind,
)
from corrdp.exceptions import CorrDPError
from corrdp.tables import is_source, require_columns


def is_hosted(data: Any) -> bool:
    """Return whether an engine holds the rows: they are asked where they are."""
    return isinstance(data, EngineFiles) or _kind(data) is not None


def is_elsewhere(data: Any) -> bool:
    """Return whether rows are not in memory: a source to read, or a hosted table."""
    return is_source(data) or is_hosted(data)


def refuse_hosted(
    data: Any, work: str, remedy: str = "Bring the rows to one machine."
) -> None:
    """Raise if an engine holds the rows, for `work` (singular) that needs them here."""
    if is_hosted(data):
        raise CorrDPError(
            f"{work} needs the rows in this process, and a {type(data).__name__} of "
            f"{type(data).__module__.partition('.')[0]} stays where it is. {remedy}"
        )


def hosted_parts(data: Any, make: Maker, *, n_hosts: int | None = None) -> HostedParts:
    """Return the partitions of a table that an engine holds, made and ready.

    `n_hosts` is how many workers are wanted, for engines that are told.
    """
    if isinstance(data, EngineFiles):
        module, pieces = _MODULES[data.engine], data.pieces
        make = FileMaker(make, data.number_columns)
        data = told_by_kind(lambda: module.table_of_pieces(pieces))
    kind = _kind(data)
    assert kind is not None
    present = told_by_kind(lambda: _names(data))  # which may read rows
    require_columns(f"the {type(data).__name__}", make.columns, present)
    return HostedParts(_ENGINES[kind](data, n_hosts), make)


@dataclass(frozen=True, eq=False)
class _Sums:
    """What the rows of a partition add up to; they are not kept."""

    sums: Answer

    @property
    def mark(self) -> int:
        return mark_of(self.sums)


@dataclass(frozen=True)
class _AllSums:
    """Asks for all that was added up."""

    def answer(self, part: _Sums) -> Answer:
        return part.sums


@dataclass(frozen=True, eq=False)
class _Summer:
    """Adds up the rows of a partition on its worker."""

    columns: Sequence[str]
    add: Callable[[Any], Answer]

    def __call__(self, table: Any) -> _Sums:
        return _Sums(self.add(table))


def hosted_sums(
    data: Any, columns: Sequence[str], add: Callable[[Any], Answer]
) -> list[IntArray]:
    """Return what all rows of a table that an engine holds add up to.

    `add` sums the rows of one partition, of which it reads the `columns`. It is sent to
    workers, and so a function of a module or a `partial` of one.

    Guarantee
    ---------
    The sums of all rows, in any order: whole numbers add up exactly
    (`docs/theory/scale.md`, Proposition 4). Noise is the caller's.
    """
    with hosted_parts(data, _Summer(columns, add)) as parts:
        answers = parts.ask(_AllSums())
    return [np.sum(sums, axis=0, dtype=np.int64) for sums in zip(*answers, strict=True)]


def _kind(data: Any) -> str | None:
    for base in type(data).__mro__:
        package, _, inside = base.__module__.partition(".")
        if inside.startswith("pandas"):  # pandas on Spark has an order, and an index
            return None
        if f"{package}.{base.__name__}" in _ENGINES:
            return f"{package}.{base.__name__}"
    return None


def _names(data: Any) -> list[str]:
    if _kind(data) == "ray.Dataset":
        return _ray.column_names(data)
    return [str(name) for name in data.columns]


@contextmanager
def engine_session(engine: str, address: str | None = None) -> Iterator[None]:
    """Join an engine for as long as a command takes.

    The address is that of a Dask scheduler, ``auto`` or an address for Ray, a master or
    ``sc://...`` for Spark. By default it is the session of this process, or a new one
    on this machine.

    Engines print on the driver what workers say. In sessions that are started here
    Ray forwards nothing, and workers of Dask on this machine are silent.
    """
    with ExitStack() as stack:
        refusal = None
        try:
            stack.callback(_MODULES[engine].joined(address))
        except ImportError:
            refusal = f"{engine} is not installed. pip install 'corrdp[{engine}]'."
        except Exception as error:
            refusal = (
                f"{engine} does not answer at {address or 'this machine'} "
                f"({type(error).__name__}). Check that it runs there."
            )
        if refusal is not None:
            raise CorrDPError(refusal)
        yield


_MODULES: dict[str, Any] = {"dask": _dask, "ray": _ray, "spark": _spark}
_ENGINES: dict[str, Callable[[Any, int | None], Engine]] = {
    "dask.DataFrame": _dask.DaskEngine,
    "pyspark.DataFrame": _spark.SparkEngine,
    "ray.Dataset": _ray.RayEngine,
}

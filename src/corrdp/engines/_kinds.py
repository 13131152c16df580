"""Tables that an engine holds, known by their type alone: no engine is imported."""

from collections.abc import Callable
from typing import Any

from corrdp.engines._file_parts import EngineFiles, FileEngine
from corrdp.engines._parts import Engine, HostedParts, Maker, told_by_kind
from corrdp.engines._sessions import pieces_on
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.tables import is_source


def is_hosted(data: Any) -> bool:
    """Return whether an engine holds the rows: they are asked where they are."""
    return _kind(data) is not None


def is_elsewhere(data: Any) -> bool:
    """Return whether rows are not in memory: a source to read, or a hosted table."""
    return is_source(data) or is_hosted(data)


def refuse_hosted(
    data: Any, work: str, remedy: str = "Bring the rows to one machine."
) -> None:
    """Raise if an engine holds the rows, for work that needs them here.

    Parameters
    ----------
    data : table
        What was passed.
    work : str
        What was asked for, in the singular.
    remedy : str
        What to do instead.
    """
    if is_hosted(data):
        raise CorrDPError(
            f"{work} needs the rows in this process, and a {type(data).__name__} of "
            f"{type(data).__module__.partition('.')[0]} stays where it is. {remedy}"
        )


def hosted_parts(data: Any, make: Maker, *, n_hosts: int | None = None) -> HostedParts:
    """Return the partitions of a table that an engine holds, made and ready.

    Parameters
    ----------
    data : table that an engine holds
        Private rows: `dask.dataframe.DataFrame`, `ray.data.Dataset`,
        `pyspark.sql.DataFrame`, or `EngineFiles`.
    make : Maker
        What becomes of a partition on its worker.
    n_hosts : int, optional
        How many workers are wanted, for engines that are told.
    """
    kind = _kind(data)
    assert kind is not None
    present = told_by_kind(lambda: _names(data))  # which may read rows
    absent = [name for name in make.columns if name not in present]
    if absent:
        raise PolicyError(
            f"the {type(data).__name__} lacks the columns "
            f"{', '.join(map(repr, absent))}. Add them, or remove them from the policy."
        )
    return HostedParts(_ENGINES[kind](data, n_hosts), make)


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
        from corrdp.engines._ray import column_names

        return column_names(data)
    return [str(name) for name in data.columns]


def _dask(data: Any, n_hosts: int | None) -> Engine:
    from corrdp.engines._dask import DaskEngine

    del n_hosts  # the cluster's own
    return DaskEngine(data)


def _ray(data: Any, n_hosts: int | None) -> Engine:
    from corrdp.engines._ray import RayEngine

    return RayEngine(data, n_hosts)


def _spark(data: Any, n_hosts: int | None) -> Engine:
    from corrdp.engines._spark import SparkEngine

    del n_hosts  # the session's own
    return SparkEngine(data)


def _files(data: EngineFiles, n_hosts: int | None) -> Engine:
    pieces = told_by_kind(lambda: pieces_on(data.engine, data.pieces))
    kind = _kind(pieces)
    assert kind is not None
    return FileEngine(_ENGINES[kind](pieces, n_hosts), data.number_columns)


_ENGINES: dict[str, Callable[[Any, int | None], Engine]] = {
    "corrdp.EngineFiles": _files,
    "dask.DataFrame": _dask,
    "pyspark.DataFrame": _spark,
    "ray.Dataset": _ray,
}

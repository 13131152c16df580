"""The one door to tables: pandas, polars, pyarrow and numpy become plain columns.

Nothing read here appears in a message: errors name columns and types only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from corrdp._typing import IntArray
from corrdp.exceptions import PolicyError
from corrdp.tables._cells import python_cells, require_columns

Column: TypeAlias = NDArray[Any] | list[Any]
"""Floats (missing is NaN), integers, booleans; or a list of Python objects."""


@dataclass(frozen=True, eq=False)
class DistinctColumn:
    """A column as its distinct values, and the place of each row's value among them.

    Values may repeat or occur in no row; the last one is None, for missing cells.
    """

    values: list[Any]
    places: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.places)


_REMEDY = "Pass a pandas, polars or pyarrow table, or a numpy array of two dimensions."


def check_columns(table: Any, names: Sequence[str]) -> None:
    """Raise `PolicyError` unless the table has the named columns."""
    _opened(table, names)


def read_columns(table: Any, names: Sequence[str]) -> list[Column]:
    """Return the named columns.

    A numpy array has no names: its columns are `names`, all of them and in this order.
    """
    return [_spread(column) for column in read_distinct(table, names)]


def read_distinct(
    table: Any, names: Sequence[str], *, only: Sequence[str] | None = None
) -> list[Column | DistinctColumn]:
    """Return columns as `read_columns` does, or `only` some; texts once each."""
    wanted = names if only is None else only
    if isinstance(table, np.ndarray):
        array = _opened(table, names)
        place = {name: index for index, name in enumerate(names)}
        return [_from_array(array[:, place[name]]) for name in wanted]
    frame = _opened(table, wanted)
    return [_from_series(frame.get_column(name)) for name in wanted]


def read_series(values: Any, name: str) -> Column | DistinctColumn:
    """Return one column given as a series, an array or a list."""
    if isinstance(values, list | tuple):
        return list(values)
    if isinstance(values, np.ndarray):
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise PolicyError(
                f"Column {name!r} must have one dimension, got {values.ndim}. "
                "Pass one value per row."
            )
        return _from_array(values)
    try:
        return _from_series(nw.from_native(values, series_only=True))
    except TypeError:
        kind = type(values).__name__
    raise PolicyError(
        f"Column {name!r} must be a series, an array or a list, got {kind}. "
        "Pass one value per row."
    )


def _opened(table: Any, names: Sequence[str]) -> Any:
    if isinstance(table, np.ndarray):
        if table.ndim != 2 or table.shape[1] != len(names):
            raise PolicyError(
                f"A numpy array must have {len(names)} columns in the policy's order, "
                f"got shape {table.shape[1:]} per row. Order: {', '.join(names)}."
            )
        return table
    problem = ""
    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        problem = f"The table is a {type(table).__name__}. {_REMEDY}"
    except DuplicateError:
        problem = "The table has two columns of the same name. Rename one of them."
    if problem:
        raise PolicyError(problem)
    require_columns("The table", names, frame.columns)
    return frame


def _from_series(series: Any) -> Column | DistinctColumn:
    kind = series.dtype
    if kind in (nw.Int128, nw.UInt128):  # numpy has none
        return list(series.to_list())
    if kind.is_integer():
        return _from_integers(series)
    if kind.is_float():
        floats = series.cast(nw.Float64).to_numpy()
        return np.asarray(floats, dtype=np.float64)
    if kind == nw.Boolean and not series.is_null().any():
        return np.asarray(series.to_numpy(), dtype=np.bool_)
    if kind in (nw.String, nw.Categorical, nw.Enum) or kind.is_temporal():
        return _distinct(series)
    return list(series.to_list())


def _from_integers(series: Any) -> Column:
    """Return integers; with missing ones as floats where floats hold them exactly."""
    missing = np.asarray(series.is_null().to_numpy(), dtype=np.bool_)
    if not missing.any():
        return np.asarray(series.to_numpy())
    held = np.asarray(series.fill_null(0).to_numpy())
    if held.min() <= -(2**53) or held.max() >= 2**53:
        return list(series.to_list())
    return np.where(missing, np.nan, held.astype(np.float64))


def _distinct(series: Any) -> Column | DistinctColumn:
    """Look at each distinct text or day once: rows repeat few of them."""
    if series.implementation.is_pandas_like():
        native = series.to_native()
        if hasattr(native.dtype, "categories"):
            return _levels(native.cat)
    try:
        import pyarrow as pa

        column = series.to_arrow()
    except (ImportError, ValueError, TypeError, OverflowError, NotImplementedError):
        # no pyarrow; text that is not Unicode; categories of several types
        return list(series.to_list())
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    values: list[Any] = []
    parts = [np.empty(0, dtype=np.int64)]
    for chunk in chunks:
        is_coded = pa.types.is_dictionary(chunk.type)
        coded = chunk if is_coded else chunk.dictionary_encode()
        cells = [*python_cells(coded.dictionary), None]
        places = coded.indices.cast(pa.int64()).fill_null(len(cells) - 1).to_numpy()
        parts.append(places + len(values))
        values += cells
    return DistinctColumn(values or [None], np.concatenate(parts))


def _levels(held: Any) -> DistinctColumn:
    """Return a pandas column of categories, each of them as it is.

    Arrow would give all of them one type: beside a day, a number becomes a day.
    """
    values = [*held.categories.tolist(), None]
    places = held.codes.to_numpy().astype(np.int64)
    return DistinctColumn(values, np.where(places < 0, len(values) - 1, places))


def _spread(column: Column | DistinctColumn) -> Column:
    if not isinstance(column, DistinctColumn):
        return column
    values = column.values
    return [values[place] for place in column.places.tolist()]


def _from_array(values: NDArray[Any]) -> Column:
    if values.dtype.kind == "M":  # finer units become plain integers in a list
        values = values.astype("datetime64[us]")
    if isinstance(values, np.ma.MaskedArray):
        return list(values.tolist())  # None where it is masked
    if values.dtype.kind == "f":
        return values.astype(np.float64, copy=False)
    return values if values.dtype.kind in "biu" else list(values.tolist())


def with_twins(table: Any, *, changed: Sequence[str], partner: IntArray) -> Any:
    """Return a table of all rows and then, in the same order, all their twins.

    A twin has the `changed` columns of another row, its `partner`, and all others of
    its own.
    """
    check_columns(table, changed)
    frame = nw.from_native(table, eager_only=True)
    columns = [
        frame.get_column(name)[partner.tolist()].to_list()
        if name in changed
        else frame.get_column(name).to_list()
        for name in frame.columns
    ]
    twins = frame.with_columns(
        *(
            nw.new_series(
                name, values, frame.schema[name], backend=frame.implementation
            )
            for name, values in zip(frame.columns, columns, strict=True)
        )
    )
    return nw.concat([frame, twins]).to_native()


def take_rows(table: Any, places: IntArray) -> Any:
    """Return the rows at some places, in their order, as a table of the same kind."""
    return nw.from_native(table, eager_only=True)[places.tolist()].to_native()

"""The one door to tables: pandas, polars, pyarrow and numpy become plain columns.

Nothing read here appears in a message: errors name columns and types only.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from corrdp.exceptions import PolicyError

Column: TypeAlias = NDArray[Any] | list[Any]
"""Floats (missing is NaN), integers, booleans; or a list of Python objects."""

_REMEDY = "Pass a pandas, polars or pyarrow table, or a numpy array of two dimensions."


def check_columns(table: Any, names: Sequence[str]) -> None:
    """Raise `PolicyError` unless the table has the named columns."""
    _opened(table, names)


def read_columns(
    table: Any, names: Sequence[str], *, only: Sequence[str] | None = None
) -> list[Column]:
    """Return the named columns, or `only` some of them.

    A numpy array has no names: its columns are `names`, all of them and in this order.
    """
    wanted = names if only is None else only
    if isinstance(table, np.ndarray):
        array = _opened(table, names)
        place = {name: index for index, name in enumerate(names)}
        return [_from_array(array[:, place[name]]) for name in wanted]
    frame = _opened(table, wanted)
    return [_from_series(frame.get_column(name)) for name in wanted]


def read_series(values: Any, name: str) -> Column:
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
    absent = [name for name in names if name not in frame.columns]
    if absent:
        raise PolicyError(
            f"The table lacks the columns {', '.join(map(repr, absent))}. "
            "Add them, or remove them from the policy."
        )
    return frame


def _from_series(series: Any) -> Column:
    if series.dtype.is_numeric():
        if series.dtype.is_integer() and not series.is_null().any():
            return np.asarray(series.to_numpy())
        floats = series.cast(nw.Float64).to_numpy()
        return np.asarray(floats, dtype=np.float64)
    if series.dtype == nw.Boolean and not series.is_null().any():
        return np.asarray(series.to_numpy(), dtype=np.bool_)
    return list(series.to_list())


def _from_array(values: NDArray[Any]) -> Column:
    if values.dtype.kind == "f":
        return values.astype(np.float64, copy=False)
    return values if values.dtype.kind in "biu" else list(values.tolist())

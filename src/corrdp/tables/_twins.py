"""Rows beside twins of themselves: the same row with some columns of another."""

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v1 as nw

from corrdp._typing import IntArray
from corrdp.tables._frames import check_columns


def with_twins(table: Any, *, changed: Sequence[str], partner: IntArray) -> Any:
    """Return a table of all rows and then, in the same order, all their twins.

    Parameters
    ----------
    table : pandas, polars or pyarrow table
        Rows.
    changed : sequence of str
        Columns that a twin has from its partner; all others are its own.
    partner : array of int, shape (n_rows,)
        Row that each twin takes these columns from.

    Returns
    -------
    both : table of the same kind, with twice as many rows
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

"""Reading what a policy declares: which rows, in which order, and whether they fit."""

import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing, nullcontext
from glob import has_magic
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy._encoder import read_cells
from corrdp.policy._features import number_columns
from corrdp.policy._policy import Policy
from corrdp.tables import (
    files_of,
    is_source,
    iter_batches,
    read_distinct,
    read_table,
    watching_rows,
)

# A table without rowid lies in the order of its key, and so does one whose key is the
# rowid; every other key has an index of its own beside the table.
_KEY_OF_TABLE = """
    select name from pragma_table_info(?1) where pk > 0 and not exists (
        select 1 from pragma_index_list(?1) as own join sqlite_master as kept
        on own.name = kept.name where own.origin = 'pk'
    )
"""


def read_declared(
    source: Any, policy: Policy, *, with_label: bool = True, with_others: bool = False
) -> Any:
    """Return the policy's columns of a source, label and unit included, in memory.

    The source is one of `corrdp.tables.iter_batches`; `with_others` columns that the
    policy does not name are read too, as texts.

    Guarantee
    ---------
    A cell of the table is a function of the same cell of the source
    (docs/theory/encoder.md). Nobody is told how many rows were read of a table with
    units: how many a unit has is private. Neither folders nor keys order rows of units
    by cells that are protected: which rows stay would depend on them
    (docs/theory/queries.md).
    """
    if policy.unit is not None:
        _refuse_order_by_cells(source, policy)
    declared = policy.columns if with_label else policy.features
    names = [column.name for column in declared]
    names += [] if policy.unit is None else [policy.unit]
    quiet = nullcontext() if policy.unit is None else watching_rows(lambda _: None)
    with quiet:
        return read_table(
            source,
            None if with_others else names,
            number_columns=number_columns(declared),
        )


def require_fit(policy: Policy, table: Any, names: Collection[str]) -> None:
    """Raise if a named column does not fit, so that nobody pays for what is refused.

    Guarantee
    ---------
    Releases nothing but a refusal, which depends on rows (`docs/theory/encoder.md`).
    """
    parts: Iterable[Any] = [table]
    if is_source(table):
        numbers = number_columns(policy.columns)
        parts = iter_batches(table, list(names), number_columns=numbers)
    for part in parts:
        for problem in table_problems(policy, part, names).values():
            raise PolicyError(problem)


def table_problems(
    policy: Policy, table: Any, names: Collection[str] | None = None
) -> dict[str, str]:
    """Return what is wrong with each column that does not fit, without its values.

    Of all columns, or only of those that are named.
    """
    problems = {}
    for column in policy.columns:
        if names is not None and column.name not in names:
            continue
        known = [column.name]
        if isinstance(table, np.ndarray):  # whose columns are the features
            known = [feature.name for feature in policy.features]
        try:
            read_cells(column, read_distinct(table, known, only=[column.name])[0])
        except CorrDPError as error:
            problems[column.name] = str(error)
    return problems


def _refuse_order_by_cells(source: Any, policy: Policy) -> None:
    """Raise if cells of a protected column decide in which order rows come.

    The first rows of a unit are used. A row that moved to another place, because its
    cell changed, would bring other rows, and all their cells, in and out.

    Guarantee
    ---------
    Folders and keys of SQLite tables order no rows by protected cells
    (docs/theory/queries.md). Not covered: what a query of the caller sorts by.
    """
    found = (("lie in folders", _folder_names), ("lie in a table", _key_names))
    for where, names_of in found:
        names = names_of(source)
        for column in policy.columns:
            if column.name in names and column.name not in policy.unprotected:
                raise PolicyError(
                    f"rows {where} by their {column.name!r}, which is protected and "
                    f"would decide which rows of one {policy.unit!r} come first and "
                    "are used. Write the rows to one file, in an order of their own."
                )


def _key_names(source: Any) -> set[str]:
    """Return the columns of the key in whose order an SQLite table lies."""
    if not isinstance(source, str | Path) or "::" not in str(source):
        return set()
    table = str(source).partition("::")[2]
    found: set[str] = set()
    for path in files_of(source) or ():
        with path.open("rb") as file:
            if file.read(15) != b"SQLite format 3":  # of DuckDB, or a log
                continue
        uri = f"{path.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                found.update(
                    row[0] for row in connection.execute(_KEY_OF_TABLE, [table])
                )
        except sqlite3.Error as error:
            raise CorrDPError(
                f"cannot read the key of {str(source)!r} ({error}). Is it damaged, or "
                "in use?"
            ) from None
    return found


def _folder_names(source: Any) -> set[str]:
    """Return the columns that the folders of a directory, glob or dataset name."""
    if hasattr(source, "get_fragments"):
        return _partition_names(source)
    if not isinstance(source, str | Path):
        return set()
    root = Path(str(source).partition("::")[0])
    if not root.exists():  # a pattern, of which the beginning is one folder
        root = Path(*takewhile(lambda part: not has_magic(part), root.parts))
    return {
        unquote(part.partition("=")[0])
        for path in files_of(source) or ()
        for part in path.parts[len(root.parts) : -1]
        if "=" in part
    }


def _partition_names(dataset: Any) -> set[str]:
    """Return the columns by which a dataset of pyarrow is partitioned."""
    from pyarrow.dataset import get_partition_keys

    try:
        found = [part.partition_expression for part in dataset.get_fragments()]
    except ValueError:  # filtered or projected: fragments are not told, others may be
        parts = getattr(dataset, "children", ())  # of a union, without the filter
        own = getattr(dataset, "partitioning", None)
        names = set() if own is None else set(own.schema.names)
        return names.union(*map(_partition_names, parts))
    return {name for keys in found for name in get_partition_keys(keys)}

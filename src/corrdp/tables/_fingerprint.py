"""Keyed fingerprints of a table's columns: equal ones match, none can be guessed."""

import hashlib
import hmac
import math
import struct
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from corrdp._typing import JSONObject
from corrdp.exceptions import BudgetError, CorrDPWarning
from corrdp.tables._cells import canonical_text
from corrdp.tables._files import is_source, iter_batches, reads_once
from corrdp.tables._frames import DistinctColumn, read_distinct

_MISSING = struct.pack("<d", math.nan)
_REMEDY = (
    "Use the ledger of this table, or accept_new_data=True to go on with what is left "
    "of the budget."
)


def table_fingerprint(
    table: Any,
    *,
    key: bytes,
    names: Sequence[str] | None = None,
    number_columns: Sequence[str] = (),
) -> JSONObject:
    """Return the public number of rows and a keyed hash of every column.

    `names` are the columns to hash, if the table has them, and those of a numpy array
    in order; all columns by default, those of an array by their number. In a source (a
    path, a dataset) `number_columns` are declared numbers. The key is the ledger's.

    Guarantee
    ---------
    HMAC-SHA-256 under a random 256-bit key, of the column's name, the number of rows
    and the cells: to whoever lacks the key the hashes are indistinguishable from
    random (`docs/theory/ledger.md`). A cell counts for what it says: the number 1, the
    text "1.0" of a file and 1 in another table are one cell, so are an empty cell and a
    missing one. Exports leave the hashes in and the key out.
    """
    batches: Iterable[tuple[Sequence[str], Sequence[Any]]]
    if is_source(table):
        if reads_once(table):
            raise BudgetError(
                "a ledger reads the rows once more than training, and a "
                "RecordBatchReader can be read once. Pass the file, or a Dataset."
            )
        read = partial(iter_batches, table, number_columns=number_columns)
        # The number of rows comes first in every hash; one column is enough to count.
        n_rows = sum(batch.num_rows for batch in read(names and names[:1]))
        batches = (
            (batch.column_names, read_distinct(batch, batch.column_names))
            for batch in read(names)
        )
    else:
        all_names = (
            list(map(str, range(table.shape[1])) if names is None else names)[
                : table.shape[1]
            ]
            if isinstance(table, np.ndarray)
            else list(nw.from_native(table, eager_only=True).columns)
        )
        wanted = [name for name in all_names if names is None or name in names]
        columns = read_distinct(table, all_names, only=wanted)
        n_rows = len(columns[0]) if columns else 0
        batches = [(wanted, columns)]
    hashes: dict[str, hmac.HMAC] = {}
    for present, held in batches:
        for name, column in zip(present, held, strict=True):
            if name not in hashes:
                hashes[name] = hmac.new(key, digestmod=hashlib.sha256)
                hashes[name].update(repr((name, n_rows)).encode())
            hashes[name].update(_cells(column))
    found = {name: keyed.hexdigest() for name, keyed in sorted(hashes.items())}
    return {"n_rows": n_rows, "columns": found}


def check_same_data(
    fingerprint: JSONObject, earlier: Iterable[JSONObject | None]
) -> None:
    """Raise `BudgetError` if a table is not that of earlier charges, latest first.

    Warns if a column joins data that is known: under a new name a known column looks
    new, and opens an account that has paid nothing.
    """
    known: dict[str, tuple[int, str]] = {}
    for seen in earlier:
        if seen is None:
            continue
        if "columns" not in seen:
            raise BudgetError(
                "earlier charges carry the fingerprint of another version of corrdp, "
                f"which cannot be compared column by column. {_REMEDY}"
            )
        for name, keyed in seen["columns"].items():
            known.setdefault(name, (seen["n_rows"], keyed))
    if not known:
        return
    columns: Mapping[str, str] = fingerprint["columns"]
    shared = [name for name in columns if name in known]
    n_rows = fingerprint["n_rows"]
    last_rows = next(iter(known.values()))[0]
    changed = [name for name in shared if known[name][1] != columns[name]]
    if changed or (not shared and n_rows != last_rows):
        where = f" in {', '.join(changed)}" if changed else ""
        raise BudgetError(
            f"the table is not that of earlier charges{where} (it has {n_rows} rows, "
            f"the last one {last_rows}). {_REMEDY}"
        )
    new = [name for name in columns if name not in known]
    if new:
        warnings.warn(
            f"{', '.join(new)}: new to this ledger, beside {len(known)} columns that "
            "it knows. A column that was charged under another name must keep that "
            "name: accounts are kept by names, and a renamed column opens a new one.",
            CorrDPWarning,
            stacklevel=4,
        )


def _cells(column: Any) -> bytes:
    """Return eight bytes per cell, the same for the same cell from any source."""
    if isinstance(column, np.ndarray):
        numbers = column.astype(np.float64) + 0.0  # one zero, one width
        numbers[np.isnan(numbers)] = np.nan
        return numbers.astype("<f8").tobytes()
    if isinstance(column, DistinctColumn):
        texts = b"".join(_cell(value) for value in column.values)
        return np.frombuffer(texts, "<u8")[column.places].tobytes()
    told: dict[Any, bytes] = {}
    parts = []
    for cell in column:
        marked = (type(cell), cell)
        try:
            if marked not in told:
                told[marked] = _cell(cell)
            parts.append(told[marked])
        except TypeError:  # a cell that cannot be hashed, such as a list
            parts.append(_cell(cell))
    return b"".join(parts)


def _cell(cell: Any) -> bytes:
    text = canonical_text(cell)  # files hold texts, frames days and bytes
    if cell is None or text == "":
        return _MISSING
    try:
        text = (text or str(cell)).strip()
    except ValueError:  # an integer of more digits than Python writes
        text = hex(cell)
    try:
        number = float({"true": "1", "false": "0"}.get(text.lower(), text))
    except ValueError:
        return hashlib.blake2b(
            text.encode(errors="surrogatepass"), digest_size=8
        ).digest()
    return _MISSING if math.isnan(number) else struct.pack("<d", number + 0.0)

"""A keyed fingerprint of a table: equal tables match, and values cannot be guessed."""

import hashlib
import hmac
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from corrdp._frames import read_columns
from corrdp._typing import JSONObject


def table_fingerprint(table: Any, *, key: bytes) -> JSONObject:
    """Return the public number of rows and a keyed hash of all columns.

    Parameters
    ----------
    table : table
        pandas, polars, pyarrow, or a numpy array of two dimensions.
    key : bytes
        Secret of the ledger. Without it the hash cannot be compared with guesses.

    Guarantee
    ---------
    HMAC-SHA-256 under a random 256-bit key: to whoever lacks the key the hash is
    indistinguishable from random (`docs/theory/ledger.md`). Exports leave it in and the
    key out.
    """
    if isinstance(table, np.ndarray):
        names = [str(index) for index in range(table.shape[1])]
    else:
        names = sorted(nw.from_native(table, eager_only=True).columns)
    keyed = hmac.new(key, digestmod=hashlib.sha256)
    n_rows = 0
    for name, column in zip(names, read_columns(table, names), strict=True):
        n_rows = len(column)
        keyed.update(repr((name, n_rows)).encode())
        if isinstance(column, list):
            keyed.update(repr(column).encode())
        else:
            numbers = column.astype(np.float64) + 0.0  # one zero, one width
            numbers[np.isnan(numbers)] = np.nan
            keyed.update(numbers.tobytes())
    return {"n_rows": n_rows, "keyed_hash": keyed.hexdigest()}

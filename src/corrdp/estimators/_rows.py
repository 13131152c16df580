"""From a table, a source or partitions of an engine to tiles: never encoded whole."""

import hashlib
import hmac
import json
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp._validate import check_count, shown
from corrdp.engines import hosted_parts, is_hosted
from corrdp.estimators._labels import check_one_label_per_row
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import (
    NumberDomain,
    Policy,
    PolicyEncoder,
    number_columns,
    read_declared,
)
from corrdp.tables import (
    ForeignFileError,
    cache_key,
    files_of,
    is_source,
    iter_batches,
    number_of,
    read_columns,
)
from corrdp.training import (
    HostedTable,
    SegmentHost,
    SegmentWorkers,
    TiledPart,
    TiledTable,
    open_tiles,
    tiled_in_memory,
    tiled_part,
    write_tiles,
)

BATCH_ROWS = 2**15
"""Rows that are encoded at once."""
BATCH_CODES = 2**26
"""Codes that are encoded at once, half a gigabyte: wide tables take fewer rows."""

_READ_BYTES = 2**22


@dataclass(eq=False)
class RowsInBatches:
    """Private rows as batches of codes and labels."""

    data: Any  # a frame, an array, or a source of `corrdp.tables.iter_batches`
    labels: Any  # None for a source, which holds them
    encoder: PolicyEncoder
    encode_label: Callable[[Any], NDArray[Any]]
    counts_clipped: bool = False  # rows outside the declared bounds, for research
    n_clipped: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[tuple[FloatArray, NDArray[Any]]]:
        policy: Policy = self.encoder.policy
        for table, labels in self._tables(policy):
            if self.counts_clipped:
                self.n_clipped += count_clipped_rows(policy, table)
            yield self.encoder.transform_columns(table), labels

    @property
    def _batch_rows(self) -> int:
        """Return how many rows are encoded at once: a function of the policy."""
        n_codes = self.encoder.blocks_[-1].stop
        return min(max(BATCH_CODES // n_codes, 1), BATCH_ROWS)

    def _tables(self, policy: Policy) -> Iterator[tuple[Any, NDArray[Any]]]:
        if is_source(self.data):
            assert policy.label is not None  # checked when the policy was resolved
            numbers = number_columns(policy.features) + number_columns([policy.label])
            for table in iter_batches(
                self.data,
                [feature.name for feature in policy.features] + [policy.label.name],
                number_columns=numbers,
                batch_rows=self._batch_rows,
            ):
                yield table, self.encode_label(table[policy.label.name])
            return
        labels = _sliceable(self.labels)
        if labels is None:
            labels = self.encode_label(self.labels)  # refuses what is no column
        is_array = isinstance(self.data, np.ndarray)
        frame = self.data if is_array else nw.from_native(self.data, eager_only=True)
        check_one_label_per_row(frame, labels)
        for start in range(0, len(frame), self._batch_rows):
            rows = slice(start, start + self._batch_rows)
            part = frame[rows] if is_array else frame[rows].to_native()
            yield part, self.encode_label(nw.to_native(labels[rows], pass_through=True))


def _sliceable(labels: Any) -> Any:
    """Return a column that can be cut into parts; None if it is none."""
    if isinstance(labels, list | tuple | np.ndarray):
        return labels
    try:
        return nw.from_native(labels, series_only=True)
    except TypeError:
        return None


def require_readable(X: Any, y: Any, policy: Policy) -> None:
    """Raise unless every cell and label can be read, for what is paid for at once.

    Guarantee
    ---------
    Releases nothing but a refusal, which depends on rows (`docs/theory/encoder.md`).
    """
    encoder = PolicyEncoder(policy).fit(X)
    for _ in RowsInBatches(X, y, encoder, encoder.encode_label):
        pass


def opened_source(policy: Any, X: Any, y: Any, *, whole: bool) -> tuple[Any, Any]:
    """Return a source as it is, or its rows and labels if `whole` is asked for."""
    if not isinstance(policy, Policy) or policy.label is None:
        raise PolicyError(
            f"files and other sources need a Policy with a label, got policy="
            f"{shown(policy)}. Load one with Policy.from_file."
        )
    if y is not None:
        raise CorrDPError(
            "y was given with a source of rows, whose labels are its column "
            f"{policy.label.name!r}. Leave y out."
        )
    if not whole:
        return X, None
    if is_hosted(X):
        raise CorrDPError(
            f"this fit reads all rows at once, and a {type(X).__name__} stays where it "
            "is. On engines there are linear models with declared leakage; for others "
            "bring the rows to one machine."
        )
    table = read_declared(X, policy)
    return table, table[policy.label.name]


@contextmanager
def table_and_host(
    rows: RowsInBatches,
    *,
    compiled: bool,
    cache_dir: str | Path | None,
    n_jobs: int | None,
    in_order: bool,
) -> Iterator[tuple[TiledTable | HostedTable, SegmentHost | None]]:
    """Tile rows for as long as a fit takes, and start workers if there are to be any.

    A table of an engine stays where it is, and a frame in memory. Tiles of a source,
    and those that workers read, are in a private file: in `cache_dir`, where it is
    found again if nothing has changed, or in one without a name, which is gone when the
    fit has ended, whatever ends it. Rows that samples name by number are kept
    `in_order`.
    """
    if is_hosted(rows.data):
        if cache_dir is not None:
            raise CorrDPError(
                f"cache_dir keeps tiles of files, got cache_dir={str(cache_dir)!r} "
                f"with a {type(rows.data).__name__}, whose tiles its engine keeps. "
                "Leave it out."
            )
        rows.encode_label([])  # refuses labels that are none, before an engine is asked
        make = PartTiler(
            rows.encoder.policy,
            compiled,
            secrets.token_bytes(16),
            rows.counts_clipped,
            in_order,
        )
        with hosted_parts(rows.data, make, n_hosts=n_jobs) as parts:
            table = HostedTable(parts.ask, rows.encoder.blocks_, compiled=compiled)
            rows.n_clipped = table.n_clipped
            yield table, None
        return
    blocks = rows.encoder.blocks_
    n_workers = 1 if n_jobs is None else check_count("n_jobs", n_jobs)
    if not is_source(rows.data) and n_workers == 1 and cache_dir is None:
        here = tiled_in_memory(rows, blocks, compiled=compiled, in_order=in_order)
        yield here, None
        return
    if cache_dir is None:
        directory = Path(tempfile.gettempdir())
        key, name = secrets.token_bytes(32), None
    else:
        directory = Path(cache_dir)
        key = cache_key(directory)
        name = _name(rows, key, compiled=compiled, in_order=in_order)
    path, tiles = directory / f"{name}.tiles", None
    if name is not None:
        tiles = _kept(path, rows, compiled=compiled, key=key)
    if tiles is None:
        tiles = write_tiles(
            path,
            rows,
            blocks,
            compiled=compiled,
            key=key,
            facts={"name": name},
            in_order=in_order,
            kept=name is not None,
        )
    if n_workers == 1:
        yield tiles, None
        return
    with SegmentWorkers(tiles, n_workers, key=key) as workers:
        yield tiles, workers


def _kept(
    path: Path, rows: RowsInBatches, *, compiled: bool, key: bytes
) -> TiledTable | None:
    """Return the tiles that an earlier fit has left; None if they must be made anew."""
    if not path.exists():
        return None
    try:
        return open_tiles(path, rows.encoder.blocks_, compiled=compiled, key=key)
    except ForeignFileError:
        path.unlink(missing_ok=True)
        return None


def _name(
    rows: RowsInBatches, key: bytes, *, compiled: bool, in_order: bool
) -> str | None:
    """Return a keyed fingerprint of data and policy; None where files are not known.

    All bytes of all files are read: times and sizes can lie.
    """
    files = files_of(rows.data) if is_source(rows.data) else None
    if files is None or rows.counts_clipped:  # research counts rows in every fit
        return None
    policy: Policy = rows.encoder.policy
    keyed = hmac.new(key, digestmod=hashlib.sha256)
    # Another version may encode a cell otherwise.
    facts = [version("corrdp"), str(rows.data), compiled, in_order, policy.to_dict()]
    keyed.update(json.dumps(facts, sort_keys=True, default=str).encode())
    for path in files:
        keyed.update(f"\0{path}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while chunk := file.read(_READ_BYTES):
                keyed.update(chunk)
    return keyed.hexdigest()[:32]


def count_clipped_rows(policy: Policy, X: Any) -> int:
    """Return the number of rows with a number outside its declared bounds.

    Guarantee
    ---------
    None: an exact count of private rows (`docs/theory/encoder.md` says what clipping
    does). Estimators compute it in research mode only.
    """
    names = [feature.name for feature in policy.features]
    outside: Any = False
    for feature, column in zip(policy.features, read_columns(X, names), strict=True):
        if isinstance(feature.domain, NumberDomain):
            values = np.asarray([number_of(v) for v in column], dtype=np.float64)
            low, high = feature.domain.lower, feature.domain.upper
            outside = outside | (values < low) | (values > high)
    return int(np.count_nonzero(outside))


@dataclass(frozen=True, eq=False)
class PartTiler:
    """Encodes the rows of a partition on its worker, and keeps them in tiles.

    Holds the policy, and nothing of an estimator: no seed, no budget, no ledger.
    """

    policy: Policy
    compiled: bool  # for which kernel tiles are cut
    key: bytes  # of the marks of this fit
    counts_clipped: bool = False
    in_order: bool = False  # samples name rows by number

    @property
    def columns(self) -> Sequence[str]:
        """Columns that are read: features and the label."""
        assert self.policy.label is not None  # checked when the policy was resolved
        return [*(f.name for f in self.policy.features), self.policy.label.name]

    def __call__(self, table: Any) -> TiledPart:
        """Return the partition in tiles."""
        encoder = PolicyEncoder(self.policy)
        label = self.columns[-1]
        rows = RowsInBatches(
            table, table[label], encoder, self._labels, self.counts_clipped
        )
        empty = len(nw.from_native(table, eager_only=True)) == 0
        part = tiled_part(
            () if empty else rows,
            encoder.blocks_,
            compiled=self.compiled,
            key=self.key,
            in_order=self.in_order,
        )
        return replace(part, n_clipped=rows.n_clipped)

    def _labels(self, column: Any) -> NDArray[Any]:
        found = PolicyEncoder(self.policy).encode_label(column)
        return np.asarray(found, dtype=np.float64)

"""From partitions that an engine holds to a table that training asks."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from corrdp.engines import hosted_parts, is_hosted
from corrdp.estimators._tiled import RowsInBatches, tiles_of
from corrdp.exceptions import CorrDPError
from corrdp.policy import Policy, PolicyEncoder
from corrdp.training import (
    HostedTable,
    SegmentHost,
    TiledPart,
    TiledTable,
    tiled_part,
)


@dataclass(frozen=True, eq=False)
class PartTiler:
    """Encodes the rows of a partition on its worker, and keeps them in tiles.

    Holds the policy, and nothing of an estimator: no seed, no budget, no ledger.

    Parameters
    ----------
    policy : Policy
        By which rows are coded.
    compiled : bool
        For which kernel tiles are cut.
    key : bytes
        Of the marks of this fit.
    counts_clipped : bool
        Whether to count rows outside the declared bounds, for research.
    in_order : bool
        Whether rows are kept in their order, since samples name them by number.
    """

    policy: Policy
    compiled: bool
    key: bytes
    counts_clipped: bool = False
    in_order: bool = False

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


@contextmanager
def table_and_host(
    rows: RowsInBatches,
    *,
    compiled: bool,
    cache_dir: str | Path | None,
    n_jobs: int | None,
    in_order: bool = False,
) -> Iterator[tuple[TiledTable | HostedTable, SegmentHost | None]]:
    """Bring rows into tiles for as long as a fit takes: here, or where they are."""
    if not is_hosted(rows.data):
        with tiles_of(
            rows,
            compiled=compiled,
            cache_dir=cache_dir,
            n_jobs=n_jobs,
            in_order=in_order,
        ) as here:
            yield here
        return
    if cache_dir is not None:
        raise CorrDPError(
            f"cache_dir keeps tiles of files, got cache_dir={str(cache_dir)!r} with a "
            f"{type(rows.data).__name__}, whose tiles its engine keeps. Leave it out."
        )
    rows.encode_label([])  # refuses labels that are none, before an engine is asked
    policy: Policy = rows.encoder.policy
    make = PartTiler(
        policy, compiled, secrets.token_bytes(16), rows.counts_clipped, in_order
    )
    with hosted_parts(rows.data, make, n_hosts=n_jobs) as parts:
        table = HostedTable(parts.ask, rows.encoder.blocks_, compiled=compiled)
        rows.n_clipped = table.n_clipped
        yield table, None

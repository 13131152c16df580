"""Dask hosts partitions as futures: a lost one is computed again from its graph."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from corrdp.engines._file_parts import PIECE
from corrdp.engines._parts import (
    Asked,
    Maker,
    Reply,
    answered,
    asked_at,
    made,
)
from corrdp.exceptions import CorrDPError

_RETRIES = 3


class DaskEngine:
    """Partitions of a `dask.dataframe.DataFrame` on the current client's workers.

    Futures, not actors: those are lost for good when their worker is.
    """

    def __init__(self, frame: Any, n_hosts: int | None = None) -> None:
        del n_hosts  # the cluster's own
        self._frame = frame
        self._client = _client()
        self._kept: list[Any] = []

    def start(self, make: Maker) -> int:
        """Make every partition; the rows themselves are let go of at once."""
        from dask import delayed

        parts = self._frame[list(make.columns)].to_delayed()
        # Not pure: two fits share nothing, whatever their names.
        tasks = [delayed(made, pure=False)(make, part) for part in parts]
        self._kept = self._client.compute(tasks, retries=_RETRIES)
        return len(self._kept)

    def replies(self, step: int, question: Asked) -> Iterator[Reply]:
        """Submit one task per partition, to where the partition is."""
        from distributed import as_completed

        tasks = [
            self._client.submit(
                answered,
                part,
                place,
                step,
                asked_at(place, question),
                pure=False,
                retries=_RETRIES,
            )
            for place, part in enumerate(self._kept)
        ]
        for task in as_completed(tasks):
            yield task.result()

    def close(self) -> None:
        """Let go of the futures; workers then forget what they hold."""
        self._kept = []


def _client() -> Any:
    try:
        from distributed import get_client
    except ImportError:
        message = "Dask has no workers without distributed. pip install corrdp[dask]."
        raise CorrDPError(message) from None
    try:
        return get_client()
    except ValueError:
        pass
    raise CorrDPError(
        "there is no Dask client, so nobody to host the partitions. Start one, for "
        "example dask.distributed.Client()."
    )


def joined(address: str | None) -> Callable[[], None]:
    """Join a cluster, or start one on this machine; return what ends it."""
    from distributed import Client, LocalCluster, get_client

    if address is not None:
        return Client(address).close  # type: ignore[no-any-return]
    try:
        get_client()
    except ValueError:
        # None would be port 8787, which another run may hold, for all the network.
        cluster = LocalCluster(
            dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
        )
        client = Client(cluster)

        def end() -> None:
            client.close()
            cluster.close()

        return end
    return lambda: None  # others have started it


def table_of_pieces(pieces: Sequence[str]) -> Any:
    """Return a table of pieces of files, one in each partition."""
    import dask.dataframe as dd
    import pandas as pd

    return dd.from_pandas(pd.DataFrame({PIECE: list(pieces)}), npartitions=len(pieces))

"""Sessions of engines: the one that runs, or one that is started for a command."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from corrdp.engines._file_parts import PIECE
from corrdp.engines._spark import no_word_of_pandas
from corrdp.exceptions import CorrDPError


@contextmanager
def engine_session(engine: str, address: str | None = None) -> Iterator[None]:
    """Join an engine for as long as a command takes.

    Parameters
    ----------
    engine : {"dask", "ray", "spark"}
        Which one.
    address : str, optional
        Of a cluster: a Dask scheduler, ``auto`` or an address for Ray, a master or
        ``sc://...`` for Spark. By default the session of this process, or a new one on
        this machine.

    Notes
    -----
    Engines print on the driver what workers say. In sessions that are started here
    Ray forwards nothing, and workers of Dask on this machine are silent.
    """
    with ExitStack() as stack:
        refusal = None
        try:
            stack.callback(_STARTERS[engine](address))
        except ImportError:
            refusal = f"{engine} is not installed. pip install 'corrdp[{engine}]'."
        except Exception as error:
            refusal = (
                f"{engine} does not answer at {address or 'this machine'} "
                f"({type(error).__name__}). Check that it runs there."
            )
        if refusal is not None:
            raise CorrDPError(refusal)
        yield


def pieces_on(engine: str, pieces: Sequence[str]) -> Any:
    """Return a table of pieces that an engine holds, about one in each partition."""
    return _PIECES[engine](pieces)


def _nothing() -> None:
    """End nothing: others have started it."""


def _dask(address: str | None) -> Callable[[], None]:
    from distributed import Client, LocalCluster, get_client

    if address is not None:
        return _ended(Client(address))
    try:
        get_client()
    except ValueError:
        # None would be port 8787, which another run may hold, for all the network.
        cluster = LocalCluster(
            dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
        )
        return _ended(Client(cluster), cluster)
    return _nothing


def _ended(*held: Any) -> Callable[[], None]:
    def end() -> None:
        for each in held:
            each.close()

    return end


def _ray(address: str | None) -> Callable[[], None]:
    import ray
    import ray.data

    if ray.is_initialized():
        return _nothing
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray.init(
        address=address,
        log_to_driver=False,
        logging_level=logging.CRITICAL,
        **({} if address else {"include_dashboard": False}),
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.shutdown  # type: ignore[no-any-return]


def _spark(address: str | None) -> Callable[[], None]:
    from pyspark.sql import SparkSession

    if address is None and SparkSession.getActiveSession() is not None:
        return _nothing
    builder = SparkSession.builder.appName("corrdp")
    if address is not None and address.startswith("sc://"):
        builder = builder.remote(address)
    else:
        if address is None or address.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # One failure of a task ends a job on local[*].
        builder = builder.master(address or "local[*,4]")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    return builder.getOrCreate().stop  # type: ignore[no-any-return]


def _dask_pieces(pieces: Sequence[str]) -> Any:
    import dask.dataframe as dd
    import pandas as pd

    return dd.from_pandas(pd.DataFrame({PIECE: list(pieces)}), npartitions=len(pieces))


def _ray_pieces(pieces: Sequence[str]) -> Any:
    import ray.data

    rows = [{PIECE: piece} for piece in pieces]
    return ray.data.from_items(rows, override_num_blocks=len(pieces))


def _spark_pieces(pieces: Sequence[str]) -> Any:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    with no_word_of_pandas():
        rows = spark.createDataFrame([(piece,) for piece in pieces], f"{PIECE} string")
    return rows.repartition(len(pieces))


_STARTERS: dict[str, Callable[[str | None], Callable[[], None]]] = {
    "dask": _dask,
    "ray": _ray,
    "spark": _spark,
}
_PIECES: dict[str, Callable[[Sequence[str]], Any]] = {
    "dask": _dask_pieces,
    "ray": _ray_pieces,
    "spark": _spark_pieces,
}

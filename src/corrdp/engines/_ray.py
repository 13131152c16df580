"""Ray hosts partitions in actors: a lost actor makes its blocks again."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from corrdp._validate import check_count
from corrdp.engines._file_parts import PIECE
from corrdp.engines._parts import (
    Asked,
    Failed,
    Maker,
    Part,
    Reply,
    answered,
    made,
)

_RETRIES = 3


@contextmanager
def quiet_data() -> Iterator[None]:
    """Silence Ray Data on the driver, which logs what functions of users raise."""
    logger = logging.getLogger("ray.data")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def blocks_in_order(dataset: Any) -> Iterator[None]:
    """Let a dataset keep the order of its blocks, which a busy cluster changes."""
    options = dataset.context.execution_options
    kept, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = kept


def column_names(dataset: Any) -> list[str]:
    """Return the names of the columns, for which a lazy dataset reads some rows."""
    with quiet_data():
        return list(dataset.columns() or ())  # None of no rows


class BlockHost:
    """Makes its blocks when it starts, and again when it is restarted; an actor.

    Blocks are Arrow tables in the object store, read here and not held.
    """

    def __init__(self, make: Maker, places: Sequence[int], blocks: Sequence[Any]):
        import ray

        self._kept: dict[int, Part | Failed] = {}
        for place, block in zip(places, blocks, strict=True):
            self._kept[place] = made(make, ray.get(block))

    def answers(self, step: int, question: Asked) -> list[Reply]:
        """Return one reply of every block."""
        return [answered(p, place, step, question) for place, p in self._kept.items()]


class RayEngine:
    """Blocks of a `ray.data.Dataset` in actors, which are restarted if they die.

    There are `n_hosts` actors, one per processor of the cluster by default.
    """

    def __init__(self, dataset: Any, n_hosts: int | None) -> None:
        self._dataset = dataset
        self._n_hosts = None if n_hosts is None else check_count("n_jobs", n_hosts)
        self._actors: list[Any] = []
        self._blocks: list[Any] = []

    def start(self, make: Maker) -> int:
        """Bring the blocks into the object store, and actors to read them."""
        import ray

        rows = self._dataset.select_columns(list(make.columns))
        with quiet_data(), blocks_in_order(rows):
            rows = rows.materialize()
        # Owned here for as long as actors may have to read them again.
        self._blocks = rows.to_arrow_refs()
        wanted = self._n_hosts or int(ray.cluster_resources().get("CPU", 1))
        count = max(1, min(wanted, len(self._blocks)))
        host = ray.remote(BlockHost).options(
            max_restarts=-1, max_task_retries=_RETRIES, num_cpus=0
        )
        places = range(len(self._blocks))
        self._actors = [
            host.remote(make, places[i::count], self._blocks[i::count])
            for i in range(count)
        ]
        return len(self._blocks)

    def replies(self, step: int, question: Asked) -> Iterator[Reply]:
        """Ask every actor for all of its blocks."""
        import ray

        asked = ray.put(question)
        waiting = [actor.answers.remote(step, asked) for actor in self._actors]
        while waiting:
            (ready,), waiting = ray.wait(waiting, num_returns=1)
            yield from ray.get(ready)

    def close(self) -> None:
        """End the actors and let go of the blocks."""
        import ray

        for actor in self._actors:
            ray.kill(actor, no_restart=True)
        self._actors, self._blocks = [], []


def joined(address: str | None) -> Callable[[], None]:
    """Join a cluster, or start one on this machine; return what ends it."""
    import ray
    import ray.data

    if ray.is_initialized():
        return lambda: None  # others have started it
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


def table_of_pieces(pieces: Sequence[str]) -> Any:
    """Return a table of pieces of files, one in each block."""
    import ray.data

    rows = [{PIECE: piece} for piece in pieces]
    return ray.data.from_items(rows, override_num_blocks=len(pieces))

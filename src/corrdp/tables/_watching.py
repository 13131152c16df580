"""How far a table has been read, for whoever watches: numbers of rows, and no clock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_WATCHER: ContextVar[Callable[[int], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watching_rows(tell: Callable[[int], None]) -> Iterator[None]:
    """Call `tell` with the number of rows read so far, after every batch of a source.

    Parameters
    ----------
    tell : callable
        Takes a number of rows. How many a table has is public; how long a batch took
        is not, so nothing else is told.
    """
    token = _WATCHER.set(tell)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def tell_rows(n_rows: int) -> None:
    """Tell the watcher, if there is one."""
    tell = _WATCHER.get()
    if tell is not None:
        tell(n_rows)

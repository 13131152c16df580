"""Linear algebra on one thread: what a seed gives does not hang on how many there are.

numpy and scipy have a pool of threads each; taking turns, they wait for each other,
which costs more than the arithmetic. The last digits of sums depend on their number.
"""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which linear algebra has one thread."""
    return _pools().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()

"""Pages of a mapped file, read from disk before somebody waits for them."""

import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from corrdp.tables._array_file import ArrayFile

_WINDOW_BYTES = 2**24
_PAGE_BYTES = 2**12


class ReadAhead:
    """Numbers of all segments of a file, while the next ones are read beside.

    Only where pages were missing in the last pass: whoever finds all of them in memory
    would gain nothing. No more than two windows are read ahead, since memory may not
    hold the file.

    Parameters
    ----------
    file : ArrayFile
        Whose segments are asked one after the other, again and again.

    Examples
    --------
    ``for number in ReadAhead(file): ask(file.segments[number])``
    """

    def __init__(self, file: ArrayFile) -> None:
        self._file = file
        self._is_cold = True

    def __iter__(self) -> Iterator[int]:
        before = _missed_pages()
        if self._is_cold:
            yield from self._reading()
        else:
            yield from range(len(self._file.segments))
        self._is_cold = _missed_pages() > before

    def _reading(self) -> Iterator[int]:
        begun = 0
        with ThreadPoolExecutor(1) as pool:
            for number, start in enumerate(self._file.starts):
                while begun < min(start + 2 * _WINDOW_BYTES, self._file.size):
                    pool.submit(self._touch, begun)
                    begun += _WINDOW_BYTES
                yield number

    def _touch(self, start: int) -> None:
        """Read one byte of every page of a window, for which numpy needs no lock."""
        self._file.content[start : start + _WINDOW_BYTES : _PAGE_BYTES].max()


def _missed_pages() -> int:
    """Return how often this process has waited for a page from disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt

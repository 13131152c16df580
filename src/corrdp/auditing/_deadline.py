"""A time limit that a search and runs share, and that remembers what it cut."""

import math
import time


class Deadline:
    """A moment so many seconds from now, after which no further work begins.

    None for no limit; `whole` is the deadline that this one is a share of.
    """

    def __init__(
        self, seconds: float | None = None, whole: "Deadline | None" = None
    ) -> None:
        self._whole = whole
        self._begin = time.monotonic()
        self._end = math.inf if seconds is None else self._begin + seconds
        self.has_cut = False

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begin

    @property
    def left(self) -> float:
        """Seconds to go; infinite without a limit."""
        return max(0.0, self._end - time.monotonic())

    def is_over(self) -> bool:
        """Return whether to stop; whoever asks and is told so has been cut short."""
        is_late = time.monotonic() >= self._end
        if is_late:
            self._mark()
        return is_late

    def share(self, part: float) -> "Deadline":
        """Return a deadline after a part of what is left."""
        seconds = None if math.isinf(self._end) else part * self.left
        return Deadline(seconds, self)

    def _mark(self) -> None:
        self.has_cut = True
        if self._whole is not None:
            self._whole._mark()  # noqa: SLF001

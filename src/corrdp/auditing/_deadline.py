"""A time limit that a search and runs share, and that remembers what it cut."""

import math
import time


class Deadline:
    """A moment after which no further work begins.

    Parameters
    ----------
    seconds : float, optional
        From now; None for no limit.
    """

    def __init__(self, seconds: float | None = None) -> None:
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
        self.has_cut |= time.monotonic() >= self._end
        return self.has_cut

    def share(self, part: float) -> "Deadline":
        """Return a deadline after a part of what is left."""
        return Deadline(None if math.isinf(self._end) else part * self.left)

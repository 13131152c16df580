"""A generator that writes down what it draws, for tests that replay a release."""

import numpy as np


class RecordedGenerator(np.random.Generator):
    """A seeded generator with a log of (method, numbers) in the order of the draws.

    Any other source of randomness is refused, so that no draw escapes the log.
    """

    def __init__(self, seed):
        super().__init__(np.random.PCG64(seed))
        self.log = []

    def standard_normal(self, size=None, dtype=np.float64, out=None):
        assert dtype is np.float64
        assert out is None
        drawn = super().standard_normal(size)
        self.log.append(("standard_normal", np.array(drawn)))
        return drawn

    def random(self, size=None, dtype=np.float64, out=None):
        assert dtype is np.float64
        assert out is None
        drawn = super().random(size)
        self.log.append(("random", np.array(drawn)))
        return drawn

    def integers(self, low, high=None, size=None, **options):
        drawn = super().integers(low, high, size, **options)
        self.log.append(("integers", np.array(drawn)))
        return drawn

    def taken(self):
        """Return the log and begin a new one."""
        log, self.log = self.log, []
        return log


def _refused(name):
    def draw(self, *arguments, **options):
        raise AssertionError(f"{name} was drawn, which no replay knows of")

    return draw


for _name in ("normal", "uniform", "choice", "permutation", "shuffle", "binomial"):
    setattr(RecordedGenerator, _name, _refused(_name))

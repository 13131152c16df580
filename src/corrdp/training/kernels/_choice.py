"""Which kernel passes over tiles: the compiled one where numba is installed."""

from contextlib import suppress
from types import ModuleType

from corrdp.training.kernels import _plain

_kernel: ModuleType = _plain
with suppress(ImportError):  # numba comes with the extra "fast"
    from corrdp.training.kernels import _compiled

    _kernel = _compiled


def kernel_module(compiled: bool) -> ModuleType:
    """Return the compiled kernel if it is wanted and there, else the one in numpy."""
    return _kernel if compiled else _plain

"""Which kernel passes over tiles: the compiled one where numba is installed."""

from contextlib import suppress
from types import ModuleType

from corrdp.training import _kernel_numpy

_kernel: ModuleType = _kernel_numpy
with suppress(ImportError):  # numba comes with the extra "fast"
    from corrdp.training import _kernel_numba

    _kernel = _kernel_numba


def kernel_module(compiled: bool) -> ModuleType:
    """Return the compiled kernel if it is wanted and there, else the one in numpy."""
    return _kernel if compiled else _kernel_numpy

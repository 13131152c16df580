"""Training PyTorch modules under a policy; needs ``corrdp[torch]``."""

from corrdp.torch._checkpoint import load_checkpoint, save_checkpoint
from corrdp.torch._fixing import FixedModule, fix_module
from corrdp.torch._loader import PoissonLoader
from corrdp.torch._make_private import (
    PrivateTraining,
    make_private,
    make_private_with_epsilon,
)
from corrdp.torch._optimizer import PrivateOptimizer
from corrdp.torch._private import PrivateModule
from corrdp.torch._sequences import GRU, LSTM, MultiheadAttention

__all__ = [
    "GRU",
    "LSTM",
    "FixedModule",
    "MultiheadAttention",
    "PoissonLoader",
    "PrivateModule",
    "PrivateOptimizer",
    "PrivateTraining",
    "fix_module",
    "load_checkpoint",
    "make_private",
    "make_private_with_epsilon",
    "save_checkpoint",
]

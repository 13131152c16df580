"""Training PyTorch modules under a policy; needs ``corrdp[torch]``."""

from corrdp.torch._checkpoint import load_checkpoint, save_checkpoint
from corrdp.torch._loader import PoissonLoader
from corrdp.torch._make_private import PrivateTraining, make_private
from corrdp.torch._optimizer import PrivateOptimizer
from corrdp.torch._private import PrivateModule

__all__ = [
    "PoissonLoader",
    "PrivateModule",
    "PrivateOptimizer",
    "PrivateTraining",
    "load_checkpoint",
    "make_private",
    "save_checkpoint",
]

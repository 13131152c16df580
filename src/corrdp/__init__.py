"""Correlation-aware differential privacy: less noise where less leaks.

Public names are imported on first use, so that ``import corrdp`` stays fast.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corrdp.certificate import Certificate, certify
    from corrdp.policy import Budget, Policy, PolicyEncoder

__version__ = version("corrdp")

__all__ = ["Budget", "Certificate", "Policy", "PolicyEncoder", "certify"]

_HOME = {
    "Budget": "corrdp.policy",
    "Certificate": "corrdp.certificate",
    "Policy": "corrdp.policy",
    "PolicyEncoder": "corrdp.policy",
    "certify": "corrdp.certificate",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'corrdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""Correlation-aware differential privacy: less noise where less leaks.

Public names are imported on first use, so that ``import corrdp`` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corrdp.auditing import audit
    from corrdp.certificate import Certificate, certify
    from corrdp.estimators import (
        AdditiveClassifier,
        AdditiveRegressor,
        LinearRegression,
        LogisticRegression,
        MLPClassifier,
        MLPRegressor,
        PrivateSearchCV,
        sweep,
    )
    from corrdp.leakage import LeakageTable, estimate_leakage
    from corrdp.ledger import Ledger
    from corrdp.policy import Budget, Policy, PolicyEncoder
    from corrdp.synthesis import Synthesizer

__all__ = [
    "AdditiveClassifier",
    "AdditiveRegressor",
    "Budget",
    "Certificate",
    "LeakageTable",
    "Ledger",
    "LinearRegression",
    "LogisticRegression",
    "MLPClassifier",
    "MLPRegressor",
    "Policy",
    "PolicyEncoder",
    "PrivateSearchCV",
    "Synthesizer",
    "audit",
    "certify",
    "estimate_leakage",
    "sweep",
]

_HOME = {
    "AdditiveClassifier": "corrdp.estimators",
    "AdditiveRegressor": "corrdp.estimators",
    "Budget": "corrdp.policy",
    "Certificate": "corrdp.certificate",
    "LeakageTable": "corrdp.leakage",
    "Ledger": "corrdp.ledger",
    "LinearRegression": "corrdp.estimators",
    "LogisticRegression": "corrdp.estimators",
    "MLPClassifier": "corrdp.estimators",
    "MLPRegressor": "corrdp.estimators",
    "Policy": "corrdp.policy",
    "PolicyEncoder": "corrdp.policy",
    "PrivateSearchCV": "corrdp.estimators",
    "Synthesizer": "corrdp.synthesis",
    "audit": "corrdp.auditing",
    "certify": "corrdp.certificate",
    "estimate_leakage": "corrdp.leakage",
    "sweep": "corrdp.estimators",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("corrdp")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'corrdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

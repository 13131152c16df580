"""Where distances come from: the same answer as for models."""

from corrdp.estimators._methods import (
    LeakageInput,
    Method,
    policy_read,
    protected_policy,
    resolve_leakage,
)

__all__ = [
    "LeakageInput",
    "Method",
    "policy_read",
    "protected_policy",
    "resolve_leakage",
]

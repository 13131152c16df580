"""Mechanisms: what adds noise, and how far what it releases can move.

Leakage is released in `corrdp.leakage` and queries are answered in `corrdp.queries`,
both above this package; their names stay importable here.
"""

from importlib import import_module
from typing import Any

from corrdp.mechanisms._column_means import (
    MeanPlan,
    column_sum_sensitivity,
    noisy_column_sums,
    plan_means,
)
from corrdp.mechanisms.noise import (
    Movement,
    NoiseKind,
    Objective,
    Variant,
    VectorPlan,
    plan_vector,
)

__all__ = [
    "MeanPlan",
    "Movement",
    "NoiseKind",
    "Objective",
    "Variant",
    "VectorPlan",
    "column_sum_sensitivity",
    "noisy_column_sums",
    "plan_means",
    "plan_vector",
]


def __getattr__(name: str) -> Any:
    for room in ("corrdp.leakage", "corrdp.queries"):
        if not name.startswith("_") and name in import_module(room).__all__:
            return getattr(import_module(room), name)
    raise AttributeError(f"module 'corrdp.mechanisms' has no attribute {name!r}")

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

_LEAKAGE_NAMES = frozenset(
    {
        "LeakageTable",
        "declared_table",
        "estimate_leakage",
        "intersect_leakage",
        "plan_leakage_release",
    }
)
_QUERY_NAMES = frozenset(
    {
        "Answer",
        "Correlation",
        "Count",
        "Covariance",
        "Histogram",
        "Mean",
        "Quantiles",
        "Query",
        "QueryPlan",
        "QueryResult",
        "Total",
        "Variance",
        "answer_plan",
        "answer_queries",
        "parse_ask",
        "plan_queries",
    }
)


def __getattr__(name: str) -> Any:
    if name in _LEAKAGE_NAMES:
        return getattr(import_module("corrdp.leakage"), name)
    if name in _QUERY_NAMES:
        return getattr(import_module("corrdp.queries"), name)
    raise AttributeError(f"module 'corrdp.mechanisms' has no attribute {name!r}")

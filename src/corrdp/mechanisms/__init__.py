"""Mechanisms: what adds noise, and how far what it releases can move.

Queries live in `corrdp.queries`, above this package; their names stay importable here.
"""

from importlib import import_module
from typing import Any

from corrdp.mechanisms._column_sums import column_sum_sensitivity
from corrdp.mechanisms._leakage_intersection import intersect_leakage
from corrdp.mechanisms._leakage_release import (
    estimate_leakage,
    plan_leakage_release,
)
from corrdp.mechanisms._leakage_table import LeakageTable, declared_table
from corrdp.mechanisms._mean_release import MeanPlan, plan_means
from corrdp.mechanisms.noise import (
    Movement,
    NoiseKind,
    Objective,
    Variant,
    VectorPlan,
    plan_vector,
)

__all__ = [
    "LeakageTable",
    "MeanPlan",
    "Movement",
    "NoiseKind",
    "Objective",
    "Variant",
    "VectorPlan",
    "column_sum_sensitivity",
    "declared_table",
    "estimate_leakage",
    "intersect_leakage",
    "plan_leakage_release",
    "plan_means",
    "plan_vector",
]

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
    if name in _QUERY_NAMES:
        return getattr(import_module("corrdp.queries"), name)
    raise AttributeError(f"module 'corrdp.mechanisms' has no attribute {name!r}")

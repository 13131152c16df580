"""Mechanisms: what adds noise, and how far what it releases can move."""

from corrdp.mechanisms._column_sums import column_sum_sensitivity
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
from corrdp.mechanisms.queries import (
    Answer,
    Correlation,
    Count,
    Covariance,
    Histogram,
    Mean,
    Quantiles,
    Query,
    QueryPlan,
    QueryResult,
    Total,
    Variance,
    answer_plan,
    answer_queries,
    parse_ask,
    plan_queries,
)

__all__ = [
    "Answer",
    "Correlation",
    "Count",
    "Covariance",
    "Histogram",
    "LeakageTable",
    "Mean",
    "MeanPlan",
    "Movement",
    "NoiseKind",
    "Objective",
    "Quantiles",
    "Query",
    "QueryPlan",
    "QueryResult",
    "Total",
    "Variance",
    "Variant",
    "VectorPlan",
    "answer_plan",
    "answer_queries",
    "column_sum_sensitivity",
    "declared_table",
    "estimate_leakage",
    "parse_ask",
    "plan_leakage_release",
    "plan_means",
    "plan_queries",
    "plan_vector",
]

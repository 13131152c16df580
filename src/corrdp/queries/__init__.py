"""Queries: questions about a table, answered with correlated noise."""

from corrdp.queries._ask import ask_text, parse_ask
from corrdp.queries._kinds import (
    Correlation,
    Count,
    Covariance,
    Histogram,
    Mean,
    Quantiles,
    Query,
    Total,
    Variance,
)
from corrdp.queries._plan import QueryPlan, plan_queries
from corrdp.queries._release import (
    Answer,
    QueryResult,
    answer_plan,
    answer_queries,
)

__all__ = [
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
    "ask_text",
    "parse_ask",
    "plan_queries",
]

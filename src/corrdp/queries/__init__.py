"""Queries: questions about a table, answered with correlated noise."""

from corrdp.queries._ask import ask_text, parse_ask
from corrdp.queries._conditions import Column, Condition, col
from corrdp.queries._consistent import consistent_counts
from corrdp.queries._kinds import (
    Correlation,
    Count,
    Covariance,
    Mean,
    Total,
    Variance,
)
from corrdp.queries._plan import QueryPlan, plan_queries
from corrdp.queries._quantiles import Histogram, Quantiles
from corrdp.queries._query import Query
from corrdp.queries._release import answer_plan, answer_queries
from corrdp.queries._result import Answer, QueryResult
from corrdp.queries._sql import SqlQuestion, parse_sql

__all__ = [
    "Answer",
    "Column",
    "Condition",
    "Correlation",
    "Count",
    "Covariance",
    "Histogram",
    "Mean",
    "Quantiles",
    "Query",
    "QueryPlan",
    "QueryResult",
    "SqlQuestion",
    "Total",
    "Variance",
    "answer_plan",
    "answer_queries",
    "ask_text",
    "col",
    "consistent_counts",
    "parse_ask",
    "parse_sql",
    "plan_queries",
]

"""Queries: questions about a table, answered with correlated noise."""

from corrdp.queries._ask import ask_text, parse_ask
from corrdp.queries._bounds import bounds_from, plan_bounds, provisional_policy
from corrdp.queries._choices import RankChoice
from corrdp.queries._columns import DerivedColumns, group_names
from corrdp.queries._conditions import Column, Condition, col
from corrdp.queries._consistent import consistent_counts
from corrdp.queries._kinds import Correlation, Count, Covariance, Mean, Total, Variance
from corrdp.queries._metrics import metric_query
from corrdp.queries._plan import QueryPlan, plan_queries
from corrdp.queries._quantiles import Histogram, Quantiles
from corrdp.queries._query import Query, Questions
from corrdp.queries._release import answer_plan, answer_queries, released_runs
from corrdp.queries._result import Answer, QueryResult
from corrdp.queries._sql import parse_sql
from corrdp.queries._units import public_size

__all__ = [
    "Answer",
    "Column",
    "Condition",
    "Correlation",
    "Count",
    "Covariance",
    "DerivedColumns",
    "Histogram",
    "Mean",
    "Quantiles",
    "Query",
    "QueryPlan",
    "QueryResult",
    "Questions",
    "RankChoice",
    "Total",
    "Variance",
    "answer_plan",
    "answer_queries",
    "ask_text",
    "bounds_from",
    "col",
    "consistent_counts",
    "group_names",
    "metric_query",
    "parse_ask",
    "parse_sql",
    "plan_bounds",
    "plan_queries",
    "provisional_policy",
    "public_size",
    "released_runs",
]

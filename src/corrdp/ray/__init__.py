"""On Ray: what can be asked of a `ray.data.Dataset`, whose rows stay in its blocks.

The names are those of the library, which knows a table by its type; this is where to
see which of them take one. Needs ``pip install corrdp[ray]`` on the driver and on all
nodes. ``n_jobs`` of an estimator is the number of actors. What leaves a worker:
`docs/large_tables.md`.
"""

from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.leakage import estimate_leakage
from corrdp.queries import answer_queries

__all__ = [
    "LinearRegression",
    "LogisticRegression",
    "answer_queries",
    "estimate_leakage",
]

"""On Spark: what can be asked of a `pyspark.sql.DataFrame`, whose rows stay there.

The names are those of the library, which knows a table by its type; this is where to
see which of them take one. Needs ``pip install corrdp[spark]`` on the driver and on all
executors, and Java 17 or later. What leaves a worker: `docs/large_tables.md`.
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

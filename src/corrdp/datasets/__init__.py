"""Built-in examples and the data sets of the paper."""

from corrdp.datasets._hospital import (
    hospital_columns,
    hospital_leakage,
    hospital_policy,
    hospital_policy_text,
    hospital_table,
)

__all__ = [
    "hospital_columns",
    "hospital_leakage",
    "hospital_policy",
    "hospital_policy_text",
    "hospital_table",
]

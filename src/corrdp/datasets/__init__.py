"""Built-in examples and the data sets of the paper."""

from corrdp.datasets._hospital import (
    hospital_columns,
    hospital_leakage,
    hospital_policy,
    hospital_policy_text,
    hospital_table,
)
from corrdp.datasets._paper import (
    PaperTable,
    load_adult,
    load_adult_wide,
    load_credit_card,
    load_medical_cost,
    load_sepsis,
)
from corrdp.datasets._synthetic import (
    gaussian_column_leakage,
    paper_synthetic,
    synthetic_covariance,
)

__all__ = [
    "PaperTable",
    "gaussian_column_leakage",
    "hospital_columns",
    "hospital_leakage",
    "hospital_policy",
    "hospital_policy_text",
    "hospital_table",
    "load_adult",
    "load_adult_wide",
    "load_credit_card",
    "load_medical_cost",
    "load_sepsis",
    "paper_synthetic",
    "synthetic_covariance",
]

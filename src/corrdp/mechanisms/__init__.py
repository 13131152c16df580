"""Mechanisms: what adds noise, and how far what it releases can move."""

from corrdp.mechanisms._column_sums import column_sum_sensitivity
from corrdp.mechanisms._leakage_release import (
    estimate_leakage,
    plan_leakage_release,
)
from corrdp.mechanisms._leakage_table import LeakageTable, declared_table
from corrdp.mechanisms._mean_release import MeanPlan, plan_means

__all__ = [
    "LeakageTable",
    "MeanPlan",
    "column_sum_sensitivity",
    "declared_table",
    "estimate_leakage",
    "plan_leakage_release",
    "plan_means",
]

"""Mechanisms: what adds noise, and how far what it releases can move."""

from corrdp.mechanisms._column_sums import column_sum_sensitivity
from corrdp.mechanisms._mean_release import MeanPlan, plan_means

__all__ = ["MeanPlan", "column_sum_sensitivity", "plan_means"]

"""Leakage as it is released: planned, paid, counted with noise, kept in a table."""

from corrdp.leakage.release._intersection import intersect_leakage
from corrdp.leakage.release._noise import SIZES, planned_margins, release_tables
from corrdp.leakage.release._number_counts import (
    bins_of,
    noisy_number_counts,
    number_count_sensitivity,
    number_layout,
    release_number_counts,
)
from corrdp.leakage.release._release import estimate_leakage, plan_leakage_release
from corrdp.leakage.release._table import LeakageTable, declared_table

__all__ = [
    "SIZES",
    "LeakageTable",
    "bins_of",
    "declared_table",
    "estimate_leakage",
    "intersect_leakage",
    "noisy_number_counts",
    "number_count_sensitivity",
    "number_layout",
    "plan_leakage_release",
    "planned_margins",
    "release_number_counts",
    "release_tables",
]

"""Estimators of leakage behind one interface."""

from corrdp.leakage._levels import resolution_assumptions
from corrdp.leakage.estimators._choice import (
    ESTIMATORS,
    choose_estimator,
    estimator_named,
)
from corrdp.leakage.estimators._discrete import (
    Histogram,
    PlugIn,
    histogram_bins,
)
from corrdp.leakage.estimators._gaussian import GaussianPosterior, gaussian_leakage
from corrdp.leakage.estimators._sample import (
    EstimationContext,
    Estimator,
    Sample,
    SampleColumn,
    read_sample,
)
from corrdp.leakage.estimators._unbounded import (
    MonteCarlo,
    MultinomialLogistic,
    ProductKernel,
    VariationalCritic,
    monte_carlo_total_variation,
)

__all__ = [
    "ESTIMATORS",
    "EstimationContext",
    "Estimator",
    "GaussianPosterior",
    "Histogram",
    "MonteCarlo",
    "MultinomialLogistic",
    "PlugIn",
    "ProductKernel",
    "Sample",
    "SampleColumn",
    "VariationalCritic",
    "choose_estimator",
    "estimator_named",
    "gaussian_leakage",
    "histogram_bins",
    "monte_carlo_total_variation",
    "read_sample",
    "resolution_assumptions",
]

"""Estimators of leakage behind one interface."""

from corrdp.leakage.estimators._base import EstimationContext, Estimator
from corrdp.leakage.estimators._choice import (
    ESTIMATORS,
    choose_estimator,
    estimator_named,
)
from corrdp.leakage.estimators._critic import VariationalCritic
from corrdp.leakage.estimators._discrete import (
    Histogram,
    PlugIn,
    histogram_bins,
    resolution_assumptions,
)
from corrdp.leakage.estimators._gaussian import GaussianPosterior, gaussian_leakage
from corrdp.leakage.estimators._kernel import ProductKernel
from corrdp.leakage.estimators._logistic import MultinomialLogistic
from corrdp.leakage.estimators._monte_carlo import (
    MonteCarlo,
    monte_carlo_total_variation,
)
from corrdp.leakage.estimators._sample import Sample, SampleColumn, read_sample

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

"""Estimators in the manner of scikit-learn, each fit with a certificate."""

from corrdp.estimators._additive import AdditiveClassifier, AdditiveRegressor, Shape
from corrdp.estimators._all_sensitive import AllSensitive
from corrdp.estimators._evaluation import plan_evaluation, require_paid_leakage
from corrdp.estimators._fitting import sampled_budget
from corrdp.estimators._linear import LinearRegression
from corrdp.estimators._logistic import LogisticRegression
from corrdp.estimators._mlp import MLPClassifier, MLPRegressor
from corrdp.estimators._mlp_base import PrivateNetwork, scaled_codes
from corrdp.estimators._private import PrivateEstimator
from corrdp.estimators._saving import read_model, write_model
from corrdp.estimators._search import PrivateSearchCV
from corrdp.estimators._search_plan import SearchPlan, is_from_search
from corrdp.estimators._sweep import SweepResult, sweep
from corrdp.policy import Method
from corrdp.training import Solver

__all__ = [
    "AdditiveClassifier",
    "AdditiveRegressor",
    "AllSensitive",
    "LinearRegression",
    "LogisticRegression",
    "MLPClassifier",
    "MLPRegressor",
    "Method",
    "PrivateEstimator",
    "PrivateNetwork",
    "PrivateSearchCV",
    "SearchPlan",
    "Shape",
    "Solver",
    "SweepResult",
    "is_from_search",
    "plan_evaluation",
    "read_model",
    "require_paid_leakage",
    "sampled_budget",
    "scaled_codes",
    "sweep",
    "write_model",
]

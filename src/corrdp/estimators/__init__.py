"""Estimators in the manner of scikit-learn, each fit with a certificate."""

# Which file to open. Linear models are one class in four files, each a step of a fit:
#
#   _estimator      what linear models and networks share: checks, payment, files
#   _linear_plan    what is planned before a row is read
#   _linear_fit     from the table to what it releases
#   _linear_model   constructor, weights, files, and what a search asks of them
#
#   _promises       policy, distances and classes of a fit; three ways to keep them
#   _family         what all copies of an estimator have spent
#   _rows           from a table, source or engine to tiles of codes
#   _number_bounds  bounds="auto": counting where numbers lie
#   _leakage_purchase   leakage="auto": what distances would cost, and bring
#   _labels, _all_sensitive, _public_rows   what users hand over beside the table
#   _network        what networks share
#   _logistic, _linear, _additive, _mlp     thin classes, by which users ask
#   _search, _search_plan, _sweep, _evaluation, _saving   what is done with models

from corrdp.estimators._additive import AdditiveClassifier, AdditiveRegressor, Shape
from corrdp.estimators._all_sensitive import AllSensitive
from corrdp.estimators._estimator import PrivateEstimator
from corrdp.estimators._evaluation import plan_evaluation, require_paid_leakage
from corrdp.estimators._linear import LinearRegression
from corrdp.estimators._logistic import LogisticRegression
from corrdp.estimators._mlp import MLPClassifier, MLPRegressor
from corrdp.estimators._network import PrivateNetwork, scaled_codes
from corrdp.estimators._promises import sampled_budget
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

"""Training: what one record contributes, how far it can move, noise, descent."""

from corrdp.training._default_rule import PublicFacts, default_plan, standard_plan
from corrdp.training._gradient_descent import TrainedModel, descend
from corrdp.training._plan import TrainingPlan
from corrdp.training._risk import minimize_risk
from corrdp.training._spending import Spending, plan_spending, whole_record_spending

__all__ = [
    "PublicFacts",
    "Spending",
    "TrainedModel",
    "TrainingPlan",
    "default_plan",
    "descend",
    "minimize_risk",
    "plan_spending",
    "standard_plan",
    "whole_record_spending",
]

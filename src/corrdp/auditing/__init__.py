"""Audits: attacks that try to break what certificates claim, class by class."""

from corrdp.auditing._audit import audit
from corrdp.auditing._challenge import Challenge
from corrdp.auditing._report import AuditReport, AuditResult, Verdict
from corrdp.auditing.statistics import Claim, LikelihoodAttack, LinearAttack
from corrdp.auditing.targets import (
    GradientPath,
    column_sum_challenges,
    gradient_challenges,
    vector_challenges,
)

__all__ = [
    "AuditReport",
    "AuditResult",
    "Challenge",
    "Claim",
    "GradientPath",
    "LikelihoodAttack",
    "LinearAttack",
    "Verdict",
    "audit",
    "column_sum_challenges",
    "gradient_challenges",
    "vector_challenges",
]

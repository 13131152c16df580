"""Audits: attacks that try to break what certificates claim, class by class."""

from corrdp.auditing._attribute_inference import (
    AttributeInference,
    conditional_prior,
    infer_attribute,
)
from corrdp.auditing._audit import audit
from corrdp.auditing._challenge import Challenge
from corrdp.auditing._challenges_from import estimator_challenges
from corrdp.auditing._leakage import LeakageAudit, audit_leakage
from corrdp.auditing._membership import MembershipInference, infer_membership
from corrdp.auditing._one_run import audit_one_run
from corrdp.auditing._report import AuditReport, AuditResult, Verdict
from corrdp.auditing.statistics import Claim, LikelihoodAttack, LinearAttack, claims_of
from corrdp.auditing.targets import (
    SampledSum,
    audit_whole_network,
    column_sum_challenges,
    descent_challenges,
    leakage_challenges,
    loop_challenges,
    model_challenges,
    network_challenges,
    number_count_challenges,
    query_challenges,
    sampled_challenges,
    theorem_challenges,
    vector_challenges,
)

__all__ = [
    "AttributeInference",
    "AuditReport",
    "AuditResult",
    "Challenge",
    "Claim",
    "LeakageAudit",
    "LikelihoodAttack",
    "LinearAttack",
    "MembershipInference",
    "SampledSum",
    "Verdict",
    "audit",
    "audit_leakage",
    "audit_one_run",
    "audit_whole_network",
    "claims_of",
    "column_sum_challenges",
    "conditional_prior",
    "descent_challenges",
    "estimator_challenges",
    "infer_attribute",
    "infer_membership",
    "leakage_challenges",
    "loop_challenges",
    "model_challenges",
    "network_challenges",
    "number_count_challenges",
    "query_challenges",
    "sampled_challenges",
    "theorem_challenges",
    "vector_challenges",
]

"""Policies: roles, domains, neighbor classes, budgets, and the encoder."""

from corrdp.policy._coding import even_knots, with_knots, without_knots
from corrdp.policy._domains import (
    BooleanDomain,
    CategoryDomain,
    Domain,
    NumberDomain,
    Refuse,
    Replace,
    Slot,
)
from corrdp.policy._draft import READ_MARK, Draft, DraftWishes, draft_policy
from corrdp.policy._encoder import (
    Block,
    BlockKind,
    PolicyEncoder,
    policy_blocks,
)
from corrdp.policy._features import (
    ColumnRole,
    Conditioning,
    Feature,
    Label,
    LabelJoining,
    NeighborRelation,
    number_columns,
)
from corrdp.policy._guess import DRAFT_BINS, Guess, guess_domain
from corrdp.policy._neighbors import (
    Budget,
    NeighborClass,
    allowed_epsilon,
    allowed_epsilons,
    class_columns,
    class_epsilon,
    neighbor_classes,
    unmoved_classes,
    with_unmoved_at_least,
)
from corrdp.policy._policy import (
    Method,
    Policy,
    partial_policy,
    protected_policy,
    require_policy,
)
from corrdp.policy._reading import read_declared, require_fit, table_problems

__all__ = [
    "DRAFT_BINS",
    "READ_MARK",
    "Block",
    "BlockKind",
    "BooleanDomain",
    "Budget",
    "CategoryDomain",
    "ColumnRole",
    "Conditioning",
    "Domain",
    "Draft",
    "DraftWishes",
    "Feature",
    "Guess",
    "Label",
    "LabelJoining",
    "Method",
    "NeighborClass",
    "NeighborRelation",
    "NumberDomain",
    "Policy",
    "PolicyEncoder",
    "Refuse",
    "Replace",
    "Slot",
    "allowed_epsilon",
    "allowed_epsilons",
    "class_columns",
    "class_epsilon",
    "draft_policy",
    "even_knots",
    "guess_domain",
    "neighbor_classes",
    "number_columns",
    "partial_policy",
    "policy_blocks",
    "protected_policy",
    "read_declared",
    "require_fit",
    "require_policy",
    "table_problems",
    "unmoved_classes",
    "with_knots",
    "with_unmoved_at_least",
    "without_knots",
]

"""Mechanisms of the library as challenges: neighbors crafted, claims attached."""

from corrdp.auditing.targets._besides_steps import (
    constant_challenges,
    count_challenges,
    mean_challenges,
)
from corrdp.auditing.targets._descent import descent_challenges, theorem_challenges
from corrdp.auditing.targets._loop import loop_challenges
from corrdp.auditing.targets._models import model_challenges
from corrdp.auditing.targets._neighbors import RecordPair, craft_pair
from corrdp.auditing.targets._networks import network_challenges, network_training
from corrdp.auditing.targets._queries import query_challenges
from corrdp.auditing.targets._releases import (
    column_sum_challenges,
    leakage_challenges,
    number_count_challenges,
    vector_challenges,
)
from corrdp.auditing.targets._sampled_descent import sampled_challenges
from corrdp.auditing.targets._sampling import SampledSum
from corrdp.auditing.targets._steps import EncodedRows
from corrdp.auditing.targets._synthesis import synthesizer_challenges
from corrdp.auditing.targets._whole_network import audit_whole_network

__all__ = [
    "EncodedRows",
    "RecordPair",
    "SampledSum",
    "audit_whole_network",
    "column_sum_challenges",
    "constant_challenges",
    "count_challenges",
    "craft_pair",
    "descent_challenges",
    "leakage_challenges",
    "loop_challenges",
    "mean_challenges",
    "model_challenges",
    "network_challenges",
    "network_training",
    "number_count_challenges",
    "query_challenges",
    "sampled_challenges",
    "synthesizer_challenges",
    "theorem_challenges",
    "vector_challenges",
]

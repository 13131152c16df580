"""Mechanisms of the library as challenges: neighbors crafted, claims attached."""

from corrdp.auditing.targets._gradients import GradientPath, gradient_challenges
from corrdp.auditing.targets._models import EncodedRows, model_challenges
from corrdp.auditing.targets._neighbors import RecordPair, craft_pair
from corrdp.auditing.targets._releases import column_sum_challenges, vector_challenges
from corrdp.auditing.targets._sampling import SampledSum

__all__ = [
    "EncodedRows",
    "GradientPath",
    "RecordPair",
    "SampledSum",
    "column_sum_challenges",
    "craft_pair",
    "gradient_challenges",
    "model_challenges",
    "vector_challenges",
]

"""Synthetic tables under a policy: noisy counts, a model of them, rows from it."""

from corrdp.synthesis._adaptive import measure_adaptively
from corrdp.synthesis._budget import SynthesisPlan
from corrdp.synthesis._columns import TableColumns
from corrdp.synthesis._estimation import NoisyTable
from corrdp.synthesis._quality import Quality, TableError, measure_quality
from corrdp.synthesis._release import Release, measure, release_tables
from corrdp.synthesis._structure import TableShape
from corrdp.synthesis._synthesizer import Synthesizer

__all__ = [
    "NoisyTable",
    "Quality",
    "Release",
    "SynthesisPlan",
    "Synthesizer",
    "TableColumns",
    "TableError",
    "TableShape",
    "measure",
    "measure_adaptively",
    "measure_quality",
    "release_tables",
]

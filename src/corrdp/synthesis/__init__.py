"""Synthetic tables under a policy: noisy counts, a model of them, rows from it."""

from corrdp.synthesis._budget import SynthesisPlan
from corrdp.synthesis._columns import TableColumns
from corrdp.synthesis._synthesizer import Synthesizer

__all__ = ["SynthesisPlan", "Synthesizer", "TableColumns"]

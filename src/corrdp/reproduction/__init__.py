"""The paper's experiments, run again, beside their certified twins."""

from corrdp.certificate import Calibration
from corrdp.reproduction._data import load_sepsis_balanced, sepsis_balanced
from corrdp.reproduction._experiments import (
    EXPERIMENTS,
    Cell,
    CellResult,
    Experiment,
    Model,
    experiments,
)
from corrdp.reproduction._results import Results
from corrdp.reproduction._runner import Reproduction, reproduce

__all__ = [
    "EXPERIMENTS",
    "Calibration",
    "Cell",
    "CellResult",
    "Experiment",
    "Model",
    "Reproduction",
    "Results",
    "experiments",
    "load_sepsis_balanced",
    "reproduce",
    "sepsis_balanced",
]

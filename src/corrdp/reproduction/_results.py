"""Saved results: every score of every cell, and what the findings read off them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from corrdp._files import csv_text
from corrdp._json import decode_number
from corrdp._typing import FloatArray, JSONObject
from corrdp.certificate import Calibration
from corrdp.exceptions import CorrDPError
from corrdp.reproduction._experiments import (
    EXPERIMENTS,
    Cell,
    CellResult,
    Experiment,
    Model,
)

_DIGITS = 6  # of a saved score
_COLUMNS = (
    *("experiment", "calibration", "method", "epsilon", "seed", "score", "metric"),
    *("provable_epsilon", "lipschitz", "constant"),
)


class Difference(NamedTuple):
    """How much better one method is than another, seed by seed."""

    mean: float  # of the paired differences of scores
    error: float  # its standard error

    @property
    def is_better(self) -> bool:
        """Whether the mean exceeds two standard errors."""
        return self.mean > 2 * self.error

    @property
    def is_worse(self) -> bool:
        """Whether the mean falls below minus two standard errors."""
        return self.mean < -2 * self.error


class Results:
    """Results of cells, by experiment, calibration, method and epsilon."""

    def __init__(self, cells: Mapping[Cell, CellResult]) -> None:
        self._trained = dict(cells)
        self._cells = {
            (c.experiment.name, c.calibration, c.method, c.epsilon): result
            for c, result in cells.items()
        }
        self.experiments: dict[str, Experiment] = {
            cell.experiment.name: cell.experiment for cell in cells
        }

    def cell(
        self, experiment: str, calibration: Calibration, method: str, epsilon: float
    ) -> CellResult:
        """Return one result, or raise."""
        try:
            return self._cells[experiment, calibration, method, epsilon]
        except KeyError:
            raise CorrDPError(
                f"the results hold no cell {experiment}, {calibration.value}, "
                f"{method}, epsilon {epsilon:g}. Run the experiment again."
            ) from None

    def panel(self, experiment: str, calibration: Calibration) -> "Panel":
        """Return the curves of one experiment under one calibration."""
        return Panel(self, self.experiments[experiment], calibration)

    def to_csv(self) -> str:
        """Return one line per trained model."""
        lines = [
            [
                cell.experiment.name,
                cell.calibration.value,
                cell.method,
                cell.epsilon,
                seed,
                score,
                cell.experiment.metric,
                result.provable_epsilon if cell.is_private else "",
                "" if result.lipschitz is None else result.lipschitz,
                "" if result.constant is None else result.constant,
            ]
            for cell, result in self._trained.items()
            for seed, score in enumerate(result.scores)
        ]
        return csv_text(_COLUMNS, lines, spreadsheet_safe=False)

    def to_json(self) -> JSONObject:
        """Return all results in few bytes: one entry per cell."""
        return {
            "cells": [
                cell.to_json() | _shortened(result).to_json()
                for cell, result in self._trained.items()
            ]
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Results":
        """Read what `to_json` wrote of the paper's experiments at full size."""
        cells = {}
        for entry in document["cells"]:
            cell = Cell(
                EXPERIMENTS[entry["experiment"]],
                Calibration(entry["calibration"]),
                entry["method"],
                decode_number(entry["epsilon"]),
                len(entry["scores"]),
            )
            cells[cell] = CellResult.from_json(entry)
        return cls(cells)


@dataclass(frozen=True, eq=False)
class Panel:
    """One half of a figure: the curves of an experiment under one calibration."""

    results: Results
    experiment: Experiment
    calibration: Calibration

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Budgets of its curves."""
        return self.experiment.budgets(self.calibration)

    def cell(self, method: str, epsilon: float) -> CellResult:
        """Return one point of a curve, or raise."""
        return self.results.cell(
            self.experiment.name, self.calibration, method, epsilon
        )

    def scores(self, method: str, epsilon: float) -> FloatArray:
        """Return the scores of one point by seed."""
        return np.array(self.cell(method, epsilon).scores)

    def plain(self, method: str = "nonprivate") -> float:
        """Return the mean score of a method without noise."""
        return float(self.scores(method, math.inf).mean())

    @property
    def baseline(self) -> float:
        """The score that gaps are measured from.

        Linear models: the least risk of any model, as the paper defines utility.
        Otherwise the same training without noise.
        """
        if self.experiment.model is not Model.LINEAR:
            return self.plain()
        return replace(self, calibration=Calibration.CERTIFIED).plain()

    def difference(self, epsilon: float, *, of: str, to: str) -> Difference:
        """Return how much better method `of` scores than method `to`."""
        paired = self.scores(of, epsilon) - self.scores(to, epsilon)
        return Difference(float(paired.mean()), standard_error(paired))

    def told(self, value: float) -> str:
        """Return a difference of scores in the unit of the experiment."""
        if self.experiment.classifies:
            return f"{100 * value:.2f} points"
        return f"{value:.4f}"


def deviation(scores: FloatArray) -> float:
    """Return the standard deviation over seeds; 0 of a single one."""
    return float(scores.std(ddof=1)) if scores.size > 1 else 0.0


def standard_error(scores: FloatArray) -> float:
    """Return the standard error of the mean over seeds."""
    return deviation(scores) / math.sqrt(scores.size)


def _shortened(result: CellResult) -> CellResult:
    """Return a result in few digits, without classes that are alike by design."""
    return replace(
        result,
        scores=tuple(round(score, _DIGITS) for score in result.scores),
        provable={
            name: round(epsilon, 4)
            for name, epsilon in result.provable.items()
            if not name.startswith("insensitive:x")
        },
    )

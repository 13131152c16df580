"""Saved results: every score of every cell, and what the findings read off them."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from corrdp._files import csv_text
from corrdp._json import decode_number, encode_number
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
    "experiment",
    "calibration",
    "method",
    "epsilon",
    "seed",
    "score",
    "metric",
    "provable_epsilon",
    "lipschitz",
    "constant",
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

    def scores(
        self, experiment: str, calibration: Calibration, method: str, epsilon: float
    ) -> FloatArray:
        """Return the scores of one cell by seed."""
        return np.array(self.cell(experiment, calibration, method, epsilon).scores)

    def epsilons(self, experiment: str, calibration: Calibration) -> tuple[float, ...]:
        """Return the budgets of a curve."""
        return self.experiments[experiment].budgets(calibration)

    def plain(
        self, experiment: str, calibration: Calibration, method: str = "nonprivate"
    ) -> float:
        """Return the mean score of a method without noise."""
        return float(self.scores(experiment, calibration, method, math.inf).mean())

    def baseline(self, experiment: str, calibration: Calibration) -> float:
        """Return the score that gaps are measured from.

        Linear models: the least risk of any model, as the paper defines utility.
        Otherwise the same training without noise.
        """
        linear = self.experiments[experiment].model is Model.LINEAR
        source = Calibration.CERTIFIED if linear else calibration
        return self.plain(experiment, source)

    def difference(
        self,
        experiment: str,
        calibration: Calibration,
        epsilon: float,
        *,
        of: str,
        to: str,
    ) -> Difference:
        """Return how much better method `of` scores than method `to`."""
        better = self.scores(experiment, calibration, of, epsilon)
        worse = self.scores(experiment, calibration, to, epsilon)
        paired = better - worse
        return Difference(float(paired.mean()), standard_error(paired))

    def to_csv(self) -> str:
        """Return one line per trained model."""
        lines = []
        for (name, calibration, method, epsilon), result in self._cells.items():
            private = math.isfinite(epsilon)
            lines += [
                [
                    name,
                    calibration.value,
                    method,
                    epsilon,
                    seed,
                    score,
                    self.experiments[name].metric,
                    result.provable_epsilon if private else "",
                    "" if result.lipschitz is None else result.lipschitz,
                    "" if result.constant is None else result.constant,
                ]
                for seed, score in enumerate(result.scores)
            ]
        return csv_text(_COLUMNS, lines, spreadsheet_safe=False)

    def to_json(self) -> JSONObject:
        """Return all results in few bytes: one entry per cell."""
        return {
            "cells": [
                {
                    "experiment": name,
                    "calibration": calibration.value,
                    "method": method,
                    "epsilon": encode_number(epsilon),
                }
                | _shortened(result).to_json()
                for (name, calibration, method, epsilon), result in self._cells.items()
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

"""Questions about a model: what its predictions on private rows are worth.

They read derived columns (`DerivedColumns`) with the names below, beside the label.
Theory: ``docs/theory/queries.md``.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from corrdp._typing import IntArray
from corrdp.policy import Policy
from corrdp.queries._columns import group_names, read_groups, read_numbers
from corrdp.queries._estimates import Estimate
from corrdp.queries._kinds import Count, Mean, Variance
from corrdp.queries._moments import Moment
from corrdp.queries._query import By, Estimates, Labeled, Query, as_columns

CORRECT = "(correct)"
LOSS = "(loss)"
PREDICTION = "(prediction)"
PROBABILITY = "(probability)"
SQUARED_ERROR = "(squared error)"
# The number of positive rows matters less to an area than the order of pairs.
_COUNT_WEIGHT = 1.0 / 64.0


@dataclass(frozen=True)
class PairMoment(Moment):
    """Pairs ordered rightly minus pairs ordered wrongly, in every cell.

    A pair is a row with the positive label and one without it, of the same cell; equal
    scores count for neither. `score` and `label` are columns, `positive` is the group
    of the label that should score higher, and the public `n_rows` bounds the pairs of
    one row.
    """

    score: str = ""
    label: str = ""
    positive: str = ""
    n_rows: int = 1

    @property
    def name(self) -> str:
        """Name shown in plans."""
        return f"pairs of {self.label} ordered by {self.score}" + (
            f" by {', '.join(self.by)}" if self.by else ""
        )

    @property
    def most_rows(self) -> float:
        """Rows up to which `movement` holds: each is in a pair with the others."""
        return self.n_rows

    @property
    def columns(self) -> frozenset[str]:
        """Score, label and what splits the rows."""
        return frozenset({self.score, self.label, *self.by})

    @property
    def span(self) -> int:
        """Largest movement: one row is in fewer pairs than there are rows."""
        return 2 * max(self.n_rows - 1, 1)

    def movement(self, policy: Policy, changed: frozenset[str]) -> tuple[int, int]:
        """Bound the movement under a change of some columns of one row.

        Guarantee
        ---------
        At most twice the other rows if score or cell may change, as many as the other
        rows if the label alone does (``docs/theory/queries.md``).
        """
        others = max(self.n_rows - 1, 1)
        if ({self.score} | set(self.by)) & changed:
            return 2 * others, 4 * others**2
        if self.label in changed:
            return others, others**2
        return 0, 0

    def evaluate(self, policy: Policy, table: Any) -> IntArray:
        """Return the exact number of every cell."""
        scores = read_numbers(policy, table, self.score).values
        places = group_names(policy, self.label)
        positive = read_groups(policy, table, self.label) == places.index(self.positive)
        cell, n_cells, _ = self._cells_of(policy, table, scores.size)
        found = np.zeros(n_cells, dtype=np.int64)
        for number in range(n_cells):
            inside = cell == number
            others = np.sort(scores[inside & ~positive])
            ours = scores[inside & positive]
            below = np.searchsorted(others, ours, side="left")
            above = others.size - np.searchsorted(others, ours, side="right")
            found[number] = int(np.sum(below - above))
        return found


class ModelMetric(Query):
    """A question that only the evaluation of a model asks."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The question in words, for ledgers."""


@dataclass(frozen=True)
class _LabelMetric(ModelMetric):
    """A metric of the label in every cell of some columns, named by a word."""

    label: str
    by: By = None
    word: ClassVar[str]

    @property
    def text(self) -> str:
        """The question in words."""
        columns = as_columns(self.by)
        split = f" by {', '.join(columns)}" if columns else ""
        return f"{self.word}({self.label}){split}"


@dataclass(frozen=True)
class AreaUnderCurve(_LabelMetric):
    """Share of pairs of unlike rows that the probability orders rightly.

    The label has two groups, of which the second should score higher; `n_rows` is
    public.
    """

    n_rows: int = field(kw_only=True)
    word = "auc"

    def weight(self, moment: Moment) -> float:
        """Return less for the counts than for the pairs."""
        return 1.0 if isinstance(moment, PairMoment) else _COUNT_WEIGHT

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return ordered pairs, and positive rows (all labels in every cell)."""
        by = as_columns(self.by)
        positive = group_names(policy, self.label)[1]
        pairs = PairMoment(
            (),
            by,
            score=PROBABILITY,
            label=self.label,
            positive=positive,
            n_rows=self.n_rows,
        )
        pairs.levels(policy)
        if not by:
            return pairs, Moment((), (self.label,), (positive,))
        return pairs, Moment((), (*by, self.label))

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return a half plus ordered pairs over twice all pairs."""
        pairs, counts = self.moments(policy)
        rows = [count.clipped(0.0, n_rows) for count in estimates[counts]]
        n_labels = len(counts.cells(policy)) // len(pairs.cells(policy))
        answers: Labeled = []
        for number, cell in enumerate(pairs.cells(policy)):
            if n_labels == 1:
                all_pairs = _pairs_of(rows[0], n_rows)
            else:
                negative, positive = rows[number * n_labels : number * n_labels + 2]
                all_pairs = positive * negative
            twice_all = all_pairs.scaled(2.0)
            area = (estimates[pairs][number] / twice_all).shifted(0.5)
            answers.append((cell, area.clipped(0.0, 1.0)))
        return answers


@dataclass(frozen=True)
class _ProbabilityMetric(_LabelMetric):
    """A metric that is computed from counts by bin of the probability and label."""

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return counts by bin and label."""
        return Count((*as_columns(self.by), PROBABILITY, self.label)).moments(policy)

    def _bins(
        self, policy: Policy, n_rows: int, estimates: Estimates
    ) -> list[tuple[tuple[str, ...], Estimate, Estimate]]:
        """Return per bin the counts of both labels."""
        (moment,) = self.moments(policy)
        counts = [count.clipped(0.0, n_rows) for count in estimates[moment]]
        cells = moment.cells(policy)
        return [
            (cells[place][:-1], counts[place], counts[place + 1])
            for place in range(0, len(cells), 2)
        ]


@dataclass(frozen=True)
class Calibration(_ProbabilityMetric):
    """Share of positive rows among those of every bin of the probability."""

    word = "calibration"

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns to split by, then the bins of the probability."""
        return (*as_columns(self.by), "probability")

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return positive rows over all rows of the bin."""
        return [
            (cell, (positive / (positive + negative)).clipped(0.0, 1.0))
            for cell, negative, positive in self._bins(policy, n_rows, estimates)
        ]


@dataclass(frozen=True)
class RocCurve(_ProbabilityMetric):
    """Rates of true and false alarms at the edges of the bins of the probability."""

    word = "roc"

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns to split by, the threshold, and which rate."""
        return (*as_columns(self.by), "at least", "rate")

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the rows above every threshold over all rows of their label."""
        found = self._bins(policy, n_rows, estimates)
        n_bins = len(group_names(policy, PROBABILITY))
        answers: Labeled = []
        for start in range(0, len(found), n_bins):
            bins = found[start : start + n_bins]
            rates = {
                "true positive": [positive for _, _, positive in bins],
                "false positive": [negative for _, negative, _ in bins],
            }
            for place, (cell, _, _) in enumerate(bins):
                threshold = cell[-1].split(" to ")[0]
                for name, counts in rates.items():
                    rate = (_sum(counts[place:]) / _sum(counts)).clipped(0.0, 1.0)
                    answers.append(((*cell[:-1], threshold, name), rate))
        return answers


@dataclass(frozen=True)
class RSquared(_LabelMetric):
    """One minus the mean squared error over the variance of the label."""

    word = "r_squared"

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return sums of squared errors, of labels and of their squares."""
        errors, variance = self._parts()
        return errors.moments(policy) + variance.moments(policy)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return at most 1."""
        errors, variance = self._parts()
        total = policy.label
        assert total is not None
        width = (total.domain.upper - total.domain.lower) ** 2  # type: ignore[union-attr]
        spread = dict(variance.answer(policy, n_rows, estimates))
        one = Estimate.exactly(1.0)
        answers: Labeled = []
        for cell, error in errors.answer(policy, n_rows, estimates):
            ratio = error / spread[cell].scaled(1.0 / width)
            answers.append((cell, (one - ratio).clipped(-float("inf"), 1.0)))
        return answers

    def _parts(self) -> tuple[Mean, Variance]:
        return Mean(SQUARED_ERROR, self.by), Variance(self.label, self.by)


def metric_query(name: str, label: str, n_rows: int, by: By) -> Query:
    """Return the question of a metric by its name."""
    questions = {
        "accuracy": Mean(CORRECT, by),
        "log_loss": Mean(LOSS, by),
        "confusion": Count((*as_columns(by), label, PREDICTION)),
        "auc": AreaUnderCurve(label, by, n_rows=n_rows),
        "roc": RocCurve(label, by),
        "calibration": Calibration(label, by),
        "mean_squared_error": Mean(SQUARED_ERROR, by),
        "r_squared": RSquared(label, by),
    }
    return questions[name]


def _pairs_of(positive: Estimate, n_rows: int) -> Estimate:
    """Return the pairs of unlike rows: both factors err together, so not a product."""

    def pairs(count: float) -> float:
        return count * (n_rows - count)

    ends = sorted((pairs(positive.lower), pairs(positive.upper)))
    if positive.lower <= n_rows / 2 <= positive.upper:
        ends[1] = n_rows**2 / 4
    return Estimate(pairs(positive.value), *ends)


def _sum(counts: list[Estimate]) -> Estimate:
    return sum(counts, Estimate.exactly(0.0))

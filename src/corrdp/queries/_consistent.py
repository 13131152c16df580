"""Counts that agree with each other: not negative, and one margin for all tables.

Post-processing of released counts alone: it costs nothing and is marked.
Theory: ``docs/theory/queries.md``.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError
from corrdp.policy import Policy
from corrdp.queries._columns import group_names
from corrdp.queries._conditions import Condition
from corrdp.queries._kinds import Count
from corrdp.queries._moments import Moment
from corrdp.queries._quantiles import Histogram
from corrdp.queries._result import Answer, QueryResult

MOST_CELLS = 2048
_EXACT_WEIGHT = 1e4  # public totals weigh this much more than the least noisy count


@dataclass(frozen=True)
class _Table:
    """Released counts of all groups of some columns."""

    place: int
    moment: Moment
    values: FloatArray
    noise_scale: float


def consistent_counts(result: QueryResult) -> QueryResult:
    """Return the result with count tables that agree with each other.

    Counts of one condition become margins of one non-negative table, the closest to
    what was released in squares relative to the noise; without a condition its total is
    the public number of rows. Answers that are not counts, and counts of listed groups
    only, stay as they are. A radius grows by as much as its value moved, so that it
    still encloses the count without noise.

    Parameters
    ----------
    result : QueryResult
        Of `answer_queries`.

    Guarantee
    ---------
    Post-processing: reads released numbers alone (``docs/theory/queries.md``).
    """
    plan = result.plan
    variances = dict(zip(plan.moments, plan.noise.noise_variance.tolist(), strict=True))
    tables: dict[Condition | None, list[_Table]] = {}
    for place, (query, answer) in enumerate(
        zip(plan.queries, result.answers, strict=True)
    ):
        if not isinstance(query, Count | Histogram) or query.groups is not None:
            continue
        for moment in query.moments(plan.view):
            scale = math.sqrt(variances[moment])
            tables.setdefault(moment.where, []).append(
                _Table(place, moment, np.array(answer.values), scale)
            )
    answers = list(result.answers)
    for where, found in tables.items():
        total = plan.n_rows if where is None else None
        fitted = _fitted(plan.view, found, total)
        for table, values in zip(found, fitted, strict=True):
            answers[table.place] = _moved(answers[table.place], values)
    return replace(result, answers=tuple(answers))


def _fitted(
    policy: Policy, tables: Sequence[_Table], total: int | None
) -> list[FloatArray]:
    keys = tuple(dict.fromkeys(key for table in tables for key in table.moment.by))
    levels = [group_names(policy, key) for key in keys]
    n_cells = math.prod(map(len, levels))
    if n_cells > MOST_CELLS:
        raise CorrDPError(
            f"counts by {', '.join(keys)} meet in {n_cells} cells, at most "
            f"{MOST_CELLS} can be made consistent. Ask for fewer of them together."
        )
    joint = list(itertools.product(*levels))
    margins = []
    for table in tables:
        places = [keys.index(key) for key in table.moment.by]
        index = {cell: row for row, cell in enumerate(table.moment.cells(policy))}
        margin = np.zeros((len(index), n_cells))
        for column, cell in enumerate(joint):
            margin[index[tuple(cell[place] for place in places)], column] = 1.0
        margins.append(margin)
    least = min((t.noise_scale for t in tables if t.noise_scale > 0.0), default=1.0)
    weights = [1.0 / max(t.noise_scale, least / _EXACT_WEIGHT) for t in tables]
    rows = [m * w for m, w in zip(margins, weights, strict=True)]
    goals = [t.values * w for t, w in zip(tables, weights, strict=True)]
    if total is not None:
        weight = _EXACT_WEIGHT / least
        rows.append(np.full((1, n_cells), weight))
        goals.append(np.array([total * weight]))
    cells, _ = nnls(np.vstack(rows), np.concatenate(goals))
    if total is not None and cells.sum() > 0.0:
        cells *= total / cells.sum()
    return [margin @ cells for margin in margins]


def _moved(answer: Answer, values: FloatArray) -> Answer:
    moved = np.abs(values - np.array(answer.values))
    radii = np.array(answer.radii) + moved
    return replace(
        answer,
        values=tuple(values.tolist()),
        radii=tuple(radii.tolist()),
        consistent=True,
    )

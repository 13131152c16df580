"""Counts that agree with each other: not negative, and one margin for all tables.

Post-processing of released counts alone: it costs nothing and is marked.
Theory: ``docs/theory/queries.md``.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import nnls

from corrdp._typing import FloatArray
from corrdp.policy import Policy
from corrdp.queries._columns import group_names
from corrdp.queries._moments import Moment
from corrdp.queries._result import Answer, QueryResult

_EXACT_WEIGHT = 1e4  # public totals weigh this much more than the least noisy count


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
    scales = dict(
        zip(plan.moments, np.sqrt(plan.noise.noise_variance).tolist(), strict=True)
    )
    answers = list(result.answers)
    for where, tables in plan.count_tables().items():
        total = plan.n_rows if where is None else None
        fitted = _fitted(
            plan.view,
            list(tables.values()),
            [np.array(answers[place].values) for place in tables],
            [scales[moment] for moment in tables.values()],
            total,
        )
        for place, values in zip(tables, fitted, strict=True):
            answers[place] = _moved(answers[place], values)
    return replace(result, answers=tuple(answers))


def _fitted(
    policy: Policy,
    moments: Sequence[Moment],
    released: Sequence[FloatArray],
    scales: Sequence[float],
    total: int | None,
) -> list[FloatArray]:
    keys = tuple(dict.fromkeys(key for moment in moments for key in moment.by))
    levels = [group_names(policy, key) for key in keys]
    n_cells = math.prod(map(len, levels))
    joint = list(itertools.product(*levels))
    margins = []
    for moment in moments:
        places = [keys.index(key) for key in moment.by]
        index = {cell: row for row, cell in enumerate(moment.cells(policy))}
        margin = np.zeros((len(index), n_cells))
        for column, cell in enumerate(joint):
            margin[index[tuple(cell[place] for place in places)], column] = 1.0
        margins.append(margin)
    least = min((scale for scale in scales if scale > 0.0), default=1.0)
    weights = [1.0 / max(scale, least / _EXACT_WEIGHT) for scale in scales]
    rows = [m * w for m, w in zip(margins, weights, strict=True)]
    goals = [values * w for values, w in zip(released, weights, strict=True)]
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

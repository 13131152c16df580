"""Rows given some of their columns: evidence on a junction tree, many rows at once.

The joint law is the root's table times every clique's law given its separator. Given
columns are looked up first, so that each array has one leading axis for the distinct
given rows and one axis for every column that is not given.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp.synthesis._junction_tree import Region

if TYPE_CHECKING:
    from corrdp.synthesis._model import Calibrated

_MOST_NUMBERS = 2_000_000  # held at a time for one clique


def sample_given(
    model: "Calibrated", given: Mapping[int, IntArray], generator: np.random.Generator
) -> IntArray:
    """Return one row per given row; see `Calibrated.sample_given`."""
    columns = tuple(sorted(given))
    stacked = np.column_stack([given[column] for column in columns])
    patterns, inverse = np.unique(stacked, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    n_columns = 1 + max(max(clique) for clique in model.tree.cliques)
    codes = np.empty((len(stacked), n_columns), dtype=np.int64)
    most_hidden = max(
        int(
            np.prod(
                [
                    size
                    for c, size in zip(clique, table.shape, strict=True)
                    if c not in given
                ],
                dtype=np.int64,
            )
        )
        for clique, table in zip(model.tree.cliques, model.tables, strict=True)
    )
    step = max(1, _MOST_NUMBERS // most_hidden)
    # Rows of one pattern may be many: bound what a chunk holds by both.
    order = np.argsort(inverse, kind="stable")
    for start in range(0, len(order), step):
        rows = order[start : start + step]
        used, local = np.unique(inverse[rows], return_inverse=True)
        evidence = {c: patterns[used, i] for i, c in enumerate(columns)}
        codes[rows] = _sample_chunk(model, evidence, local, n_columns, generator)
    return codes


def _sample_chunk(
    model: "Calibrated",
    evidence: Mapping[int, IntArray],
    pattern: IntArray,
    n_columns: int,
    generator: np.random.Generator,
) -> IntArray:
    tree = model.tree
    laws = [
        _looked_up(_law(table, clique, separator), clique, evidence)
        for table, clique, separator in zip(
            model.tables, tree.cliques, tree.separators, strict=True
        )
    ]
    hidden = [tuple(c for c in clique if c not in evidence) for clique in tree.cliques]
    for child in range(len(laws) - 1, 0, -1):
        parent = tree.parents[child]
        shared = tuple(c for c in tree.separators[child] if c not in evidence)
        axes = tuple(1 + i for i, c in enumerate(hidden[child]) if c not in shared)
        message = laws[child].sum(axis=axes)
        peak = message.max(axis=tuple(range(1, message.ndim)), keepdims=True)
        message = message / np.where(peak > 0, peak, 1.0)
        shape = iter(message.shape[1:])
        laws[parent] = laws[parent] * message.reshape(
            [len(message), *(next(shape) if c in shared else 1 for c in hidden[parent])]
        )
    codes = np.empty((len(pattern), n_columns), dtype=np.int64)
    for column, values in evidence.items():
        codes[:, column] = values[pattern]
    done = set(evidence)
    for law, own in zip(laws, hidden, strict=True):
        rest = tuple(c for c in own if c not in done)
        if not rest:
            continue
        known = tuple(c for c in own if c in done)
        moved = law.transpose([0, *(1 + own.index(c) for c in known + rest)])
        weights = moved[(pattern, *(codes[:, c] for c in known))]
        drawn = _categorical(weights.reshape(len(pattern), -1), generator)
        sizes = moved.shape[1 + len(known) :]
        for column, values in zip(rest, np.unravel_index(drawn, sizes), strict=True):
            codes[:, column] = values
        done.update(rest)
    return codes


def _law(table: FloatArray, clique: Region, separator: Region) -> FloatArray:
    """Return the law of a clique given its separator; the root's own table."""
    if not separator:
        return table
    axes = tuple(i for i, c in enumerate(clique) if c not in separator)
    total = table.sum(axis=axes, keepdims=True)
    law = np.zeros_like(table)
    np.divide(table, total, out=law, where=total > 0)
    return law


def _looked_up(
    law: FloatArray, clique: Region, evidence: Mapping[int, IntArray]
) -> FloatArray:
    """Return the law at every pattern: patterns first, then the hidden columns."""
    known = [i for i, c in enumerate(clique) if c in evidence]
    hidden = [i for i, c in enumerate(clique) if c not in evidence]
    n_patterns = len(next(iter(evidence.values())))
    if not known:
        return np.broadcast_to(law, (n_patterns, *law.shape))
    return np.asarray(
        law.transpose(known + hidden)[tuple(evidence[clique[i]] for i in known)]
    )


def _categorical(weights: FloatArray, generator: np.random.Generator) -> IntArray:
    """Draw one cell per row with probability proportional to its weight."""
    edges = np.cumsum(weights, axis=1)
    totals = edges[:, -1:]
    # A combination that the model gave no weight: nothing to prefer.
    flat = np.arange(1.0, weights.shape[1] + 1.0)
    edges = np.where(totals > 0, edges, flat)
    marks = generator.random((len(weights), 1)) * edges[:, -1:]
    passed = np.count_nonzero(edges <= marks, axis=1)
    drawn: IntArray = np.minimum(passed, weights.shape[1] - 1)
    return drawn

"""A graphical model of a table: marginals exactly, rows by sampling.

Tables are numpy arrays with one axis per column of their region, in the order of
column numbers. Probabilities are kept in linear space, scaled clique by clique: a cell
that underflows to zero has no weight in any marginal anyway, and structural zeros need
no special case.

Rows given some of their columns: the joint law is the root's table times every clique's
law given its separator. Given columns are looked up first, so that each array has one
leading axis for the distinct given rows and one axis for every column that is not.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp.synthesis._junction_tree import JunctionTree, Region, axes_beside

_MOST_NUMBERS = 2_000_000  # held at a time for one clique


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Clique tables that agree on what they share, each with total 1.

    `log_total` is the logarithm of the sum that normalized them.
    """

    tree: JunctionTree
    tables: tuple[FloatArray, ...]
    log_total: float

    def sample(self, n_rows: int, generator: np.random.Generator) -> IntArray:
        """Return rows of codes, one column per number.

        Every clique holds its expected count of each cell, given the separator, up to
        less than one row: systematic sampling has less scatter than independent rows.
        """
        # Columns one after the other: they are counted a few at a time.
        codes = np.zeros((n_rows, self._n_columns), dtype=np.int64, order="F")
        for clique, separator, table in zip(
            self.tree.cliques, self.tree.separators, self.tables, strict=True
        ):
            rest = tuple(c for c in clique if c not in separator)
            if not rest:
                continue
            order = [clique.index(c) for c in separator + rest]
            shape = [table.shape[i] for i in order]
            n_outer = int(np.prod(shape[: len(separator)], dtype=np.int64))
            weights = table.transpose(order).reshape(n_outer, -1)
            outer = _flat(codes, separator, shape[: len(separator)])
            inner = _systematic(outer, weights, generator)
            _write(codes, rest, inner, shape[len(separator) :])
        return codes.T[:, generator.permutation(n_rows)].T

    def sample_given(
        self, given: Mapping[int, IntArray], generator: np.random.Generator
    ) -> IntArray:
        """Return one row of codes per given row, drawn from the conditional law.

        What is given are codes of some columns, by column number.
        """
        columns = tuple(sorted(given))
        stacked = np.column_stack([given[column] for column in columns])
        patterns, inverse = np.unique(stacked, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        codes = np.empty((len(stacked), self._n_columns), dtype=np.int64)
        most_hidden = max(
            math.prod(
                size
                for c, size in zip(clique, table.shape, strict=True)
                if c not in given
            )
            for clique, table in zip(self.tree.cliques, self.tables, strict=True)
        )
        step = max(1, _MOST_NUMBERS // most_hidden)
        # Rows of one pattern may be many: bound what a chunk holds by both.
        order = np.argsort(inverse, kind="stable")
        for start in range(0, len(order), step):
            rows = order[start : start + step]
            used, local = np.unique(inverse[rows], return_inverse=True)
            evidence = {c: patterns[used, i] for i, c in enumerate(columns)}
            codes[rows] = self._sample_chunk(evidence, local, generator)
        return codes

    @property
    def _n_columns(self) -> int:
        return 1 + max(max(clique) for clique in self.tree.cliques)

    def _sample_chunk(
        self,
        evidence: Mapping[int, IntArray],
        pattern: IntArray,
        generator: np.random.Generator,
    ) -> IntArray:
        tree = self.tree
        laws = [
            _looked_up(_law(table, clique, separator), clique, evidence)
            for table, clique, separator in zip(
                self.tables, tree.cliques, tree.separators, strict=True
            )
        ]
        hidden = [
            tuple(c for c in clique if c not in evidence) for clique in tree.cliques
        ]
        for child in range(len(laws) - 1, 0, -1):
            parent = tree.parents[child]
            shared = tuple(c for c in tree.separators[child] if c not in evidence)
            axes = tuple(1 + i for i, c in enumerate(hidden[child]) if c not in shared)
            message = laws[child].sum(axis=axes)
            peak = message.max(axis=tuple(range(1, message.ndim)), keepdims=True)
            message = message / np.where(peak > 0, peak, 1.0)
            shape = iter(message.shape[1:])
            laws[parent] = laws[parent] * message.reshape(
                [
                    len(message),
                    *(next(shape) if c in shared else 1 for c in hidden[parent]),
                ]
            )
        codes = np.empty((len(pattern), self._n_columns), dtype=np.int64)
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
            _write(codes, rest, drawn, moved.shape[1 + len(known) :])
            done.update(rest)
        return codes


def calibrate(tree: JunctionTree, log_potentials: Sequence[FloatArray]) -> Calibrated:
    """Return the marginals of the cliques: one pass to the root and one back.

    Given is the logarithm of the factor of every clique; minus infinity is a structural
    zero.
    """
    log_total = 0.0
    beliefs = []
    for potential in log_potentials:
        largest = np.maximum.reduce(potential, axis=None)
        log_total += float(largest)
        shifted = potential - largest
        beliefs.append(np.exp(shifted, out=shifted))
    sums: list[FloatArray] = [np.ones(())] * len(beliefs)  # over what is not shared
    for child in range(len(beliefs) - 1, 0, -1):
        link = tree.links[child]
        own = np.add.reduce(beliefs[child], axis=link.own_axes)
        scale = float(np.maximum.reduce(own, axis=None))
        log_total += np.log(scale)
        beliefs[link.parent] *= (own / scale)[link.in_parent]
        sums[child] = own
    total = float(beliefs[0].sum())
    log_total += np.log(total)
    beliefs[0] /= total
    for child in range(1, len(beliefs)):
        link = tree.links[child]
        known = np.add.reduce(beliefs[link.parent], axis=link.parent_axes)
        own = sums[child]
        ratio = np.divide(known, own, out=np.zeros_like(known), where=own > 0)
        beliefs[child] *= ratio[link.in_own]
    return Calibrated(tree, tuple(beliefs), float(log_total))


def expanded(table: FloatArray, region: Region, onto: Region) -> FloatArray:
    """Return a view of the table with axes of length 1 for the missing columns."""
    shape = iter(table.shape)
    return table.reshape([next(shape) if c in region else 1 for c in onto])


def _flat(codes: IntArray, region: Region, shape: Sequence[int]) -> IntArray:
    if not region:
        return np.zeros(len(codes), dtype=np.int64)
    return np.ravel_multi_index(tuple(codes[:, c] for c in region), tuple(shape))


def _write(
    codes: IntArray, columns: Region, cells: IntArray, shape: Sequence[int]
) -> None:
    """Write the codes of some columns, given as cells of their table, into rows."""
    for column, values in zip(columns, np.unravel_index(cells, shape), strict=True):
        codes[:, column] = values


def _systematic(
    outer: IntArray, weights: FloatArray, generator: np.random.Generator
) -> IntArray:
    """Draw an inner cell for every row, given its outer cell.

    Rows of one outer cell receive ``floor(cum + u)`` differences of their cumulated
    expected counts: each count is within one of its expectation, which it has on
    average, and the total is exact. Which row gets which cell is a random order.
    """
    counts = np.bincount(outer, minlength=len(weights))
    totals = weights.sum(axis=1)
    used = np.flatnonzero(counts)
    # A separator value that the model gave no weight: nothing to prefer.
    share = np.where(
        totals[used, None] > 0,
        weights[used] / np.maximum(totals[used, None], np.finfo(float).tiny),
        1.0 / weights.shape[1],
    )
    edges = np.cumsum(share, axis=1) * counts[used, None]
    edges[:, -1] = counts[used]  # no rounding may lose a row
    upper = np.floor(edges + generator.random((used.size, 1)))
    upper[:, -1] = counts[used]
    upper = np.minimum(upper, counts[used, None])
    drawn = np.diff(upper, axis=1, prepend=0.0).astype(np.int64)
    inner = np.repeat(np.tile(np.arange(weights.shape[1]), used.size), drawn.ravel())
    # By outer cell, in random order within: sorts of short integers are fast.
    shuffled = _random_order(outer.size, generator)
    kind = np.min_scalar_type(len(weights))
    rows = shuffled[np.argsort(outer[shuffled].astype(kind), kind="stable")]
    cells = np.empty(outer.size, dtype=np.int64)
    cells[rows] = inner
    return cells


def _random_order(size: int, generator: np.random.Generator) -> IntArray:
    """Return the order of as many draws: sorted by their leading digits, three times.

    Sorts of short integers are fast; draws that agree in 48 bits are sorted as they
    are.
    """
    draws = generator.random(size)
    leading = (draws * 2.0**48).astype(np.uint64)
    order = np.arange(size)
    for shift in (0, 16, 32):
        digits = (leading[order] >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digits, kind="stable")]
    if np.all(np.diff(draws[order]) > 0.0):
        return order
    return np.argsort(draws)


def _law(table: FloatArray, clique: Region, separator: Region) -> FloatArray:
    """Return the law of a clique given its separator; the root's own table."""
    if not separator:
        return table
    total = table.sum(axis=axes_beside(separator, clique), keepdims=True)
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

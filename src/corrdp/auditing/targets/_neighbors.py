"""Worst-case neighbors: a search over the corners of the declared domain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Deadline
from corrdp.policy import Block, BlockKind, NeighborClass

Movement = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]

_MOST_LEVELS = 12  # of one category that are tried, drawn at random
_MOST_ROUNDS = 50
_LEAST_GAIN = 1e-3


@dataclass(frozen=True, eq=False)
class RecordPair:
    """Two records that are neighbors of one class, in codes of shape (n_codes,).

    Labels are as encoded; `movement` is what a search maximized: how far outputs are
    apart, in units of the noise.
    """

    first: FloatArray
    second: FloatArray
    first_label: float
    second_label: float
    movement: float = 0.0

    @property
    def records(self) -> tuple[tuple[FloatArray, float], tuple[FloatArray, float]]:
        """Both records, each with its label."""
        return (self.first, self.first_label), (self.second, self.second_label)


def craft_pair(
    blocks: Sequence[Block],
    neighbor: NeighborClass,
    movement: Movement,
    *,
    labels: Sequence[float] = (0.0,),
    rng: np.random.Generator,
    n_restarts: int = 4,
    deadline: Deadline | None = None,
    start: RecordPair | None = None,
) -> RecordPair:
    """Search for the two neighbors of a class that outputs tell apart best.

    From as many random corners of the domain as `n_restarts`, and from `start`, which
    are neighbors of the class, too, single features and labels are changed while that
    helps. `movement` takes codes and labels of the first records and of the second
    ones, and returns how far each pair moves the output, in units of its noise. The
    deadline ends the search with the best pair so far, which is one of neighbors.
    """
    moves = _moves(blocks, neighbor, labels, rng)
    pairs = _starts(moves, blocks[-1].stop + 1, n_restarts, rng)
    if start is not None:
        begun = np.stack([np.append(*record) for record in start.records])
        pairs = np.concatenate([pairs, begun[None]])
    best = _measure(movement, pairs)
    for _ in range(_MOST_ROUNDS):
        if deadline is not None and deadline.is_over():
            break
        found = [
            _step(movement, moves, pair, now)
            for pair, now in zip(pairs, best, strict=True)
        ]
        reached = np.array([value for _, value in found])
        pairs = np.stack([pair for pair, _ in found])
        settled = reached <= best * (1.0 + _LEAST_GAIN)
        best = reached
        if settled.all():
            break
    winner = int(np.argmax(best))
    return RecordPair(
        first=pairs[winner, 0, :-1],
        second=pairs[winner, 1, :-1],
        first_label=float(pairs[winner, 0, -1]),
        second_label=float(pairs[winner, 1, -1]),
        movement=float(best[winner]),
    )


def random_pairs(
    blocks: Sequence[Block],
    neighbor: NeighborClass,
    labels: Sequence[float],
    count: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return pairs of neighbors, shape (count, 2, n_codes + 1), labels last.

    What changes is at corners of the domain; numbers that do not are anywhere in it,
    so that pairs differ from each other.
    """
    moves = _moves(blocks, neighbor, labels, rng)
    pairs = _starts(moves, blocks[-1].stop + 1, count, rng)
    for block in blocks:
        kept = block.feature not in neighbor.features
        if kept and block.kind is BlockKind.NUMBER:
            pairs[:, :, block.columns] *= rng.random((count, 1, 1))
    return pairs


@dataclass(frozen=True, eq=False)
class _Move:
    """Corners of one feature, or all labels, and whether the two records may differ."""

    columns: slice
    codes: FloatArray
    differs: bool

    def variants(self, pair: FloatArray) -> FloatArray:
        """Return the pair with the feature at every corner, or pair of corners."""
        count = len(self.codes)
        first = second = np.arange(count)
        if self.differs:
            first, second = (index.ravel() for index in np.indices((count, count)))
        tried = np.repeat(pair[None], first.size, axis=0)
        tried[:, 0, self.columns] = self.codes[first]
        tried[:, 1, self.columns] = self.codes[second]
        return tried


def _measure(movement: Movement, pairs: FloatArray) -> FloatArray:
    """Return how far each pair, shape (n_pairs, 2, n_codes + 1), moves the output."""
    first, second = pairs[:, 0], pairs[:, 1]
    return movement(first[:, :-1], first[:, -1], second[:, :-1], second[:, -1])


def _step(
    movement: Movement, moves: Sequence[_Move], pair: FloatArray, now: float
) -> tuple[FloatArray, float]:
    """Return the pair after the best single move, or after all that help alone."""
    tried = [move.variants(pair) for move in moves]
    values = np.split(
        _measure(movement, np.concatenate(tried)),
        np.cumsum([len(own) for own in tried])[:-1],
    )
    together, single, reached = pair.copy(), pair, now
    for move, own, value in zip(moves, tried, values, strict=True):
        top = int(value.argmax())
        if value[top] > now:
            together[:, move.columns] = own[top][:, move.columns]
        if value[top] > reached:
            single, reached = own[top], float(value[top])
    joint = float(_measure(movement, together[None])[0])
    return (together, joint) if joint > reached else (single, reached)


def _moves(
    blocks: Sequence[Block],
    neighbor: NeighborClass,
    labels: Sequence[float],
    rng: np.random.Generator,
) -> list[_Move]:
    """Return the corners of every raw feature's domain, and the labels."""
    moves = []
    for name in dict.fromkeys(block.feature for block in blocks):
        own = [block for block in blocks if block.feature == name]
        value, columns = own[0], slice(own[0].start, own[-1].stop)
        width = columns.stop - columns.start
        corners = np.array([[-0.5], [0.5]])
        if len(own) > 1 and own[1].kind is BlockKind.HATS:
            place = np.array(own[1].positions)
            corners = np.column_stack([place, np.eye(place.size)])
        elif value.kind is BlockKind.ONE_HOT:
            corners = rng.permutation(np.eye(value.stop - value.start))[:_MOST_LEVELS]
        rows = np.zeros((len(corners) + 1, width))
        rows[:-1, : corners.shape[1]] = corners
        if own[-1].kind is BlockKind.FLAG:  # the value is then all zero
            rows[-1, -1] = 1.0
        elif not value.includes_zero:
            rows = rows[:-1]
        moves.append(_Move(columns, rows, name in neighbor.features))
    end = blocks[-1].stop
    values = np.array(labels, dtype=np.float64)[:, None]
    return [*moves, _Move(slice(end, end + 1), values, neighbor.label_changes)]


def _starts(
    moves: Sequence[_Move], width: int, count: int, rng: np.random.Generator
) -> FloatArray:
    """Return random pairs of neighbors, shape (count, 2, width)."""
    pairs = np.zeros((count, 2, width))
    for move in moves:
        picks = rng.integers(len(move.codes), size=(count, 2))
        if not move.differs:
            picks[:, 1] = picks[:, 0]
        pairs[:, :, move.columns] = move.codes[picks]
    return pairs

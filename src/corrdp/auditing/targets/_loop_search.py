"""The search for parameters and neighbors that a training loop tells apart best."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Deadline
from corrdp.auditing.targets._neighbors import RecordPair
from corrdp.auditing.targets._steps import craft
from corrdp.policy import Block, BlockKind, NeighborClass

if TYPE_CHECKING:
    import torch

    from corrdp.auditing.targets._loop import TrainingLoop

Weights: TypeAlias = "Sequence[torch.Tensor]"  # one per parameter

_SPREADS = (1.0, 3.0, 10.0, 30.0, 100.0)  # of the weights that are tried
_DRAWS = 3  # for every spread
_CLIMBS = 40
_NEWTON_STEPS = 8
_PARTING_STEPS, _PARTING_LENGTH = 12, 0.1
_LOSSES = (0.0, math.log(2.0))  # of a record that is fitted, or undecided
# Ends between which a number changes: across its center, or on one side of it, where
# the sign of the signal changes and that of the number does not.
_MOVES = ((-0.5, 0.5), (0.2, 0.5), (0.4, 0.5))


def candidate_pairs(
    blocks: Sequence[Block], labels: Sequence[float], neighbor: NeighborClass
) -> list[RecordPair]:
    """Return neighbors of a class: what may change does, the rest is at a corner."""
    pairs = []
    ends = (labels[0], labels[-1])
    choices = [ends] if neighbor.label_changes else [(ends[0],) * 2, (ends[1],) * 2]
    for (low, high), (label, other) in itertools.product(_MOVES, choices):
        first = _corner(blocks)
        second = first.copy()
        for block in blocks:
            if block.feature in neighbor.features:
                _change(first, second, block, low, high)
        pairs.append(RecordPair(first, second, label, other))
    return pairs


def worst_steps(
    loop: "TrainingLoop",
    neighbor: NeighborClass,
    rng: np.random.Generator,
    deadline: Deadline,
) -> tuple[RecordPair, list[Weights]]:
    """Return a pair, and different parameters for every step that suit it.

    Guarantee
    ---------
    None is needed: whatever is returned is a pair of neighbors and parameters that
    training is certified for (`docs/theory/audit.md`). Records move gradients as far
    as bounds allow where a small change turns the sign of the residual: such parameters
    are looked for by setting the loss of the record in the middle.
    """
    pairs = candidate_pairs(loop.blocks, loop.labels, neighbor)
    best: tuple[float, RecordPair, Weights] | None = None
    for index, pair in enumerate(pairs):
        own = deadline.share(0.5 / (len(pairs) - index))
        found = _best_weights(loop, pair, rng, own)
        if best is None or found[0] > best[0]:
            best = (found[0], pair, found[1])
        if deadline.is_over():
            break
    assert best is not None
    _, pair, weights = best
    weights = _climbed(loop, pair, weights, rng, deadline.share(0.25))
    loop.place(weights)
    crafted = craft(
        loop, neighbor, rng, n_restarts=1, deadline=deadline.share(0.25), start=pair
    )
    paths = [
        (crafted, _path(loop, crafted, weights, rng, deadline.share(0.5))),
        (pair, _path(loop, pair, weights, rng, deadline)),
    ]
    return max(paths, key=lambda path: _path_movement(loop, *path))


def _path(
    loop: "TrainingLoop",
    pair: RecordPair,
    weights: Weights,
    rng: np.random.Generator,
    deadline: Deadline,
) -> list[Weights]:
    """Return parameters for every step, the first of them near to some that are known.

    The others are far from them: noise that is used twice shows where moves differ.
    """
    n_steps = loop.module.plan.noise.n_steps
    steps = [_climbed(loop, pair, weights, rng, deadline)]
    while len(steps) < n_steps:
        own = deadline.share(1.0 / (n_steps - len(steps) + 1))
        _, other = _best_weights(loop, pair, rng, own)
        steps.append(_climbed(loop, pair, other, rng, own))
    return steps


def _path_movement(
    loop: "TrainingLoop", pair: RecordPair, steps: Sequence[Weights]
) -> float:
    return math.hypot(*(_movement(loop, pair, weights) for weights in steps))


def _best_weights(
    loop: "TrainingLoop", pair: RecordPair, rng: np.random.Generator, deadline: Deadline
) -> tuple[float, Weights]:
    loop.quiet_reference(loop.table(pair.first, pair.first_label))
    best: tuple[float, Weights] | None = None
    for weights in _drawn(loop, rng):
        turned = (_turning(loop, pair, weights, loss=loss) for loss in _LOSSES)
        for tried in (weights, *turned, _parted(loop, pair, weights)):
            moved = _movement(loop, pair, tried)
            if best is None or moved > best[0]:
                best = (moved, tried)
        if deadline.is_over():
            break
    assert best is not None
    return best


def _drawn(loop: "TrainingLoop", rng: np.random.Generator) -> Iterator[Weights]:
    """Yield parameters from small to large, the last layers larger than the first."""
    generator = _seeded(rng)
    count = len(loop.parameters)
    for _, spread in itertools.product(range(_DRAWS), _SPREADS):
        spreads = [spread ** ((place + 1) / count) for place in range(count)]
        yield _random_weights(loop.parameters, spreads, generator)


def _turning(
    loop: "TrainingLoop",
    pair: RecordPair,
    weights: Weights,
    *,
    loss: float,
) -> Weights:
    """Return near parameters at which the record in the middle has a given loss.

    Newton's method; for loss 0, that of a square of its residual.
    """
    middle = loop.batch(
        (pair.first + pair.second)[None] / 2, np.array([pair.first_label])
    )

    def found() -> "torch.Tensor":
        return loop.module.example_losses(*middle).sum()

    def length(value: float, steepness: float) -> float:
        return (1.0 if loss else 2.0) * (loss - value) / steepness**2

    return _followed(loop, weights, found, length, _NEWTON_STEPS)


def _parted(loop: "TrainingLoop", pair: RecordPair, weights: Weights) -> Weights:
    """Return parameters at which one record is fitted and the other is not."""
    codes, labels = (np.array(part) for part in zip(*pair.records, strict=True))
    batch = loop.batch(codes, labels)

    def apart() -> "torch.Tensor":
        losses = loop.module.example_losses(*batch)
        return losses[1] - losses[0]

    def length(value: float, steepness: float) -> float:
        del value
        return _PARTING_LENGTH * _norm(loop.parameters) / steepness

    return _followed(loop, weights, apart, length, _PARTING_STEPS)


def _followed(
    loop: "TrainingLoop",
    weights: Weights,
    function: "Callable[[], torch.Tensor]",
    length: Callable[[float, float], float],
    n_steps: int,
) -> Weights:
    """Step along the gradient of a function, by lengths from its value and norm."""
    import torch

    loop.place(weights)
    for _ in range(n_steps):
        with torch.enable_grad():
            value = function()
            slopes = torch.autograd.grad(
                value, loop.parameters, allow_unused=True, materialize_grads=True
            )
        steepness = _norm(slopes)
        if not 0.0 < steepness**2 < np.inf:
            break
        step = length(float(value.detach()), steepness)
        if step == 0.0:
            break
        moved = zip(loop.parameters, slopes, strict=True)
        loop.place([p.detach() + step * s for p, s in moved])
    return [parameter.detach().clone() for parameter in loop.parameters]


def _norm(parts: Weights) -> float:
    return math.sqrt(sum(float(p.detach().double().square().sum()) for p in parts))


def _climbed(
    loop: "TrainingLoop",
    pair: RecordPair,
    weights: Weights,
    rng: np.random.Generator,
    deadline: Deadline,
) -> Weights:
    """Return parameters nearby at which the pair moves the gradient further."""
    generator = _seeded(rng)
    kept, reached = weights, _movement(loop, pair, weights)
    for trial in range(_CLIMBS):
        if deadline.is_over():
            break
        tried = _nearby(kept, 0.5 ** (1 + 8 * trial // _CLIMBS), generator)
        if trial % 3:
            tried = list(_turning(loop, pair, tried, loss=_LOSSES[trial % 3 - 1]))
        moved = _movement(loop, pair, tried)
        if moved > reached:
            kept, reached = tried, moved
    return kept


def _movement(loop: "TrainingLoop", pair: RecordPair, weights: Weights) -> float:
    """Return how far the pair moves a gradient, in units of the planned noise."""
    loop.place(weights)
    first, second = (loop.part(*record) for record in pair.records)
    moved = float(np.linalg.norm((second - first) / loop.noise_scale))
    return moved if np.isfinite(moved) else 0.0


def _corner(blocks: Sequence[Block]) -> FloatArray:
    record = np.zeros(blocks[-1].stop)
    for block in blocks:
        if block.kind is BlockKind.ONE_HOT:
            record[block.start] = 1.0
        elif block.kind is BlockKind.NUMBER:
            record[block.start] = 0.5
    return record  # with nothing missing


def _change(
    first: FloatArray, second: FloatArray, block: Block, low: float, high: float
) -> None:
    own = slice(block.start, block.stop)
    if block.kind is BlockKind.ONE_HOT:
        first[own], second[own] = 0.0, 0.0
        first[block.start] = second[min(block.start + 1, block.stop - 1)] = 1.0
    elif block.kind is BlockKind.NUMBER:
        first[own], second[own] = (-0.5, 0.5) if block.boolean else (low, high)


def _seeded(rng: np.random.Generator) -> "torch.Generator":
    """Return a generator of torch with a seed of its own."""
    import torch

    return torch.Generator().manual_seed(int(rng.integers(2**31)))


def _random_weights(
    parameters: Weights,
    spreads: Iterable[float],
    generator: "torch.Generator",
) -> list["torch.Tensor"]:
    """Return parameters drawn anew: at spread 1 as wide as training starts with."""
    import torch

    return [
        spread
        * torch.randn(parameter.shape, generator=generator).to(parameter)
        / (parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 1.0)
        for parameter, spread in zip(parameters, spreads, strict=False)
    ]


def _nearby(
    weights: Weights, size: float, generator: "torch.Generator"
) -> list["torch.Tensor"]:
    """Return parameters that are moved by a part of their mean size."""
    import torch

    return [
        weight
        + size
        * weight.abs().mean()
        * torch.randn(weight.shape, generator=generator).to(weight)
        for weight in weights
    ]

"""Which tables the model holds, chosen from noisy tables alone.

Pairs that the model so far explains badly join it, as long as what they show is more
than their noise and the junction tree stays within its cells. Everything here is
post-processing of what was released (docs/theory/synthesis.md, section 3).
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from corrdp.synthesis._counts import count_cells
from corrdp.synthesis._estimation import NoisyTable, fit_model, rebuilt_model, softened
from corrdp.synthesis._junction_tree import Region, Room, clique_cells, junction_tree
from corrdp.synthesis._model import Calibrated
from corrdp.synthesis._plan import expected_noise

LABEL_BONUS = 1.5  # what the label depends on is what most tables are made for
SIGNAL_TO_NOISE = 0.5
_DEVIATIONS = 2.0
_SMALLEST_SIGNAL = 0.005  # of the rows
_ROUNDS = 4
# Of the rows: about what a full model leaves unexplained. Where noise is below it,
# cells are short, so they are not given to pairs that other pairs have explained
# meanwhile: few join between two fits. Each fit begins where the last one ended.
_SMALL_NOISE = 0.04
_SLOW_ROUNDS, _SLOW_PAIRS, _SLOW_STEPS = 12, 3, 50
_STEPS = 100
_MOST_RANKED = 4096  # pairs that stay candidates after the first look at more
LEAST_SAMPLE = 50_000


@dataclass(frozen=True, eq=False)
class TableShape:
    """Public facts of a table."""

    sizes: tuple[int, ...]  # numbers of codes of all columns
    n_rows: int
    label: int | None  # its column
    max_cells: int  # that all cliques of a model may have together
    zeros: tuple[tuple[Region, np.ndarray], ...] = ()  # cells that never occur

    @property
    def required(self) -> list[Region]:
        """Regions that every model holds: single columns and structural zeros."""
        single = [(column,) for column in range(len(self.sizes))]
        return [*single, *(region for region, _ in self.zeros)]

    @property
    def is_possible(self) -> bool:
        """Whether the zeros leave any row: each may, and all of them together none."""
        if not self.zeros:
            return True
        with np.errstate(divide="ignore", invalid="ignore"):
            model = rebuilt_model({}, sizes=self.sizes, zeros=self.zeros)
        return math.isfinite(model.log_total)

    @property
    def fits(self) -> bool:
        """Whether a model of what is required stays within the cells allowed."""
        return clique_cells(self.required, self.sizes) <= self.max_cells

    def room(self, held: Sequence[Region], share: float = 1.0) -> Room:
        """Return the room that a model of these regions has for one more."""
        regions = [*self.required, *held]
        return Room(regions, self.sizes, most=share * self.max_cells)

    def joining(
        self,
        candidates: Iterable[Region],
        held: Sequence[Region] = (),
        share: float = 1.0,
    ) -> Iterator[Region]:
        """Yield the candidates that join a model, each if there is still room."""
        held, room = list(held), self.room(held, share)
        for region in candidates:
            if room.holds(region):
                held.append(region)
                room = self.room(held, share)
                yield region


def choose_pairs(
    shape: TableShape,
    singles: Sequence[NoisyTable],
    pairs: Sequence[NoisyTable],
    generator: np.random.Generator,
) -> tuple[Region, ...]:
    """Return the pairs that a model should hold, in the order in which they joined.

    `singles` and `pairs` are what was released; the generator draws rows from
    intermediate models.
    """
    chosen: list[Region] = []
    noisy = {table.region: table for table in pairs}
    n_rounds, most, n_steps = _pace(shape, pairs)
    model, theta = fitted_model(shape, singles, {})
    for turn in range(n_rounds):
        # What joins first leaves room for the rest.
        share = max(turn + 1, n_rounds // 2) / n_rounds
        scores = _unexplained(shape, model, noisy, chosen, generator)
        if not scores:
            break
        ranked = sorted(scores, key=lambda r: (-scores[r], r))[:_MOST_RANKED]
        if len(noisy) > _MOST_RANKED:
            noisy = {region: noisy[region] for region in ranked}
        before = tuple(chosen)
        if turn == 0:
            chosen += _forest(shape, ranked, share)
        else:
            chosen += itertools.islice(shape.joining(ranked, before, share), most)
        # Where nothing fits yet, a later turn has more room.
        if len(chosen) > len(before) and turn + 1 < n_rounds:
            held = [*singles, *(noisy[region] for region in chosen)]
            model, theta = fitted_model(shape, held, theta, n_steps)
    return tuple(chosen)


def _pace(shape: TableShape, pairs: Sequence[NoisyTable]) -> tuple[int, int, int]:
    """Return rounds, pairs that may join in one, and steps of a fit, by the noise."""
    noise = [
        expected_noise(table.noise_scale, table.counts.size, shape.n_rows)
        for table in pairs
    ]
    if noise and np.mean(noise) <= _SMALL_NOISE:
        return _SLOW_ROUNDS, _SLOW_PAIRS, _SLOW_STEPS
    return _ROUNDS, max(len(shape.sizes) // 2, 6), _STEPS


def _forest(shape: TableShape, ranked: Sequence[Region], share: float) -> list[Region]:
    """Return pairs without a circle, the best first.

    Of columns that all depend on each other a tree tells most: another pair among them
    would fill cells with what the model knows once it is fitted.
    """
    tree = list(range(len(shape.sizes)))
    joins_two = (r for r in ranked if tree[r[0]] != tree[r[1]])
    chosen = []
    for region in shape.joining(joins_two, share=share):
        chosen.append(region)
        one, other = (tree[column] for column in region)
        tree[:] = [one if number == other else number for number in tree]
    return chosen


def with_label(shape: TableShape, chosen: Sequence[Region]) -> tuple[Region, ...]:
    """Return the chosen pairs joined with the label, as far as they fit."""
    label = shape.label
    if label is None:
        return ()
    triples = [tuple(sorted((*pair, label))) for pair in chosen if label not in pair]
    return tuple(shape.joining(triples, chosen))


def _unexplained(
    shape: TableShape,
    model: Calibrated,
    noisy: Mapping[Region, NoisyTable],
    chosen: Sequence[Region],
    generator: np.random.Generator,
) -> dict[Region, float]:
    """Return how far the model is from the tables that show more than noise."""
    n_drawn = max(shape.n_rows, LEAST_SAMPLE)
    drawn = model.sample(n_drawn, generator)
    scores = {}
    for region, table in noisy.items():
        if region in chosen:
            continue
        expected = count_cells(drawn, region, shape.sizes) * (shape.n_rows / n_drawn)
        cells = table.counts.size
        noise = expected_noise(table.noise_scale, cells, shape.n_rows)
        signal = float(np.abs(table.counts - expected).sum()) / shape.n_rows - noise
        # Deviation of the 1-norm of pure noise.
        deviation = math.sqrt((1 - 2 / math.pi) * cells) * table.noise_scale
        scatter = _DEVIATIONS * deviation / shape.n_rows + _SMALLEST_SIGNAL
        if signal > max(scatter, SIGNAL_TO_NOISE * noise):
            bonus = LABEL_BONUS if shape.label in region else 1.0
            scores[region] = bonus * signal
    return scores


def fitted_model(
    shape: TableShape,
    tables: Sequence[NoisyTable],
    start: Mapping[Region, np.ndarray],
    most_steps: int = _STEPS,
) -> tuple[Calibrated, dict[Region, np.ndarray]]:
    """Return an intermediate model that holds all tables, and its parameters."""
    regions = [*shape.required, *(table.region for table in tables)]
    return fit_model(
        junction_tree(regions, shape.sizes),
        softened(tables),
        n_rows=shape.n_rows,
        sizes=shape.sizes,
        zeros=shape.zeros,
        start=start,
        most_steps=most_steps,
    )

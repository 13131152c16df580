r"""Adaptive choice: look at what the model explains worst, measure it, fit, look again.

Every look is an exponential choice on exact counts, which is paid for. Candidates are
dealt to two streams by what they may cost: *guarded* ones hold a column of a class
whose budget is near the least, *open* ones do not. A class that no candidate of a
stream touches pays nothing for its looks, so the open stream can spend what the
classes with large budgets have left (docs/theory/synthesis.md, section 6).
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from corrdp._typing import IntArray
from corrdp.exceptions import GuaranteeVoidError
from corrdp.mechanisms.noise import exponential_choice, grid_rate, grid_scale
from corrdp.synthesis._counts import DrawnCounts, count_cells
from corrdp.synthesis._estimation import NoisyTable, combined, noisy_tables
from corrdp.synthesis._junction_tree import Region, Room, n_cells
from corrdp.synthesis._plan import expected_noise
from corrdp.synthesis._structure import LEAST_SAMPLE, TableShape, fitted_model

NEAR_THE_LEAST = 4.0  # budgets up to this many times the least are guarded
LOOK_SHARE = 0.1  # of a round; the rest measures what was chosen
_LABEL_WEIGHT, _WEIGHT = 3, 2  # whole numbers: scores are multiples of a third
_SCORE_MOVES = 2 * _LABEL_WEIGHT  # a 1-norm of counts moves by at most 2
_LARGEST_SHARE = 0.25  # of the cells allowed, for one table
# Of wide tables: one model serves a round per so many columns, the looks of its rounds
# see so many candidates together.
_COLUMNS_PER_ROUND, _MOST_SEEN = 20, 4096
_MOST_DRAWS = 64  # of which none had room, before room is asked of all that are left


@dataclass(frozen=True, eq=False)
class Stream:
    r"""Candidates that are chosen among, and what each round costs.

    A round is a look, an exponential choice with `rate` per whole number of the score,
    and a measurement with noise of `scale`; `changed` are the columns that each
    neighbor class may change.

    Guarantee
    ---------
    All rounds are :math:`\rho_c`-concentrated DP with ``cost(c)``
    (`docs/theory/synthesis.md`, Theorem 3).
    """

    regions: tuple[Region, ...]
    n_rounds: int
    rate: Fraction
    scale: Fraction
    changed: Mapping[str, frozenset[int]]

    def cost(self, class_name: str) -> Fraction:
        """Return the most that all rounds cost a class, exactly."""
        columns = self.changed[class_name]
        if not any(columns.intersection(region) for region in self.regions):
            return Fraction(0)
        look = (2 * _SCORE_MOVES * self.rate) ** 2 / 8
        return self.n_rounds * (look + 1 / self.scale**2)


def candidate_regions(
    sizes: Sequence[int], label: int | None, max_cells: int
) -> list[Region]:
    """Return pairs, and pairs with the label, that are small enough to measure."""
    columns = range(len(sizes))
    pairs: list[Region] = list(itertools.combinations(columns, 2))
    triples: list[Region] = []
    if label is not None:
        triples = [tuple(sorted((*pair, label))) for pair in pairs if label not in pair]
    largest = _LARGEST_SHARE * max_cells
    return [r for r in (*pairs, *triples) if n_cells(r, sizes) <= largest]


def guarded_columns(
    changed: Mapping[str, frozenset[int]], limits: Mapping[str, float]
) -> frozenset[int]:
    """Return the columns of classes whose budget is near the least."""
    least = min(limits.values())
    near = [name for name, limit in limits.items() if limit <= NEAR_THE_LEAST * least]
    return frozenset[int]().union(*(changed[name] for name in near))


def plan_streams(
    candidates: Sequence[Region],
    *,
    changed: Mapping[str, frozenset[int]],
    limits: Mapping[str, float],
    n_rounds: int,
) -> tuple[Stream, ...]:
    """Return the open and the guarded stream, of `n_rounds` each, within all limits.

    Guarantee
    ---------
    No promised class is charged more than its limit, checked in rational arithmetic
    (`docs/theory/synthesis.md`, Theorem 3).
    """
    dear = guarded_columns(changed, limits)
    guarded = [r for r in candidates if dear.intersection(r)]
    opened = [r for r in candidates if not dear.intersection(r)]
    streams = []
    reserved = 0.0  # for the guarded stream, by every class
    for regions in (guarded, opened):
        touching = [
            limit
            for name, limit in limits.items()
            if any(changed[name].intersection(r) for r in regions)
        ]
        if regions and touching:
            whole = min(touching) - reserved
            reserved = whole
            rho = whole * (1.0 - 1e-9) / n_rounds
            streams.append(
                Stream(
                    tuple(regions),
                    n_rounds,
                    grid_rate(
                        min(1.0, math.sqrt(8 * LOOK_SHARE * rho) / (2 * _SCORE_MOVES))
                    ),
                    grid_scale(1 / math.sqrt((1 - LOOK_SHARE) * rho)),
                    changed,
                )
            )
    for name, limit in limits.items():
        spent = sum((stream.cost(name) for stream in streams), Fraction(0))
        if spent > Fraction(limit):
            raise GuaranteeVoidError(
                f"the rounds cost class {name!r} rho={float(spent)!r}, the stage "
                f"allows {limit!r}. Add noise."
            )
    return tuple(reversed(streams))


def measure_adaptively(
    codes: IntArray,
    streams: Sequence[Stream],
    shape: TableShape,
    known: Sequence[NoisyTable],
    *,
    noise: np.random.Generator,
    choices: np.random.Generator,
) -> tuple[NoisyTable, ...]:
    """Return the tables that were chosen and measured, in their order.

    `known` was released before: noisy single columns, exact tables of public ones.
    Otherwise as in `release_tables`.

    Guarantee
    ---------
    `Stream`: exact counts enter an exponential choice and a noisy table per round, and
    nothing else (`docs/theory/synthesis.md`, Theorem 3).
    """
    exact: dict[Region, IntArray] = {}  # held once counted: thousands of tables
    small = np.min_scalar_type(len(codes))
    candidates = {region for stream in streams for region in stream.regions}
    rounds_per_fit, most_seen = _pace(shape)
    tables: list[NoisyTable] = []
    held = tuple(table.region for table in known)
    theta: Mapping[Region, np.ndarray] = {}
    for turn in range(max((s.n_rounds for s in streams), default=0)):
        if turn % rounds_per_fit == 0:
            model, theta = fitted_model(shape, combined([*known, *tables]), theta)
            rows = model.sample(max(shape.n_rows, LEAST_SAMPLE), choices)
            drawn = DrawnCounts(rows, shape.sizes, shape.label, candidates)
            unfitted: set[Region] = set()  # the model does not know them yet
        for stream in streams:
            share = min(1.0, 2 * (turn + 1) / stream.n_rounds)
            seen = _seen(stream.regions, most_seen, choices)
            seen = [region for region in seen if region not in unfitted]
            for region in seen:
                if region not in exact:
                    counts = count_cells(codes, region, shape.sizes)
                    exact[region] = counts.astype(small)
            scores = [
                score(exact[region], region, drawn, shape, stream.scale)
                for region in seen
            ]
            found = _choice(seen, scores, shape.room(held, share), stream.rate, noise)
            if found is None:
                continue
            tables += noisy_tables({found: exact[found]}, stream.scale, noise)
            held = (*held, found) if found not in held else held
            unfitted.add(found)
    return tuple(tables)


def _pace(shape: TableShape) -> tuple[int, int]:
    """Return how many rounds one model serves, and how many candidates a look sees.

    Candidates grow with the square of the columns, and so do rounds times what a model
    takes: beyond some columns rounds share a model, and its looks share candidates.
    """
    rounds_per_fit = max(1, len(shape.sizes) // _COLUMNS_PER_ROUND)
    return rounds_per_fit, _MOST_SEEN // rounds_per_fit


def _seen(
    regions: Sequence[Region], most: int, generator: np.random.Generator
) -> Sequence[Region]:
    """Return the candidates that a look sees: all, or as many as it may, dealt anew."""
    if len(regions) <= most:
        return regions
    places = generator.choice(len(regions), most, replace=False)
    return [regions[place] for place in np.sort(places).tolist()]


def _choice(
    regions: Sequence[Region],
    scores: Sequence[int],
    room: Room,
    rate: Fraction,
    generator: np.random.Generator,
) -> Region | None:
    """Return an exponential choice among the regions that there is room for, if any.

    Whether there is room takes long to find, so it is asked of what was drawn alone:
    draws without those before are a choice among what there is room for as soon as one
    of them is (docs/theory/synthesis.md, section 6). A draw takes as long as to find
    room for several, so it is asked of all that are left where many draws had none.
    """
    left, ranks = list(regions), np.array(scores, dtype=np.int64)
    for _ in range(_MOST_DRAWS):
        if not left:
            return None
        place = exponential_choice(ranks, rate=rate, generator=generator)
        if room.holds(left[place]):
            return left[place]
        del left[place]
        ranks = np.delete(ranks, place)
    holding = [place for place, region in enumerate(left) if room.holds(region)]
    if not holding:
        return None
    place = exponential_choice(ranks[holding], rate=rate, generator=generator)
    return left[holding[place]]


def score(
    counts: IntArray,
    region: Region,
    drawn: DrawnCounts,
    shape: TableShape,
    scale: Fraction,
) -> int:
    """Return by how much measuring a table should improve the model, in thirds.

    Guarantee
    ---------
    Moves by at most 6 when one record changes a column of the region, else by 0: the
    model's counts are rounded to whole numbers, and the 1-norm of a difference of
    counts moves by at most 2 (`docs/theory/synthesis.md`, Lemma 1).
    """
    expected = drawn[region] * (shape.n_rows / len(drawn))
    misfit = int(np.abs(counts - np.rint(expected).astype(np.int64)).sum())
    noise = expected_noise(float(scale), counts.size, shape.n_rows) * shape.n_rows
    weight = _LABEL_WEIGHT if shape.label in region else _WEIGHT
    return weight * (misfit - round(noise))

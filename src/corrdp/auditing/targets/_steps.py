"""The white-box adversary on the code that trains: parameters fixed, noise real.

Training is certified at any parameters, so an adversary may fix them in advance. What
is attacked is then the exact sum over a table, computed by the kernels of training,
plus noise drawn by the step that trains.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Challenge, Deadline
from corrdp.auditing.statistics import (
    Claim,
    FittedScore,
    LikelihoodAttack,
    LinearAttack,
)
from corrdp.auditing.statistics._attacks import gaussian_score
from corrdp.auditing.targets._neighbors import RecordPair, craft_pair
from corrdp.policy import Block, BlockKind, NeighborClass

_NOISE_DRAWS = 400
FEWEST_ROWS = 3  # of a table where others would only hide the target
LEAST_NOISE = 1e-3  # unit in which the search measures a coordinate without noise

ClaimsOfClass = Callable[[str], Mapping[str, Claim]]


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """A table as training sees it."""

    codes: FloatArray
    y: FloatArray


class NoisySteps(ABC):
    """Steps of one training at fixed parameters; outputs of all steps in a row.

    `labels` are those that records may have, at their extremes. `noise_scale` is that
    of every output, for the search and the likelihood: as it is drawn where that is
    normal (`as_drawn`), so that noise on the wrong outputs leads the search to records
    that move those.
    """

    blocks: Sequence[Block]
    labels: Sequence[float]
    noise_scale: FloatArray

    @abstractmethod
    def parts(self, codes: FloatArray, y: FloatArray) -> FloatArray:
        """Return what every record adds to the outputs, shape (n_records, n)."""

    @abstractmethod
    def given(self, codes: FloatArray, y: FloatArray) -> Any:
        """Return what `sample` takes for a table: outputs that lack noise alone."""

    @abstractmethod
    def sample(self, given: Any, n_runs: int, rng: np.random.Generator) -> FloatArray:
        """Return outputs with fresh noise of the training step, one row per run."""

    def as_drawn(self, given: Any) -> FloatArray:
        """Return the noise of every output, from runs that prove nothing later."""
        drawn = self.sample(given, _NOISE_DRAWS, np.random.default_rng(0))
        return np.asarray(drawn.std(axis=0))

    def score(self, first: Any, second: Any) -> FittedScore:
        """Return the log likelihood ratio of two tables under what is priced."""
        return gaussian_score(first, second, self.noise_scale)


def step_challenges(
    candidates: Sequence[NoisySteps],
    classes: Sequence[NeighborClass],
    claims: ClaimsOfClass,
    *,
    name: str,
    n_rows: int,
    n_runs: int | Callable[[Claim], int] = 20_000,
    batch: int = 2048,
    rng: np.random.Generator,
    deadline: Deadline,
) -> tuple[Challenge[Any], ...]:
    """Challenge the steps of a training, class by class.

    Candidates are the same training at several parameters, of which each class takes
    the worst. Claims say what is stated for a class, by names that may be empty and
    that are added to the `name` of the mechanism. The tables have `n_rows`; runs may
    depend on the claim; the deadline ends the search with the best pair so far.

    Guarantee
    ---------
    Every pair is one of neighbors of its class, however early the search ends
    (`docs/theory/audit.md`).
    """
    challenges = []
    for index, neighbor in enumerate(classes):
        own = deadline.share(1.0 / (len(classes) - index))
        steps, pair = craft_worst(candidates, neighbor, rng, own)
        for kind, claim in claims(neighbor.name).items():
            n_records = claim.n_records(n_rows // 2)
            first, second = (
                steps.given(table.codes, table.y)
                for table in neighbor_tables(
                    pair, steps.blocks, steps.labels, n_rows, n_records
                )
            )
            score = steps.score(first, second)
            challenges.append(
                Challenge(
                    target=f"{name}, {kind}" if kind else name,
                    class_name=neighbor.name,
                    claim=claim,
                    first=first,
                    second=second,
                    sample=steps.sample,
                    attacks=(LikelihoodAttack(score), LinearAttack()),
                    n_runs=n_runs if isinstance(n_runs, int) else n_runs(claim),
                    batch=batch,
                    n_records=n_records,
                )
            )
    return tuple(challenges)


class RecordParts(Protocol):
    """What is asked of steps to search for neighbors; see `NoisySteps`."""

    @property
    def blocks(self) -> Sequence[Block]: ...

    @property
    def labels(self) -> Sequence[float]: ...

    @property
    def noise_scale(self) -> FloatArray: ...

    def parts(self, codes: FloatArray, y: FloatArray) -> FloatArray: ...


def craft(
    steps: RecordParts,
    neighbor: NeighborClass,
    rng: np.random.Generator,
    *,
    n_restarts: int = 4,
    deadline: Deadline | None = None,
    start: RecordPair | None = None,
) -> RecordPair:
    """Search for the neighbors whose outputs are furthest apart."""
    unit = np.where(steps.noise_scale > 0.0, steps.noise_scale, LEAST_NOISE)

    def distance(
        first: FloatArray, first_y: FloatArray, second: FloatArray, second_y: FloatArray
    ) -> FloatArray:
        records = np.vstack(
            [np.column_stack([first, first_y]), np.column_stack([second, second_y])]
        )
        distinct, place = np.unique(records, axis=0, return_inverse=True)
        parts = steps.parts(distinct[:, :-1], distinct[:, -1]) / unit
        change = np.subtract(*np.split(parts[place.ravel()], 2))
        return np.asarray(np.linalg.norm(change, axis=1))

    return craft_pair(
        steps.blocks,
        neighbor,
        distance,
        labels=steps.labels,
        rng=rng,
        n_restarts=n_restarts,
        deadline=deadline,
        start=start,
    )


def table_with(
    record: FloatArray,
    label: float,
    blocks: Sequence[Block],
    labels: Sequence[float],
    n_rows: int,
    n_records: int = 1,
) -> tuple[FloatArray, FloatArray]:
    """Return the record in the first rows of a central table."""
    codes, y = central_table(blocks, labels, n_rows)
    codes[:n_records], y[:n_records] = record, label
    return codes, y


def neighbor_tables(
    pair: RecordPair,
    blocks: Sequence[Block],
    labels: Sequence[float],
    n_rows: int,
    n_records: int,
) -> tuple[EncodedRows, EncodedRows]:
    """Return central tables with so many records of the first kind, or the second."""
    first, second = (
        EncodedRows(*table_with(*record, blocks, labels, n_rows, n_records))
        for record in pair.records
    )
    return first, second


def central_table(
    blocks: Sequence[Block], labels: Sequence[float], n_rows: int
) -> tuple[FloatArray, FloatArray]:
    """Return rows whose means are central and whose labels are balanced."""
    y = np.resize(np.asarray(labels, dtype=np.float64), n_rows)
    return central_rows(blocks, n_rows), y


def central_rows(blocks: Sequence[Block], n_rows: int) -> FloatArray:
    """Return rows with numbers at their center and categories in turn."""
    codes = np.zeros((n_rows, blocks[-1].stop))
    for block in blocks:
        if block.kind in (BlockKind.ONE_HOT, BlockKind.HATS):
            level = np.arange(n_rows) % (block.stop - block.start)
            codes[np.arange(n_rows), block.start + level] = 1.0
    return codes


def craft_worst(
    candidates: Sequence[NoisySteps],
    neighbor: NeighborClass,
    rng: np.random.Generator,
    deadline: Deadline,
) -> tuple[NoisySteps, RecordPair]:
    """Return the parameters at which a pair moves most, and the pair."""
    found: list[tuple[NoisySteps, RecordPair]] = []
    for steps in candidates:
        if found and deadline.is_over():
            break
        pair = craft(steps, neighbor, rng, n_restarts=1, deadline=deadline)
        found.append((steps, pair))
    steps, best = max(found, key=lambda item: item[1].movement)
    if not deadline.is_over():
        best = craft(steps, neighbor, rng, deadline=deadline, start=best)
    return steps, best

"""Challenges for one-shot releases: means, vectors, leakage tables, counts."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.accounting import NoisePlan
from corrdp.auditing._challenge import Challenge, replayed
from corrdp.auditing.statistics import (
    Claim,
    FittedScore,
    LikelihoodAttack,
    LinearAttack,
)
from corrdp.auditing.statistics._attacks import gaussian_score
from corrdp.auditing.targets._neighbors import craft_pair
from corrdp.leakage import CountLayout, count_codes, count_layout, release_targets
from corrdp.leakage.release import (
    SIZES,
    bins_of,
    noisy_number_counts,
    number_layout,
    release_tables,
)
from corrdp.mechanisms import noisy_column_sums
from corrdp.mechanisms.noise import NoiseKind, VectorPlan, round_to_grid
from corrdp.policy import Block, NeighborClass, Policy, PolicyEncoder

_EXACT_RUNS = 8000  # of noise that is drawn exactly, which takes long
_MOST_RECORDS = 10_000  # that tables differ in
_MOST_CELLS = 200_000  # that are drawn between two looks at the clock


def column_sum_challenges(
    plan: NoisePlan,
    blocks: Sequence[Block],
    classes: Sequence[NeighborClass],
    *,
    claims: Mapping[str, Claim] | None = None,
    name: str = "column sums",
    random_state: int = 0,
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge a noisy release of the sums of encoded columns, class by class.

    The plan has noise per block, and states a claim for every class unless `claims` do.

    Guarantee
    ---------
    Neighbors of the class they are named for, whatever the plan says; noise is drawn by
    `corrdp.mechanisms.noisy_column_sums`, as when training releases its means
    (`docs/theory/audit.md`).
    """
    widths = [block.stop - block.start for block in blocks]
    noise_scale = np.repeat(plan.noise_scale, widths)
    # a coordinate without noise must not hide how far it moves
    unit = np.where(noise_scale > 0.0, noise_scale, 1e-3)

    def distance(
        first: FloatArray, _: FloatArray, second: FloatArray, __: FloatArray
    ) -> FloatArray:
        return np.asarray(np.linalg.norm((first - second) / unit, axis=1))

    def sample(total: FloatArray, n_runs: int, rng: np.random.Generator) -> FloatArray:
        repeated = np.broadcast_to(total, (n_runs, total.size))
        return noisy_column_sums(repeated, plan.noise_scale, blocks, rng)

    rng = np.random.default_rng(random_state)

    def pair_of(
        neighbor: NeighborClass, n_records: int
    ) -> tuple[FloatArray, FloatArray]:
        pair = craft_pair(blocks, neighbor, distance, rng=rng)
        return n_records * pair.first, n_records * pair.second

    return replayed(
        name,
        classes,
        lambda of: (claims or {}).get(of) or plan_claim(plan, of),
        pair_of,
        sample,
        most_records=_MOST_RECORDS,
        score=lambda first, second: gaussian_score(first, second, noise_scale),
    )


def plan_claim(plan: NoisePlan, class_name: str) -> Claim:
    """Return what a noise plan states for a class."""
    events = (plan.event(class_name),) if plan.covers(class_name) else None
    return Claim(events, plan.delta)


def vector_score(
    kind: NoiseKind, first: FloatArray, second: FloatArray, scales: FloatArray
) -> FittedScore:
    """Return the log likelihood ratio under Laplace or Gaussian noise of a scale."""
    if kind is NoiseKind.GAUSSIAN:
        return gaussian_score(first, second, scales)
    noisy = scales > 0.0
    one, other, unit = first[noisy], second[noisy], scales[noisy]

    def score(outputs: FloatArray) -> FloatArray:
        seen = outputs[:, noisy]
        gain = np.abs(seen - one) - np.abs(seen - other)
        return np.asarray((gain / unit).sum(axis=1))

    return score


def vector_challenges(
    plan: VectorPlan,
    neighbors: Mapping[str, tuple[FloatArray, FloatArray]],
    *,
    grid: float,
    name: str = "vector",
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge a release with exact discrete noise, rounded to steps of `grid`.

    `neighbors` holds the true answers on two neighbors of each class to attack.

    Guarantee
    ---------
    As the neighbors are given (`docs/theory/audit.md`): only a true pair of its class
    can contradict a claim.
    """

    def sample(values: FloatArray, n_runs: int, rng: np.random.Generator) -> FloatArray:
        steps = plan.draw_runs(n_runs, rng)
        return (round_to_grid(values, grid=grid) + steps).astype(np.float64) * grid

    events = plan.claimed_events()
    sizes = [group.size for group in plan.movement.groups]
    scales = grid * np.repeat([float(scale) for scale in plan.scales], sizes)
    challenges = []
    for class_name, pair in neighbors.items():
        first, second = (np.asarray(end, dtype=np.float64) for end in pair)
        score = vector_score(plan.kind, first, second, scales)
        challenges.append(
            Challenge(
                target=name,
                class_name=class_name,
                claim=Claim(events[class_name], plan.delta),
                first=first,
                second=second,
                sample=sample,
                attacks=(LikelihoodAttack(score), LinearAttack()),
                n_runs=_EXACT_RUNS,
            )
        )
    return tuple(challenges)


def leakage_challenges(
    policy: Policy,
    plan: NoisePlan,
    classes: Sequence[NeighborClass],
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge a private leakage release, class by class, through its own code.

    The plan is that of `plan_leakage_release`.

    Guarantee
    ---------
    Two records of the class that differ in every column it may change, the label among
    them where it is one more sensitive feature (`docs/theory/audit.md`); tables are
    laid out, counts are counted, and noise is drawn, by the functions that release. Of
    what is released the cells and sizes that differ are looked at.
    """
    view = policy.leakage_view()
    layout = count_layout(view, release_targets(view))
    n_codes = PolicyEncoder(view).n_codes
    scales = plan.scale_of_group
    noise_scale = np.concatenate(
        [
            np.repeat(
                [scales[shape.name], scales[SIZES.format(shape.name)]],
                [shape.n_values * shape.n_cells, shape.n_values],
            )
            for shape in layout.shapes
            if shape.name in scales
        ]
    )

    def exact(changed: Collection[str], n_records: int) -> FloatArray:
        chunk = {
            feature: np.repeat(
                min(1, n_codes[feature] - 1) * (feature in changed), n_records
            )
            for feature in layout.features
        }
        tables = count_codes([chunk], layout).tables
        return np.concatenate([table.ravel() for table in tables]).astype(np.float64)

    def rows(shown: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> FloatArray:
        """Return cells and sizes of the tables that are released, one row per run."""
        parts = [part for name in shown if name in scales for part in shown[name]]
        return np.hstack([part.reshape(len(part), -1) for part in parts])

    def sampler(shown: IntArray) -> Any:
        def sample(
            cells: FloatArray, n_runs: int, rng: np.random.Generator
        ) -> FloatArray:
            tables = _stacked(cells, layout, n_runs)
            released = release_tables(layout.shapes, tables, plan, rng)
            all_of = {name: (own.cells, own.sizes) for name, own in released.items()}
            return rows(all_of)[:, shown]

        return sample

    def center(cells: FloatArray) -> FloatArray:
        """Return what is released, without noise."""
        tables = zip(layout.shapes, _stacked(cells, layout, 1), strict=True)
        exact = rows({s.name: (table, table.sum(axis=-1)) for s, table in tables})
        return np.asarray(exact[0], dtype=np.float64)

    challenges = []
    for neighbor in classes:
        claim = plan_claim(plan, neighbor.name)
        n_records = claim.n_records(_MOST_RECORDS)
        first = exact((), n_records)
        second = exact(neighbor.columns(policy), n_records)
        centers = center(first), center(second)
        # Of wide tables the cells that two records share would fill the memory.
        shown = np.flatnonzero(centers[0] != centers[1])
        shown = shown if shown.size else np.arange(1)
        score = gaussian_score(centers[0][shown], centers[1][shown], noise_scale[shown])
        challenges.append(
            Challenge(
                target="leakage",
                class_name=neighbor.name,
                claim=claim,
                first=first,
                second=second,
                sample=sampler(shown),
                attacks=(LikelihoodAttack(score), LinearAttack()),
                n_runs=_EXACT_RUNS,
                batch=_batch(first.size),
                n_records=n_records,
            )
        )
    return tuple(challenges)


def number_count_challenges(
    policy: Policy,
    noise_scale: Mapping[str, float],
    n_bins: Mapping[str, int],
    claims: Mapping[str, Claim],
    classes: Sequence[NeighborClass],
) -> tuple[Challenge[dict[str, IntArray]], ...]:
    """Challenge counts of where numbers lie, for every class that moves one.

    Noise and numbers of bins are those of `corrdp.leakage.release_number_counts`, by
    feature; claims go by class.

    Guarantee
    ---------
    Two records of the class, in the first and in the last bin of every number that it
    may change (`docs/theory/audit.md`); records are counted, and noise is drawn, by the
    functions that release.
    """
    _, layout = number_layout(policy, n_bins)

    def counts(
        moving: Sequence[str], n_records: int, *, to_last: bool
    ) -> dict[str, IntArray]:
        """Return the counts of numbers that move: others tell nothing."""
        chunk = {
            name: np.repeat((last - 1) * to_last, n_records)
            for name, last in n_bins.items()
        }
        found = bins_of(count_codes([chunk], layout), n_bins)
        return {name: found[name] for name in moving}

    def ends(counts: Mapping[str, NDArray[Any]]) -> FloatArray:
        """Return the first and the last count of every number: others do not move."""
        return np.hstack([of[..., [0, -1]] for of in counts.values()])

    def sample(
        exact: dict[str, IntArray], n_runs: int, rng: np.random.Generator
    ) -> FloatArray:
        runs = {
            name: np.broadcast_to(counts, (n_runs, counts.size))
            for name, counts in exact.items()
        }
        return ends(noisy_number_counts(runs, noise_scale, rng))

    challenges = []
    for neighbor in classes:
        moving = [name for name in n_bins if name in neighbor.features]
        if not moving:
            continue
        claim = claims[neighbor.name]
        n_records = claim.n_records(_MOST_RECORDS)
        first = counts(moving, n_records, to_last=False)
        second = counts(moving, n_records, to_last=True)
        noise = np.repeat([noise_scale[name] for name in moving], 2)
        # a count without noise must not hide that it moves
        unit = np.where(noise > 0.0, noise, 1e-3)
        challenges.append(
            Challenge(
                target="counts of numbers",
                class_name=neighbor.name,
                claim=claim,
                first=first,
                second=second,
                sample=sample,
                attacks=(
                    LikelihoodAttack(gaussian_score(ends(first), ends(second), unit)),
                    LinearAttack(),
                ),
                n_runs=_EXACT_RUNS,
                batch=_batch(sum(map(len, first.values()))),
                n_records=n_records,
            )
        )
    return tuple(challenges)


def _batch(n_cells: int) -> int:
    """Return how many runs are drawn between two looks at the clock."""
    return int(np.clip(_MOST_CELLS // n_cells, 1, 4096))


def _stacked(
    cells: FloatArray, layout: CountLayout, n_runs: int
) -> list[NDArray[np.int64]]:
    """Return the tables of a vector of cells, repeated for every run."""
    tables, start = [], 0
    for shape in layout.shapes:
        size = shape.n_values * shape.n_cells
        table = cells[start : start + size].astype(np.int64)
        stack = np.broadcast_to(table, (n_runs, size))
        tables.append(stack.reshape(n_runs, shape.n_values, shape.n_cells))
        start += size
    return tables

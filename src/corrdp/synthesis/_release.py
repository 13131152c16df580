"""The release: count, add noise, choose, count again. Exact counts never leave here."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from corrdp._typing import IntArray
from corrdp.synthesis._adaptive import measure_adaptively
from corrdp.synthesis._budget import MOST_NOISE, SynthesisPlan
from corrdp.synthesis._counts import count_cells
from corrdp.synthesis._estimation import NoisyTable, noisy_tables
from corrdp.synthesis._junction_tree import Region
from corrdp.synthesis._plan import StagePlan, plan_stage
from corrdp.synthesis._structure import TableShape, choose_pairs, with_label

_DRAWN_ALONE = 4096  # tables; a call of the sampler takes as long as many cells


@dataclass(frozen=True, eq=False)
class Release:
    """Everything that was released."""

    tables: tuple[NoisyTable, ...]
    chosen: tuple[Region, ...]  # that the model holds, besides single columns
    refined: StagePlan | None  # the last stage; None if tables were chosen adaptively


def release_tables(
    codes: IntArray,
    plan: SynthesisPlan,
    shape: TableShape,
    *,
    noise: np.random.Generator,
    choices: np.random.Generator,
) -> Release:
    """Measure single columns and pairs, choose from them, measure what was chosen.

    `codes`, shape (n_rows, n_columns), are private rows. `noise` draws noise and paid
    choices, `choices` rows of intermediate models, which is post-processing.

    Guarantee
    ---------
    Concentrated DP with ``plan.rho`` of each class: two releases that were planned,
    and one whose tables depend on the first two through their noisy values only
    (`docs/theory/synthesis.md`, Theorem 2), or through paid looks (Theorem 3).
    """
    singles = measure(codes, plan.singles, shape.sizes, noise)
    pairs = measure(codes, plan.pairs, shape.sizes, noise)
    if plan.streams:
        exact = {table.region: table for table in pairs}  # of public columns
        known = [*singles, *(exact[r] for r in shape.joining(exact, share=0.5))]
        found = measure_adaptively(
            codes, plan.streams, shape, known, noise=noise, choices=choices
        )
        held = dict.fromkeys(table.region for table in (*known, *found))
        joined = tuple(region for region in held if len(region) > 1)
        return Release((*known, *found), joined, None)
    chosen = choose_pairs(shape, singles, pairs, choices)
    refined = plan_stage(
        [*chosen, *with_label(shape, chosen), *(t.region for t in singles)],
        sizes=shape.sizes,
        changed=plan.singles.changed,
        limits=plan.refinement,
        n_rows=shape.n_rows,
        most_noise=MOST_NOISE,
    )
    return Release(
        (*singles, *pairs, *measure(codes, refined, shape.sizes, noise)),
        chosen,
        refined,
    )


def measure(
    codes: IntArray,
    stage: StagePlan,
    sizes: tuple[int, ...],
    generator: np.random.Generator,
    *,
    n_runs: int | None = None,
) -> tuple[NoisyTable, ...]:
    """Return the tables of a stage with the noise that was planned for them.

    Audits call it for many runs at once: counts then have one table per run.

    Guarantee
    ---------
    `StagePlan`: noise of every cell is drawn exactly, with the scale that is priced,
    and anew in every run (`docs/theory/synthesis.md`, Theorem 1).
    """

    def counts(region: Region) -> IntArray:
        own = count_cells(codes, region, sizes)
        return own if n_runs is None else np.broadcast_to(own, (n_runs, *own.shape))

    tables: dict[Region, NoisyTable] = {}
    for scale, regions in _drawn_together(stage):
        noisy = noisy_tables({r: counts(r) for r in regions}, scale, generator)
        tables |= {table.region: table for table in noisy}
    return tuple(tables[region] for region in stage.regions)


def _drawn_together(stage: StagePlan) -> list[tuple[Fraction, list[Region]]]:
    """Return the tables whose noise is drawn at once: of a scale, if they are many."""
    pairs = zip(stage.regions, stage.scales, strict=True)
    if len(stage.regions) <= _DRAWN_ALONE:
        return [(scale, [region]) for region, scale in pairs]
    together: dict[Fraction, list[Region]] = {}
    for region, scale in pairs:
        together.setdefault(scale, []).append(region)
    return list(together.items())

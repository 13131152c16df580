"""Challenges for synthetic tables, through the code that counts, chooses and adds."""

import math
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from itertools import product

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp.auditing._challenge import Challenge
from corrdp.auditing.statistics import Claim
from corrdp.mechanisms.noise import concentrated_epsilon
from corrdp.policy import class_columns
from corrdp.synthesis import (
    NoisyTable,
    SynthesisPlan,
    Synthesizer,
    TableShape,
    measure,
    measure_adaptively,
    release_tables,
)

Sampler = Callable[[IntArray, int, np.random.Generator], FloatArray]
# Concentrated DP holds at every delta; at a large one few runs tell much.
_READ_AT_DELTA = 0.05
# A run draws noise for every cell, an adaptive one fits a model besides: so many runs
# that a table of 14 columns takes minutes, and small ones no less than they did.
_MOST_RUNS, _LEAST_RUNS = 4000, 500
_DRAWS = 5_000_000
_ADAPTIVE_RUNS = 200
_BATCH, _ADAPTIVE_BATCH = 500, 10  # between two looks at the clock


def synthesizer_challenges(
    synthesizer: Synthesizer, *, n_rows: int = 1000, random_state: int | None = 0
) -> tuple[Challenge[IntArray], ...]:
    """Challenge everything that a synthesizer releases, class by class.

    It may be fitted or not; its rows are never read, it is planned anew for tables of
    `n_rows`. The seed is that of the run whose choice of tables is attacked.

    Guarantee
    ---------
    Two tables that differ in one record, and there in every column that the class may
    change; counts are counted, looks taken and noise drawn by the functions that
    release (`docs/theory/audit.md`). Tables that are chosen from noisy ones are chosen
    once, which the claim allows; of adaptive rounds the first of each stream is run.
    What is shown of a run is how far the cells of the two records are apart, summed
    over all noisy tables by their precision.
    """
    planned = _planned(synthesizer)
    plan = planned.plan(n_rows)
    shape = planned.shape(n_rows)
    number = {name: i for i, name in enumerate(plan.columns.names)}
    base = np.zeros((n_rows, len(shape.sizes)), dtype=np.int64)
    rng = np.random.default_rng(random_state)
    kinds = {"synthetic table": _Released(plan, shape, base, rng)}
    if plan.streams:  # of which a run takes long: what is measured first, by itself
        first = replace(plan, streams=())
        kinds = {"first tables": _Released(first, shape, None, rng)} | kinds
    challenges = []
    for (target, released), (name, own) in product(
        kinds.items(), class_columns(plan.policy).items()
    ):
        changed = np.zeros(len(shape.sizes), dtype=np.int64)
        for column in own:
            changed[number[column]] = min(1, shape.sizes[number[column]] - 1)
        other = base.copy()
        other[0] = changed
        claim = Claim.approximate(
            epsilon=concentrated_epsilon(rho=released.rho(name), delta=_READ_AT_DELTA),
            delta=_READ_AT_DELTA,
        )
        challenges.append(
            Challenge(
                target,
                name,
                claim,
                base,
                other,
                _sampler(released, changed),
                n_runs=released.n_runs,
                batch=released.batch,
                is_slow=released.is_slow,
            )
        )
    return tuple(challenges)


class _Released:
    """The tables of one plan, measured as often as wanted.

    With `codes`, tables that are chosen from noisy ones are chosen once, on those rows.
    """

    def __init__(
        self,
        plan: SynthesisPlan,
        shape: TableShape,
        codes: IntArray | None,
        generator: np.random.Generator,
    ) -> None:
        self._shape = shape
        self._stages = [plan.singles, plan.pairs]
        self._streams = [replace(stream, n_rounds=1) for stream in plan.streams]
        if not plan.streams and codes is not None:
            release = release_tables(
                codes, plan, shape, noise=generator, choices=generator
            )
            if release.refined is not None:
                self._stages.append(release.refined)

    @property
    def n_runs(self) -> int:
        """Runs on each neighbor, by what one takes."""
        if self._streams:
            return _ADAPTIVE_RUNS
        cells = sum(
            math.prod(self._shape.sizes[column] for column in region)
            for stage in self._stages
            for region, scale in zip(stage.regions, stage.scales, strict=True)
            if scale
        )
        return min(max(_DRAWS // max(cells, 1), _LEAST_RUNS), _MOST_RUNS)

    @property
    def is_slow(self) -> bool:
        """Whether every run fits a model."""
        return bool(self._streams)

    @property
    def batch(self) -> int:
        """Runs that are made at once; or one by one, where models are fitted."""
        return _ADAPTIVE_BATCH if self._streams else _BATCH

    def rho(self, class_name: str) -> float:
        """Return what is stated of the tables together."""
        fixed = sum(stage.cost(class_name) for stage in self._stages)
        looks = sum(stream.cost(class_name) for stream in self._streams)
        return float(fixed + looks)

    def tables(
        self, codes: IntArray, n_runs: int, generator: np.random.Generator
    ) -> list[list[NoisyTable]]:
        """Measure all tables, at once for all runs or in one list per run."""
        sizes = self._shape.sizes
        if not self._streams:
            return [
                [
                    table
                    for stage in self._stages
                    for table in measure(codes, stage, sizes, generator, n_runs=n_runs)
                ]
            ]
        return [self._chosen(codes, generator) for _ in range(n_runs)]

    def _chosen(
        self, codes: IntArray, generator: np.random.Generator
    ) -> list[NoisyTable]:
        found: list[NoisyTable] = []
        for stage in self._stages:
            found += measure(codes, stage, self._shape.sizes, generator, n_runs=1)
        singles = [
            replace(table, counts=table.counts[0])
            for table in found
            if len(table.region) == 1
        ]
        chosen = measure_adaptively(
            codes,
            self._streams,
            self._shape,
            singles,
            noise=generator,
            choices=generator,
        )
        return [*found, *(replace(t, counts=t.counts[None]) for t in chosen)]


def _sampler(released: _Released, changed: IntArray) -> Sampler:
    def apart(tables: list[NoisyTable]) -> FloatArray:
        total = np.zeros(len(tables[0].counts))
        for table in tables:
            if table.noise_scale:
                flat = table.counts.reshape(len(total), -1)
                own = changed[list(table.region)]
                cell = np.ravel_multi_index(tuple(own), table.counts.shape[1:])
                total += (flat[:, cell] - flat[:, 0]) / table.noise_scale**2
        return total

    def sample(codes: IntArray, count: int, rng: np.random.Generator) -> FloatArray:
        runs = released.tables(codes, count, rng)
        return np.concatenate([apart(tables) for tables in runs])[:, None]

    return sample


def _planned(synthesizer: Synthesizer) -> Synthesizer:
    """Return the synthesizer with the distances that its certificate states."""
    certificate = getattr(synthesizer, "certificate_", None)
    if certificate is None or not certificate.leakage.values:
        return synthesizer
    planned = copy(synthesizer)
    planned.leakage = certificate.leakage.distances(synthesizer.policy_)
    return planned

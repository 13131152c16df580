"""Challenges for synthetic tables, through the code that counts, chooses and adds."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace

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


def synthesizer_challenges(
    synthesizer: Synthesizer, *, n_rows: int = 1000, random_state: int | None = 0
) -> tuple[Challenge[IntArray], ...]:
    """Challenge everything that a synthesizer releases, class by class.

    Parameters
    ----------
    synthesizer : Synthesizer
        Fitted or not; its rows are never read, it is planned anew for `n_rows`.
    n_rows : int
        Size of the tables.
    random_state : int, optional
        Seed of the run whose choice of tables is attacked.

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
    released = _Released(plan, shape, base, np.random.default_rng(random_state))
    challenges = []
    for name, own in class_columns(plan.policy).items():
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
                "synthetic table",
                name,
                claim,
                base,
                other,
                _sampler(released, changed),
                n_runs=4000,
                batch=50,
            )
        )
    return tuple(challenges)


class _Released:
    """The tables of one plan, measured as often as wanted."""

    def __init__(
        self,
        plan: SynthesisPlan,
        shape: TableShape,
        codes: IntArray,
        generator: np.random.Generator,
    ) -> None:
        self._shape = shape
        self._stages = [plan.singles, plan.pairs]
        self._streams = [replace(stream, n_rounds=1) for stream in plan.streams]
        if not plan.streams:
            release = release_tables(
                codes, plan, shape, noise=generator, choices=generator
            )
            if release.refined is not None:
                self._stages.append(release.refined)

    def rho(self, class_name: str) -> float:
        """Return what is stated of the tables together."""
        fixed = sum(stage.cost(class_name) for stage in self._stages)
        looks = sum(stream.cost(class_name) for stream in self._streams)
        return float(fixed + looks)

    def tables(
        self, codes: IntArray, generator: np.random.Generator
    ) -> list[NoisyTable]:
        """Measure all tables once."""
        found: list[NoisyTable] = []
        for stage in self._stages:
            found += measure(codes, stage, self._shape.sizes, generator)
        if self._streams:
            singles = [table for table in found if len(table.region) == 1]
            found += measure_adaptively(
                codes,
                self._streams,
                self._shape,
                singles,
                noise=generator,
                choices=generator,
            )
        return found


def _sampler(released: _Released, changed: IntArray) -> Sampler:
    def apart(codes: IntArray, rng: np.random.Generator) -> float:
        total = 0.0
        for table in released.tables(codes, rng):
            cell = tuple(int(changed[column]) for column in table.region)
            if table.noise_scale:
                gap = table.counts[cell] - table.counts[(0,) * len(cell)]
                total += float(gap) / table.noise_scale**2
        return total

    def sample(codes: IntArray, count: int, rng: np.random.Generator) -> FloatArray:
        return np.array([[apart(codes, rng)] for _ in range(count)])

    return sample


def _planned(synthesizer: Synthesizer) -> Synthesizer:
    """Return the synthesizer with the distances that its certificate states."""
    certificate = getattr(synthesizer, "certificate_", None)
    if certificate is None or not certificate.leakage.values:
        return synthesizer
    planned = copy(synthesizer)
    planned.leakage = certificate.leakage.distances()
    return planned

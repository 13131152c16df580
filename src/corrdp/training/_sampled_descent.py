"""Gradient descent on Poisson samples of the rows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.accounting import (
    WHOLE_RECORD,
    SampledGaussianEvent,
    SensitivityTable,
    epsilon_within,
    plan_noise,
    sampled_change,
)
from corrdp.certificate import Component
from corrdp.exceptions import GuaranteeVoidError
from corrdp.training._gradient_descent import (
    centered,
    in_codes,
    per_column,
    starting_coef,
)
from corrdp.training._hosted import HostedTable
from corrdp.training._layout import GradientLayout
from corrdp.training._plan import TrainingPlan
from corrdp.training._prepared_rows import PreparedRows, SegmentHost, prepare_rows
from corrdp.training._solver import Direction, Iterates
from corrdp.training._step_sizes import StepNoise
from corrdp.training._tiling import TiledTable
from corrdp.training.sensitivity._gradient import GradientSensitivity

_DRAWN_AT_ONCE = 2**22  # coins, so that those of a large table need little memory
_SHRINK = 0.999  # until the price, on a grid of its own, is within the budget


@dataclass(frozen=True)
class SampledBudget:
    """What every sampled step may cost, fixed before training.

    Parameters
    ----------
    rate : float
        Probability with which a record takes part in a step.
    n_steps : int
        Number of steps.
    contribution : float
        Largest norm of one record's part, in units of the noise.
    change : mapping of str to float
        How far a record's part may move under each promised class, in units of the
        noise.

    Guarantee
    ---------
    Steps that keep these numbers, whatever the parameters are, cost each class what
    `components` states: `docs/theory/sampling.md`, `docs/theory/solvers.md`, section
    3.
    """

    rate: float
    n_steps: int
    contribution: float
    change: Mapping[str, float]

    def event(self, class_name: str) -> SampledGaussianEvent:
        """Return what all steps cost a class; a whole record moves by at most twice."""
        change = self.change.get(class_name, math.inf)
        return SampledGaussianEvent(
            rate=self.rate,
            contribution=self.contribution,
            change=min(change, 2 * self.contribution),
            n_steps=self.n_steps,
        )

    def components(self) -> tuple[Component, ...]:
        """Return what a certificate is issued on."""
        names = [*self.change, WHOLE_RECORD]
        events = {name: (self.event(name),) for name in names}
        return (Component("sampled gradients", events=events),)


def plan_sampling(
    table: SensitivityTable,
    *,
    allowed_epsilon: Mapping[str, float],
    delta: float,
    n_steps: int,
    rate: float,
) -> SampledBudget:
    """Choose the contribution and the changes that all steps will keep.

    Parameters
    ----------
    table : SensitivityTable
        Bounds at nominal parameters: they decide utility only.
    allowed_epsilon : mapping of str to float
        Epsilon of every class; infinite where a class is only priced.
    delta : float
        Failure probability.
    n_steps : int
        Number of steps.
    rate : float
        Sampling rate.

    Guarantee
    ---------
    Every class with a finite epsilon is within it at `delta`, priced again by the
    accountant: `docs/theory/sampling.md`.
    """
    noise = plan_noise(
        table,
        allowed_epsilon=allowed_epsilon,
        delta=delta,
        n_steps=n_steps,
        rate=rate,
    )
    contribution = noise.step_contribution
    change = {}
    for name, epsilon in allowed_epsilon.items():
        if math.isinf(epsilon):
            continue
        allowed = sampled_change(
            rate=rate,
            contribution=contribution,
            n_steps=n_steps,
            epsilon=epsilon,
            delta=delta,
        )
        change[name] = min(allowed, 2 * contribution)
        # The search prices on another grid than the accountant, whose word is on the
        # certificate: what it finds a hair above the budget gives way.
        while True:
            budget = SampledBudget(rate, n_steps, contribution, change)
            events = (budget.event(name),)
            if epsilon_within(events, delta=delta, allowed_epsilon=epsilon) <= epsilon:
                break
            change[name] *= _SHRINK
    return SampledBudget(rate, n_steps, contribution, change)


def descend_sampled(
    codes: FloatArray,
    y: NDArray[Any],
    plan: TrainingPlan,
    budget: SampledBudget,
    rng: np.random.Generator,
) -> tuple[FloatArray, Any]:
    """Return weights and constant in encoded columns after the planned steps.

    The rows are encoded, and centered at the middle of their domain: means are not
    released.

    Guarantee
    ---------
    Every step keeps ``budget`` at the time it is released, or `GuaranteeVoidError`
    is raised; sums are divided by the expected, never by the realized number of rows.
    `docs/theory/sampling.md`; `docs/theory/solvers.md`, section 3.
    """
    rows = prepare_rows(codes, y, plan.layout, compiled=False, sort_rows=False)
    sums = SampledSums(rows, plan, budget, rng)
    return _descended(sums, plan, budget, rng, starting_coef(plan, y))


def descend_sampled_tiled(
    table: TiledTable | HostedTable,
    plan: TrainingPlan,
    budget: SampledBudget,
    rng: np.random.Generator,
    *,
    host: SegmentHost | None = None,
) -> tuple[FloatArray, Any]:
    """Return what `descend_sampled` does, wherever the rows are kept, in order.

    A `host` asks the segments, by default this process. Samples and noise are drawn
    here: samples before anybody is asked, noise after all have answered.

    Guarantee
    ---------
    That of `descend_sampled`; the model is the same whoever hosts the segments and
    whoever is asked again (`docs/theory/scale.md`, Proposition 5).
    """
    sums = SampledSums(table.prepared(host), plan, budget, rng)
    labels = table.label_totals(plan.loss) if plan.starts_at_constant else None
    return _descended(sums, plan, budget, rng, starting_coef(plan, labels))


def _descended(
    sums: "SampledSums",
    plan: TrainingPlan,
    budget: SampledBudget,
    rng: np.random.Generator,
    coef: FloatArray,
) -> tuple[FloatArray, Any]:
    layout = plan.layout
    expected = budget.rate * plan.n_rows
    direction = Direction(plan.solver.update, plan.momentum, coef.shape)
    iterates = Iterates(plan.solver.output, budget.n_steps, rng, plan.averaged_part)
    for step in range(budget.n_steps):
        gradient, noise_scale = sums.release(coef)
        noisy = centered(gradient) / expected
        noisy[:-1] += plan.solver.ridge * coef[:-1]
        moved = coef - sums.step_size(noise_scale) * direction.of(noisy)
        coef = plan.solver.projected(moved)
        iterates.add(step, coef)
    return in_codes(iterates.result(), layout.column_scale, central_codes(layout))


class SampledSums:
    """Noisy sums over Poisson samples of one table: all that sampled training releases.

    Parameters
    ----------
    rows : PreparedRows
        All rows of the table, in order.
    plan : TrainingPlan
        Groups, norms, distance and solver options.
    budget : SampledBudget
        What every step may cost.
    rng : numpy Generator
        Source of samples and noise.

    Guarantee
    ---------
    Each release keeps ``budget``, or `GuaranteeVoidError` is raised
    (`docs/theory/sampling.md`). Audits call `release`, too, at parameters of their
    choice, so that what they attack is what trains.
    """

    def __init__(
        self,
        rows: PreparedRows,
        plan: TrainingPlan,
        budget: SampledBudget,
        rng: np.random.Generator,
    ) -> None:
        if plan.layout.held_groups.any():
            raise GuaranteeVoidError(
                "steps on samples release the gradient of every group, and this plan "
                "of two walks pays for some alone. Plan one walk: "
                "default_plan(..., in_two_walks=False)."
            )
        self._rows, self._rng = rows.grouped(plan.layout), rng
        self._plan, self._budget = plan, budget
        self._sensitivity = GradientSensitivity(
            plan.loss,
            plan.layout,
            plan.spending.classes,
            reference=central_codes(plan.layout),
        )
        self._contribution = self._sensitivity.contribution()
        classes = self._sensitivity.row_classes
        self._held = np.array([name in budget.change for name in classes])
        allowed = [budget.change[name] for name in classes if name in budget.change]
        sizes = [group.size for group in self._sensitivity.groups]
        self._sizes = np.array(sizes, dtype=float)
        self._noise = StepNoise(self._sizes, np.array([*allowed, budget.contribution]))

    def release(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the noisy sum over a fresh sample, and its noise per group.

        Guarantee
        ---------
        One of the steps of ``budget`` (`docs/theory/sampling.md`).
        """
        plan, rng = self._plan, self._rng
        bounds = self._sensitivity.bounds(coef)[self._held]
        rows = np.vstack([bounds, self._contribution])
        noise_scale = self._noise.noise(rows)
        drawn = _poisson_sample(plan.n_rows, self._budget.rate, rng)
        bound = plan.loss.clips_residuals_at
        gradient, _ = self._rows.gradient_sum(coef, residual_bound=bound, drawn=drawn)
        scale = per_column(noise_scale[plan.layout.column_groups], coef)
        gradient += rng.standard_normal(coef.shape) * scale
        return gradient, noise_scale

    def step_size(self, noise_scale: FloatArray) -> float:
        """Return the step size: no further than noise, sampling or curvature allow."""
        plan, expected = self._plan, self._budget.rate * self._plan.n_rows
        if plan.solver.step_size is not None:
            return plan.solver.step_size
        variance = float(self._sizes @ noise_scale**2) / expected**2
        variance += float(self._contribution @ self._contribution) / expected
        limit = 2 / ((1 - plan.momentum) * plan.smoothness)
        steps = self._budget.n_steps
        return min(plan.expected_distance / math.sqrt(steps * variance), limit)


def _poisson_sample(n_rows: int, rate: float, rng: np.random.Generator) -> IntArray:
    """Return the numbers of the rows whose coin says so: one coin per row.

    Guarantee
    ---------
    Coins are independent of each other and of all rows (`docs/theory/sampling.md`).
    """
    parts = []
    for first in range(0, n_rows, _DRAWN_AT_ONCE):
        coins = rng.random(min(_DRAWN_AT_ONCE, n_rows - first))
        parts.append(first + np.flatnonzero(coins < rate))
    return np.concatenate(parts)


def central_codes(layout: GradientLayout) -> FloatArray:
    """Return the row of codes at which sampled training centers features."""
    return np.asarray(layout.column_offset / layout.column_scale)

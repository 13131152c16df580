"""Noise and size of steps: how much is added, how far they go, what becomes of it.

*Of every column.* One size for all columns is right where columns are alike. Hats are
not: a knot in a crowd has a hundred times the curvature of one in a tail, and noise
does not know.

*While gradients agree.* The step size of the default rule makes noise alone move
parameters by the expected distance. If the optimum is farther away, as on a nearly
separable table, gradients go on pointing the same way. Means of adjacent blocks of
noisy gradients have independent noise, so their inner product is an unbiased estimate
of how much they agree, and what it would be by chance is known from the noise that was
added.

*Where residuals of numbers are cut*, from noisy fractions of small ones, decides how
large that noise is.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp.accounting import OnlineAllocator, is_within_budget
from corrdp.exceptions import GuaranteeVoidError
from corrdp.policy import BlockKind
from corrdp.training._layout import GradientLayout
from corrdp.training._solver import StepRule, first_averaged
from corrdp.training.losses import LARGEST_RESIDUAL_BOUND, SMALLEST_RESIDUAL_BOUND, Loss
from corrdp.training.sensitivity._gradient import GradientSensitivity

if TYPE_CHECKING:  # a plan says how sizes follow from curvature
    from corrdp.training._plan import TrainingPlan

_NUMBER_VARIANCE = 1.0 / 3.0  # nominal, of a scaled number without knots
_LEAST_SHARE = 0.002  # of the rows, below which a mean says nothing but noise

N_BLOCKS = 20
GROWTH = 1.5  # of the step size, when two blocks agree
SIGNIFICANCE = 3.0  # standard deviations of the inner product under noise alone
COVERED = (0.9, 0.99)  # least and largest fraction of residuals left uncut
CUTTING_COST = 0.45  # excess risk of cutting, by its square and the bound's
_FIRST_PART = 0.25  # of the steps, in which the bound finds its scale
_RATES = (0.6, 0.3)  # of adaptation, in the first part and after it
_SMALLEST_BOUND = 0.04  # of the bound that training begins with
_LARGEST_EXPONENT = 100.0  # beyond any growth, and far from what a float can hold


@dataclass(frozen=True, slots=True)
class ColumnSteps:
    """How the size of a step follows from curvature and noise.

    Parameters
    ----------
    progress : float
        Product of curvature, step size and number of steps where there is no noise:
        what is left of an error after all steps is exp(-progress), nominally.
    distance : float
        How far noise alone may move a coefficient over all steps.

    Guarantee
    ---------
    A function of released means, of the noise that was added and of public numbers:
    costs nothing (`docs/theory/additive.md`, section 3).
    """

    progress: float = 16.0
    distance: float = 0.5

    def sizes(
        self, curvature: FloatArray, noise: FloatArray, n_steps: int
    ) -> FloatArray:
        """Return the step size of every column.

        Parameters
        ----------
        curvature : array of float, shape (n_columns,)
            Curvature of the loss along every column.
        noise : array of float, shape (n_columns,)
            Noise on the mean gradient, were it released once for all steps.
        n_steps : int
            Number of steps.
        """
        slowed = curvature + self.progress * noise / self.distance
        return np.asarray(self.progress / (n_steps * slowed))


def column_curvature(
    layout: GradientLayout, means: FloatArray, curvature: float
) -> FloatArray:
    """Return the curvature of the loss along every column, as far as means tell.

    Guarantee
    ---------
    Post-processing of released means (`docs/theory/additive.md`, section 3). The mean
    of hats is a histogram, from which the variance of the number itself follows.
    """
    variance = np.ones(layout.n_columns)
    shares = np.clip(means, _LEAST_SHARE, 1.0)
    for block in layout.blocks:
        if block.kind is BlockKind.NUMBER:
            own = 0.5 if block.boolean else _NUMBER_VARIANCE
            variance[block.columns] = own
        else:
            share = shares[block.columns]
            variance[block.columns] = share * np.maximum(1.0 - share, 0.25)
    for block in layout.blocks:
        if block.kind is BlockKind.HATS:
            share = shares[block.columns] / shares[block.columns].sum()
            place = np.array(block.positions)
            spread = float(share @ place**2 - (share @ place) ** 2)
            number = block.start - 1  # the column of the number comes first
            variance[number] = spread * layout.column_scale[number] ** 2
    return np.asarray(curvature * variance)


class Walk:
    """Factor on the step size, from released gradients.

    Noise lies in a space of `n_free` dimensions. The factor stays 1 for a part of the
    steps, the `patience`.

    Guarantee
    ---------
    A function of noisy gradients and of the variance of their noise, which is public:
    costs nothing (`docs/theory/solvers.md`, section 2).
    """

    def __init__(self, n_steps: int, n_free: int, patience: float = 0.0) -> None:
        self._length = max(1, n_steps // N_BLOCKS)
        self._n_free = n_free
        self._first = patience * n_steps
        self._n_observed = 0
        self.factor = 1.0
        self._sum: FloatArray | float = 0.0
        self._variance = 0.0
        self._count = 0
        self._last: tuple[FloatArray, float] | None = None

    def observe(self, gradient: FloatArray, variance: float) -> None:
        """Take note of a released gradient and the variance of its noise in all."""
        self._sum = self._sum + gradient
        self._variance += variance
        self._count += 1
        self._n_observed += 1
        if self._count < self._length:
            return
        mean = np.asarray(self._sum / self._count)
        own = self._variance / self._count**2
        if self._last is not None:
            other, others = self._last
            chance = math.sqrt(own * others / self._n_free)
            agree = float(np.sum(mean * other)) > SIGNIFICANCE * chance
            if agree and self._n_observed > self._first:
                self.factor *= GROWTH
        self._last = mean, own
        self._sum, self._variance, self._count = 0.0, 0.0, 0


def noise_gains(
    curvature: FloatArray,
    size: FloatArray,
    momentum: float,
    n_steps: int,
    averaged_part: float = 0.5,
) -> FloatArray:
    """Return the deviation of averaged parameters per unit of noise in every step.

    Along a column the loss is taken for quadratic and uncoupled; noise passes through
    momentum, steps and the average of iterates as through a linear filter.

    Parameters
    ----------
    curvature, size : array of float, shape (n_columns,)
        Curvature and step size of every column.
    momentum : float
        Weight of the past.
    n_steps : int
        Number of steps.
    averaged_part : float
        Part of the iterates, the last ones, that the result is the average of.

    Guarantee
    ---------
    A forecast from public numbers, for reports: no bound of `docs/theory/solvers.md`
    rests on it.
    """
    # Response of the parameter, j steps later, to noise of size 1 in one step.
    response = np.empty((n_steps, curvature.size))
    velocity, position = np.ones(curvature.size), np.zeros(curvature.size)
    for step in range(n_steps):
        position = position - (1 - momentum) * size * velocity
        response[step] = position
        velocity = momentum * velocity + curvature * position
    reach = np.cumsum(response, axis=0)
    first = first_averaged(n_steps, averaged_part)
    noise_at = np.arange(n_steps)
    until = reach[n_steps - 1 - noise_at]
    before = np.where(
        (noise_at < first)[:, None], reach[np.maximum(first - 1 - noise_at, 0)], 0.0
    )
    weights = (until - before) / (n_steps - first)
    return np.asarray(np.sqrt(np.sum(weights**2, axis=0)))


class ResidualBound:
    """A bound on residuals that follows released fractions of those within it.

    It grows to `growth` times the first at most. The `price` is what noise costs in
    risk per unit of the bound; infinite if nothing is known.

    Guarantee
    ---------
    A function of public numbers and of noisy fractions, which are paid for: costs
    nothing more (`docs/theory/solvers.md`, section 3).
    """

    def __init__(self, first: float, *, growth: float, price: float = math.inf) -> None:
        self.value = first
        self._least = max(_SMALLEST_BOUND * first, SMALLEST_RESIDUAL_BOUND)
        self._largest = min(growth * first, LARGEST_RESIDUAL_BOUND)
        self._price = price

    @classmethod
    def of_loss(cls, loss: Loss, *, growth: float, price: float) -> Self | None:
        """Return the bound that a loss begins with; None if there is none to adapt."""
        first = loss.clips_residuals_at
        if first is None or not loss.adapts_residual_bound:
            return None
        return cls(first, growth=growth, price=price)

    @property
    def covered(self) -> float:
        """Fraction of residuals that the present bound should leave uncut."""
        cut = math.sqrt(self._price / (CUTTING_COST * self.value))
        least, largest = COVERED
        return min(max(1.0 - cut, least), largest)

    def adapted(self, fraction: float, progress: float) -> float:
        """Return the bound that follows from a released fraction of residuals in it.

        `progress` is the part of the steps that are done.
        """
        rate = _RATES[progress >= _FIRST_PART]
        exponent = min(-rate * (fraction - self.covered), _LARGEST_EXPONENT)
        bound = self.value * math.exp(exponent)
        self.value = min(max(bound, self._least), self._largest)
        return self.value


def _without_gaps(noise_scale: FloatArray, held: NDArray[np.bool_]) -> FloatArray:
    """Return the noise with the least of it where there was none.

    A group that no class moves, such as public features at parameters 0, needs none on
    paper; but no number computed from rows leaves without noise, unless no class moves
    any of them. Nothing leaves of groups that are held.
    """
    if 0.0 not in noise_scale.tolist() or not noise_scale.any():
        return noise_scale
    moved = noise_scale > 0.0
    return np.where(moved | held, noise_scale, noise_scale[moved].min())


class Steps:
    """Noise and size of every step, from the public iterate alone."""

    def __init__(self, plan: "TrainingPlan", sensitivity: GradientSensitivity) -> None:
        self._plan = plan
        self._sensitivity = sensitivity
        sizes = np.array([group.size for group in sensitivity.groups], float)
        self._free_sizes = sizes * (plan.loss.n_free_outputs / plan.loss.n_outputs)
        allowed = plan.spending.gradient_mu
        self._whole, self._difference = (
            StepNoise(sizes, np.array([mu[c] for c in sensitivity.row_classes]))
            for mu in (
                plan.schedule.snapshot_mu(allowed),
                plan.schedule.difference_mu(allowed),
            )
        )
        self._held = sensitivity.layout.held_groups
        self._adapts = plan.loss.adapts_residual_bound
        self._lipschitz = float(np.linalg.norm(sensitivity.contribution()))

    @property
    def count_noise(self) -> float:
        """Noise on the number of small residuals, which one record moves by 1."""
        mu = self._plan.spending.residual_mu
        if self._adapts and not mu > 0:
            raise GuaranteeVoidError(
                f"the residual bound adapts to a noisy count, and residual_mu={mu!r} "
                "pays for none. Plan the spending with adapts_residual_bound=True."
            )
        return math.sqrt(self._plan.schedule.n_snapshots) / mu if mu > 0 else 0.0

    def noise(
        self, coef: FloatArray, residual_bound: float | None, anchor: FloatArray | None
    ) -> FloatArray:
        """Return this step's noise scale per group, held to the budget exactly."""
        bounds = self._sensitivity.bounds(
            coef,
            anchor=anchor,
            residual_bound=residual_bound if self._adapts else None,
        )
        query = self._whole if anchor is None else self._difference
        return _without_gaps(query.noise(bounds), self._held)

    def variance(self, noise_scale: FloatArray) -> float:
        """Return the variance of the noise on the mean gradient, all coordinates."""
        return float(self._free_sizes @ noise_scale**2) / self._plan.n_rows**2

    def size(self, variance: float, step: int, factor: float) -> float:
        """Return the size of a step counted from 1; the default rule's by `factor`."""
        plan = self._plan
        if plan.solver.step_size is not None:
            return plan.solver.step_size
        if plan.solver.step_rule is StepRule.PAPER:
            return plan.expected_distance / math.sqrt(
                (self._lipschitz**2 + variance) * step
            )
        limit = 2 / ((1 - plan.momentum) * plan.smoothness)
        if plan.own_noise > 0:  # alike in all steps, where noise is not
            variance += plan.n_steps * plan.own_noise**2
        if variance == 0:
            return limit
        return min(
            factor * plan.expected_distance / math.sqrt(plan.n_steps * variance), limit
        )


class StepNoise:
    """Noise of one kind of release, every time within the same budget."""

    def __init__(self, sizes: FloatArray, budget_mu: FloatArray) -> None:
        self._budget_mu = budget_mu
        self._allocator = OnlineAllocator(sizes, budget_mu=budget_mu)

    def noise(self, bounds: FloatArray) -> FloatArray:
        """Return the noise scale per group that keeps the budget of every row."""
        noise_scale = self._allocator.update(bounds)
        # The allocator rescales to the budget. It is iterative and remembers earlier
        # steps, so its word is not taken: what is added is what was checked here.
        if not is_within_budget(bounds, noise_scale, self._budget_mu):
            raise GuaranteeVoidError(
                "a step of training would cost a class more than its budget. Nothing "
                "was released; report this as a defect."
            )
        return noise_scale

"""Training as the paper prints it: noise in closed form, priced by the accountant."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corrdp._names import INTERCEPT
from corrdp._typing import FloatArray
from corrdp.accounting import (
    NoisePlan,
    experiment_leakage,
    experiment_noise_variance,
    paper_noise_variance,
)
from corrdp.policy import Block, Budget, ColumnRole, NeighborClass, allowed_epsilons
from corrdp.training._expectations import typical_sizes
from corrdp.training._layout import GradientGroup, GradientLayout
from corrdp.training._prepared_rows import gradient_sums, prepare_rows
from corrdp.training._solver import inside_box
from corrdp.training.losses import Loss
from corrdp.training.sensitivity._gradient import GradientSensitivity

GradientSums: TypeAlias = Callable[[FloatArray], FloatArray]
"""Maps parameters of models, shape (n_models, n_columns), to their exact sums."""


@dataclass(frozen=True, eq=False)
class TheoremPlan:
    """Noise by the paper's formulas, with what the accountant proves for it.

    Parameters
    ----------
    layout : GradientLayout
        One group per raw feature; nothing is clipped but squared residuals.
    loss : Loss
        Logistic, or squared or Huber with clipped residuals.
    noise : NoisePlan
        The paper's noise on the sum over rows, and the epsilon it really gives.
    n_rows : int
        Public number of rows.
    lipschitz : float
        Bound on the norm of one record's gradient.
    expected_distance : float
        The paper's D, the radius of the parameters.
    step_size : float, optional
        Constant step; None for the paper's D / sqrt((L^2 + sum of variances) t).
    """

    layout: GradientLayout
    loss: Loss
    noise: NoisePlan
    n_rows: int
    lipschitz: float
    expected_distance: float
    step_size: float | None = None

    @property
    def n_steps(self) -> int:
        """Number of gradients."""
        return self.noise.n_steps

    def size(self, step: int) -> float:
        """Return the size of a step, counted from 1."""
        if self.step_size is not None:
            return self.step_size
        variance = self.noise.weighted_variance / self.n_rows**2
        return self.expected_distance / math.sqrt((self.lipschitz**2 + variance) * step)

    def noisy(self, gradient: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return sums over rows with the noise of a step, shape (..., n_columns).

        Guarantee
        ---------
        What ``noise`` proves for one step per row of `gradient`, which may be nothing
        (`docs/theory/paper_noise.md`).
        """
        noise_scale = self.noise.noise_scale[self.layout.column_groups]
        noisy: FloatArray = gradient + rng.standard_normal(gradient.shape) * noise_scale
        return noisy

    def without_noise(self) -> "TheoremPlan":
        """Return the plan of the same steps on exact gradients, which proves nothing.

        Guarantee
        ---------
        None, and ``noise`` says so (`docs/theory/paper_noise.md`).
        """
        still = np.zeros_like(self.noise.noise_scale)
        return replace(self, noise=replace(self.noise, noise_scale=still))

    def to_text(self) -> str:
        """Return the plan of the noise as plain tables."""
        return self.noise.to_text()


def layout_by_feature(
    blocks: tuple[Block, ...], *, intercept: bool = True, **columns: FloatArray
) -> GradientLayout:
    """Return the layout of the paper's noise, a group per raw feature.

    `columns` are ``column_scale`` and ``column_offset`` of `GradientLayout`.
    """
    names = [*dict.fromkeys(block.feature for block in blocks)]
    names += [INTERCEPT] if intercept else []
    groups = tuple(GradientGroup(name, (name,)) for name in names)
    return GradientLayout(blocks, groups, **columns)


def theorem_plan(
    layout: GradientLayout,
    classes: tuple[NeighborClass, ...],
    leakage: Mapping[str, float],
    *,
    budget: Budget,
    epsilon_cap: float,
    n_rows: int,
    loss: Loss,
    method: str,
    n_steps: int,
    constant: float | None = None,
    floor: bool = True,
    lipschitz: float | None = None,
    label_bounds: tuple[float, float] = (-0.5, 0.5),
    step_size: float | None = None,
) -> TheoremPlan:
    """Plan training with the noise of Eq. (4), or of the experiments.

    Parameters
    ----------
    layout : GradientLayout
        That of `layout_by_feature`.
    classes : tuple of NeighborClass
        Classes that the accountant prices.
    leakage : mapping of str to float
        Leakage of every insensitive feature.
    budget : Budget
        Nominal epsilon and delta.
    epsilon_cap : float
        Largest epsilon promised to a class.
    n_rows, n_steps : int
        n and T.
    loss : Loss
        Logistic, or squared or Huber with clipped residuals.
    method : {"corr", "semi", "standard"}
        Whose noise.
    constant : float, optional
        The experiments' "some constant C", which drops the floor; None for Eq. (4).
    floor : bool
        False to drop the floor of Eq. (4) alone: the experiments' noise with the
        constant C = L^2 T / n^2.
    lipschitz : float, optional
        The paper's L, where it is not what bounds a record's gradient.
    label_bounds : pair of float
        Domain of the label, for losses of numbers.
    step_size : float, optional
        Constant step size; None for the paper's rule.

    Guarantee
    ---------
    None by the formula: it is asymptotic (E3-E6). `TheoremPlan.noise` states the
    epsilon that is proved for the same noise, infinite where a group that moves has
    none. See `docs/theory/paper_noise.md`.
    """
    sensitivity = GradientSensitivity(loss, layout, classes, label_bounds=label_bounds)
    if lipschitz is None:
        lipschitz = float(np.linalg.norm(sensitivity.contribution()))
    role = {block.feature: block.role for block in layout.blocks}
    sensitive = np.array(
        [role.get(g.name) in (None, ColumnRole.SENSITIVE) for g in layout.groups]
    )
    per_group = experiment_leakage(
        [leakage.get(group.name, 1.0) for group in layout.groups],
        sensitive=sensitive,
        method=method,  # type: ignore[arg-type]
    )
    sizes = [group.size for group in layout.table_groups()]
    columns = np.repeat(per_group, sizes)
    if constant is None:
        variance = paper_noise_variance(
            columns,
            epsilon=budget.epsilon,
            delta=budget.delta,
            lipschitz=lipschitz,
            n_steps=n_steps,
            n_rows=n_rows,
            n_sensitive=int(np.repeat(sensitive, sizes).sum()),
            floor=floor and method != "semi",
        )
    else:
        variance = experiment_noise_variance(
            columns, epsilon=budget.epsilon, delta=budget.delta, constant=constant
        )
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    allowed = allowed_epsilons(classes, epsilon=budget.epsilon, epsilon_cap=epsilon_cap)
    noise = NoisePlan(
        sensitivity.table(),
        n_rows * np.sqrt(variance[first]),
        allowed,
        budget.delta,
        n_steps,
    )
    expected_distance = typical_sizes(loss).expected_distance
    return TheoremPlan(
        layout, loss, noise, n_rows, lipschitz, expected_distance, step_size
    )


def iterates_by_theorem(
    sums: GradientSums,
    plans: Sequence[TheoremPlan],
    generators: Sequence[np.random.Generator],
) -> Iterator[FloatArray]:
    """Yield the parameters of models after every step, shape (n_models, n_columns).

    Models have the same rows, columns and number of steps, and start at 0; those of
    equal generators see the same standard normal noise.

    Guarantee
    ---------
    For each model what ``plan.noise`` proves if `sums` are those that it bounds, which
    may be nothing (`docs/theory/paper_noise.md`).
    """
    coefs = np.zeros((len(plans), plans[0].layout.n_columns))
    for step in range(1, plans[0].n_steps + 1):
        noisy = [
            plan.size(step) * plan.noisy(gradient, rng) / plan.n_rows
            for plan, gradient, rng in zip(plans, sums(coefs), generators, strict=True)
        ]
        coefs = inside_box(coefs - np.array(noisy))
        yield coefs


def sums_by_theorem(
    codes: FloatArray, y: NDArray[Any], plan: TheoremPlan
) -> GradientSums:
    """Return the gradients of models on rows, in one pass over them for all models.

    Of `plan` layout and loss are read, which those of all models share.

    Guarantee
    ---------
    None: sums before noise (`docs/theory/solvers.md`, section 1).
    """
    rows = prepare_rows(codes, y, plan.layout).grouped(plan.layout)
    bound = plan.loss.clips_residuals_at

    def sums(coefs: FloatArray) -> FloatArray:
        n_models = len(coefs)
        found = gradient_sums([rows] * n_models, coefs, [bound] * n_models)
        return np.array([gradient for gradient, _ in found])

    return sums


def descend_by_theorem(
    codes: FloatArray,
    y: NDArray[Any],
    plan: TheoremPlan,
    rng: np.random.Generator,
) -> tuple[FloatArray, float]:
    """Return weights and constant after the planned steps; the last half is averaged.

    Guarantee
    ---------
    What ``plan.noise`` proves, which may be nothing (`docs/theory/paper_noise.md`).
    """
    average = np.zeros(plan.layout.n_columns)
    sums = sums_by_theorem(codes, y, plan)
    for step, (coef,) in enumerate(iterates_by_theorem(sums, [plan], [rng]), start=1):
        if step > plan.n_steps // 2:
            average += coef
    average /= plan.n_steps - plan.n_steps // 2
    return average[:-1], float(average[-1])

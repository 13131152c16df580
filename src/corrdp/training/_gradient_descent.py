"""Full-batch gradient descent with noise re-allocated from every public iterate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.training._expectations import typical_sizes
from corrdp.training._hindsight import (
    Hindsight,
    LookingBack,
    Shrinkage,
    shrinkage,
)
from corrdp.training._hosted import HostedTable
from corrdp.training._plan import CONSTANT, TrainingPlan
from corrdp.training._prepared_rows import (
    PreparedRows,
    SegmentHost,
    gradient_sums,
    prepare_rows,
)
from corrdp.training._solver import Direction, Epochs, Iterates, Solver
from corrdp.training._step_sizes import (
    ResidualBound,
    Steps,
    Walk,
    column_curvature,
    noise_gains,
)
from corrdp.training._tiling import TiledTable
from corrdp.training._totals import (
    CodeTotals,
    LabelTotals,
    free_constant,
    release_constant,
    release_means,
)
from corrdp.training.losses import Loss
from corrdp.training.sensitivity._gradient import GradientSensitivity

_PATH_POINTS = 20  # iterates that are kept, for training curves


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """Parameters of a linear model in encoded columns, and what releasing them cost.

    Parameters
    ----------
    coef : array of float, shape (n_codes,) or (n_codes, n_outputs)
        Weight of every encoded column.
    intercept : float, or array of float, shape (n_outputs,)
        Constant.
    noise_scale : array of float, shape (n_groups,)
        Noise of the last step, on the sum over rows.
    path : tuple of (int, array, float)
        Steps taken, weights and constant at some twenty places on the way. Iterates
        are computed from what was released, so they cost nothing more.
    deviation : array of float, shape (n_codes,), optional
        How far noise alone moves each weight, roughly; for steps by column only.
    hindsight : Hindsight, optional
        Excess risk that is expected of the model, from what training released.
    """

    coef: FloatArray
    intercept: Any
    noise_scale: FloatArray = field(default_factory=lambda: np.zeros(0))
    path: tuple[tuple[int, FloatArray, Any], ...] = ()
    deviation: FloatArray | None = None
    hindsight: Hindsight | None = None


class Descent:
    """One model in training: asks for gradients, adds noise, takes steps.

    Parameters
    ----------
    codes : array of float, shape (n_rows, n_codes), or CodeTotals
        Rows of the encoder, or their sum; their noisy means are released at once.
    rows : PreparedRows
        The same rows as the kernels read them.
    plan : TrainingPlan
        Everything that decides noise and steps.
    rng : numpy Generator
        Source of the noise.
    labels : array of float, shape (n_rows,), or LabelTotals, optional
        Of the same rows; asked for where the plan makes use of the best constant.

    Guarantee
    ---------
    Per class, all that leaves is the column means, one noisy gradient per step and,
    for squared loss, one noisy fraction per step; each is held to its part of
    ``plan.spending`` at the time it is released, or `GuaranteeVoidError` is raised.
    Parameters are computed from those alone. Adaptive composition:
    `docs/theory/gaussian.md`; sensitivity: `docs/theory/glm_sensitivity.md`,
    `docs/theory/influence.md`; momentum, averaging and step size:
    `docs/theory/solvers.md`.
    """

    def __init__(
        self,
        codes: FloatArray | CodeTotals,
        rows: PreparedRows,
        plan: TrainingPlan,
        rng: np.random.Generator,
        labels: NDArray[Any] | LabelTotals | None = None,
    ) -> None:
        if plan.noise == CONSTANT:
            raise GuaranteeVoidError(
                f"the plan pays for the mean of the labels alone (noise={CONSTANT!r}), "
                "not for gradients. Use descend, or constant_model."
            )
        self._rng = rng
        first, *self._later = plan.walks
        self._means = release_means(codes, first.spending, rng)
        self._toward = initial_coef(first)
        if shrinkage(first) > 0:
            self._toward = _constant_coef(first, labels)
        self.residual_bound = first.loss.clips_residuals_at
        self._path: list[tuple[int, FloatArray, Any]] = []
        self._n_before = 0
        self._prepared = rows
        self._begin(first, starting_coef(first, labels))

    def _begin(self, plan: TrainingPlan, coef: FloatArray) -> None:
        """Start a walk from given parameters."""
        self._plan = plan
        # Plans assume a central record; bounds of steps are taken anew around what was
        # released, since the reference of influence is the record that centering makes.
        offset = self._means * plan.layout.column_scale
        layout = replace(plan.layout, column_offset=offset)
        self.layout = layout
        self._steps = Steps(
            plan,
            GradientSensitivity(
                plan.loss, layout, plan.spending.classes, reference=self._means
            ),
        )
        self.rows = self._prepared.grouped(layout)
        self.coef = coef
        self._held = per_column(layout.held_columns, coef)
        self.n_done = 0
        self._bound = ResidualBound.of_loss(
            plan.loss, growth=plan.bound_growth, price=plan.bound_price
        )
        solver = plan.solver
        self._direction = Direction(solver.update, plan.momentum, self.coef.shape)
        self._iterates = Iterates(
            solver.output, plan.n_steps, self._rng, plan.averaged_part
        )
        self._epochs = Epochs(solver.epoch_steps)
        self._walk = Walk(
            plan.n_steps,
            int(np.sum(~layout.held_columns)) * plan.loss.n_free_outputs,
            plan.patience,
        )
        self._curvature = column_curvature(
            layout, self._means, typical_sizes(plan.loss).curvature
        )
        self.noise_scale = np.zeros(len(layout.groups))
        self._back = LookingBack(plan, self.coef.copy())
        self._shrinkage = Shrinkage(plan, self._curvature)

    @property
    def finished(self) -> bool:
        """Whether all planned gradients were released."""
        return self.n_done == self._plan.n_steps and not self._later

    @property
    def anchor(self) -> FloatArray | None:
        """Where the gradient is known, if the next step asks the difference to it."""
        return self._epochs.anchor

    def exact_gradient(self) -> tuple[FloatArray, int]:
        """Return what `advance` takes, in one pass over the rows: before noise."""
        return self.rows.gradient_sum(
            self.coef, residual_bound=self.residual_bound, anchor=self.anchor
        )

    def advance(self, gradient: FloatArray, n_inside: int) -> None:
        """Take the step that follows from the exact gradient at `coef`.

        If there is an `anchor`, from the exact difference to the gradient there. Both
        numbers are used with noise only.
        """
        if self.finished:
            raise GuaranteeVoidError(
                f"all {self._plan.n_steps} planned gradients were released; another "
                "one is not paid for. Plan more steps."
            )
        plan = self._plan
        released, noise_scale = self.noisy_gradient(gradient)
        mean = centered(released) / plan.n_rows
        every = self._every(noise_scale)
        self._back.observe(self.n_done, mean, every / math.sqrt(plan.n_steps))
        noisy, variance = self._epochs.gradient(
            mean,
            self._steps.variance(noise_scale),
            self.coef,
        )
        if plan.solver.ridge > 0:  # on a copy: an epoch keeps what was released
            noisy = noisy.copy()
            noisy[:-1] += plan.solver.ridge * self.coef[:-1]
        size = self._step_size(variance, noise_scale)
        self._shrinkage.observe(every, size)
        if plan.solver.epoch_steps == 1:  # within an epoch, noise is shared
            self._walk.observe(noisy, variance)
        moved = self.coef - size * self._direction.of(noisy)
        self.coef = plan.solver.projected(moved)
        self._iterates.add(self.n_done, self.coef)
        if self._bound is not None and self.anchor is None:  # one for a whole epoch
            count = float(self.noisy_count(np.array(float(n_inside))))
            progress = self.n_done / plan.n_steps
            self.residual_bound = self._bound.adapted(count / plan.n_rows, progress)
        self.noise_scale = noise_scale
        self.n_done += 1
        if self.n_done % max(1, plan.n_steps // _PATH_POINTS) == 0:
            self._path.append(
                (self._n_before + self.n_done, *self._in_codes(self.coef))
            )
        if self.n_done == plan.n_steps and self._later:
            self._n_before += self.n_done
            self._toward = self._kept(*self._walked())
            self._begin(self._later.pop(0), self._toward)

    def _step_size(self, variance: float, noise_scale: FloatArray) -> Any:
        """Return the size of the next step, a number or one per column."""
        sizes = self._column_sizes(noise_scale)
        if sizes is not None:
            return per_column(sizes, self.coef)
        return self._steps.size(variance, self.n_done + 1, self._walk.factor)

    def _column_sizes(self, noise_scale: FloatArray) -> FloatArray | None:
        """Return the step size of every column, if each has one of its own."""
        plan = self._plan
        if plan.column_steps is None or not plan.solver.has_default_steps:
            return None
        once = self._every(noise_scale) / math.sqrt(plan.n_steps)
        return plan.column_steps.sizes(self._curvature, once, plan.n_steps)

    def _every(self, noise_scale: FloatArray) -> FloatArray:
        """Return the noise of one step on every column of the mean gradient."""
        return np.asarray(noise_scale[self.layout.column_groups] / self._plan.n_rows)

    def noisy_gradient(self, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sum with the noise of a step at `coef`, and the noise per group.

        All that a step releases of the gradient, with 0 for columns that are held.
        Audits call it, too: with one row per run, so that what they attack is what
        trains.

        Parameters
        ----------
        gradient : array of float, shape (..., n_columns[, n_outputs])
            Exact sum over rows.

        Guarantee
        ---------
        One step's part of ``plan.spending`` per row (`docs/theory/allocation.md`).
        """
        noise_scale = self._steps.noise(self.coef, self.residual_bound, self.anchor)
        noise = self._rng.standard_normal(gradient.shape)
        noise *= per_column(noise_scale[self.layout.column_groups], self.coef)
        return np.where(self._held, 0.0, gradient + noise), noise_scale

    def noisy_count(self, n_inside: FloatArray) -> FloatArray:
        """Return numbers of small residuals with the noise of a step.

        Audits call it, as they call `noisy_gradient`.

        Guarantee
        ---------
        One fraction's part of ``plan.spending`` per number
        (`docs/theory/solvers.md`, section 3).
        """
        noise = self._rng.standard_normal(n_inside.shape)
        return np.asarray(n_inside + self._steps.count_noise * noise)

    def result(self) -> TrainedModel:
        """Return the model, in encoded columns."""
        coef, kept = self._walked()
        slope, intercept = self._in_codes(self._kept(coef, kept))
        return TrainedModel(
            coef=slope,
            intercept=intercept,
            noise_scale=self.noise_scale,
            path=tuple(self._path),
            deviation=self._deviation(),
            hindsight=self._back.at(coef, kept),
        )

    def _walked(self) -> tuple[FloatArray, float]:
        """Return where the walk ended, and which part of it is kept."""
        coef = self._iterates.result()
        return coef, self._shrinkage.kept(coef[:-1])

    def _kept(self, coef: FloatArray, kept: float) -> FloatArray:
        """Return what is kept of a walk, nearer to what is known without it."""
        return coef if kept == 1 else self._toward + kept * (coef - self._toward)

    def _deviation(self) -> FloatArray | None:
        """Return what the noise of the last step, in all steps, makes of weights."""
        plan, sizes = self._plan, self._column_sizes(self.noise_scale)
        if sizes is None:
            return None
        gains = noise_gains(
            self._curvature, sizes, plan.momentum, plan.n_steps, plan.averaged_part
        )
        once = self._every(self.noise_scale) / math.sqrt(plan.n_steps)
        every = once * math.sqrt(plan.n_steps)
        slope: FloatArray = (every * gains)[:-1] * self.layout.column_scale
        return slope

    def _in_codes(self, coef: FloatArray) -> tuple[FloatArray, Any]:
        """Return weights and constant for columns as the encoder writes them."""
        return in_codes(coef, self._plan.layout.column_scale, self._means)


def initial_coef(plan: TrainingPlan) -> FloatArray:
    """Return zeros, one column per output if there are several."""
    n_columns, n_outputs = plan.layout.n_columns, plan.loss.n_outputs
    return np.zeros(n_columns if n_outputs == 1 else (n_columns, n_outputs))


def starting_coef(
    plan: TrainingPlan, labels: NDArray[Any] | LabelTotals | None
) -> FloatArray:
    """Return where training starts: at zeros, or at the best constant of the labels.

    Guarantee
    ---------
    The same on all neighbors: `corrdp.training._totals.free_constant`
    (`docs/theory/default_rule.md`, Proposition 4a).
    """
    if not plan.starts_at_constant:
        return initial_coef(plan)
    return plan.solver.projected(_constant_coef(plan, labels))


def _constant_coef(
    plan: TrainingPlan, labels: NDArray[Any] | LabelTotals | None
) -> FloatArray:
    if labels is None:
        raise CorrDPError(
            "the plan asks for the mean of the labels, and labels=None. Pass them."
        )
    coef = initial_coef(plan)
    coef[-1] = free_constant(labels, plan.loss, plan.spending.classes)
    return coef


def _asks_for_constant(plan: TrainingPlan) -> bool:
    """Return whether a walk starts at the best constant, or may end nearer to it."""
    first = plan.walks[0]
    return first.starts_at_constant or shrinkage(first) > 0


def per_column(numbers: FloatArray, coef: FloatArray) -> FloatArray:
    """Return one number per column in a shape that multiplies all outputs alike."""
    return numbers if coef.ndim == 1 else numbers[:, None]


def centered(gradient: FloatArray) -> FloatArray:
    """Return the gradient with the mean over outputs taken off, if there are several.

    Residuals of a softmax add up to 0, so only noise is lost (`docs/theory/solvers.md`,
    section 2).
    """
    if gradient.ndim == 1:
        return gradient
    return np.asarray(gradient - gradient.mean(axis=1, keepdims=True))


def in_codes(
    coef: FloatArray, column_scale: FloatArray, center: FloatArray
) -> tuple[FloatArray, Any]:
    """Return weights and constant for columns as the encoder writes them."""
    slope = coef[:-1] * per_column(column_scale, coef)
    return slope, coef[-1] - center @ slope


def descend(
    codes: FloatArray,
    y: NDArray[Any],
    plan: TrainingPlan,
    rng: np.random.Generator,
    *,
    compiled: bool = True,
) -> TrainedModel:
    """Train one model by noisy gradient descent as planned, on encoded rows and labels.

    With `compiled` false by numpy, even where numba is installed.

    Guarantee
    ---------
    That of `Descent` (`docs/theory/solvers.md`).
    """
    if plan.noise == CONSTANT:
        return constant_model(y, plan, rng)
    plain = is_plain(plan.loss, plan.solver)
    rows = prepare_rows(codes, y, plan.layout, compiled=compiled and plain)
    return _descended(Descent(codes, rows, plan, rng, y))


def descend_tiled(
    table: TiledTable | HostedTable,
    plan: TrainingPlan,
    rng: np.random.Generator,
    *,
    host: SegmentHost | None = None,
) -> TrainedModel:
    """Train one model on a table of tiles, wherever its segments are kept.

    A `host` asks the segments, by default this process; noise is drawn here, once per
    step, after all segments have answered.

    Guarantee
    ---------
    That of `Descent`; the model is the same whoever hosts the segments
    (`docs/theory/scale.md`).
    """
    if plan.noise == CONSTANT:
        return constant_model(table.label_totals(plan.loss), plan, rng)
    labels = table.label_totals(plan.loss) if _asks_for_constant(plan) else None
    return _descended(Descent(table.totals, table.prepared(host), plan, rng, labels))


def is_plain(loss: Loss, solver: Solver) -> bool:
    """Return whether the compiled kernel, which knows one residual, can be used."""
    return loss.n_outputs == 1 and solver.epoch_steps == 1


def _descended(model: Descent) -> TrainedModel:
    while not model.finished:
        model.advance(*model.exact_gradient())
    return model.result()


def constant_model(
    y: NDArray[Any] | LabelTotals, plan: TrainingPlan, rng: np.random.Generator
) -> TrainedModel:
    """Return the model that knows labels alone, for a plan that pays for no more.

    Guarantee
    ---------
    That of `corrdp.training._totals.release_constant`: ``plan.components`` states
    what it costs (`docs/theory/default_rule.md`, Proposition 4).
    """
    noise_scale, _ = plan.constant_noise
    return TrainedModel(
        coef=initial_coef(plan)[:-1],
        intercept=release_constant(y, plan.loss, noise_scale, rng),
        noise_scale=np.zeros(len(plan.layout.groups)),
    )


def descend_together(models: Sequence[Descent]) -> None:
    """Train models that share their rows, one pass over the rows for all of them.

    Guarantee
    ---------
    That of `Descent`, for each; together they cost the sum of all
    (`docs/theory/solvers.md`).
    """
    while running := [model for model in models if not model.finished]:
        if any(model.anchor is not None for model in running):
            sums = [model.exact_gradient() for model in running]
        else:
            sums = gradient_sums(
                [model.rows for model in running],
                np.array([model.coef for model in running]),
                [model.residual_bound for model in running],
            )
        for model, (gradient, n_inside) in zip(running, sums, strict=True):
            model.advance(gradient, n_inside)

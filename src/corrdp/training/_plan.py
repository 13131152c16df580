"""The training plan: every choice that training makes, made before data is read."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from corrdp._display import html_card
from corrdp._typing import FloatArray
from corrdp._validate import check_count
from corrdp.accounting import GaussianEvent
from corrdp.certificate import Component
from corrdp.exceptions import CorrDPError
from corrdp.training._budget_split import BudgetSplit
from corrdp.training._expectations import (
    LABEL_DEVIATION,
    MOST_EPSILON,
    MOST_ROWS,
    Needed,
    Prediction,
    least_that_learns,
)
from corrdp.training._layout import GradientLayout
from corrdp.training._solver import Schedule, Solver
from corrdp.training._step_sizes import ColumnSteps
from corrdp.training._totals import constant_noise, labels_are_free
from corrdp.training.losses import Loss

CONSTANT = "constant"  # the plan that learns labels alone


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """All that decides noise and steps, a function of public numbers alone.

    Parameters
    ----------
    noise : str
        ``corr``, noise by groups and classes; ``standard``, one noise scale for a
        change of the whole record, which is valid for every class too; or
        ``constant``, where training is expected to learn nothing: labels alone.
    layout : GradientLayout
        Groups with their clipping norms and bounds; offsets are those of a central
        record until means have been released.
    loss : Loss
        The loss; a squared one with the residual bound training begins with.
    spending : BudgetSplit
        Budget per class and its split.
    n_rows : int
        Public number of rows.
    label_deviation : float
        Deviation of numbers that are labels, in units of their range, which sizes
        follow: assumed, or that of labels which no class changes.
    n_steps : int
        Number of gradients.
    momentum : float
        Weight of the past in the direction of a step.
    expected_distance : float
        How far the parameters are expected to move.
    smoothness : float
        Bound on the curvature of the loss; limits the step size.
    column_noise : array of float, shape (n_columns,)
        Standard deviation of the noise on every column of the mean gradient if it were
        released once with the budget of all steps, at parameters of nominal size. A
        description: steps allocate their noise at the parameters they are taken at.
    noise_deviation : float
        The same of all coordinates together.
    prediction : Prediction
        Excess risk the rule predicts, and what there is to gain.
    solver : Solver
        Options that cost no privacy.
    column_steps : ColumnSteps, optional
        A step size per column instead of one for all.
    own_noise : float
        Deviation of the mean gradient of so many rows, from that of all there could
        be, where a walk is stopped by it and not by noise alone.
    averaged_part : float
        Part of the iterates, the last ones, that are averaged.
    bound_growth : float
        A residual bound that training adapts stays below this many times the first.
    bound_price : float
        What noise is predicted to cost per unit of that bound; infinite if unknown.
    patience : float
        Part of the steps before which the walk is not made longer (`Walk`).
    needed : Needed, optional
        What would do where little is learned, if the planner was asked.
    head_start : TrainingPlan, optional
        The walk from whose end this one starts, with all sensitive groups held at 0,
        so that it costs their class nothing; this one holds the others.
    """

    noise: str
    layout: GradientLayout
    loss: Loss
    spending: BudgetSplit
    n_rows: int
    label_deviation: float
    n_steps: int
    momentum: float
    expected_distance: float
    smoothness: float
    column_noise: FloatArray
    noise_deviation: float
    prediction: Prediction
    solver: Solver = field(default_factory=Solver)
    column_steps: ColumnSteps | None = None
    own_noise: float = 0.0
    averaged_part: float = 0.5
    bound_growth: float = 8.0
    bound_price: float = math.inf
    patience: float = 1.0
    needed: Needed | None = None
    head_start: "TrainingPlan | None" = None

    def with_steps(self, n_steps: int | None) -> "TrainingPlan":
        """Return the plan with another number of steps, of each walk; None keeps it.

        Guarantee
        ---------
        The budget of a step is derived from the number of steps, so the whole
        costs the same (`docs/theory/default_rule.md`).
        """
        if n_steps is None:
            return self
        count = check_count("n_steps", n_steps)
        before = self.head_start
        return replace(
            self,
            n_steps=count,
            head_start=None if before is None else before.with_steps(count),
        )

    def with_rows(self, n_rows: int) -> "TrainingPlan":
        """Return the plan with its noise, that of sums, for another number of rows.

        Guarantee
        ---------
        What a record adds to a sum does not depend on how many others there are, so
        the whole costs the same (`docs/theory/audit.md`).
        """
        before = self.head_start
        return replace(
            self,
            n_rows=n_rows,
            head_start=None if before is None else before.with_rows(n_rows),
        )

    def with_solver(self, solver: Solver) -> "TrainingPlan":
        """Return the plan with other solver options, of one walk.

        Guarantee
        ---------
        Costs the same: `docs/theory/solvers.md`, section 2.
        """
        if self.head_start is not None and solver != self.solver:
            raise CorrDPError(
                f"a plan of two walks has the default solver, got {solver!r}. Plan one "
                "walk: default_plan(..., in_two_walks=False)."
            )
        return replace(self, solver=solver)

    def advised(
        self,
        at_rows: "Callable[[int], TrainingPlan]",
        at_epsilon: "Callable[[float], TrainingPlan]",
        *,
        epsilon: float,
    ) -> "TrainingPlan":
        """Return the plan; where it learns little, with what would do.

        Parameters
        ----------
        at_rows, at_epsilon : callable
            The planner, asked at another number of rows or at another epsilon.
        epsilon : float
            At which this plan was made.

        Guarantee
        ---------
        A function of public numbers (`docs/theory/default_rule.md`, section 4).
        """
        if not self.prediction.learns_little:
            return self
        factor = self.prediction.missing_factor
        rows = least_that_learns(
            lambda rows: at_rows(int(rows)).prediction, self.n_rows, factor, MOST_ROWS
        )
        own = least_that_learns(
            lambda own: at_epsilon(own).prediction, epsilon, factor, MOST_EPSILON
        )
        return replace(self, needed=Needed(rows, own))

    @property
    def walks_by_the_rule(self) -> bool:
        """Whether this is one walk that neither solver nor steps by column change."""
        alone = self.head_start is None
        return alone and self.solver == Solver() and self.column_steps is None

    @property
    def alone(self) -> "TrainingPlan":
        """The last walk, from wherever it starts."""
        return self if self.head_start is None else replace(self, head_start=None)

    @property
    def walks(self) -> "tuple[TrainingPlan, ...]":
        """What is trained, one after the other: the head start, if any, and this."""
        return (self,) if self.head_start is None else (self.head_start, self)

    @property
    def schedule(self) -> Schedule:
        """Whole gradients and differences."""
        return Schedule(self.n_steps, self.solver.epoch_steps)

    def components(self) -> tuple[Component, ...]:
        """Return what a certificate of full-batch training is issued on.

        Guarantee
        ---------
        Known before training: `docs/theory/solvers.md`, sections 1 and 3, and
        `docs/theory/default_rule.md`, Proposition 4.
        """
        if self.noise == CONSTANT:
            cost = self.constant_noise[1]
            events = {name: (GaussianEvent(mu=mu),) for name, mu in cost.items()}
            return (Component("label mean", events=events),)
        if self.head_start is not None:
            first = self.head_start.components()
            last = self.spending.components(self.n_steps, releases_means=False)
            return (*(_of_head_start(part) for part in first), *last)
        return self.spending.components(
            self.n_steps, epoch_steps=self.solver.epoch_steps
        )

    @property
    def starts_at_constant(self) -> bool:
        """Whether the walk starts at the best constant of the labels, not at 0.

        Only if no class changes labels, so that their mean is free. Numbers always
        start there: it may be far from the middle of their range. Categories, of which
        one is often rare, where much is lost to noise, so that a walk would not get
        there; and if no norm cuts gradients: steps that it cuts lead away from there.

        Guarantee
        ---------
        A function of public numbers (`docs/theory/default_rule.md`, Proposition 4a).
        """
        if not labels_are_free(self.spending.classes):
            return False
        uncut = all(math.isinf(group.clip_norm) for group in self.layout.groups)
        noisy = uncut and self.prediction.learns_little
        return noisy if self.loss.is_likelihood else True

    @property
    def constant_noise(self) -> tuple[float, dict[str, float]]:
        """Noise on the sum of labels, and its cost, if only they are learned."""
        return constant_noise(self.loss, self.spending.classes, self.spending.total_mu)

    @property
    def predicted_error(self) -> float:
        """Excess risk the rule predicts."""
        return self.prediction.excess

    @property
    def noise_to_signal(self) -> float:
        """Predicted excess risk relative to that of the best constant."""
        return self.prediction.noise_to_signal

    def rows_needed(self) -> int | None:
        """Return about how many rows make training worth its budget; None if none."""
        if self.needed is None:
            return math.ceil(self.n_rows * max(1.0, self.prediction.missing_factor))
        return None if self.needed.rows is None else int(self.needed.rows)

    def _repr_html_(self) -> str:
        low, high = (100 * edge / self.prediction.gain for edge in self.prediction.band)
        lost = 100 * self.noise_to_signal
        return html_card(
            "Training plan",
            [
                f"noise {self.noise}, {sum(walk.n_steps for walk in self.walks)} steps "
                f"over {self.n_rows} rows",
                f"expected: noise costs {lost:.2g} % ({low:.2g} to {high:.2g} %) of "
                "what a model can gain over a constant",
            ],
            ("class", "mu"),
            list(self.spending.total_mu.items()),
        )

    def to_text(self) -> str:
        """Return the plan as plain tables, printable before training."""
        width = max(12, *(len(group.name) for group in self.layout.groups))
        header = f"{'group':<{width}}  {'columns':>7}  {'clip norm':>10}"
        lines = [f"{header}  {'influence':>10}"]
        for group, entry in zip(
            self.layout.groups,
            self.layout.table_groups(self.loss.n_outputs),
            strict=True,
        ):
            lines.append(
                f"{group.name:<{width}}  {entry.size:>7}  {_shown(group.clip_norm)}  "
                f"{_shown(group.influence_bound)}"
            )
        steps = [walk.spending.step_mu(walk.n_steps) for walk in self.walks]
        titles = ["mu per step"] if len(steps) == 1 else ["first steps", "then"]
        total = self.spending.total_mu
        width = max(12, *(len(name) for name in total))
        told = "".join(f"  {title:>12}" for title in titles)
        lines += ["", f"{'class':<{width}}  {'mu in all':>10}{told}"]
        lines += [
            f"{name:<{width}}  {mu:>10.4g}"
            + "".join(f"  {step[name]:>12.4g}" for step in steps)
            for name, mu in total.items()
        ]
        low, high = self.prediction.band
        work = f"{self.n_steps} full-batch steps{self._epochs()} over"
        if self.noise == CONSTANT:
            work = "no model but the mean of the labels of"
        lines += [
            "",
            f"noise {self.noise}, {work} {self.n_rows} rows, momentum "
            f"{self.momentum:g}",
            f"predicted excess risk {self.predicted_error:.3g} ({low:.3g} to "
            f"{high:.3g}), noise to signal {self.noise_to_signal:.3g}",
        ]
        if self.starts_at_constant and self.noise != CONSTANT:
            lines.append("starts at the mean of the labels, which no class changes")
        if self.head_start is not None:
            lines += [
                f"before these a first walk of {self.head_start.n_steps} steps holds "
                "sensitive weights at 0 and costs",
                "their class nothing; the second holds all others",
            ]
        if self.label_deviation != LABEL_DEVIATION and self.noise != CONSTANT:
            lines.append("sizes follow the deviation of these labels")
        if self.spending.known_text and self.noise != CONSTANT:
            lines.append(self.spending.known_text)
        return "\n".join(lines)

    def _epochs(self) -> str:
        length = self.solver.epoch_steps
        return f" in epochs of {length}" if length > 1 else ""


def _of_head_start(part: Component) -> Component:
    name = "first gradients" if part.name == "gradients" else part.name
    return replace(part, name=name)


def _shown(value: float) -> str:
    return f"{'none':>10}" if math.isinf(value) else f"{value:>10.4g}"

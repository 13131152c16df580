"""Steps of linear models: the descent that fits them, under either calibration."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Challenge, Deadline
from corrdp.auditing.statistics import Claim
from corrdp.auditing.targets._neighbors import RecordPair
from corrdp.auditing.targets._releases import plan_claim
from corrdp.auditing.targets._steps import NoisySteps, central_rows, step_challenges
from corrdp.certificate import Component
from corrdp.exceptions import CorrDPError
from corrdp.policy import Block, NeighborClass
from corrdp.training import (
    Descent,
    GradientLayout,
    Loss,
    PreparedRows,
    TheoremPlan,
    TrainingPlan,
    initial_coef,
    is_plain,
    prepare_rows,
    record_gradients,
    sums_by_theorem,
)

_FEWEST_RUNS, _MOST_RUNS = 2000, 100_000
_GAUSSIAN_RUNS = 6000
_STIR = 0.02  # of a path that stays, from its first step to its last
_MOST_DRAWS = 50_000_000  # of normal noise, for all runs on one neighbor

_GRADIENTS = ("gradients", "gradient differences")
Contributions: TypeAlias = Callable[
    [FloatArray, FloatArray, FloatArray, GradientLayout], FloatArray
]
_Release: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class DescentSteps(NoisySteps):
    """Noisy gradients of the descent that trains, at parameters fixed in advance.

    The path holds the parameters, one step after the other. Tests that plant a bug pass
    another descent, or contributions: what records add, from codes, labels, parameters
    and layout, instead of the kernels of training.

    Guarantee
    ---------
    None is given, one is attacked: that of `corrdp.training.Descent`, conditional on
    the column means, which are released before (`docs/theory/audit.md`).
    """

    def __init__(
        self,
        plan: TrainingPlan,
        path: FloatArray,
        rng: np.random.Generator,
        descent: type[Descent] = Descent,
        contributions: Contributions | None = None,
    ) -> None:
        if len(path) % plan.solver.epoch_steps:
            raise CorrDPError(
                f"this audit attacks whole epochs of {plan.solver.epoch_steps} steps, "
                f"got a path of {len(path)}. Pass parameters for all steps."
            )
        self.plan, self._path = replace(plan, n_steps=len(path)), path
        self._contributions = contributions
        codes = central_rows(plan.layout.blocks, plan.n_rows)
        labels = np.zeros(plan.n_rows, int)
        rows = self._prepared(codes, labels)
        self._model = descent(codes, rows, self.plan, rng, labels)
        self._first_bound = self._model.residual_bound
        self.blocks: tuple[Block, ...] = plan.layout.blocks
        self.labels = label_values(plan.loss)
        self.noise_scale = self.as_drawn(np.zeros_like(path))

    def parts(self, codes: FloatArray, y: FloatArray) -> FloatArray:
        """Return what every record adds, by the definition of the gradient."""
        plan, layout = self.plan, self._model.layout
        y = as_labels(y, plan.loss)
        planted = self._contributions
        each = [
            record_gradients(codes, y, coef, plan.loss, layout, anchor=anchor)
            if planted is None
            else planted(codes, y, coef, layout)
            for coef, anchor in self._asked()
        ]
        for part in each:
            part[:, layout.held_columns] = 0.0  # nothing leaves of these
        return np.hstack([part.reshape(len(codes), -1) for part in each])

    def given(self, codes: FloatArray, y: FloatArray) -> FloatArray:
        """Return the gradients of a table, by the kernels of training."""
        if self._contributions is not None:
            return np.asarray(self.parts(codes, y).sum(axis=0))
        rows = self._prepared(codes, as_labels(y, self.plan.loss))
        grouped = rows.grouped(self._model.layout)
        sums = [
            grouped.gradient_sum(coef, residual_bound=self._first_bound, anchor=anchor)
            for coef, anchor in self._asked()
        ]
        return np.concatenate([gradient.ravel() for gradient, _ in sums])

    def sample(
        self, given: FloatArray, n_runs: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return the gradients with the noise of `Descent.noisy_gradient`."""
        del rng  # the descent has its own
        seen = []
        for gradient, release in self._releases(given.reshape(self._path.shape)):
            repeated = np.broadcast_to(gradient, (n_runs, *gradient.shape))
            seen.append(release(repeated)[0].reshape(n_runs, -1))
        return np.hstack(seen)

    def fitting(self, pair: RecordPair, apart: float) -> FloatArray:
        """Return parameters that fit the first record; the other's score is far."""
        one, other = self._model.layout.features(np.stack([pair.first, pair.second]))
        slope = other - one
        size = float(slope @ slope)
        coef = np.asarray(slope * (apart / size if size else 0.0))
        coef[-1] = pair.first_label - one[:-1] @ coef[:-1]
        return coef

    def count_at(self, coef: FloatArray, codes: FloatArray, y: FloatArray) -> float:
        """Return how many residuals of a table are small, by the kernels of training.

        Guarantee
        ---------
        None: the count before noise (`docs/theory/audit.md`).
        """
        rows = self._prepared(codes, as_labels(y, self.plan.loss))
        grouped = rows.grouped(self._model.layout)
        return float(grouped.gradient_sum(coef, residual_bound=self._first_bound)[1])

    def noisy_counts(self, counts: FloatArray) -> FloatArray:
        """Return counts of small residuals with the noise of `Descent.noisy_count`."""
        return self._model.noisy_count(counts)

    def planned_noise(self) -> FloatArray:
        """Return the noise of every output, as the descent states it."""
        scales = [
            noise_of_coefficients(release(gradient)[1], self._model.layout, gradient)
            for gradient, release in self._releases(np.zeros_like(self._path))
        ]
        return np.concatenate(scales)

    def _releases(self, gradients: FloatArray) -> Iterator[tuple[FloatArray, _Release]]:
        """Lead the descent along the path: at every step, its gradient and its noise.

        Epochs are the descent's own: it takes every step with the gradient given, and
        is put back on the path.
        """
        model = self._model
        for step, coef in enumerate(self._path):
            gradient, model.n_done = gradients[step], step
            model.coef, model.residual_bound = coef, self._first_bound
            yield gradient, model.noisy_gradient
            if self.plan.solver.epoch_steps > 1:
                model.advance(gradient, 0)

    def _asked(self) -> Iterator[tuple[FloatArray, FloatArray | None]]:
        """Return the parameters of every step, and the anchor of a difference."""
        length = self.plan.solver.epoch_steps
        for step, coef in enumerate(self._path):
            begins = step % length == 0
            yield coef, None if begins else self._path[step - step % length]

    def _prepared(self, codes: FloatArray, y: FloatArray) -> PreparedRows:
        plan = self.plan
        plain = is_plain(plan.loss, plan.solver)
        return prepare_rows(codes, y, plan.layout, compiled=plain)


class TheoremSteps(NoisySteps):
    """All noisy gradients under the paper's noise, at two parameters in turn.

    Of the gradients at one place the mean says all that they say. Two places, for
    noise that is used in more steps than one would hide in a mean of equal sums.
    """

    def __init__(self, plan: TheoremPlan, path: FloatArray) -> None:
        self._plan, self._path = plan, path[: plan.n_steps]
        self.blocks: tuple[Block, ...] = plan.layout.blocks
        self.labels = label_values(plan.loss)
        self.noise_scale = self.as_drawn(np.zeros(self._path.size))

    def parts(self, codes: FloatArray, y: FloatArray) -> FloatArray:
        """Return what every record adds, by the definition of the gradient."""
        loss, layout = self._plan.loss, self._plan.layout
        each = [record_gradients(codes, y, at, loss, layout) for at in self._path]
        return np.hstack(each)

    def given(self, codes: FloatArray, y: FloatArray) -> FloatArray:
        """Return the gradients of a table, by the kernels of training."""
        return sums_by_theorem(codes, y, self._plan)(self._path).ravel()

    def sample(
        self, given: FloatArray, n_runs: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return means at both places over all steps of `TheoremPlan.noisy`."""
        places = np.split(given, len(self._path))
        sums = np.zeros((len(places), n_runs, places[0].size))
        for step in range(self._plan.n_steps):
            own = step % len(places)
            exact = np.broadcast_to(places[own], sums[own].shape)
            sums[own] += self._plan.noisy(exact, rng)
        counts = np.bincount(np.arange(self._plan.n_steps) % len(places))
        return np.hstack(list(sums / counts[:, None, None]))


def descent_challenges(
    plan: TrainingPlan,
    *,
    delta: float,
    n_steps: int = 4,
    name: str = "training steps, white box",
    descent: type[Descent] = Descent,
    contributions: Contributions | None = None,
    random_state: int | None = 0,
    deadline: Deadline | None = None,
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge the noisy gradients of the descent that trains, class by class.

    The plan is as an estimator's ``plan`` gives it; epsilons are read at `delta`. The
    whole budget of the gradients is divided among `n_steps`, rounded up to whole epochs
    under variance reduction. Tests that plant a bug pass another `descent`, or other
    `contributions`; see `DescentSteps`. The seed is that of the search and of the
    noise; the deadline ends the search early.

    Guarantee
    ---------
    Neighbors of the class they are named for, at parameters and means for which
    training is certified (`docs/theory/audit.md`).
    """
    rng = np.random.default_rng(random_state)
    epoch = plan.solver.epoch_steps
    count = -(-n_steps // epoch) * epoch
    whole = deadline or Deadline()
    challenges: list[Challenge[FloatArray]] = []
    for index, planned in enumerate(plan.walks):
        walk = planned.alone.with_steps(count)
        is_head_start = planned is plan.head_start
        parts = [part for part in walk.components() if part.name in _GRADIENTS]

        def claims(class_name: str, parts: list[Component] = parts) -> dict[str, Claim]:
            return {"": Claim(Component.joint_events(parts, class_name), delta)}

        paths = candidate_paths(walk, rng)
        if is_head_start:  # what is held there is 0
            for path in paths:
                path[:, walk.layout.held_columns] = 0.0
        challenges += step_challenges(
            [DescentSteps(walk, path, rng, descent, contributions) for path in paths],
            walk.spending.classes,
            claims,
            name=f"{name}, head start" if is_head_start else name,
            n_rows=walk.n_rows,
            rng=rng,
            deadline=whole.share(1.0 / (len(plan.walks) - index)),
        )
    return tuple(challenges)


def theorem_challenges(
    plan: TheoremPlan,
    classes: tuple[NeighborClass, ...],
    *,
    nominal: Mapping[str, float],
    random_state: int | None = 0,
    deadline: Deadline | None = None,
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge training with the paper's noise: what it says, and what is proved.

    `nominal` is the epsilon that the paper's formula is meant to give: a claim of its
    own for the classes that it names. Seed and deadline as in `descent_challenges`.

    Guarantee
    ---------
    Neighbors of the class they are named for (`docs/theory/audit.md`). A contradicted
    *nominal* claim is one of the formula (errata E3 to E6); a contradicted *provable*
    one is a defect of the library.
    """
    rng = np.random.default_rng(random_state)
    paths = paths_near(
        np.zeros(plan.layout.n_columns), 2, plan.expected_distance, rng, far=8.0
    )
    steps = [TheoremSteps(plan, path) for path in paths]
    most = _MOST_DRAWS // (plan.n_steps * plan.layout.n_columns)

    def n_runs(claim: Claim) -> int:
        """Return enough for the one epsilon of a nominal claim, if time allows."""
        gaussian = claim.mu is not None
        wanted = _GAUSSIAN_RUNS if gaussian else runs_to_refute({"": claim.epsilon})
        return max(_FEWEST_RUNS, min(wanted, most))

    return step_challenges(
        steps,
        classes,
        lambda class_name: both_claims(
            nominal, plan_claim(plan.noise, class_name), class_name
        ),
        name="theorem steps, white box",
        n_rows=plan.n_rows,
        n_runs=n_runs,
        rng=rng,
        deadline=deadline or Deadline(),
    )


def both_claims(
    nominal: Mapping[str, float], provable: Claim, class_name: str
) -> dict[str, Claim]:
    """Return the nominal claim of a class, if there is one, and the provable one."""
    claims = {"provable": provable}
    if class_name in nominal:
        epsilon = nominal[class_name]
        stated = Claim.approximate(epsilon=epsilon, delta=provable.delta)
        claims = {"nominal": stated} | claims
    return claims


def runs_to_refute(nominal: Mapping[str, float]) -> int:
    """Return how many runs it takes to refute claims of a single epsilon each.

    An event that never happened in n runs has probability up to about 10 / n.
    """
    largest = max(nominal.values(), default=0.0)
    wanted = 20.0 * np.exp(min(largest, 20.0))
    return int(min(max(wanted, _FEWEST_RUNS), _MOST_RUNS))


def candidate_paths(plan: TrainingPlan, rng: np.random.Generator) -> list[FloatArray]:
    """Return paths that hardly leave 0 or another place, or move away from 0.

    No two steps are at the same parameters: their sums would be equal, and noise that
    is used twice would hide in their mean.
    """
    return paths_near(initial_coef(plan), plan.n_steps, plan.expected_distance, rng)


def paths_near(
    zero: FloatArray,
    n_steps: int,
    distance: float,
    rng: np.random.Generator,
    *,
    far: float = 2.0,
) -> list[FloatArray]:
    """Return `candidate_paths` for parameters like `zero`, up to `far` distances."""
    shape = (n_steps, *[1] * zero.ndim)

    def ramp(start: float, stop: float) -> FloatArray:
        return np.linspace(start, stop, n_steps).reshape(shape)

    def place(size: float) -> FloatArray:
        end = rng.standard_normal(zero.shape)
        return np.asarray(end * size * distance / np.linalg.norm(end))

    paths = [ramp(0.0, _STIR) * place(0.5)]
    for size in (0.5, far):
        end = place(size)
        paths += [ramp(1.0 - _STIR, 1.0) * end, ramp(0.1, 1.0) * end]
    return paths


def label_values(loss: Loss) -> tuple[float, ...]:
    """Return the labels that records may have, at their extremes."""
    if loss.clips_residuals_at is not None:
        return (-0.5, 0.5)
    return tuple(float(label) for label in range(max(2, loss.n_outputs)))


def as_labels(y: FloatArray, loss: Loss) -> FloatArray:
    """Return labels as the loss takes them: numbers, or indices of classes."""
    return y.astype(np.int64) if loss.n_outputs > 1 else y


def noise_of_coefficients(
    noise_scale: FloatArray, layout: GradientLayout, coef: FloatArray
) -> FloatArray:
    """Return the noise of every coefficient in a row, from that of every group."""
    own = noise_scale[layout.column_groups]
    shaped = own if coef.ndim == 1 else own[:, None]
    return np.broadcast_to(shaped, coef.shape).ravel()

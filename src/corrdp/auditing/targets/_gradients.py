"""The white-box adversary of training: every noisy gradient along a public path.

Training is certified for every path of iterates, so also for one that the adversary
fixes in advance. Noise and sums along it are then known numbers, and thousands of runs
are one matrix of noise.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from corrdp._typing import FloatArray, IntArray
from corrdp.accounting import OnlineAllocator
from corrdp.auditing._challenge import Challenge
from corrdp.auditing.statistics import Claim, LikelihoodAttack, LinearAttack
from corrdp.auditing.statistics._attacks import gaussian_score
from corrdp.auditing.statistics._claims import joined_events
from corrdp.auditing.targets._neighbors import RecordPair, craft_pair
from corrdp.policy import NeighborClass
from corrdp.training import GradientSensitivity, TrainingPlan, record_gradients

Contributions = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]

_SEARCHED_STEPS = 2
_LEAST_NOISE = 1e-3  # unit in which the search measures a coordinate without noise


@dataclass(frozen=True, eq=False)
class GradientPath:
    """Noisy gradients that a plan releases along a path of parameters.

    Parameters
    ----------
    plan : TrainingPlan
        Layout, loss and spending.
    path : array of float, shape (n_steps, n_columns)
        Public parameters at which gradients are released.
    noise_scale : array of float, shape (n_steps, n_columns)
        Noise of every coordinate; use `along` for the noise that training would add.
    delta : float
        Where epsilons are read.
    contributions : callable, optional
        What records contribute, from codes, labels and parameters; the library's own
        by default.
    """

    plan: TrainingPlan
    path: FloatArray
    noise_scale: FloatArray
    delta: float
    contributions: Contributions | None = None

    @classmethod
    def along(
        cls, plan: TrainingPlan, path: FloatArray, *, delta: float
    ) -> "GradientPath":
        """Return the path with the noise that training adds at these parameters.

        Guarantee
        ---------
        The same sensitivity and allocation as in training, each step held to its part
        of the budget (`docs/theory/glm_sensitivity.md`, `docs/theory/allocation.md`).
        """
        plan = replace(plan, n_steps=len(path))
        sensitivity = GradientSensitivity(plan.loss, plan.layout, plan.spending.classes)
        allowed = plan.spending.step_mu(plan.n_steps)
        allocator = OnlineAllocator(
            np.array([group.size for group in sensitivity.groups], dtype=float),
            budget_mu=np.array([allowed[name] for name in sensitivity.row_classes]),
        )
        owner = plan.layout.column_groups
        noise = [
            allocator.update(sensitivity.bounds(coef)).copy()[owner] for coef in path
        ]
        return cls(plan, path, np.stack(noise), delta)

    def claim(self, class_name: str) -> Claim:
        """Return what the plan states about all gradients together."""
        parts = self.plan.spending.components(self.plan.n_steps, {})
        gradients = [part for part in parts if part.name == "gradients"]
        events = joined_events(part.events_of(class_name) for part in gradients)
        return Claim(events, self.delta)

    def sample(
        self, total: FloatArray, n_runs: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return the noisy gradients of all steps, one row per run."""
        scale = self.noise_scale.ravel()
        return total + rng.standard_normal((n_runs, scale.size)) * scale

    def totals(self, pair: RecordPair) -> tuple[FloatArray, FloatArray]:
        """Return the sums of both neighbors at every step, one after the other."""
        return (
            self._total(pair.first, pair.first_label),
            self._total(pair.second, pair.second_label),
        )

    def craft(
        self, neighbor: NeighborClass, rng: np.random.Generator, *, n_restarts: int = 4
    ) -> RecordPair:
        """Search for the neighbors whose gradients differ most along the path."""
        steps = np.unique(
            np.linspace(0, len(self.path) - 1, _SEARCHED_STEPS, dtype=int)
        )
        return craft_pair(
            self.plan.layout.blocks,
            neighbor,
            lambda *records: self._distance(steps, *records),
            labels=self.labels,
            rng=rng,
            n_restarts=n_restarts,
        )

    @property
    def labels(self) -> tuple[float, ...]:
        """Labels that records may have, at their extremes."""
        numeric = self.plan.loss.clips_residuals_at is not None
        return (-0.5, 0.5) if numeric else (0.0, 1.0)

    @cached_property
    def _unit(self) -> FloatArray:
        return np.where(self.noise_scale > 0.0, self.noise_scale, _LEAST_NOISE)

    def _distance(
        self,
        steps: IntArray,
        first: FloatArray,
        first_label: FloatArray,
        second: FloatArray,
        second_label: FloatArray,
    ) -> FloatArray:
        labels = np.concatenate([first_label, second_label])
        squares = np.zeros(len(first))
        for step in steps:
            coef = self.path[step]
            change = np.subtract(
                *np.split(self._each(np.vstack([first, second]), labels, coef), 2)
            )
            squares += np.sum((change / self._unit[step]) ** 2, axis=1)
        return np.asarray(np.sqrt(squares * len(self.path) / len(steps)))

    def _each(self, codes: FloatArray, y: FloatArray, coef: FloatArray) -> FloatArray:
        if self.contributions is not None:
            return self.contributions(codes, y, coef)
        return record_gradients(codes, y, coef, self.plan.loss, self.plan.layout)

    def _total(self, record: FloatArray, label: float) -> FloatArray:
        codes, y = record[None], np.array([label])
        return np.concatenate([self._each(codes, y, coef)[0] for coef in self.path])


def gradient_challenges(
    plan: TrainingPlan,
    *,
    delta: float,
    n_steps: int = 4,
    name: str = "gradients, white box",
    release: Callable[..., GradientPath] = GradientPath.along,
    random_state: int = 0,
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge the noisy gradients of training, class by class.

    Parameters
    ----------
    plan : TrainingPlan
        As an estimator's ``plan`` gives it.
    delta : float
        Where epsilons are read.
    n_steps : int
        Steps among which the whole budget of the gradients is divided.
    name : str
        Name of the mechanism in the report.
    release : callable
        Builds the releases of a path from ``(plan, path, delta=delta)``.
    random_state : int
        Seed of the search for parameters and neighbors.

    Guarantee
    ---------
    Every pair is one of neighbors of its class, and training is certified at any
    parameters, so a contradiction is a defect of the library
    (`docs/theory/audit.md`).
    """
    rng = np.random.default_rng(random_state)
    paths = [
        release(plan, path, delta=delta)
        for path in _candidate_paths(plan, n_steps, rng)
    ]
    challenges = []
    for neighbor in plan.spending.classes:
        rough = [path.craft(neighbor, rng, n_restarts=1).movement for path in paths]
        path = paths[int(np.argmax(rough))]
        pair = path.craft(neighbor, rng)
        first, second = path.totals(pair)
        score = gaussian_score(first, second, path.noise_scale.ravel())
        challenges.append(
            Challenge(
                target=name,
                class_name=neighbor.name,
                claim=path.claim(neighbor.name),
                first=first,
                second=second,
                sample=path.sample,
                attacks=(LikelihoodAttack(score), LinearAttack()),
            )
        )
    return tuple(challenges)


def _candidate_paths(
    plan: TrainingPlan, n_steps: int, rng: np.random.Generator
) -> list[FloatArray]:
    """Return paths that stay at 0, stay elsewhere, or move away from 0."""
    n_columns = plan.layout.n_columns
    ones, ramp = np.ones((n_steps, 1)), np.linspace(0.1, 1.0, n_steps)[:, None]
    paths = [np.zeros((n_steps, n_columns))]
    for size in (0.5, 2.0):
        end = rng.standard_normal(n_columns)
        end *= size * plan.expected_distance / np.linalg.norm(end)
        paths += [ones * end, ramp * end]
    return paths

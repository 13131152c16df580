"""Solver options: everything here reads noisy gradients and public numbers only.

Variance reduction, last, takes whole gradients now and then, differences to them in
between.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from corrdp._json import decode_number, encode_number
from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import check_choice, check_count, check_real

LARGEST_PARAMETER = 1024.0  # scores of single precision are still fine at its corner
SMALLEST_PARAMETER = 2.0**-500  # far from where steps of a grid would underflow
# Of mu**2, for whole gradients, whose noise is in every step of an epoch; the rest is
# for differences. Less for those lost more than it saved (docs/theory/solvers.md, 3).
SNAPSHOT_SHARE = 2 / 3
SVRG_EPOCH_STEPS = 10


class Update(StrEnum):
    """How a noisy gradient becomes a direction."""

    MOMENTUM = "momentum"
    ADAM = "adam"


class Output(StrEnum):
    """Which iterate is the model."""

    AVERAGE = "average"
    LAST = "last"
    RANDOM = "random"


class StepRule(StrEnum):
    """How far a step goes: as noise and curvature allow, or as the paper writes."""

    DEFAULT = "default"
    PAPER = "paper"


@dataclass(frozen=True)
class Solver:
    """Options of gradient descent that cost no privacy.

    Parameters
    ----------
    update : {"momentum", "adam"}
        Direction of a step. The default rule's momentum is 0.9.
    step_rule : {"default", "paper"}
        ``paper``: D / sqrt((L^2 + sum of noise variances) t), with L the clipping
        norm of a whole gradient.
    step_size : float, optional
        A constant size instead of either rule.
    ridge : float
        Weight of half the squared norm of the coefficients, intercept excepted.
    ball_radius, box_radius : float
        Coefficients are projected on the ball, then on the box, of this size.
    output : {"average", "last", "random"}
        Average of the iterates after the first ones, the last, or one drawn
        uniformly.
    epoch_steps : int
        More than 1 for variance reduction (SVRG): one whole gradient, then
        ``epoch_steps - 1`` differences to it. ``solver="svrg"`` stands for 10.

    Guarantee
    ---------
    Every option is a function of noisy gradients, public numbers and independent
    coins, so that a fit costs the same whatever is chosen: `docs/theory/solvers.md`,
    section 2. Differences are queries of their own and paid from the same budget:
    section 3.
    """

    update: Update = Update.MOMENTUM
    step_rule: StepRule = StepRule.DEFAULT
    step_size: float | None = None
    ridge: float = 0.0
    ball_radius: float = math.inf
    box_radius: float = math.inf
    output: Output = Output.AVERAGE
    epoch_steps: int = 1

    def __post_init__(self) -> None:
        for name, choices in (
            ("update", Update),
            ("step_rule", StepRule),
            ("output", Output),
        ):
            value = check_choice(name, getattr(self, name), choices)
            object.__setattr__(self, name, choices(value))
        check_count("epoch_steps", self.epoch_steps)
        check_real("ridge", self.ridge, lower=0.0)
        for name in ("ball_radius", "box_radius"):
            check_real(
                name,
                getattr(self, name),
                lower=0.0,
                open_lower=True,
                allow_infinite=True,
            )
        if self.step_size is not None:
            check_real("step_size", self.step_size, lower=0.0, open_lower=True)

    def to_json(self) -> JSONObject:
        """Return a JSON-able description that `from_json` reads back equal."""
        return {
            "update": self.update.value,
            "step_rule": self.step_rule.value,
            "step_size": self.step_size,
            "ridge": self.ridge,
            "ball_radius": encode_number(self.ball_radius),
            "box_radius": encode_number(self.box_radius),
            "output": self.output.value,
            "epoch_steps": self.epoch_steps,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Solver":
        """Read what `to_json` wrote."""
        radii = {
            name: decode_number(document[name])
            for name in ("ball_radius", "box_radius")
        }
        return cls(**{**document, **radii})

    @property
    def has_default_steps(self) -> bool:
        """Whether the size of steps is left to the rule of the plan."""
        return self.step_size is None and self.step_rule is StepRule.DEFAULT

    def projected(self, coef: FloatArray) -> FloatArray:
        """Return the coefficients in the ball and the box.

        The intercept is in neither, but all are in the box of `LARGEST_PARAMETER`,
        where every gradient is a finite number whatever the rows are.

        Guarantee
        ---------
        A function of the coefficients and public numbers: `docs/theory/solvers.md`,
        sections 2 and 6.
        """
        coef = inside_box(coef)
        if math.isinf(self.ball_radius) and math.isinf(self.box_radius):
            return coef
        slope = coef[:-1]
        norm = float(np.linalg.norm(slope))
        if norm > self.ball_radius:
            slope = slope * (self.ball_radius / norm)
        if math.isfinite(self.box_radius):
            slope = np.clip(slope, -self.box_radius, self.box_radius)
        return inside_box(np.concatenate([slope, coef[-1:]]))


def inside_box(coef: FloatArray) -> FloatArray:
    """Return parameters between plus and minus `LARGEST_PARAMETER`; 0 for NaN.

    And 0 for sizes below `SMALLEST_PARAMETER`, which tiny steps and radii make.

    Guarantee
    ---------
    A function of public iterates: `docs/theory/solvers.md`, section 2.
    """
    # At every step: what `np.nan_to_num` and `np.clip` do, in a third of their time.
    numbers = np.where(np.abs(coef) >= SMALLEST_PARAMETER, coef, 0.0)
    return np.minimum(np.maximum(numbers, -LARGEST_PARAMETER), LARGEST_PARAMETER)


def first_averaged(n_steps: int, averaged_part: float) -> int:
    """Return the first iterate of an average, counted from 0."""
    return min(n_steps - math.ceil(averaged_part * n_steps), n_steps - 1)


class Direction:
    """State that turns noisy gradients into directions."""

    _SQUARES_DECAY = 0.999
    _SMALLEST_ROOT = 1e-8

    def __init__(
        self, update: Update, momentum: float, shape: int | tuple[int, ...]
    ) -> None:
        self._update, self._momentum = update, momentum
        self._mean = np.zeros(shape)
        self._square = np.zeros(shape)
        self._count = 0

    def of(self, gradient: FloatArray) -> FloatArray:
        """Return the direction that follows from one more noisy gradient."""
        rest = 1.0 - self._momentum
        self._mean = self._momentum * self._mean + rest * gradient
        if self._update is Update.MOMENTUM:
            return self._mean
        self._count += 1
        decay = self._SQUARES_DECAY
        self._square = decay * self._square + (1.0 - decay) * gradient**2
        mean = self._mean / (1.0 - self._momentum**self._count)
        square = self._square / (1.0 - decay**self._count)
        return np.asarray(mean / (np.sqrt(square) + self._SMALLEST_ROOT))


class Iterates:
    """What is kept of the iterates for the chosen output.

    An average is of the last part of them. A random one is drawn in advance,
    independently of the data, so that the others need not be kept.
    """

    def __init__(
        self,
        output: Output,
        n_steps: int,
        rng: np.random.Generator,
        averaged_part: float,
    ) -> None:
        first = {
            Output.AVERAGE: first_averaged(n_steps, averaged_part),
            Output.LAST: n_steps - 1,
        }
        if output is Output.RANDOM:
            first[output] = int(rng.integers(n_steps))
        self._first = first[output]
        self._last = n_steps - 1 if output is Output.AVERAGE else self._first
        self._sum: FloatArray | float = 0.0

    def add(self, step: int, coef: FloatArray) -> None:
        """Take note of the iterate after a step, counted from 0."""
        if self._first <= step <= self._last:
            self._sum = self._sum + coef

    def result(self) -> FloatArray:
        """Return the output."""
        return np.asarray(self._sum / (self._last - self._first + 1))


@dataclass(frozen=True, slots=True)
class Schedule:
    """How many whole gradients and how many differences a training run releases.

    Parameters
    ----------
    n_steps : int
        Number of both together.
    epoch_steps : int
        Every epoch begins with a whole gradient, at its anchor; the other steps
        release differences to the gradient at the anchor. 1 for none.

    Guarantee
    ---------
    Counts and shares are functions of public numbers, fixed before training
    (`docs/theory/solvers.md`, section 3).
    """

    n_steps: int
    epoch_steps: int = 1

    @property
    def n_snapshots(self) -> int:
        """Number of whole gradients."""
        return -(-self.n_steps // self.epoch_steps)

    @property
    def n_differences(self) -> int:
        """Number of differences."""
        return self.n_steps - self.n_snapshots

    def snapshot_mu(self, gradient_mu: Mapping[str, float]) -> dict[str, float]:
        """Return what one whole gradient may cost, given what all releases may."""
        share = SNAPSHOT_SHARE if self.n_differences else 1.0
        factor = math.sqrt(share / self.n_snapshots)
        return {name: factor * mu for name, mu in gradient_mu.items()}

    def difference_mu(self, gradient_mu: Mapping[str, float]) -> dict[str, float]:
        """Return what one difference may cost, given what all releases may."""
        factor = math.sqrt((1.0 - SNAPSHOT_SHARE) / max(self.n_differences, 1))
        return {name: factor * mu for name, mu in gradient_mu.items()}


class Epochs:
    """What an epoch remembers: its anchor and the noisy gradient released there.

    With epochs of one step, noisy gradients pass unchanged.
    """

    def __init__(self, epoch_steps: int) -> None:
        self._length = epoch_steps
        self._left = 0
        self._variance = 0.0
        self._snapshot: FloatArray | None = None
        self._anchor: FloatArray | None = None

    @property
    def anchor(self) -> FloatArray | None:
        """Parameters to which the next step asks the difference; None: whole."""
        return self._anchor if self._left else None

    def gradient(
        self, noisy: FloatArray, variance: float, coef: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the gradient that a release amounts to, and the variance that counts.

        The noise of a whole gradient is repeated in every step of its epoch: it counts
        once for each.

        Guarantee
        ---------
        A function of what was released (`docs/theory/solvers.md`, section 3).
        """
        if self._snapshot is None or self.anchor is None:
            self._snapshot, self._anchor = noisy, coef
            self._variance, self._left = self._length * variance, self._length - 1
            return noisy, self._variance
        self._left -= 1
        return self._snapshot + noisy, self._variance + variance

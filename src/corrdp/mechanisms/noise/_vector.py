"""Vector releases: scales decided in advance, priced exactly, drawn exactly."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from corrdp._random import noise_generator
from corrdp._typing import FloatArray, IntArray
from corrdp._validate import check_failure_probability
from corrdp.accounting import WHOLE_RECORD, ApproximateEvent, PrivacyEvent
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.ledger import ConcentratedEvent
from corrdp.mechanisms.noise._concentrated import concentrated_epsilon
from corrdp.mechanisms.noise._discrete import discrete_gaussian, discrete_laplace
from corrdp.mechanisms.noise._laplace_scales import Variant
from corrdp.mechanisms.noise._movement import Movement, check_grid

_LARGEST_VALUE = 2.0**51


class NoiseKind(StrEnum):
    """Distribution of the noise."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, eq=False)
class VectorPlan:
    """Discrete noise per group, and what it costs each neighbor class.

    Parameters
    ----------
    movement : Movement
        How far each group moves, in grid steps.
    kind : NoiseKind
        Discrete Laplace or discrete Gaussian noise.
    variant : Variant
        How the scales were chosen; shown, not used.
    scales : tuple of Fraction
        Scale of each group in grid steps; zero for a group that never moves.
    allowed_epsilon : mapping of str to float
        Epsilon promised to each class; infinite for one that is only priced.
    delta : float
        Failure probability of the budget; Laplace noise makes no use of it.

    Guarantee
    ---------
    Outputs on neighbors of class ``c`` are ``(epsilon(c), delta)``-indistinguishable:
    computed in rational arithmetic from the scales that are drawn, never above
    ``allowed_epsilon[c]``. Proofs: ``docs/theory/laplace.md``,
    ``docs/theory/discrete_noise.md``.
    """

    movement: Movement
    kind: NoiseKind
    variant: Variant
    scales: tuple[Fraction, ...]
    allowed_epsilon: Mapping[str, float]
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "allowed_epsilon", MappingProxyType(dict(self.allowed_epsilon))
        )
        moves = self.movement.absolute.max(axis=0, initial=0) > 0
        for group, scale, moving in zip(
            self.movement.groups, self.scales, moves, strict=True
        ):
            if scale < 0 or (moving and scale == 0):
                raise GuaranteeVoidError(
                    f"group {group.name!r} moves between neighbors and has noise scale "
                    f"{float(scale)!r}. Give it a positive scale."
                )
        for name, allowed in self.allowed_epsilon.items():
            if self.epsilon(name) > allowed:
                raise GuaranteeVoidError(
                    f"class {name!r} has epsilon {self.epsilon(name)!r}, the policy "
                    f"allows {allowed!r}. Add noise."
                )

    def __reduce__(self) -> tuple[type["VectorPlan"], tuple[Any, ...]]:
        # A mapping proxy cannot be pickled; the checks run again where it is read.
        allowed = dict(self.allowed_epsilon)
        noise = (self.movement, self.kind, self.variant, self.scales)
        return type(self), (*noise, allowed, self.delta)

    def movement_in_noise(self, class_name: str) -> Fraction:
        """Return the exact price: sum of movement / scale, or half of its squares."""
        row = self.movement.row(class_name)
        if self.kind is NoiseKind.LAPLACE:
            return sum(self._group_epsilons(row), Fraction(0))
        return sum(
            (
                Fraction(int(square)) / (2 * scale**2)
                for square, scale in zip(
                    self.movement.squared[row], self.scales, strict=True
                )
                if square
            ),
            Fraction(0),
        )

    def epsilon(self, class_name: str) -> float:
        """Return the epsilon proved for a class at `delta`."""
        price = _rounded_up(self.movement_in_noise(class_name))
        if self.kind is NoiseKind.LAPLACE:
            return price
        return concentrated_epsilon(rho=price, delta=self.delta)

    def claimed_events(self) -> dict[str, tuple[PrivacyEvent, ...]]:
        """Return what a certificate states for each class: its epsilon and delta."""
        return {
            name: (ApproximateEvent(epsilon=self.epsilon(name), delta=self.delta),)
            for name in self.movement.classes
        }

    def charged_events(self) -> dict[str, tuple[PrivacyEvent, ...]]:
        """Return what a ledger charges each class: one event per independent part.

        Groups have independent noise, so their Renyi divergences add; charging them
        one by one costs less than their total epsilon.
        """
        charges: dict[str, tuple[PrivacyEvent, ...]] = {}
        for row, name in enumerate(self.movement.classes):
            if self.kind is NoiseKind.GAUSSIAN:
                rho = _rounded_up(self.movement_in_noise(name))
                charges[name] = (ConcentratedEvent(rho=rho),)
            else:
                charges[name] = tuple(
                    ApproximateEvent(epsilon=_printed_up(epsilon), delta=0.0)
                    for epsilon in self._group_epsilons(row)
                ) or (ApproximateEvent(epsilon=0.0, delta=0.0),)
        return charges

    @property
    def noise_variance(self) -> FloatArray:
        """Variance of one coordinate of each group, in squared grid steps.

        Exact for Laplace noise; an upper bound for Gaussian noise.
        """
        return np.array([self._variance(float(scale)) for scale in self.scales])

    def radius(self, failure_probability: float) -> IntArray:
        """Return how far noise reaches in any coordinate, in grid steps.

        Parameters
        ----------
        failure_probability : float
            Probability with which some coordinate may be farther off.

        Guarantee
        ---------
        Theorem 2.10 of the paper, for the discrete distributions and for one scale per
        group (``docs/theory/laplace.md``).
        """
        check_failure_probability(failure_probability)
        sizes = (group.size for group in self.movement.groups)
        noisy = sum(n for n, s in zip(sizes, self.scales, strict=True) if s)
        odds = math.log(max(noisy, 1) / failure_probability)
        factor = (
            odds
            if self.kind is NoiseKind.LAPLACE
            else math.sqrt(2.0 * (odds + math.log(2.0)))
        )
        return np.array(
            [math.ceil(float(s) * factor) for s in self.scales], dtype=np.int64
        )

    def draw(self, *, random_state: int | None = None) -> IntArray:
        """Return noise for all coordinates, groups one after the other."""
        return self.draw_runs(1, noise_generator(random_state)).reshape(-1)

    def draw_runs(self, n_runs: int, generator: np.random.Generator) -> IntArray:
        """Return noise of several releases, one per row; `draw` is one of them."""
        draw = discrete_laplace if self.kind is NoiseKind.LAPLACE else discrete_gaussian
        parts = [np.zeros((n_runs, 0), dtype=np.int64)]
        for group, scale in zip(self.movement.groups, self.scales, strict=True):
            size = n_runs * group.size
            noise = (
                draw(scale, size=size, generator=generator)
                if scale
                else np.zeros(size, dtype=np.int64)
            )
            parts.append(noise.reshape(n_runs, group.size))
        return np.hstack(parts)

    def release(
        self, values: Any, *, grid: float, random_state: int | None = None
    ) -> FloatArray:
        """Round a vector to the grid and add the noise.

        Parameters
        ----------
        values : array of float, shape (n_coordinates,)
            The true answer; finite.
        grid : float
            The step for which the movement was bounded, a power of two.
        random_state : int, optional
            A seed, for research only: whoever knows it can subtract the noise.

        Guarantee
        ---------
        As the plan states, if `values` moves within the bounds of the movement. Charge
        a ledger before the call.
        """
        steps = round_to_grid(values, grid=grid)
        expected = sum(group.size for group in self.movement.groups)
        if steps.size != expected:
            raise CorrDPError(
                f"values must have {expected} coordinates, got {steps.size}. "
                "Plan the release for this vector."
            )
        noisy = steps + self.draw(random_state=random_state)
        return noisy.astype(np.float64) * grid

    def _group_epsilons(self, row: int) -> list[Fraction]:
        return [
            Fraction(int(steps)) / scale
            for steps, scale in zip(
                self.movement.absolute[row], self.scales, strict=True
            )
            if steps
        ]

    def _variance(self, scale: float) -> float:
        if scale == 0.0:
            return 0.0
        if self.kind is NoiseKind.GAUSSIAN:
            return scale**2
        return 0.5 / math.sinh(min(0.5 / scale, 300.0)) ** 2


def round_to_grid(values: Any, *, grid: float) -> IntArray:
    """Return the nearest whole number of grid steps, halves up.

    Examples
    --------
    >>> round_to_grid([0.3, -0.25, 0.125], grid=0.25)
    array([ 1, -1,  1])
    """
    steps = np.asarray(values, dtype=np.float64) / check_grid(grid)
    if steps.ndim != 1 or not np.all(np.abs(steps) < _LARGEST_VALUE):
        raise CorrDPError(
            "values must be one vector of finite numbers below 2**51 grid steps. "
            "Bound the query, or declare a coarser grid."
        )
    below = np.floor(steps)
    return (below + (steps - below >= 0.5)).astype(np.int64)


def _rounded_up(price: Fraction) -> float:
    nearest = float(price)
    return nearest if Fraction(nearest) >= price else math.nextafter(nearest, math.inf)


def _printed_up(price: Fraction) -> float:
    """Return a float whose printed decimal is not below the price."""
    return math.nextafter(_rounded_up(price), math.inf)


def require_whole_record_noise(movement: Movement, promised: IntArray) -> None:
    """Raise if a group moves with the whole record but under no promised class."""
    whole = movement.absolute[movement.row(WHOLE_RECORD)]
    stray = np.flatnonzero((whole > 0) & (promised.max(axis=0, initial=0) == 0))
    if stray.size:
        raise GuaranteeVoidError(
            f"group {movement.groups[int(stray[0])].name!r} moves with the whole "
            "record but under no promised class, so it would get no noise. Bound it "
            "under the classes whose features it reads."
        )

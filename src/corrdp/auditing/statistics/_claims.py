"""Claims: the privacy curve that a mechanism states for one neighbor class."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corrdp._typing import FloatArray
from corrdp._validate import check_delta
from corrdp.accounting import (
    ApproximateEvent,
    GaussianEvent,
    PrivacyEvent,
    compose_delta,
    compose_epsilon,
    composed_mu,
    gaussian_delta,
    gaussian_epsilon,
)
from corrdp.auditing.statistics._bounds import EventBounds
from corrdp.certificate import Certificate, Component

_CURVE_POINTS = 9
_CURVE_GRID = 1e-2  # of privacy losses: coarse, but rounded up, so still a true claim
_CURVE_END = 1e-12  # where Gaussian curves, which are cheap, are left
_MU_TO_SEE = 1.5  # at which a few thousand runs tell a fifth more, a hundred twice
_SMALLEST_DELTA = 1e-30  # at which a pure epsilon is read


@dataclass(frozen=True)
class Claim:
    """What is stated for one class: a composition of events, read at a delta.

    Parameters
    ----------
    events : tuple of PrivacyEvent, or None
        Everything that is released, with its stated cost; None if nothing is stated.
    delta : float
        Where epsilons are read off the curve.

    Guarantee
    ---------
    `is_broken_by` is true only if no mechanism within the curve explains the bounds:
    every point of the curve must hold, so each may be tried on the same two numbers
    (`docs/theory/audit.md`).
    """

    events: tuple[PrivacyEvent, ...] | None
    delta: float

    def __post_init__(self) -> None:
        check_delta(self.delta, allow_zero=True)

    @classmethod
    def gaussian(cls, mu: float, *, delta: float) -> "Claim":
        """Claim `mu`-Gaussian DP."""
        return cls((GaussianEvent(mu=mu),), delta)

    @classmethod
    def approximate(cls, *, epsilon: float, delta: float) -> "Claim":
        """Claim one epsilon at one delta, and nothing else."""
        return cls((ApproximateEvent(epsilon=epsilon, delta=delta),), delta)

    @cached_property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter, if all events are Gaussian."""
        mus = []
        for event in self.events or ():
            if not isinstance(event, GaussianEvent):
                return None
            mus += [event.mu * math.sqrt(event.count)]
        return composed_mu(mus) if mus else None

    def n_records(self, most: int) -> int:
        """Return how many records to change, so that a true claim leaves much to see.

        A Gaussian claim of `mu` for one record is one of ``k * mu`` for k of them
        (`docs/theory/audit.md`, Lemma 4). What costs little is then told apart in as
        few runs as what costs much. Other claims are tried on one record.
        """
        if not self.mu:
            return 1
        return max(1, min(int(_MU_TO_SEE / self.mu), most))

    @cached_property
    def epsilon(self) -> float:
        """The stated epsilon at `delta`; infinite if nothing is stated."""
        if self.events is None:
            return math.inf
        return compose_epsilon(self.events, delta=self.delta or _SMALLEST_DELTA)

    def is_broken_by(self, bounds: EventBounds) -> bool:
        """Return whether the bounds, if they hold, contradict the claim."""
        return self.excess(bounds) > 0.0

    def excess(self, bounds: EventBounds) -> float:
        """Return by how much the bounds pass the claim; negative if they do not.

        In units of mu for Gaussian claims, of probability for all others.
        """
        if self.events is None:
            return -math.inf
        if self.mu is not None:
            return bounds.mu_lower() - self.mu
        epsilons, deltas = self.curve
        proved = [bounds.hockey_stick_lower(float(epsilon)) for epsilon in epsilons]
        return float(np.max(np.array(proved) - deltas))

    def epsilon_lower(self, bounds: EventBounds) -> float:
        """Return the largest lower bound on epsilon at `delta` that follows.

        For Gaussian claims also through mu, which presumes that the mechanism is
        Gaussian DP for *some* mu.
        """
        direct = bounds.epsilon_lower(self.delta)
        if self.mu is None:
            return direct
        return max(direct, gaussian_epsilon(mu=bounds.mu_lower(), delta=self.delta))

    @cached_property
    def curve(self) -> tuple[FloatArray, FloatArray]:
        """Points of the stated curve, epsilons and deltas, all of which must hold."""
        events = self.events or ()
        if len(events) == 1 and isinstance(events[0], ApproximateEvent):
            return np.array([self.epsilon]), np.array([self.delta])
        if self.mu is not None:
            reach = gaussian_epsilon(mu=self.mu, delta=_CURVE_END)
            epsilons = np.linspace(0.0, reach, 8 * _CURVE_POINTS)
            return epsilons, np.array([gaussian_delta(e, mu=self.mu) for e in epsilons])
        epsilons = np.linspace(0.0, self.epsilon, _CURVE_POINTS)
        deltas = [
            compose_delta(events, epsilon=float(epsilon), grid=_CURVE_GRID)
            for epsilon in epsilons
        ]
        return epsilons, np.array(deltas)


def claims_of(certificate: Certificate) -> dict[str, Claim]:
    """Return what a certificate states per class."""
    return {
        name: Claim(
            Component.joint_events(certificate.components, name), certificate.delta
        )
        for name in certificate.classes
    }

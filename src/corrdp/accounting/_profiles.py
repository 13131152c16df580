"""The privacy profile of each kind of event: delta as a function of epsilon.

Every profile holds in both directions and is convex in exp(epsilon); proofs are in
``docs/theory/composition.md``, "Profiles of the events".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from corrdp._typing import FloatArray
from corrdp.accounting._events import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    SelectedGaussianEvent,
)
from corrdp.accounting._gaussian import gaussian_epsilon
from corrdp.accounting._sampled import log_sampled_delta
from corrdp.accounting._selection import LARGEST_SELECTED_MU, selected_profile
from corrdp.exceptions import UnsupportedEventError


@dataclass(frozen=True)
class Profile:
    """The curve of one release, how often it occurs, and where its loss ends.

    `log_delta` maps non-negative epsilons; `loss_bound` maps a tail mass to the epsilon
    at which the curve is that close to its limit; `pure_epsilon` and `pure_delta` are
    the pair that basic composition adds up. `epsilon` inverts the curve of one release
    where that is better than a grid; `reveals` says that no epsilon bounds anything.
    `unsampled_mu` is the mu of a sampled step in which every record takes part.
    """

    log_delta: Callable[[FloatArray], FloatArray]
    loss_bound: Callable[[float], float]
    count: int
    pure_epsilon: float = math.inf
    pure_delta: float = 0.0
    epsilon: Callable[[float], float] | None = None
    reveals: bool = False
    unsampled_mu: float | None = None

    def delta(self, epsilons: FloatArray) -> FloatArray:
        """Return the curve at non-negative epsilons."""
        return np.exp(self.log_delta(epsilons))

    @property
    def distance(self) -> float:
        """Total variation distance: the curve at 0."""
        return float(self.delta(np.zeros(1))[0])


@singledispatch
def single_release(event: object) -> tuple[PrivacyEvent, int]:
    """Return one release of an event, in its simplest form, and the number of them."""
    raise UnsupportedEventError(
        f"events must hold events that can be priced, got {type(event).__name__}. "
        "Use one of corrdp.accounting's events."
    )


@single_release.register
def _(
    event: GaussianEvent | LaplaceEvent | ApproximateEvent,
) -> tuple[PrivacyEvent, int]:
    return replace(event, count=1), event.count


@single_release.register
def _(event: SampledGaussianEvent) -> tuple[PrivacyEvent, int]:
    change = min(event.change, 2.0 * event.contribution)
    if event.rate == 1.0:
        return GaussianEvent(mu=change), event.n_steps
    contribution = event.contribution
    if event.sampling == "fixed_size":
        # The record takes another's place in the batch, so presence itself moves the
        # sum by up to two contributions.
        contribution *= 2.0
    return SampledGaussianEvent(event.rate, contribution, change, 1), event.n_steps


@single_release.register
def _(event: SelectedGaussianEvent) -> tuple[PrivacyEvent, int]:
    if event.mean_runs == 1.0 or event.mu == 0.0:
        return GaussianEvent(mu=event.mu), 1
    return event, 1


@singledispatch
def event_profile(event: object, count: int) -> Profile:
    """Return the profile of one release of `event`, to occur `count` times."""
    raise UnsupportedEventError(
        f"event must be one that has a privacy profile, got {type(event).__name__}. "
        "Use one of corrdp.accounting's events."
    )


@event_profile.register
def _(event: GaussianEvent, count: int) -> Profile:
    def log_delta(epsilons: FloatArray) -> FloatArray:
        return log_sampled_delta(
            epsilons, rate=1.0, contribution=event.mu, change=event.mu
        )

    def loss_bound(tail: float) -> float:
        return gaussian_epsilon(mu=event.mu, delta=tail)

    return Profile(log_delta, loss_bound, count)


@event_profile.register
def _(event: SampledGaussianEvent, count: int) -> Profile:
    def log_delta(epsilons: FloatArray) -> FloatArray:
        return log_sampled_delta(
            epsilons,
            rate=event.rate,
            contribution=event.contribution,
            change=event.change,
        )

    def loss_bound(tail: float) -> float:
        # Sampling only helps, so the unsampled step bounds the loss from above.
        unsampled = gaussian_epsilon(mu=event.change, delta=tail)
        candidates = unsampled * np.geomspace(1e-9, 1.0, 257)
        within = log_delta(candidates) <= math.log(tail)
        return float(candidates[np.argmax(within)]) if within.any() else unsampled

    return Profile(log_delta, loss_bound, count, unsampled_mu=event.change)


@event_profile.register
def _(event: SelectedGaussianEvent, count: int) -> Profile:
    if event.mu > LARGEST_SELECTED_MU:
        return Profile(np.zeros_like, lambda _: math.inf, count, reveals=True)
    knots, log_deltas = selected_profile(event.mu, event.mean_runs)

    def log_delta(epsilons: FloatArray) -> FloatArray:
        # Linear in exp(epsilon) between knots, constant beyond the last.
        place = np.clip(np.searchsorted(knots, epsilons, "right"), 1, knots.size - 1)
        left, right = knots[place - 1], knots[place]
        within = np.clip(epsilons, left, right)
        with np.errstate(divide="ignore"):
            share = np.expm1(within - left) / np.expm1(right - left)
            return np.logaddexp(
                np.log1p(-share) + log_deltas[place - 1],
                np.log(share) + log_deltas[place],
            )

    def loss_bound(tail: float) -> float:
        within = np.flatnonzero(log_deltas <= math.log(tail))
        return float(knots[within[0]] if within.size else knots[-1])

    def epsilon(delta: float) -> float:
        below = np.flatnonzero(log_deltas <= math.log(delta))
        if not below.size:
            return math.inf
        if below[0] == 0:
            return 0.0
        left, right = knots[below[0] - 1 : below[0] + 1]
        high, low = np.exp(log_deltas[below[0] - 1 : below[0] + 1])
        share = (high - delta) / (high - low)
        between = left + math.log1p(share * math.expm1(right - left))
        return min(float(between * (1.0 + 1e-12)), float(right))

    return Profile(
        log_delta,
        loss_bound,
        count,
        epsilon=epsilon,
        reveals=bool(log_deltas[-1] > math.log1p(-1e-9)),
    )


@event_profile.register
def _(event: LaplaceEvent, count: int) -> Profile:
    def log_delta(epsilons: FloatArray) -> FloatArray:
        # 1 - exp((epsilon - bound) / 2), and 0 from the bound on
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(np.minimum(epsilons - event.epsilon, 0.0) / 2.0))

    return Profile(log_delta, lambda _: event.epsilon, count, event.epsilon)


@event_profile.register
def _(event: ApproximateEvent, count: int) -> Profile:
    def log_delta(epsilons: FloatArray) -> FloatArray:
        # Randomized response that fails openly with probability delta.
        distinguishing = -np.expm1(np.minimum(epsilons - event.epsilon, 0.0))
        share = (1.0 - event.delta) / (1.0 + math.exp(-event.epsilon))
        with np.errstate(divide="ignore"):
            return np.log(event.delta + share * distinguishing)

    return Profile(
        log_delta, lambda _: event.epsilon, count, event.epsilon, event.delta
    )

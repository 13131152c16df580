"""What several releases cost together, if all were fixed in advance.

Theory: ``docs/theory/composition.md``.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce
from typing import NamedTuple, Self

import numpy as np

from corrdp._typing import FloatArray
from corrdp._validate import check_count, check_delta, check_real
from corrdp.accounting._events import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
)
from corrdp.accounting._gaussian import gaussian_delta, gaussian_epsilon
from corrdp.accounting._loss_distribution import PrivacyLossDistribution
from corrdp.accounting._loss_factor import NoGridError, saddle_epsilon
from corrdp.accounting._profiles import Profile, event_profile, single_release
from corrdp.exceptions import BudgetError, CorrDPError

_CELLS_PER_DEVIATION = 20.0
_CELLS_PER_EPSILON = 5e3
_SHARE_OF_EPSILON = 1e-5  # that the spread within cells may add
_COARSE_CELLS = 2.0**12  # of one loss, for a first answer
_COARSE_WINDOW_CELLS = 2.0**16  # of the composed loss, for a first answer
_MOST_CELLS = 2.0**18  # of one loss
_MOST_WINDOW_CELLS = 2.0**20  # of the composed loss
_MOST_GRIDS = 6
_WORTH_REFINING = 1.2
_TRUNCATION = 1e-6  # share of delta that all cut-off tails together may take
_CURVE_END = 1e-7  # delta at which curves may end
_SMALLEST_TAIL = 1e-290
_LARGEST_LOSS = 100.0  # beyond which a curve is that of its basic composition
_CURVE_POINTS = 400
_FIRST_EXPECTATION = 1e-6
_CURVE_CELLS = 2.0**15  # of the composed loss, for a curve
_NO_GRID = (NoGridError, OverflowError)  # where squares of losses are no numbers
# Calibrating and pricing are two inversions; each may round the last digits.
ROUND_OFF = 1e-9


def compose_epsilon(
    events: Iterable[PrivacyEvent], *, delta: float, grid: float = 1e-4
) -> float:
    """Return an epsilon that holds for all `events` together at `delta`.

    Parameters
    ----------
    events : iterable of PrivacyEvent
        Releases on the same data.
    delta : float
        In (0, 1).
    grid : float
        Largest spacing of privacy losses; refined where the losses are narrower.

    Returns
    -------
    epsilon : float
        Exact for Gaussian events, rounded up otherwise; infinite if none holds.

    Guarantee
    ---------
    (epsilon, delta)-indistinguishable for releases that may use earlier answers but
    whose events were fixed before the first: this is not a filter. For a budget spent
    event by event use `renyi_divergence` at fixed orders, or `composed_mu` for Gaussian
    events. Theory: ``docs/theory/composition.md``.

    Examples
    --------
    >>> from corrdp.accounting import GaussianEvent
    >>> round(compose_epsilon([GaussianEvent(mu=0.3, count=16)], delta=1e-5), 4)
    5.4135
    """
    delta = check_delta(delta)
    grid = _check_grid(grid)
    mu, profiles = _merge(events)
    if not profiles:
        return gaussian_epsilon(mu=mu, delta=delta)
    if any(profile.reveals for profile in profiles):
        return math.inf
    alone = profiles[0].epsilon if _is_one(mu, profiles) else None
    if alone is not None:
        return alone(delta)
    if _total_variation(mu, profiles) <= delta:
        return 0.0
    is_sampled = any(profile.unsampled_mu is not None for profile in profiles)
    if is_sampled and _TRUNCATION * delta < _SMALLEST_TAIL:  # all tails are cut off
        return _Unsampled.of(mu, profiles).epsilon(delta)
    answer, basic_delta = _basic_composition(mu, profiles)
    if basic_delta > delta:
        answer = math.inf
    grids = _Grids(mu, profiles, delta=delta, grid=grid)
    # Every grid gives a valid answer, and the answer says how fine a grid it needs.
    try:
        spacing = grids.coarse
        for _ in range(_MOST_GRIDS):
            loss = grids.distribution(spacing)
            answer = min(answer, loss.epsilon(delta))
            needed = grids.needed(loss, answer)
            if spacing <= _WORTH_REFINING * needed:
                break
            spacing = needed
    except _NO_GRID:
        answer = min(answer, _Unsampled.of(mu, profiles).epsilon(delta))
    return answer


def estimate_epsilon(events: Iterable[PrivacyEvent], *, delta: float) -> float:
    """Return about what `compose_epsilon` does, in a tenth of the time.

    No bound: too small or too large by a percent as a rule, and by a multiple where
    losses are rarer than `delta`. For searches whose end is priced.
    """
    mu, profiles = _merge(events)
    if not profiles:
        return gaussian_epsilon(mu=mu, delta=delta)
    grids = _Grids(mu, profiles, delta=delta, grid=math.inf)
    return saddle_epsilon(grids.distribution(grids.coarse).factors, math.log(delta))


def compose_delta(
    events: Iterable[PrivacyEvent], *, epsilon: float, grid: float = 1e-4
) -> float:
    """Return a delta that holds for all `events` together at `epsilon`.

    Parameters
    ----------
    epsilon : float
        Non-negative.
    events, grid
        As in `compose_epsilon`.

    Returns
    -------
    delta : float
        Exact for Gaussian events, rounded up otherwise.

    Guarantee
    ---------
    As `compose_epsilon`: not a filter. Theory: ``docs/theory/composition.md``.

    Examples
    --------
    >>> from corrdp.accounting import LaplaceEvent
    >>> compose_delta([LaplaceEvent(epsilon=0.5, count=2)], epsilon=1.0)
    0.0
    """
    epsilon = check_real("epsilon", epsilon, lower=0.0, error=BudgetError)
    grid = _check_grid(grid)
    mu, profiles = _merge(events)
    if not profiles:
        return gaussian_delta(epsilon, mu=mu)
    if any(profile.reveals for profile in profiles):
        return 1.0
    if _is_one(mu, profiles) and profiles[0].epsilon is not None:
        return float(profiles[0].delta(np.array([epsilon]))[0])
    # Tails are cut off in proportion to delta, which is not known yet.
    delta, expected = 0.0, _FIRST_EXPECTATION
    try:
        while True:
            grids = _Grids(mu, profiles, delta=expected, grid=grid)
            coarse = grids.distribution(grids.coarse)
            # Where delta is nearly 1 no tilt narrows the window that is asked for.
            needed = grids.needed(coarse, epsilon, finest=True)
            spacing = min(needed, grids.coarse)
            delta = grids.distribution(spacing).delta(epsilon)
            if delta >= expected or expected == _SMALLEST_TAIL:
                break
            expected = max(delta**2, _SMALLEST_TAIL)
    except _NO_GRID:
        delta = _Unsampled.of(mu, profiles).delta(epsilon)
    basic_epsilon, basic_delta = _basic_composition(mu, profiles)
    return min(delta, basic_delta if basic_epsilon <= epsilon else 1.0)


def compose_curve(events: Iterable[PrivacyEvent]) -> tuple[FloatArray, FloatArray]:
    """Return epsilons, from 0 on, and deltas that hold there for all `events`.

    Some hundred points, rounded up, of releases that are not all Gaussian.

    Guarantee
    ---------
    As `compose_delta`, at every point: one window of the composed loss answers all of
    them, on a grid that is a little coarser. Theory: ``docs/theory/composition.md``.
    """
    mu, profiles = _merge(events)
    if not profiles:
        raise CorrDPError(
            "the events are all Gaussian, and their curve is known exactly. Use "
            "gaussian_delta."
        )
    basic_epsilon, basic_delta = _basic_composition(mu, profiles)
    if any(profile.reveals for profile in profiles):
        return np.zeros(1), np.ones(1)
    if _is_one(mu, profiles):
        return _known_curve(profiles[0])
    if _LARGEST_LOSS < basic_epsilon < math.inf:  # no grid reaches, and none is needed
        if basic_delta >= 1.0:
            return np.zeros(1), np.ones(1)
        pair = ApproximateEvent(epsilon=basic_epsilon, delta=basic_delta)
        return _known_curve(event_profile(pair, 1))
    grids = _Grids(mu, profiles, delta=_CURVE_END, grid=math.inf)
    try:
        loss = grids.distribution(grids.coarse)
        reach = max(loss.curve_end(_CURVE_END), grids.coarse)
        epsilons, deltas = grids.distribution(grids.for_curve(reach)).curve(reach)
    except _NO_GRID:
        epsilons = np.zeros(1)
        deltas = np.array([_Unsampled.of(mu, profiles).delta(0.0)])
    if math.isinf(basic_epsilon):
        return epsilons, deltas
    return np.append(epsilons, basic_epsilon), np.append(deltas, basic_delta)


def _known_curve(profile: Profile) -> tuple[FloatArray, FloatArray]:
    """Return points of the curve of one release, which needs no composition."""
    epsilons = np.linspace(0.0, profile.loss_bound(_CURVE_END), _CURVE_POINTS)
    return epsilons, profile.delta(epsilons)


def gaussian_part(events: Iterable[PrivacyEvent]) -> tuple[float, bool]:
    """Return the mu of all Gaussian events, and whether there are no others."""
    mu, profiles = _merge(events)
    return mu, not profiles


def _merge(events: Iterable[PrivacyEvent]) -> tuple[float, list[Profile]]:
    """Return the mu of all Gaussian events and the profiles of all others."""
    counts: Counter[PrivacyEvent] = Counter()
    mus = [0.0]
    for event in events:
        single, count = single_release(event)
        if isinstance(single, GaussianEvent):
            mus.append(single.mu * math.sqrt(count))
        else:
            counts[single] += count
    for count in counts.values():
        check_count(
            "releases of one event", count, remedy="Such many are priced by no grid."
        )
    profiles = [event_profile(event, count) for event, count in counts.items()]
    # What is not a number is no reason to leave a release out.
    return math.hypot(*mus), [p for p in profiles if not p.distance <= 0.0]


def _is_one(mu: float, profiles: list[Profile]) -> bool:
    """Return whether there is nothing but one release that is not Gaussian."""
    return mu == 0.0 and sum(profile.count for profile in profiles) == 1


def _basic_composition(mu: float, profiles: list[Profile]) -> tuple[float, float]:
    """Return the sums of epsilons and deltas, where every event has them."""
    if mu > 0.0:
        return math.inf, 1.0
    return (
        _sum_upper((profile.count, profile.pure_epsilon) for profile in profiles),
        min(_sum_upper((p.count, p.pure_delta) for p in profiles), 1.0),
    )


def _sum_upper(terms: Iterable[tuple[int, float]]) -> float:
    """Return the sum of numbers so many times each, rounded up."""
    total = Fraction(0)
    for count, number in terms:
        if math.isinf(number):
            return math.inf
        total += count * Fraction(number)
    try:
        nearest = float(total)
    except OverflowError:
        return math.inf
    return nearest if nearest >= total else math.nextafter(nearest, math.inf)


def _total_variation(mu: float, profiles: list[Profile]) -> float:
    """Return a bound on delta at epsilon 0, which adds up over releases."""
    others = math.fsum(profile.count * profile.distance for profile in profiles)
    return (1.0 + ROUND_OFF) * (math.erf(mu / math.sqrt(8.0)) + others)


class _Unsampled(NamedTuple):
    """What releases cost as if every record took part in every step: for no grid.

    Sampling only helps, Gaussian releases compose exactly, and the pairs of all others
    add up. Nothing is known of others, whose pure epsilon is then infinite.
    """

    mu: float
    pure_epsilon: float
    pure_delta: float

    @classmethod
    def of(cls, mu: float, profiles: list[Profile]) -> Self:
        steps = [p for p in profiles if p.unsampled_mu is not None]
        mus = [p.unsampled_mu * math.sqrt(p.count) for p in steps if p.unsampled_mu]
        others = [p for p in profiles if p.unsampled_mu is None]
        return cls(math.hypot(mu, *mus), *_basic_composition(0.0, others))

    def epsilon(self, delta: float) -> float:
        if self.pure_delta >= delta or math.isinf(self.pure_epsilon):
            return math.inf
        left = (delta - self.pure_delta) * (1.0 - ROUND_OFF)
        total = self.pure_epsilon + gaussian_epsilon(mu=self.mu, delta=left)
        return total * (1.0 + ROUND_OFF)

    def delta(self, epsilon: float) -> float:
        if self.pure_epsilon > epsilon:
            return 1.0
        left = gaussian_delta(epsilon - self.pure_epsilon, mu=self.mu)
        return min((self.pure_delta + left) * (1.0 + ROUND_OFF), 1.0)


class _Grids:
    """Grids for the losses of some releases: how fine is enough, and affordable."""

    def __init__(
        self, mu: float, profiles: list[Profile], *, delta: float, grid: float
    ) -> None:
        if mu > 0.0:
            profiles = [*profiles, event_profile(GaussianEvent(mu=mu), 1)]
        self._profiles, self._delta, self._grid = profiles, delta, grid
        self._count = sum(profile.count for profile in profiles)
        tail = max(_TRUNCATION * delta / self._count, _SMALLEST_TAIL)
        self._bounds = [profile.loss_bound(tail) for profile in profiles]

    @property
    def coarse(self) -> float:
        """Spacing for a first answer."""
        loss_range = math.sqrt(
            math.fsum(
                profile.count * bound**2
                for profile, bound in zip(self._profiles, self._bounds, strict=True)
            )
        )
        return max(
            max(self._bounds) / _COARSE_CELLS,
            loss_range / _COARSE_WINDOW_CELLS,
            min(self._grid, self._narrow),
        )

    def for_curve(self, reach: float) -> float:
        """Return the spacing for a whole curve up to the epsilon `reach`."""
        fine = min(2.0 * self._narrow, 8.0 * reach / _CURVE_CELLS)
        return max(fine, max(reach, *self._bounds) / _CURVE_CELLS)

    @property
    def _narrow(self) -> float:
        """A share of the spread of one loss.

        Connecting the dots adds about a sixth of the squared spacing to the variance of
        each loss. A narrow loss deviates by about 2.5 times the total variation
        distance.
        """
        variance = math.fsum(
            profile.count * (2.5 * profile.distance) ** 2 for profile in self._profiles
        )
        return math.sqrt(variance / self._count) / _CELLS_PER_DEVIATION

    def needed(
        self, loss: PrivacyLossDistribution, epsilon: float, *, finest: bool = False
    ) -> float:
        """Return the spacing for an answer near `epsilon`; `loss` is a coarse one.

        Narrow losses need not be resolved where the answer comes from rare large ones.
        Within a cell, losses below it are spread to its ends, which adds at most the
        total variation distance times the spacing to their variance.
        """
        if not 0.0 < epsilon < math.inf:
            return math.inf if not finest else min(self._grid, self._narrow)
        moved = math.fsum(
            profile.count * profile.distance for profile in self._profiles
        )
        enough = min(
            epsilon / _CELLS_PER_EPSILON, _SHARE_OF_EPSILON * epsilon**2 / moved
        )
        fine = self._narrow if finest else max(self._narrow, enough)
        return max(
            min(self._grid, fine),
            max(self._bounds) / _MOST_CELLS,
            loss.window_width(self._delta, epsilon) / _MOST_WINDOW_CELLS,
        )

    def distribution(self, spacing: float) -> PrivacyLossDistribution:
        """Discretize every profile on one grid."""
        losses = [
            PrivacyLossDistribution.from_profile(
                profile.delta, spacing=spacing, loss_bound=bound
            ).self_compose(profile.count)
            for profile, bound in zip(self._profiles, self._bounds, strict=True)
        ]
        return reduce(PrivacyLossDistribution.compose, losses)


def _check_grid(grid: float) -> float:
    return check_real(
        "grid",
        grid,
        lower=0.0,
        open_lower=True,
        remedy="Any positive spacing is safe; 1e-4 is the default.",
    )


def epsilon_within(
    events: Sequence[PrivacyEvent], *, delta: float, allowed_epsilon: float
) -> float:
    """Return the epsilon of events at `delta`, exact where it meets a limit.

    Parameters
    ----------
    events : sequence of events
        All fixed before the first of them runs.
    delta : float
        Failure probability.
    allowed_epsilon : float
        The limit; infinite if there is none.

    Guarantee
    ---------
    The result is proved for the composition (`docs/theory/composition.md`). It is
    the limit itself where inverting the curve lands within round-off above it and
    the curve read at the limit is within `delta`: a direct evaluation, not a
    tolerance. At ``delta=0`` pure epsilons add, and anything else is infinite.
    """
    if delta == 0.0:
        return _pure_epsilon(events)
    epsilon = compose_epsilon(events, delta=delta)
    just_above = allowed_epsilon < epsilon <= allowed_epsilon * (1 + ROUND_OFF)
    if just_above and compose_delta(events, epsilon=allowed_epsilon) <= delta:
        return allowed_epsilon
    return epsilon


def _pure_epsilon(events: Sequence[PrivacyEvent]) -> float:
    pure = [
        (event.count, event.epsilon)
        for event in events
        if isinstance(event, LaplaceEvent)
        or (isinstance(event, ApproximateEvent) and event.delta == 0.0)
    ]
    return _sum_upper(pure) if len(pure) == len(events) else math.inf

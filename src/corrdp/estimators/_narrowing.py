"""``bounds="auto"``: numbers are read between narrower bounds, which are paid for.

Declared bounds must hold for every record there could be, so that most numbers fill a
small part of them; noise is in proportion to the whole. A small share of the budget
counts where numbers lie, and rows are read as if the policy had declared the interval
that holds nearly all of them: whatever is proved for declared bounds holds for these.
``bounds="released"`` insists on it, ``bounds="declared"`` leaves it.
Theory: ``docs/theory/default_rule.md``, section 7.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corrdp._names import NUMBER_COUNTS
from corrdp._typing import FloatArray, JSONObject
from corrdp.accounting import GaussianEvent, allocate_noise, step_mu
from corrdp.certificate import Component
from corrdp.estimators._fitting import Fit, Promise, promised
from corrdp.leakage import number_count_sensitivity, release_number_counts
from corrdp.mechanisms.noise import LARGEST_MU
from corrdp.policy import (
    Budget,
    ColumnRole,
    Feature,
    NumberDomain,
    Policy,
    Replace,
    Slot,
)
from corrdp.training import plan_spending

AUTO, DECLARED, RELEASED = "auto", "declared", "released"

SHARE = 0.03
"""Part of every class's squared budget that tells where numbers lie."""

COVERED = 0.98
"""Part of the rows that the narrower bounds should hold; others are clipped."""

WIDEST = 0.5
"""Part of the declared range: an interval wider than this is not worth clipping."""

MOST_NOISE = 0.05
"""Largest deviation of the noise on an interval, in parts of the rows."""

LEGIBLE = 0.035
"""Largest noise on a count, in parts of the rows: two bins of sixteen are legible."""

_BINS = ((0.002, 64), (0.008, 32))  # by the noise on a bin, in parts of the rows
_FEWEST_BINS = 16


@dataclass(frozen=True, eq=False)
class NarrowingPlan:
    """Noise on the counts of bins, decided before a row is read."""

    # Of every number that is counted; 0 for public ones, which no class moves.
    noise_scale: Mapping[str, float]
    n_bins: Mapping[str, int]  # bins of every number
    # Gaussian-DP parameter per class, ``whole_record`` included.
    cost: Mapping[str, float]

    @property
    def component(self) -> Component:
        """What a certificate and later releases are told."""
        return Component(
            NUMBER_COUNTS,
            events={name: (GaussianEvent(mu=mu),) for name, mu in self.cost.items()},
        )

    def after(self, promise: Promise) -> Promise:
        """Return the promise with this release among what was spent on the rows.

        Rows per level that a leakage table told are those of levels between declared
        bounds, so they say nothing of means between others.
        """
        leakage = promise.leakage
        margins = {
            name: sizes
            for name, sizes in leakage.margins.items()
            if name not in self.noise_scale
        }
        spent = (*leakage.spent, self.component)
        return replace(promise, leakage=replace(leakage, spent=spent, margins=margins))


def plan_narrowing(
    promise: Promise,
    *,
    budget: Budget,
    n_rows: int,
    known: Collection[str] = (),
) -> NarrowingPlan | None:
    """Return the noise on counts of all numbers; None if there is none to narrow.

    Numbers that are `known` are left as they are.

    Guarantee
    ---------
    A function of the policy, the budget and the public number of rows. The release
    costs every class at most `SHARE` of what it may spend, in squares
    (``docs/theory/default_rule.md``, Proposition 5), and no class more than is proved
    of the noise (``docs/theory/discrete_noise.md``, Claim 5). Public numbers are
    counted without noise: no class moves them.
    """
    policy, classes = promise.policy, promise.classes
    counted = [
        feature
        for feature in policy.features
        if _may_be_narrowed(feature) and feature.name not in known
    ]
    if not counted:
        return None
    split = plan_spending(policy, classes, budget=budget, spent=promise.leakage.spent)
    allowed = np.array([math.sqrt(SHARE) * split.total_mu[c.name] for c in classes])

    def noise_on(names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
        if not names:
            return np.zeros(0), np.zeros(len(classes))
        table = number_count_sensitivity(names, classes)
        noise = allocate_noise(table.bounds, budget_mu=allowed, sizes=table.sizes)
        return noise.noise_scale, step_mu(table.bounds, noise.noise_scale)

    names = [f.name for f in counted if f.role is not ColumnRole.PUBLIC]
    scales, cost = noise_on(names)
    legible = [n for n, s in zip(names, scales, strict=True) if s <= LEGIBLE * n_rows]
    if legible != names:  # counts that would be mere noise leave more for the others
        names, (scales, cost) = legible, noise_on(legible)
    if not cost.max() <= LARGEST_MU:  # nothing is proved of so little noise
        names, (scales, cost) = [], noise_on([])
    noise = dict(zip(names, scales.tolist(), strict=True))
    n_bins = {name: _n_bins(scale / n_rows) for name, scale in noise.items()}
    # Public ones are read as if they were sensitive: where training is noisy, narrower
    # bounds bring more noise than they tell, and no promise may gain by being stronger.
    usual = math.sqrt(2.0 / SHARE) / split.smallest_mu
    if usual <= LEGIBLE * n_rows:
        free = [f.name for f in counted if f.role is ColumnRole.PUBLIC]
        noise |= dict.fromkeys(free, 0.0)
        n_bins |= dict.fromkeys(free, _n_bins(usual / n_rows))
    if not noise:
        return None
    costs = dict(zip((c.name for c in classes), cost.tolist(), strict=True))
    return NarrowingPlan(noise, n_bins, costs)


def narrowed_policy(
    data: Any, policy: Policy, plan: NarrowingPlan, *, n_rows: int, seed: int | None
) -> Policy:
    """Count where numbers lie, and return the policy with narrower bounds.

    Guarantee
    ---------
    What leaves is the noisy counts, which cost ``plan.cost``, and the interval that
    follows from them (``docs/theory/default_rule.md``, Proposition 5).
    """
    counts = release_number_counts(
        data, policy, plan.noise_scale, n_bins=plan.n_bins, random_state=seed
    )

    def read(feature: Feature) -> Feature:
        if feature.name not in counts:
            return feature
        scale = plan.noise_scale[feature.name]
        domain = feature.domain
        assert isinstance(domain, NumberDomain)  # only numbers are counted
        held: float = n_rows
        if isinstance(domain.missing, Slot):  # rows without a value are in no bin
            held = min(held, float(counts[feature.name].sum()))
        first, last = interval(counts[feature.name], held, scale)
        n_bins = plan.n_bins[feature.name]
        width = (domain.upper - domain.lower) / n_bins
        if (first, last) == (0, n_bins):
            return feature
        lower = domain.lower + first * width
        # The last edge is the declared one, which rounding would miss by a bit.
        upper = min(domain.lower + last * width, domain.upper)
        if not lower < upper:  # bins that floats of this size do not tell apart
            return feature
        return replace(feature, domain=_between(domain, lower, upper))

    return replace(policy, features=tuple(map(read, policy.features)))


def _between(domain: NumberDomain, lower: float, upper: float) -> NumberDomain:
    """Return the domain with narrower bounds; what replaces a missing value is cut."""
    missing = domain.missing
    if isinstance(missing, Replace):
        missing = Replace(min(max(float(missing.value), lower), upper))
    return replace(domain, lower=lower, upper=upper, missing=missing)


def interval(counts: FloatArray, n_rows: float, noise_scale: float) -> tuple[int, int]:
    """Return the shortest run of bins that holds nearly all rows; all bins if none.

    Of each length the fullest run is looked at. The number of all rows is public, so
    that noise outside of a run does not matter, and a short run has little inside.
    How many rows have a value, where some have none, is as noisy as all counts.

    Examples
    --------
    >>> interval(np.array([4.0, 990.0, 8.0, 1.0]), 1000, 1.0)
    (1, 2)
    >>> interval(np.array([250.0, 250.0, 250.0, 250.0]), 1000, 1.0)
    (0, 4)
    """
    if n_rows <= 0:  # nobody has a value
        return 0, counts.size
    below = np.concatenate([[0.0], np.cumsum(counts)])
    for length in range(1, int(WIDEST * counts.size) + 1):
        deviation = noise_scale * math.sqrt(length)
        if deviation > MOST_NOISE * n_rows:
            break
        inside = below[length:] - below[:-length]
        first = int(np.argmax(inside))
        if inside[first] >= COVERED * n_rows - deviation:
            return first, first + length
    return 0, counts.size


def narrowed_fit(X: Any, fit: Fit, counted: NarrowingPlan) -> Fit:
    """Pay, release where numbers lie, and return the fit of rows to be read anew.

    The plan and the certificate, which are paid for, go with them.

    Guarantee
    ---------
    The whole fit, counts included, is recorded and charged before a row is counted;
    one that breaks off afterwards has been paid for (`docs/theory/composition.md`).
    How wide bounds are has no say in what training costs, which follows the plan that
    was paid for (`docs/theory/default_rule.md`, Proposition 5).
    """
    policy, plan = fit.promise.policy, fit.plan
    assert plan is not None  # chosen before
    promise = counted.after(fit.promise)
    paid = promised(replace(fit, promise=promise), plan)
    read = narrowed_policy(
        X, policy, counted, n_rows=fit.rows.n_rows, seed=fit.random_state
    )
    told = (*paid.assumptions, *_narrowed_text(policy, read))
    # Narrower bounds are no other classes and no other noise: what was charged.
    certificate = replace(paid, policy_fingerprint=read.fingerprint(), assumptions=told)
    return replace(fit, promise=replace(promise, policy=read), certificate=certificate)


def _narrowed_text(declared: Policy, read: Policy) -> tuple[str, ...]:
    """Return which numbers are read between narrower bounds, in words."""
    pairs = zip(declared.features, read.features, strict=True)
    names = [new.name for old, new in pairs if old.domain != new.domain]
    if not names:
        return ()
    return (
        f"bounds of {', '.join(names)} were released and are narrower than declared",
    )


def declared_numbers(declared: Policy, read: Policy) -> JSONObject:
    """Return the bounds that a policy had before, and what replaced missing values."""
    return {
        old.name: [
            old.domain.lower,
            old.domain.upper,
            *(
                [old.domain.missing.value]
                if isinstance(old.domain.missing, Replace)
                else []
            ),
        ]
        for old, new in zip(declared.features, read.features, strict=True)
        if isinstance(old.domain, NumberDomain) and old.domain != new.domain
    }


def with_declared_numbers(policy: Policy, numbers: Mapping[str, Any]) -> Policy:
    """Return the policy as it was before bounds were released."""

    def widened(feature: Feature) -> Feature:
        domain = feature.domain
        if feature.name not in numbers or not isinstance(domain, NumberDomain):
            return feature
        lower, upper, *replaced = numbers[feature.name]
        domain = replace(domain, lower=lower, upper=upper)
        if replaced:
            domain = replace(domain, missing=Replace(replaced[0]))
        return replace(feature, domain=domain)

    return replace(policy, features=tuple(map(widened, policy.features)))


def _n_bins(noise: float) -> int:
    """Return how many bins to count: the less noise, the more."""
    return next((bins for most, bins in _BINS if noise < most), _FEWEST_BINS)


def _may_be_narrowed(feature: Feature) -> bool:
    """Return whether a number is read between its bounds and by nothing else."""
    domain = feature.domain
    return (
        isinstance(domain, NumberDomain) and domain.knots is None and not domain.joined
    )

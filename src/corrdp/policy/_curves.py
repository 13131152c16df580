"""Curves over numbers: hat functions on declared knots.

Between two knots the code of a number is the pair of weights that interpolates it, so
a weighted sum of the code is a broken line over the number. Hats are non-negative and
add up to 1: a code lies in the convex hull of the codes at the knots, which are the
rows of an identity matrix, as the levels of a category are.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from corrdp._typing import FloatArray
from corrdp.policy._coding import centered
from corrdp.policy._domains import NumberDomain
from corrdp.policy._features import Feature
from corrdp.policy._policy import Policy

_FRACTIONS = 4096.0  # weights are whole parts of this, so that pairs add up exactly


def hat_codes(knots: Sequence[float], values: FloatArray) -> FloatArray:
    """Return the weight of every knot for every value, shape (n_values, n_knots).

    Values beyond the first or the last knot count as that knot.

    Guarantee
    ---------
    The code of a value is a function of that value and of the knots, has at most two
    non-zero entries, next to each other, and adds up to 1 exactly
    (`docs/theory/additive.md`, Lemma 1).
    """
    places = np.asarray(knots, dtype=np.float64)
    inside = np.clip(np.nan_to_num(values), places[0], places[-1])
    left = np.searchsorted(places, inside, side="right") - 1
    left = np.clip(left, 0, places.size - 2)
    width = places[left + 1] - places[left]
    second = np.rint((inside - places[left]) / width * _FRACTIONS) / _FRACTIONS
    codes = np.zeros((inside.size, places.size))
    rows = np.arange(inside.size)
    codes[rows, left] = 1.0 - second
    codes[rows, left + 1] = second
    return codes


def has_knots(feature: Feature) -> bool:
    """Return whether a feature is a number that is coded with a curve."""
    return isinstance(feature.domain, NumberDomain) and feature.domain.knots is not None


def knots_of(feature: Feature) -> tuple[float, ...]:
    """Return the knots of a number, none if there are none."""
    domain = feature.domain
    return (domain.knots or ()) if isinstance(domain, NumberDomain) else ()


def knot_positions(feature: Feature) -> tuple[float, ...]:
    """Return the code of a number, in [-1/2, 1/2], at each of its knots."""
    domain = feature.domain
    assert isinstance(domain, NumberDomain)  # others have no knots
    knots = np.array(knots_of(feature))
    return tuple(centered(domain, knots).tolist())


def even_knots(domain: NumberDomain, n_knots: int) -> tuple[float, ...]:
    """Return knots at equal distances between the bounds."""
    inner = np.linspace(domain.lower, domain.upper, n_knots)[1:-1]
    return (domain.lower, *inner.tolist(), domain.upper)


def with_knots(
    policy: Policy, choose: Callable[[Feature], Sequence[float] | None]
) -> Policy:
    """Return the policy with knots for its numbers.

    Parameters
    ----------
    policy : Policy
        A policy; knots that it declares stay.
    choose : callable
        Returns the knots of a number, or None for none. They must be public.
    """
    features = []
    for feature in policy.features:
        domain = feature.domain
        if isinstance(domain, NumberDomain) and domain.knots is None:
            knots = choose(feature)
            if knots is not None:
                curved = replace(domain, knots=tuple(float(k) for k in knots))
                feature = replace(feature, domain=curved)
        features.append(feature)
    return replace(policy, features=tuple(features))


def without_knots(policy: Policy) -> Policy:
    """Return the policy with numbers as straight lines, whatever it declares."""
    features = tuple(
        replace(feature, domain=replace(feature.domain, knots=None))
        if has_knots(feature) and isinstance(feature.domain, NumberDomain)
        else feature
        for feature in policy.features
    )
    return replace(policy, features=features)

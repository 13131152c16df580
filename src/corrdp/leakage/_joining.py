"""Which thin levels of a feature are joined, decided from released sizes alone.

Joined levels are one level: in the table that bounds the leakage and, through the
policy that comes with it, in whatever reads the rows (docs/theory/leakage.md, 2.2).
"""

import math
from bisect import bisect, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from corrdp._typing import FloatArray, JSONObject
from corrdp.exceptions import GuaranteeVoidError, PolicyError
from corrdp.leakage._words import predicted_excess
from corrdp.policy import CategoryDomain, Domain, Feature, NumberDomain, Policy, Replace

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""Codes of a feature that are one level, in the order of the joined feature's codes."""

HOPELESS = 0.6
"""Levels stay as they are where the bound would exceed the truth by more than this."""

HIDDEN_COST = 3.0
"""How much bound a grouping may save for each part of variance that it hides."""

JOINED, WITH_OTHER = "joined", "joined_with_other"


def choose_groups(
    feature: Feature,
    sizes: FloatArray,
    *,
    n_cells: int,
    noise_scale: float,
    failure_probability: float,
) -> Groups:
    """Return which codes of a feature become one level.

    Parameters
    ----------
    feature : Feature
        Bins of a number are joined with their neighbors, thin categories with each
        other, and with ``other`` if it is thin too and can hold them.
    sizes : array of float, shape (n_codes,)
        Rows per code: released, or of public rows.
    n_cells, noise_scale, failure_probability
        As for `predicted_excess`.

    Returns
    -------
    groups : tuple of tuples of int
        The grouping with the least sum of two losses: what the bound will exceed the
        truth by, and the part of the feature's variance that joining hides from a
        model. Every code on its own if no grouping leaves a useful bound.

    Guarantee
    ---------
    A function of `sizes` and public numbers: it costs nothing beyond the sizes
    (docs/theory/leakage.md, Theorem 5).
    """
    if getattr(feature.domain, "joined", ()):  # what is joined stays so, and alone
        return _apart(len(sizes))
    shares = np.maximum(sizes, 0.0)
    shares = shares / max(1.0, shares.sum())
    best, least = _apart(len(sizes)), np.inf
    rows_of = cache(lambda group: float(sizes[list(group)].sum()))
    hidden = _variance_hidden(feature.domain, shares)
    for groups in _candidates(feature.domain, sizes, rows_of):
        excess = predicted_excess(
            np.array([rows_of(group) for group in groups]),
            n_cells=n_cells,
            noise_scale=noise_scale,
            failure_probability=failure_probability,
        )
        loss = excess + HIDDEN_COST * hidden(groups)
        if loss < least and excess <= HOPELESS:
            best, least = groups, loss
    return best


def _variance_hidden(domain: Domain, shares: FloatArray) -> Callable[[Groups], float]:
    """Return what tells the part of a feature's variance that joining hides."""
    if isinstance(domain, NumberDomain):
        middles, _ = _middles(domain)
        weights = shares[: len(middles)]
        whole = _variance(middles, weights)

        @cache
        def inside(group: tuple[int, ...]) -> float:
            if group[-1] >= len(middles):  # a slot for missing values
                return 0.0
            return _variance(middles[list(group)], weights[list(group)])

        return lambda groups: sum(map(inside, groups)) / whole if whole > 0 else 0.0
    apart = 1.0 - float((shares**2).sum())
    square = cache(lambda group: float(shares[list(group)].sum()) ** 2)
    return lambda groups: (
        1.0 - (1.0 - sum(map(square, groups))) / apart if apart > 0 else 0.0
    )


def joined_fields(
    domain: Domain, groups: Groups, sizes: FloatArray
) -> JSONObject | None:
    """Return the fields of a domain that joining changes; None if nothing is joined.

    Parameters
    ----------
    domain : Domain
        As declared.
    groups : Groups
        From `choose_groups`.
    sizes : array of float
        Rows per code; joined bins are encoded by the mean of their middles.
    """
    together = [group for group in groups if len(group) > 1]
    if not together:
        return None
    if isinstance(domain, NumberDomain):
        return {JOINED: _joined_bins(domain, together, sizes)}
    assert isinstance(domain, CategoryDomain)
    (codes,) = together
    levels = [level for code, level in enumerate(domain.levels) if code in codes]
    if len(domain.levels) in codes:
        return {JOINED: levels, WITH_OTHER: True}
    return {JOINED: levels}


def joined_policy(policy: Policy, fields: Mapping[str, JSONObject]) -> Policy:
    """Return the policy whose features have their thin levels joined.

    Parameters
    ----------
    policy : Policy
        As declared.
    fields : mapping of str to JSON object
        By feature, what `joined_fields` returned.
    """
    return replace(
        policy,
        features=tuple(
            replace(feature, domain=joined_domain(feature, fields[feature.name]))
            if feature.name in fields
            else feature
            for feature in policy.features
        ),
    )


def refuse_joined_anew(name: str, fields: JSONObject) -> None:
    """Raise if levels were joined by another list of categories, as they were once."""
    if not {JOINED} <= set(fields) <= {JOINED, WITH_OTHER}:
        raise GuaranteeVoidError(
            f"levels of {name!r} were joined by another list of categories, by which "
            "some cells are read as other levels than were counted. Estimate the "
            "leakage anew."
        )


def joined_words(domain: Domain) -> str:
    """Return what a domain of the joined policy has joined, in words."""
    if isinstance(domain, NumberDomain):
        edges = np.linspace(domain.lower, domain.upper, (domain.bins or 1) + 1)
        return "; ".join(
            f"{edges[first]:g} to {edges[last + 1]:g} as {value:.4g}"
            for first, last, value in domain.joined
        )
    assert isinstance(domain, CategoryDomain)  # nothing else has levels to join
    if domain.joined_with_other:
        kept = ", ".join(domain.levels)
        return f"all but {kept} into other" if kept else "all into other"
    merged = domain.merged
    return ", ".join(c for c in domain.categories if merged[c] in domain.joined)


def joined_domain(feature: Feature, fields: JSONObject) -> Domain:
    """Return the domain of a feature with levels joined by `joined_fields`."""
    domain = feature.domain
    if getattr(domain, "joined", ()):
        raise PolicyError(
            f"levels of {feature.name!r} are joined already, and would come apart if "
            "others were joined. Use the policy that the table was made for."
        )
    if isinstance(domain, NumberDomain) and set(fields) == {JOINED}:
        return replace(domain, joined=fields[JOINED])
    if isinstance(domain, CategoryDomain) and set(fields) <= {JOINED, WITH_OTHER}:
        return replace(
            domain,
            joined=fields[JOINED],
            joined_with_other=fields.get(WITH_OTHER, False),
        )
    raise PolicyError(
        f"levels of {feature.name!r} cannot be joined by {sorted(fields)}: its domain "
        f"is a {type(domain).__name__}. Use the policy that the table was made for."
    )


def _apart(n_codes: int) -> Groups:
    return tuple((code,) for code in range(n_codes))


def _candidates(
    domain: Domain, sizes: FloatArray, rows_of: Callable[[tuple[int, ...]], float]
) -> Iterator[Groups]:
    """Yield groupings, from all levels apart to two that are left."""
    yield _apart(len(sizes))
    if isinstance(domain, NumberDomain):
        yield from _neighbors_joined(domain, len(sizes), rows_of)
    elif isinstance(domain, CategoryDomain):
        yield from _thinnest_joined(domain, sizes)


def _neighbors_joined(
    domain: NumberDomain, n_codes: int, rows_of: Callable[[tuple[int, ...]], float]
) -> Iterator[Groups]:
    n_bins = domain.bins or 1
    groups, rest = list(_apart(n_codes)[:n_bins]), list(_apart(n_codes)[n_bins:])
    while len(groups) > 2:
        rows = [rows_of(group) for group in groups]
        thin = int(np.argmin(rows))
        beside = [place for place in (thin - 1, thin + 1) if 0 <= place < len(groups)]
        first, second = sorted((thin, min(beside, key=lambda place: rows[place])))
        groups[first : second + 1] = [groups[first] + groups[second]]
        yield tuple(groups + rest)


def _thinnest_joined(domain: CategoryDomain, sizes: FloatArray) -> Iterator[Groups]:
    n_named = len(domain.levels)
    # A value for missing cells must stay declared, and values in `other` are not.
    holds = domain.other and not isinstance(domain.missing, Replace)
    n_free = n_named + holds
    apart, together = list(_apart(len(sizes))), list[int]()
    for code in np.argsort(sizes[:n_free], kind="stable")[: n_free - 1].tolist():
        apart.remove((code,))
        insort(together, code)
        if len(together) > 1:
            # `other` comes after all named levels, a group where its first member is
            place = n_named if n_named in together else together[0]
            before = bisect(apart, (place,))
            yield (*apart[:before], tuple(together), *apart[before:])


def _joined_bins(
    domain: NumberDomain, together: Sequence[tuple[int, ...]], sizes: FloatArray
) -> list[list[Any]]:
    middles, exponent = _middles(domain)
    joined = []
    for group in together:
        weights = np.maximum(sizes[list(group)], 0.0)
        if weights.sum() <= 0:
            weights = np.ones(len(group))
        value = float(np.average(middles[list(group)], weights=weights))
        joined.append([group[0], group[-1], math.ldexp(value, exponent)])
    return joined


def _middles(domain: NumberDomain) -> tuple[FloatArray, int]:
    """Return the middles of the bins over a power of two, and its exponent.

    They lie in [-1, 1], so that no sum or square of them overflows.
    """
    exponent = math.frexp(max(abs(domain.lower), abs(domain.upper)))[1]
    lower, upper = (math.ldexp(b, -exponent) for b in (domain.lower, domain.upper))
    edges = np.linspace(lower, upper, (domain.bins or 1) + 1)
    return 0.5 * (edges[:-1] + edges[1:]), exponent


def _variance(values: FloatArray, weights: FloatArray) -> float:
    total = float(weights.sum())
    if total <= 0:
        return 0.0
    mean = float((weights * values).sum()) / total
    return float((weights * (values - mean) ** 2).sum())

"""Several valid bounds at once: the least of them is valid."""

from dataclasses import replace

from corrdp.exceptions import MissingBoundError, PolicyError
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage.release._table import LeakageTable

_SOURCES = ("private", "public", "declared")


def intersect_leakage(first: LeakageTable, second: LeakageTable) -> LeakageTable:
    """Return the least bound of two tables, feature by feature.

    Parameters
    ----------
    first, second : LeakageTable
        Of public rows, private rows or declared; for the same policy, and one of them
        at most with joined levels.

    Returns
    -------
    both : LeakageTable
        Costs what both cost and fails if one of them does: failure probabilities add.

    Guarantee
    ---------
    Each bound holds except with its own failure probability, so the least does except
    with their sum. A bound on levels apart is one on joined levels, which are mixtures
    of them, whatever their shares (docs/theory/leakage.md, 2.1 and 8). Averages of
    bounds are no bounds.
    """
    for name in ("declared_fingerprint", "relation", "conditioning", "metric"):
        if getattr(first, name) != getattr(second, name):
            raise PolicyError(
                f"tables of different {name.replace('_', ' ')} cannot be combined, got "
                f"{getattr(first, name)[:12]!r} and {getattr(second, name)[:12]!r}. "
                "Estimate both under one policy."
            )
    if first.joined and second.joined:
        raise PolicyError(
            "both tables have joined levels, which weigh as they do among the rows of "
            "each: their bounds are about different laws. Estimate one of them with "
            "join_levels=False."
        )
    if "in_sample" in (first.source, second.source):
        raise MissingBoundError(
            "source='in_sample' gives no bounds to combine. Use public, private or "
            "declared tables."
        )
    joined = first if first.joined else second
    told = {  # of joined levels by the table that has joined them
        name: margin
        for table in (first, second)
        for name, margin in table.margins.items()
        if name not in joined.joined or name in table.joined
    }
    names = dict.fromkeys([*first.features, *second.features])
    return replace(
        joined,
        features={
            name: _least(
                [t.features[name] for t in (first, second) if name in t.features],
                joined.joined.get(name),
            )
            for name in names
        },
        source=min(first.source, second.source, key=_SOURCES.index),
        failure_probability=first.failure_probability + second.failure_probability,
        components=(*first.components, *second.components),
        margins=told,
        research=first.research or second.research,
        replayable_noise=first.replayable_noise or second.replayable_noise,
    )


def _least(found: list[FeatureLeakage], joined: object) -> FeatureLeakage:
    bounded = [value for value in found if value.upper is not None] or found
    best = min(bounded, key=lambda v: 1.0 if v.upper is None else v.upper)
    others = [f"{v.method}: {v.upper:.4f}" for v in bounded if v is not best]
    reason = best.reason
    if others:
        reason += f"; the least of several bounds, others: {'; '.join(others)}"
    told = dict.fromkeys(a for value in found for a in value.assumptions)
    return replace(
        best,
        reason=reason,
        assumptions=tuple(told),
        joined=joined,  # type: ignore[arg-type]
    )

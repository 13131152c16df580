"""Challenges for what queries release: noisy sums, and places of quantiles."""

import math
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import narwhals as nw
import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Challenge, Deadline
from corrdp.auditing.statistics import (
    Claim,
    FittedScore,
    LikelihoodAttack,
    LinearAttack,
)
from corrdp.auditing.targets._releases import vector_score
from corrdp.exceptions import CorrDPError
from corrdp.policy import BooleanDomain, CategoryDomain, NumberDomain, class_columns
from corrdp.queries import QueryPlan, RankChoice, released_runs

_N_RUNS, _PLACE_RUNS = 20_000, 2000  # a place takes long to draw
_PAIRS = 30  # of records that are tried
_LEAST = 1e-3  # unit of coordinates without noise, in steps
_FEW_PLACES = 0.1  # share of the places that a change of the record makes likelier
_MOST_SHOWN = 200  # cells in which the two tables differ


def query_challenges(
    plan: QueryPlan, *, random_state: int | None = 0, deadline: Deadline | None = None
) -> tuple[Challenge[Any], ...]:
    """Challenge everything that answers to queries are computed from, class by class.

    The plan is one of `plan_queries`, `plan_bounds` or of an evaluation; the deadline
    ends the search for records early.

    Guarantee
    ---------
    Two tables of ``plan.n_rows`` rows at the ends of the declared domains, or between
    them for quantiles, that differ
    in one record, as the class allows; sums are added up, noise and places drawn, by
    the function that answers (`docs/theory/audit.md`). Cells in which the two tables
    differ are looked at.
    """
    if plan.policy.unit is not None:
        raise CorrDPError(
            "the rows of a unit may lie anywhere in a table, and this audit changes "
            "one row. Audit the same questions under a policy without a unit."
        )
    rng = np.random.default_rng(random_state)
    corners = _corners(plan)
    events = plan.noise.claimed_events()
    draws_places = any(isinstance(moment, RankChoice) for moment in plan.moments)
    challenges = []
    for class_name, changed in class_columns(plan.policy).items():
        pair = _worst_pair(plan, corners, changed, rng, deadline or Deadline())
        others = _others(plan, corners, pair[0])
        first, second = (
            _rows(plan, {name: [record[name], *others[name]] for name in others})
            for record in pair
        )
        exact = [_exact(plan, rows) for rows in (first, second)]
        shown, score = _scored(plan, exact, (first, second))
        challenges.append(
            Challenge(
                target="queries",
                class_name=class_name,
                claim=Claim(events[class_name], plan.noise.delta),
                first=first,
                second=second,
                sample=_sampler(plan, shown),
                attacks=(LikelihoodAttack(score), LinearAttack()),
                n_runs=_PLACE_RUNS if draws_places else _N_RUNS,
                batch=100 if draws_places else 4000,
            )
        )
    return tuple(challenges)


def _corners(plan: QueryPlan) -> dict[str, tuple[Any, ...]]:
    """Return the ends of every domain."""
    policy = plan.policy
    domains = {feature.name: feature.domain for feature in policy.features}
    if policy.label is not None:
        domains[policy.label.name] = policy.label.domain
    return {name: _ends(domain) for name, domain in domains.items()}


def _ends(domain: Any) -> tuple[Any, ...]:
    if isinstance(domain, NumberDomain):
        return (domain.lower, domain.upper)
    if isinstance(domain, CategoryDomain):
        return tuple(domain.levels)
    assert isinstance(domain, BooleanDomain)
    return (False, True)


def _others(
    plan: QueryPlan, corners: Mapping[str, tuple[Any, ...]], record: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """Return all rows but the record that differs, which is one of these.

    Sums do not ask what the others are: they are at corners in turn. Places of a
    quantile do: among corners alone all places between them gain or lose alike, and
    none can be told. So the others share the cell of the record, and two of them lie
    between so many below and above that the rank is theirs. Whether the record is below
    or above then takes a row off the scores of the places on one side and adds one on
    the other; few places on one side, since what is rare gains most.
    """
    count = plan.n_rows - 1
    asked = [
        moment
        for moment in plan.moments
        if isinstance(moment, RankChoice) and moment.column in corners  # not derived
    ]
    if not asked:
        return {
            name: [ends[(row + at) % len(ends)] for row in range(1, plan.n_rows)]
            for at, (name, ends) in enumerate(corners.items())
        }
    found = {name: [record[name]] * count for name in corners}
    for moment in asked:
        low, high = corners[moment.column]
        n_low = math.ceil(moment.probability * plan.n_rows) - 2
        n_low = min(max(n_low, 0), max(count - 2, 0))
        between = low + (1.0 - _FEW_PLACES) * (high - low)
        ranked = [low] * n_low + [between] * 2 + [high] * count
        found[moment.column] = ranked[:count]
    return found


def _rows(plan: QueryPlan, values: Mapping[str, list[Any]]) -> Any:
    """Return a table as questions read it."""
    kinds = ("pyarrow", "polars", "pandas")
    backend: Any = next((kind for kind in kinds if find_spec(kind)), None)
    if backend is None:
        raise CorrDPError(
            "an audit of queries makes up tables, with one of pyarrow, polars and "
            "pandas. Install one."
        )
    table = nw.from_dict(dict(values), backend=backend).to_native()
    return table if plan.derived is None else plan.derived.extend(table)


def _worst_pair(
    plan: QueryPlan,
    corners: Mapping[str, tuple[Any, ...]],
    changed: frozenset[str],
    rng: np.random.Generator,
    deadline: Deadline,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the records, of some at random, that move sums furthest in noise."""
    reached = -1.0
    for trial in range(_PAIRS):
        if trial and deadline.is_over():
            break
        pair: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for name, ends in corners.items():
            picks = rng.permutation(len(ends))[[0, -1 if name in changed else 0]]
            for record, pick in zip(pair, picks, strict=True):
                record[name] = ends[pick]
        one, other = (
            _exact(plan, _rows(plan, {name: [value] for name, value in each.items()}))
            for each in pair
        )
        moved = float(np.sum(np.abs(other - one) / np.maximum(_scales(plan), _LEAST)))
        if moved > reached:
            reached, worst = moved, pair
    return worst


def _scales(plan: QueryPlan) -> FloatArray:
    """Return the noise of every coordinate; infinite for places of quantiles."""
    sizes = [group.size for group in plan.noise.movement.groups]
    scales = [
        np.inf if isinstance(moment, RankChoice) else float(scale)
        for moment, scale in zip(plan.moments, plan.noise.scales, strict=True)
    ]
    return np.repeat(scales, sizes)


def _exact(plan: QueryPlan, rows: Any) -> FloatArray:
    """Return all sums without noise; 0 for places of quantiles."""
    sizes = [group.size for group in plan.noise.movement.groups]
    parts = [
        np.zeros(size)
        if isinstance(moment, RankChoice)
        else moment.evaluate(plan.view, rows).astype(np.float64)
        for moment, size in zip(plan.moments, sizes, strict=True)
    ]
    return np.concatenate(parts)


def _scored(
    plan: QueryPlan, exact: list[FloatArray], tables: tuple[Any, Any]
) -> tuple[Any, FittedScore]:
    """Return which coordinates are looked at, and the likelihood of what is seen."""
    first, second = exact
    scales = _scales(plan)
    is_place = np.isinf(scales)
    apart = np.abs(second - first) / np.maximum(scales, _LEAST)
    sums = np.argsort(-apart, kind="stable")[:_MOST_SHOWN]
    sums = np.sort(sums[apart[sums] > 0.0])
    places = np.flatnonzero(is_place)
    shown = np.concatenate([sums, places])
    shown = shown if shown.size else np.arange(1)
    of_sums = vector_score(plan.noise.kind, first[sums], second[sums], scales[sums])
    gains = _rank_gains(plan, tables)

    def score(outputs: FloatArray) -> FloatArray:
        total = of_sums(outputs[:, : sums.size])
        for at, place in enumerate(places):
            seen = outputs[:, sums.size + at].astype(np.int64)
            total = total + gains[int(place)][seen]
        return total

    return shown, score


def _rank_gains(plan: QueryPlan, tables: tuple[Any, Any]) -> dict[int, FloatArray]:
    """Return by coordinate how much likelier each place is for the second table."""
    sizes = [group.size for group in plan.noise.movement.groups]
    starts = [0, *accumulate(sizes)]
    found: dict[int, FloatArray] = {}
    for moment, start, scale in zip(
        plan.moments, starts, plan.noise.scales, strict=False
    ):
        if isinstance(moment, RankChoice):
            grid = moment.grid(plan.view, scale=scale, n_rows=plan.n_rows)
            both = zip(
                *(moment.scores(plan.view, rows, grid) for rows in tables), strict=True
            )
            for cell, (low, high) in enumerate(both):
                found[start + cell] = (high - low) / max(float(scale), _LEAST)
    return found


def _sampler(plan: QueryPlan, shown: Any) -> Any:
    def sample(rows: Any, n_runs: int, rng: np.random.Generator) -> FloatArray:
        runs = released_runs(plan, rows, n_runs, noise=rng, choices=rng)
        return runs[:, shown].astype(np.float64)

    return sample

"""Plan the noise of several queries at once, from public numbers alone."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from corrdp._typing import JSONObject
from corrdp._validate import check_count
from corrdp.certificate import Certificate, Component, LeakageClaim, certify
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.leakage import LeakageTable
from corrdp.mechanisms.noise import (
    NoiseKind,
    Objective,
    Variant,
    VectorPlan,
    concentrated_rho,
    plan_vector,
)
from corrdp.policy import (
    Budget,
    NeighborClass,
    Policy,
    allowed_epsilons,
    neighbor_classes,
)
from corrdp.queries._ask import ask_text, parse_ask
from corrdp.queries._columns import DerivedColumns, group_names
from corrdp.queries._conditions import Condition
from corrdp.queries._estimates import Estimate
from corrdp.queries._kinds import Count
from corrdp.queries._moments import Moment, moment_movement
from corrdp.queries._quantiles import (
    Histogram,
    Prices,
    QuantileMethod,
    check_method,
    with_methods,
)
from corrdp.queries._query import (
    Arithmetic,
    Estimates,
    Labeled,
    Query,
    Questions,
    with_parts,
)
from corrdp.queries._question_text import not_too_deep
from corrdp.queries._units import (
    n_places,
    of_filled_places,
    place_column,
)

GRID_ASSUMPTION = (
    "numbers are rounded to 2**20 steps between their declared bounds; noise is "
    "drawn exactly from a discrete distribution"
)
SEPARATE_LEAKAGE = (
    "the leakage was released from the same rows before, at a cost that this "
    "certificate does not include: add it from the leakage table, or keep a ledger"
)
COMPONENT = "queries"
MOST_JOINT_CELLS = 2048
"""Of the table of which counts that agree with each other are margins."""

_GOLDEN_RATIO = (math.sqrt(5.0) - 1.0) / 2.0  # whose multiples never meet

Leakage: TypeAlias = LeakageTable | LeakageClaim | Mapping[str, float] | float


@dataclass(frozen=True, eq=False)
class QueryPlan:
    """All noise of a set of queries, decided before any row is read.

    Parameters
    ----------
    policy : Policy
        Domains, groups, classes.
    queries : tuple of Query
        What is asked.
    moments : tuple of Moment
        Distinct noisy sums; queries that need the same sum share it.
    noise : VectorPlan
        Noise on the moments.
    budget : Budget
        What the release may cost.
    n_rows : int
        Public number of rows.
    leakage : LeakageClaim
        Where the distances came from.
    assumptions : tuple of str
        What the proof needs beyond the declared domain.
    names : tuple of str
        Name of each answer where the question gave one, else empty.
    derived : DerivedColumns, optional
        Columns that are computed from the others of a row.
    texts : tuple of str
        The questions in words.
    """

    policy: Policy
    queries: tuple[Query, ...]
    moments: tuple[Moment, ...]
    noise: VectorPlan
    budget: Budget
    n_rows: int
    leakage: LeakageClaim
    assumptions: tuple[str, ...]
    names: tuple[str, ...]
    derived: DerivedColumns | None
    texts: tuple[str, ...]

    @property
    def view(self) -> Policy:
        """The policy with the derived columns, for the domains of all columns."""
        if self.derived is None:
            return self.policy
        return self.derived.view(self.policy)

    def count_tables(self) -> dict[Condition | None, dict[int, Moment]]:
        """Return the counts that `consistent_counts` fits together, by condition.

        They stand at the place of their question. Raises if they meet in too many
        cells, which is known before anything is paid.
        """
        tables: dict[Condition | None, dict[int, Moment]] = {}
        for place, query in enumerate(self.queries):
            if isinstance(query, Count | Histogram) and query.groups is None:
                for moment in query.moments(self.view):
                    tables.setdefault(moment.where, {})[place] = moment
        for found in tables.values():
            keys = tuple(dict.fromkeys(key for m in found.values() for key in m.by))
            n_cells = math.prod(len(group_names(self.view, key)) for key in keys)
            if n_cells > MOST_JOINT_CELLS:
                raise CorrDPError(
                    f"counts by {', '.join(keys)} meet in {n_cells} cells, at most "
                    f"{MOST_JOINT_CELLS} can be made consistent. Ask for fewer of them "
                    "together."
                )
        return tables

    def certificate(self, *, replayable_noise: bool = False) -> Certificate:
        """Return what the release proves."""
        return certify(
            self.policy,
            [Component(COMPONENT, events=self.noise.claimed_events())],
            budget=self.budget,
            leakage=self.leakage,
            assumptions=self.assumptions,
            replayable_noise=replayable_noise,
            whole_units=True,  # `moment_movement` moves all rows of a unit
        )

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "asks": list(self.texts),
            "n_rows": self.n_rows,
            "noise": str(self.noise.kind),
            "variant": str(self.noise.variant),
            "moments": [
                {
                    "name": moment.name,
                    "coordinates": group.size,
                    "noise_scale": math.sqrt(variance) / moment.steps,
                }
                for moment, group, variance in zip(
                    self.moments,
                    self.noise.movement.groups,
                    self.noise.noise_variance.tolist(),
                    strict=True,
                )
            ],
        }


@not_too_deep
def plan_queries(
    policy: Policy,
    queries: Sequence[Query | str] | Questions,
    *,
    budget: Budget,
    n_rows: int,
    leakage: Leakage | None = None,
    kind: NoiseKind | str | None = None,
    variant: Variant | str = Variant.OPTIMAL,
    objective: Objective | str = Objective.TOTAL,
    derived: DerivedColumns | None = None,
    quantiles: QuantileMethod = "auto",
) -> QueryPlan:
    """Plan the release of several queries that share one budget.

    Parameters
    ----------
    policy : Policy
        Every bound, bin and group comes from it.
    queries : sequence of Query or str, or Questions
        Queries, questions such as ``"mean(age)"``, or what `parse_sql` read.
    budget : Budget
        For all queries together.
    n_rows : int
        Public number of rows; of units, if the policy declares a unit.
    leakage : LeakageTable, LeakageClaim, mapping of str to float, or float, optional
        Declared leakage by default.
    kind : NoiseKind, optional
        ``laplace`` or ``gaussian``; the one of smaller variance by default.
    variant : Variant
        How noise is shared between the sums: ``paper``, ``tight``, ``optimal``, or
        ``ordinary`` DP for comparison.
    objective : Objective
        What ``optimal`` minimizes, with every sum relative to its range: the
        ``total`` variance, or the ``worst``.
    derived : DerivedColumns, optional
        Columns that are computed from the others of a row, such as predictions.
    quantiles : {"auto", "choice", "counts"}
        How quantiles are answered: drawn by rank (``choice``), read off noisy counts of
        declared bins (``counts``, with a radius in the value), or whichever errs less.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for the policy, all queries together. Proofs:
    ``docs/theory/queries.md`` for the movement of the sums, ``docs/theory/laplace.md``
    and ``docs/theory/discrete_noise.md`` for the noise.
    """
    check_count("n_rows", n_rows)
    policy.require_confirmed()
    budget.warn_if_large_delta(n_rows)
    names: tuple[str, ...] = ()
    if isinstance(queries, Questions):
        names = queries.names
        queries = queries.queries
    asked = tuple(parse_ask(q) if isinstance(q, str) else q for q in queries)
    if not asked:
        raise CorrDPError("no query was asked. Ask for example mean(age).")
    texts = tuple(map(ask_text, asked))
    assumptions: tuple[str, ...] = (GRID_ASSUMPTION,)
    if policy.unit is not None:
        if derived is not None:
            policy.require_single_rows("a question about computed columns")
        derived = place_column(policy)
        asked = tuple(map(of_filled_places, asked))
        n_rows = n_places(policy, n_rows)
        assumptions += (
            f"the unit of protection is all rows of one {policy.unit!r}; its first "
            f"{policy.max_rows} are used; the number of units is public, and how many "
            "rows a unit has is protected like a sensitive feature",
        )
    claim = _claim(policy, leakage)
    view = policy if derived is None else derived.view(policy)
    classes = neighbor_classes(policy, claim.distances(policy))
    check_method(quantiles)
    asked = with_methods(
        asked,
        view,
        method=quantiles,
        prices=_prices(view, classes, derived, budget, kind),
        n_rows=n_rows,
    )
    weights: dict[Moment, float] = {}
    for query in asked:
        for moment in query.moments(view):
            weights[moment] = weights.get(moment, 0.0) + query.weight(moment)
    for moment in weights:
        if moment.most_rows < n_rows:
            raise GuaranteeVoidError(
                f"the noise of {moment.name!r} would be that of {moment.most_rows:g} "
                f"rows, the table has n_rows={n_rows}. Ask with the rows of the table."
            )
    movement = moment_movement(weights, view, classes, derived)
    noise = plan_vector(
        movement,
        policy=policy,
        budget=budget,
        leakage=claim.distances(policy),
        kind=kind,
        variant=variant,
        objective=objective,
    )
    scales = dict(zip(weights, noise.scales, strict=True))
    _rehearse(asked, texts, view, n_rows, scales)
    if claim.source == "private":
        assumptions += (SEPARATE_LEAKAGE,)
    if isinstance(leakage, LeakageTable):
        assumptions += leakage.assumptions
    return QueryPlan(
        policy,
        asked,
        tuple(weights),
        noise,
        budget,
        n_rows,
        claim,
        assumptions,
        names or ("",) * len(asked),
        derived,
        texts,
    )


def _prices(
    policy: Policy,
    classes: tuple[NeighborClass, ...],
    derived: DerivedColumns | None,
    budget: Budget,
    kind: NoiseKind | str | None,
) -> Prices:
    def movements(moment: Moment) -> dict[str, tuple[int, int]]:
        found = moment_movement({moment: 1.0}, policy, classes, derived)
        return {
            neighbor.name: (int(found.absolute[row, 0]), int(found.squared[row, 0]))
            for row, neighbor in enumerate(classes)
        }

    gaussian = budget.delta > 0.0 and kind != NoiseKind.LAPLACE
    allowed = allowed_epsilons(
        classes, epsilon=budget.epsilon, epsilon_cap=policy.epsilon_cap
    )
    limits = {
        name: concentrated_rho(epsilon=epsilon, delta=budget.delta)
        if gaussian
        else epsilon
        for name, epsilon in allowed.items()
        if math.isfinite(epsilon)
    }
    return Prices(movements, limits, gaussian)


@dataclass(frozen=True)
class _Rehearsed(Query):
    """A part of a question as if its answer had no error, unless that is public.

    A drawn quantile is enclosed by the bounds of its column, whatever is drawn.
    """

    part: Query

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return those of the part."""
        return self.part.moments(policy)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the answers of the part without their errors."""
        return [
            (cell, Estimate.exactly(found.value) if found.rank is None else found)
            for cell, found in self.part.answer(policy, n_rows, estimates)
        ]


def _rehearse(
    queries: Sequence[Query],
    texts: Sequence[str],
    policy: Policy,
    n_rows: int,
    scales: Mapping[Moment, Fraction],
) -> None:
    """Calculate with answers without error, to refuse unpaid what has none itself.

    The answers are those of no table, public and without any relation: what divides by
    zero here does so whatever the rows are, such as a count less itself.
    """
    parts = (number * _GOLDEN_RATIO % 1.0 for number in itertools.count(1))
    sums: dict[Moment, list[Estimate]] = {}
    for query, text in zip(queries, texts, strict=True):
        if not isinstance(query, Arithmetic):
            continue
        for moment in query.moments(policy):
            if moment not in sums:
                sums[moment] = moment.typical(
                    policy, parts, scale=scales[moment], n_rows=n_rows
                )
        found = with_parts(query, _Rehearsed).answer(policy, n_rows, sums)
        if not all(math.isfinite(estimate.radius) for _, estimate in found):
            raise CorrDPError(
                f"{text!r} would have an infinite radius whatever the rows are: it "
                "divides by what may be 0, or leaves the range of numbers. Divide by a "
                "count, a sum or a mean; a quantile needs declared bins, or bounds "
                "that do not enclose 0."
            )


def _claim(policy: Policy, leakage: Leakage | None) -> LeakageClaim:
    if isinstance(leakage, LeakageTable):
        leakage.require_policy(policy)
        return leakage.claim(policy=policy)
    if isinstance(leakage, LeakageClaim):
        return leakage
    return LeakageClaim.declared(policy, leakage)

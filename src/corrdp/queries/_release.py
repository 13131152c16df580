"""Answer queries: pay, then read, then add noise.

Rows that an engine holds stay where they are: the driver adds up sums of partitions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from corrdp._random import noise_generator
from corrdp._typing import IntArray
from corrdp.engines import Answer as SummedPart
from corrdp.engines import hosted_sums, is_hosted, refuse_hosted
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.leakage import LeakageTable
from corrdp.ledger import Ledger, require_recorded
from corrdp.mechanisms.noise import NoiseKind, Objective, Variant
from corrdp.policy import Budget, Policy, read_declared
from corrdp.queries._choices import RankChoice
from corrdp.queries._columns import ExtendedTable, require_columns
from corrdp.queries._estimates import Estimate
from corrdp.queries._moments import Moment
from corrdp.queries._plan import Leakage, QueryPlan, plan_queries
from corrdp.queries._quantiles import QuantileMethod
from corrdp.queries._query import Labeled, Query, Questions
from corrdp.queries._result import Answer, QueryResult
from corrdp.queries._units import bounded_rows, n_places, public_size
from corrdp.tables import is_source


def answer_queries(
    table: Any,
    policy: Policy,
    queries: Sequence[Query | str] | Questions,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    ledger: Ledger | None = None,
    leakage: Leakage | None = None,
    kind: NoiseKind | str | None = None,
    variant: Variant | str = Variant.OPTIMAL,
    objective: Objective | str = Objective.TOTAL,
    failure_probability: float = 0.05,
    accept_new_data: bool = False,
    random_state: int | None = None,
    quantiles: QuantileMethod = "auto",
) -> QueryResult:
    """Answer queries about a table with correlated noise.

    Parameters
    ----------
    table : table
        pandas, polars or pyarrow, or a numpy array in the policy's order; or a path
        or another source (`docs/large_tables.md`), whose declared columns are read;
        or a table that an engine holds, whose partitions are summed where they are.
    policy : Policy
        Every bound, bin and group comes from it; nothing is read off the table.
    queries : sequence of Query or str, or Questions
        Queries, questions such as ``"mean(age)"``, or what `parse_sql` read.
    epsilon, delta : float
        Budget of all queries together; ``delta=0`` means Laplace noise.
    ledger : Ledger, optional
        Charged before anything is computed from the table, and after every cell that
        questions read, so that one which is refused costs nothing.
    leakage, kind, variant, objective
        As in `plan_queries`.
    failure_probability : float
        Probability with which some answer may be farther off than its radius.
    accept_new_data : bool
        Whether the ledger accepts a table other than that of earlier charges.
    random_state : int, optional
        A seed, for research only; the certificate then says "replayable noise".
    quantiles : {"auto", "choice", "counts"}
        As in `plan_queries`; ``counts`` where a radius in the value is wanted.

    Guarantee
    ---------
    As the certificate states: (epsilon, delta)-CorrDP for the policy. Planning uses
    public numbers alone, the charge is on disk before any sum is computed, and answers
    are post-processing of noisy sums. Not covered: that a table is refused because of
    its values, which the policy can avoid (`docs/theory/queries.md`).

    Examples
    --------
    >>> import pandas as pd
    >>> from corrdp.policy import Feature, NumberDomain, Policy
    >>> policy = Policy((Feature("age", "sensitive", NumberDomain(0, 100)),))
    >>> table = pd.DataFrame({"age": [30.0] * 500 + [50.0] * 500})
    >>> result = answer_queries(table, policy, ["mean(age)"], epsilon=1.0)
    >>> abs(result.answers[0].value - 40.0) < 5.0
    True
    """
    budget = Budget(epsilon=epsilon, delta=delta)  # type: ignore[arg-type]
    table = rows_in_place(table, policy, ledger)
    if is_source(table):
        table = read_declared(table, policy)
    plan = plan_queries(
        policy,
        queries,
        budget=budget,
        n_rows=public_size(table, policy),
        leakage=leakage,
        kind=kind,
        variant=variant,
        objective=objective,
        quantiles=quantiles,
    )
    if ledger is not None and isinstance(leakage, LeakageTable):
        require_recorded(ledger, leakage)
    return answer_plan(
        table,
        plan,
        ledger=ledger,
        failure_probability=failure_probability,
        accept_new_data=accept_new_data,
        random_state=random_state,
    )


def answer_plan(
    table: Any,
    plan: QueryPlan,
    *,
    ledger: Ledger | None = None,
    failure_probability: float = 0.05,
    accept_new_data: bool = False,
    random_state: int | None = None,
) -> QueryResult:
    """Answer queries whose noise is planned already.

    Parameters
    ----------
    table : table
        As in `answer_queries`, with as many rows as were planned for.
    plan : QueryPlan
        From `plan_queries`.
    ledger, failure_probability, accept_new_data, random_state
        As in `answer_queries`.

    Guarantee
    ---------
    As the certificate states (`docs/theory/queries.md`).
    """
    if plan.derived is not None:
        refuse_hosted(table, "an evaluation of a model")
    table = rows_in_place(table, plan.policy, ledger)
    size = n_places(plan.policy, public_size(table, plan.policy))
    if size != plan.n_rows:
        raise GuaranteeVoidError(
            f"the noise was planned for {plan.n_rows} rows, the table has "
            f"{size}. Plan for this table."
        )
    if plan.policy.unit is not None:
        # From here on a place is a row: no number of rows of a unit is seen again.
        table = bounded_rows(table, plan.policy)
    # What can be refused from public facts is refused before anything is paid, and
    # what the accounts refuse before the table is looked at.
    events = plan.noise.charged_events()
    if ledger is not None:
        ledger.require(events, policy=plan.policy)
    columns = _columns_read(plan)
    if not isinstance(table, HostedRows):
        require_columns(plan.policy, table, columns)
    noise = noise_generator(random_state)
    choices = noise_generator(random_state, purpose="quantiles")
    reach = plan.noise.radius(failure_probability)
    certificate = plan.certificate(replayable_noise=random_state is not None)
    receipt = None
    if ledger is not None:
        receipt = ledger.charge_for_rows(
            table.table if isinstance(table, ExtendedTable) else table,
            events,
            policy=plan.policy,
            purpose="; ".join(plan.texts),
            columns=columns,
            accept_new_data=accept_new_data,
        )
    if plan.derived is not None and not isinstance(table, ExtendedTable):
        table = plan.derived.extend(table)
    noisy = released_runs(plan, table, 1, noise=noise, choices=choices)[0]
    answers = answers_of(plan, noisy, reach, failure_probability)
    return QueryResult(answers, certificate, plan, receipt)


def _columns_read(plan: QueryPlan) -> list[str]:
    """Return what questions read of a table; labels of a model may stand beside it."""
    computed: set[str] = set()
    if plan.derived is not None:
        computed.update(plan.derived.domains)
        if plan.policy.unit is None and plan.policy.label is not None:
            computed.add(plan.policy.label.name)
    read = frozenset[str]().union(*(moment.columns for moment in plan.moments))
    return sorted(read - computed)


def released_runs(
    plan: QueryPlan,
    rows: Any,
    n_runs: int,
    *,
    noise: np.random.Generator,
    choices: np.random.Generator,
) -> IntArray:
    """Return the sums and places of several releases, one per row.

    Answers make one of them, audits many.

    Guarantee
    ---------
    That of the plan for each row (`docs/theory/queries.md`).
    """
    hosted = (
        rows.sums(plan.moments, plan.view) if isinstance(rows, HostedRows) else None
    )
    drawn = _by_moment(plan, plan.noise.draw_runs(n_runs, noise))
    parts = [np.zeros((n_runs, 0), dtype=np.int64)]
    for place, (moment, own, scale) in enumerate(
        zip(plan.moments, drawn, plan.noise.scales, strict=True)
    ):
        if isinstance(moment, RankChoice):
            chosen = [
                moment.choose(
                    plan.view,
                    rows,
                    scale=scale,
                    kind=plan.noise.kind,
                    n_rows=plan.n_rows,
                    generator=choices,
                )
                for _ in range(n_runs)
            ]
            parts.append(np.stack(chosen))
        else:
            exact = (
                moment.evaluate(plan.view, rows) if hosted is None else hosted[place]
            )
            parts.append(exact + own)
    return np.hstack(parts)


def _by_moment(plan: QueryPlan, coordinates: IntArray) -> list[IntArray]:
    """Return coordinates of all moments, in the last axis, as those of each."""
    sizes = [group.size for group in plan.noise.movement.groups]
    return np.split(coordinates, np.cumsum(sizes)[:-1], axis=-1) if sizes else []


def answers_of(
    plan: QueryPlan, noisy: IntArray, reach: IntArray, beta: float
) -> tuple[Answer, ...]:
    """Return the answers that noisy sums give, with radii that miss with odds `beta`.

    Guarantee
    ---------
    Post-processing of the noisy sums (``docs/theory/queries.md``).
    """
    estimates: dict[Moment, list[Estimate]] = {}
    parts, scales = _by_moment(plan, noisy), plan.noise.scales
    n_noisy = sum(part.size for part, scale in zip(parts, scales, strict=True) if scale)
    for moment, part, radius, scale in zip(
        plan.moments, parts, reach.tolist(), scales, strict=True
    ):
        if isinstance(moment, RankChoice):
            estimates[moment] = moment.estimates(
                plan.view,
                part.tolist(),
                scale=scale,
                n_rows=plan.n_rows,
                failure_probability=beta / max(n_noisy, 1),
            )
            continue
        # Every row is rounded to a whole step, by at most half a step.
        rounding = 0.5 * plan.n_rows if moment.factors else 0.0
        estimates[moment] = [
            Estimate(
                value, value - radius - rounding, value + radius + rounding
            ).scaled(1.0 / moment.steps)
            for value in part.astype(float).tolist()
        ]
    return tuple(
        _answer(plan, place, query.answer(plan.view, plan.n_rows, estimates), beta)
        for place, query in enumerate(plan.queries)
    )


def _answer(plan: QueryPlan, place: int, labeled: Labeled, beta: float) -> Answer:
    # Rows of one unit are no independent draws: nothing is said of their sampling.
    alone = plan.policy.unit is None
    return Answer(
        plan.texts[place],
        tuple(cell for cell, _ in labeled),
        tuple(estimate.value for _, estimate in labeled),
        tuple(estimate.radius for _, estimate in labeled),
        1.0 - beta,
        plan.queries[place].key_columns,
        tuple(estimate.sampling if alone else None for _, estimate in labeled),
        plan.names[place],
        rank_radii=tuple(e.rank for _, e in labeled if e.rank is not None),
    )


@dataclass(frozen=True, eq=False)
class HostedRows:
    """A hosted table whose rows were counted, in the place of a table in memory."""

    data: Any
    policy: Policy
    n_rows: int = field(init=False)

    def __post_init__(self) -> None:
        if self.policy.unit is not None:
            raise CorrDPError(
                f"rows of one unit ({self.policy.unit!r}) may lie in several "
                f"partitions of a {type(self.data).__name__}. Bring the rows to one "
                "machine."
            )
        (rows,) = self.sums((Moment(()),), self.policy)
        object.__setattr__(self, "n_rows", int(rows[0]))

    def __len__(self) -> int:
        return self.n_rows

    def sums(self, moments: Sequence[Moment], view: Policy) -> list[IntArray]:
        """Return the exact sums over all partitions, one array per moment.

        Guarantee
        ---------
        As `Moment.evaluate` of all rows (`docs/theory/scale.md`, Proposition 4). Noise
        is added by the caller.
        """
        chosen = [type(m).__name__ for m in moments if isinstance(m, RankChoice)]
        if chosen:
            raise CorrDPError(
                f"quantiles that are drawn look at all rows at once, and a "
                f"{type(self.data).__name__} stays where it is. Pass "
                "quantiles='counts', with declared bins."
            )
        columns = sorted(frozenset().union(*(moment.columns for moment in moments)))
        if not columns:  # rows are counted, whatever they hold
            columns = [view.features[0].name]
        add = partial(_sums_of, policy=view, moments=tuple(moments))
        return hosted_sums(self.data, columns, add)


def _sums_of(table: Any, policy: Policy, moments: Sequence[Moment]) -> SummedPart:
    return tuple(moment.evaluate(policy, table) for moment in moments)


def rows_in_place(table: Any, policy: Policy, ledger: Ledger | None) -> Any:
    """Return the rows of a table that an engine holds; any other table as it is."""
    if not is_hosted(table):
        return table
    if ledger is not None:  # whose fingerprint reads rows in an order, which these lack
        raise BudgetError(
            f"a ledger knows a table by its rows in order, and a {type(table).__name__}"
            " has none. Leave the ledger out and charge it by hand, or pass the files."
        )
    return HostedRows(table, policy)

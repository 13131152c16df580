"""Estimate leakage from a declared, public or private source."""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from corrdp._names import BLOCK
from corrdp._random import noise_generator
from corrdp._validate import (
    check_choice,
    check_count,
    check_delta,
    check_epsilon,
    check_failure_probability,
    check_flag,
)
from corrdp.accounting import Group, NoisePlan, plan_noise
from corrdp.certificate import Component
from corrdp.exceptions import BudgetError, GuaranteeVoidError
from corrdp.leakage._coding import check_readable
from corrdp.leakage._counts import MAX_CELLS, CountLayout
from corrdp.leakage._joining import joined_policy
from corrdp.leakage._margins import LevelSizes
from corrdp.leakage._metrics import Metric, check_transport, metric_named
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage._targets import (
    count_layout,
    leakage_targets,
    release_targets,
    table_words,
    telling_shapes,
)
from corrdp.leakage.estimators import Estimator, PlugIn, estimator_named
from corrdp.leakage.release._exact import exact_leakages, with_paper_upper
from corrdp.leakage.release._noise import (
    SIZES,
    check_covered,
    count_sensitivity,
    noisy_leakages,
    release_tables,
    released_margins,
)
from corrdp.leakage.release._request import LeakageRequest
from corrdp.leakage.release._table import LeakageTable, declared_table
from corrdp.policy import (
    Conditioning,
    NeighborRelation,
    Policy,
    class_columns,
    neighbor_classes,
    require_policy,
)

SOURCES = ("declared", "public", "private", "in_sample")


def estimate_leakage(
    data: Any,
    policy: Policy,
    *,
    source: str = "private",
    epsilon: float | None = None,
    delta: float | None = None,
    estimator: str | Estimator | None = None,
    metric: str | Metric = "total_variation",
    failure_probability: float = 1e-3,
    research: bool = False,
    random_state: int | None = None,
    max_cells: int = MAX_CELLS,
    n_threads: int = 2,
    join_levels: bool | None = None,
    keep_levels: Collection[str] | None = None,
    charge: Callable[[NoisePlan], None] | None = None,
) -> LeakageTable:
    """Return how much every insensitive feature tells about the sensitive ones.

    Parameters
    ----------
    data : table, or path of a file
        Private rows, or for ``public`` a public table of the same distribution; not
        read for ``declared``.
    policy : Policy
        Roles, domains, resolution, relation, conditioning.
    source : str
        ``private``: noisy counts, paid from `epsilon` and `delta`. ``public``: exact
        counts of public rows. ``declared``: the policy's own numbers. ``in_sample``:
        the paper's Definition 4.3, asymptotic, and so for `research` only.
    epsilon, delta : float, optional
        Share of the budget that a private release may spend; every neighbor class is
        charged at distance 1, since nothing is known yet. For ``in_sample`` and
        ``public``, `delta` alone gives the paper's adjustment.
    estimator : str or Estimator, optional
        Chosen by column types by default; the result says why.
    metric : str or Metric
        ``total_variation``, ``hellinger`` or ``wasserstein``.
    failure_probability : float
        Probability beta with which some upper bound may be too small, split evenly
        over the features.
    research : bool
        Show exact private numbers in reasons; stamped on the result.
    random_state : int, optional
        Seed, for research: noise becomes replayable.
    max_cells : int
        Largest number of joint cells of all tables.
    n_threads : int
        Tables counted at the same time.
    join_levels : bool, optional
        Whether thin levels of insensitive features are joined, where the sizes that
        are released anyway (or public counts) say that it pays. The table is then
        about the joined levels, and whatever uses it reads `LeakageTable.policy_for`.
        By default for ``private`` alone, whose noise drowns thin levels: a model that
        reads joined levels knows less.
    keep_levels : collection of str, optional
        Features whose levels are never joined.
    charge : callable, optional
        Called once with the plan of a private release, before a row is counted; what
        it raises stops the release. All options have been checked by then; cells are
        checked by `pay_for_leakage`, which reads them for a fingerprint, and by no
        `charge` of your own: then one that is refused was paid for, as on engines.

    Returns
    -------
    leakage : LeakageTable
        Pass it to estimators and planners, or its `claim()` and `components` to
        `certify`.

    Guarantee
    ---------
    ``private`` is epsilon, delta for every promised neighbor class, by exact discrete
    Gaussian noise on counts (docs/theory/leakage.md, Theorem 5). Bounds hold except
    with `failure_probability` if rows are independent draws.
    """
    policy = require_policy(policy)
    remedy = "Choose where the leakage comes from."
    check_choice("source", source, SOURCES, remedy=remedy)
    if source == "declared":
        return declared_table(policy)
    if source == "in_sample" and not check_flag("research", research):
        raise GuaranteeVoidError(
            "source='in_sample' shows numbers computed from private rows, and the "
            "paper's charge for them is asymptotic. Pass research=True, or use "
            "source='private'."
        )
    if not check_flag("research", research):
        policy.require_confirmed()
    check_failure_probability(failure_probability)
    check_count("n_threads", n_threads)
    kept = frozenset(keep_levels or ())
    for name in kept:
        policy.feature(name)
    targets = leakage_targets(policy)
    join = source == "private"
    if join_levels is not None:
        join = check_flag("join_levels", join_levels)
    # By definition one table is about all features, whatever one of them is called.
    marginal = policy.conditioning is Conditioning.MARGINAL
    request = LeakageRequest(
        data=data,
        policy=policy.leakage_view(),  # a sensitive label is leaked about too
        estimator=None if estimator is None else estimator_named(estimator),
        metric=metric_named(metric),
        feature_failure_probability=failure_probability / max(1, len(targets)),
        max_cells=max_cells,
        n_threads=n_threads,
        random_state=random_state,
        joinable=frozenset(policy.insensitive) - kept
        if join and marginal and source != "in_sample"
        else frozenset(),
    )
    components: tuple[Component, ...] = ()
    margins: dict[str, LevelSizes] = {}
    if source == "private":
        features, plan, margins = _private(request, targets, epsilon, delta, charge)
        if plan is not None:
            scope = class_columns(policy)
            components = (Component("leakage", plan=plan, scope=scope),)
    else:
        if epsilon is not None:
            raise BudgetError(
                f"epsilon={epsilon!r} was passed, but source={source!r} spends none. "
                "Leave it out, or use source='private'."
            )
        features = exact_leakages(request, targets)
        if delta is not None:
            features = with_paper_upper(features, check_delta(delta))
    joined = joined_policy(
        policy,
        {n: f.joined for n, f in features.items() if f.joined is not None},
    )
    return LeakageTable(
        features=features,
        source=source,
        relation=str(policy.relation),
        conditioning=str(policy.conditioning),
        metric=request.metric.name,
        failure_probability=failure_probability,
        components=components,
        delta_factor=2 if source == "in_sample" else 1,
        research=research,
        replayable_noise=source == "private" and random_state is not None,
        policy_fingerprint=joined.fingerprint(),
        declared_fingerprint=policy.fingerprint(),
        margins=margins,
    )


def plan_leakage_release(
    policy: Policy,
    *,
    epsilon: float,
    delta: float,
    max_cells: int = MAX_CELLS,
) -> NoisePlan | None:
    r"""Return the noise on every contingency table, before any row is read.

    Parameters
    ----------
    policy : Policy
        Every feature discrete or binned.
    epsilon, delta : float
        What each promised class may be charged.
    max_cells : int
        Largest number of joint cells of all tables.

    Returns
    -------
    plan : NoisePlan or None
        Two groups per table, its cells and its row sizes; None if there is nothing
        to tell apart.

    Guarantee
    ---------
    Replacing a record moves two cells of a table by one each, :math:`\sqrt 2`, if the
    class may change a feature of the table, else none: a change of sensitive features
    moves the cells of every table and no row size, a change of ``u`` both of its own
    table (docs/theory/leakage.md, Theorem 5).
    """
    check_epsilon(epsilon)
    check_delta(delta)
    policy = policy.leakage_view()
    layout = count_layout(policy, release_targets(policy), max_cells=max_cells)
    return _plan_tables(policy, layout, epsilon=epsilon, delta=delta)


def _plan_tables(
    policy: Policy, layout: CountLayout, *, epsilon: float, delta: float
) -> NoisePlan | None:
    """Return the plan of tables that are laid out already (`plan_leakage_release`)."""
    shapes = telling_shapes(layout)
    if not shapes:
        return None
    one_insensitive = policy.relation is NeighborRelation.ONE_INSENSITIVE
    classes = neighbor_classes(
        policy, dict.fromkeys(policy.insensitive, 1.0) if one_insensitive else 1.0
    )
    sensitive = set(policy.sensitive)
    read: dict[Group, set[str]] = {}
    for shape in shapes:
        # A bound compares two rows of cells, however many values a table has.
        size, weight = shape.n_values * shape.n_cells, 1 / shape.n_values
        cells = Group(shape.name, size, shape.features, weight)
        read[cells] = sensitive | set(shape.features)
        # Errors of sizes enter the bound once, those of cells add up over the cells.
        weight = math.sqrt(shape.n_cells) / shape.n_values
        name = SIZES.format(shape.name)
        sizes = Group(name, shape.n_values, shape.features, weight)
        read[sizes] = set(shape.features)
    table = count_sensitivity(read, classes)
    allowed = {c.name: epsilon if c.promised else math.inf for c in classes}
    plan = plan_noise(table, allowed_epsilon=allowed, delta=delta)
    return check_covered(plan, epsilon=epsilon)


def _private(
    request: LeakageRequest,
    targets: Mapping[str, tuple[str, ...]],
    epsilon: float | None,
    delta: float | None,
    charge: Callable[[NoisePlan], None] | None,
) -> tuple[dict[str, FeatureLeakage], NoisePlan | None, dict[str, LevelSizes]]:
    policy = request.policy
    if request.estimator is not None and not isinstance(request.estimator, PlugIn):
        raise GuaranteeVoidError(
            f"estimator={request.estimator.name!r} has no private release: only noisy "
            "counts have one. Declare bins and leave estimator out."
        )
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    layout = count_layout(policy, release_targets(policy), max_cells=request.max_cells)
    plan = _plan_tables(policy, layout, epsilon=epsilon, delta=delta)
    if not targets:  # no row is read where nothing is asked
        return {}, plan, {}
    for shape in telling_shapes(layout):
        check_transport(request.metric, table_words(policy, shape.features).ground)
    check_readable(request.data, policy, layout.features)
    generator = noise_generator(request.random_state, purpose="leakage")
    if charge is not None and plan is not None:
        charge(plan)
    counts = request.counts(layout)
    released = release_tables(
        layout.shapes,
        counts.tables,
        plan,
        generator,
        grouping=lambda shape, sizes, scale: request.groups(
            shape, sizes, noise_scale=scale, n_rows=counts.n_rows
        ),
    )
    found = noisy_leakages(request, layout, released, counts.n_rows)
    features = {name: found.get(name) or found[BLOCK] for name in targets}
    margins = released_margins(layout, released, features, counts.n_rows)
    return features, plan, margins

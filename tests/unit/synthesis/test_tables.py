"""Movement, price and noise of tables of counts."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from corrdp.accounting import WHOLE_RECORD
from corrdp.exceptions import BudgetError, GuaranteeVoidError, PolicyError
from corrdp.mechanisms.noise import concentrated_rho
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    class_columns,
)
from corrdp.synthesis import Synthesizer, _estimation
from corrdp.synthesis._counts import count_cells
from corrdp.synthesis._estimation import NoisyTable, combined, fit_model, softened
from corrdp.synthesis._junction_tree import junction_tree
from corrdp.synthesis._plan import StagePlan, plan_stage
from corrdp.synthesis._release import measure, release_tables
from corrdp.synthesis._structure import TableShape
from synthesis_examples import marginal


def small_policy(**changes):
    return replace(
        Policy(
            (
                Feature("ill", "sensitive", CategoryDomain(("no", "yes"))),
                Feature("age", "insensitive", NumberDomain(0, 90, bins=3), leakage=0.3),
                Feature("city", "insensitive", CategoryDomain(("a", "b")), leakage=0.1),
                Feature("year", "public", CategoryDomain(("x", "y"))),
            ),
            label=Label("back", BooleanDomain(), 0.0),
        ),
        **changes,
    )


def small_plan(n_rows=1000, epsilon=1.0, **changes):
    policy = small_policy(**changes)
    maker = Synthesizer(policy, epsilon=epsilon, delta=1e-6, selection="screen")
    return maker.plan(n_rows)


def moved_squares(codes, other, regions, sizes):
    return [
        int(np.sum((count_cells(codes, r, sizes) - count_cells(other, r, sizes)) ** 2))
        for r in regions
    ]


def test_search_attains_the_price_of_every_class_and_never_exceeds_it():
    plan = small_plan()
    sizes, rng = plan.columns.sizes, np.random.default_rng(0)
    columns = {name: i for i, name in enumerate(plan.columns.names)}
    for stage in (plan.singles, plan.pairs):
        for name, changed in class_columns(plan.policy).items():
            worst = Fraction(0)
            for _ in range(200):
                codes = np.column_stack([rng.integers(0, s, 6) for s in sizes])
                other = codes.copy()
                for column in changed:
                    index = columns[column]
                    other[0, index] = rng.integers(0, sizes[index])
                price = sum(
                    (
                        Fraction(square) / (2 * scale**2)
                        for square, scale in zip(
                            moved_squares(codes, other, stage.regions, sizes),
                            stage.scales,
                            strict=True,
                        )
                        if square
                    ),
                    Fraction(0),
                )
                assert price <= stage.cost(name)
                worst = max(worst, price)
            assert worst == stage.cost(name)


def test_tables_without_sensitive_columns_cost_sensitive_changes_nothing():
    plan = small_plan()
    sizes = plan.columns.sizes
    stage = plan_stage(
        [(1,), (1, 2), (2, 3)],
        sizes=sizes,
        changed=plan.singles.changed,
        limits={n: 1.0 for n in plan.refinement if n != WHOLE_RECORD},
    )
    assert stage.cost("sensitive") == 0
    assert stage.cost("insensitive:city") == sum(1 / s**2 for s in stage.scales[1:])


def test_tables_of_public_columns_are_exact_and_free():
    plan = small_plan()
    public = [
        scale
        for region, scale in zip(plan.pairs.regions, plan.pairs.scales, strict=True)
        if set(region) <= {3, 4}
    ]
    assert public == [Fraction(0)]


def test_less_noise_than_planned_is_refused():
    plan = small_plan().singles
    with pytest.raises(GuaranteeVoidError, match="rho"):
        StagePlan(
            plan.regions,
            tuple(scale * Fraction(99, 100) for scale in plan.scales),
            plan.changed,
            {name: float(plan.cost(name)) for name in plan.limits},
        )


def test_no_noise_on_a_table_that_moves_is_refused():
    plan = small_plan().singles
    with pytest.raises(GuaranteeVoidError, match="scale"):
        StagePlan(plan.regions, (Fraction(0),) * len(plan.regions), plan.changed, {})


def test_stages_add_up_to_the_budget_of_every_class():
    plan = small_plan()
    for name, epsilon in (("sensitive", 1.0), ("insensitive:age", 1 / 0.3)):
        whole = concentrated_rho(epsilon=epsilon, delta=1e-6)
        assert 0.999 * whole < plan.rho(name) <= whole
    assert plan.certificate().epsilon <= 1.0
    assert plan.certificate().verify(plan.policy)


def test_whole_record_is_priced_in_advance_and_holds_for_any_choice():
    plan = small_plan()
    claim = plan.certificate().classes[WHOLE_RECORD]
    assert math.isfinite(claim.epsilon)
    assert claim.epsilon >= plan.certificate().classes["sensitive"].epsilon
    every = list(itertools.combinations(range(5), 3))
    stage = plan_stage(
        every,
        sizes=plan.columns.sizes,
        changed=plan.singles.changed,
        limits=plan.refinement,
        n_rows=1000,
        most_noise=math.inf,
    )
    assert stage.cost(WHOLE_RECORD) <= Fraction(plan.refinement[WHOLE_RECORD])


def test_noise_that_would_drown_its_table_is_not_bought():
    changed = {"sensitive": frozenset({0, 1}), WHOLE_RECORD: frozenset({0, 1, 2})}
    regions = [(0,), (0, 1), (1, 2)]
    stage = plan_stage(
        regions,
        sizes=(2, 400, 400),
        changed=changed,
        limits={"sensitive": 1e-3},
        n_rows=10_000,
        most_noise=0.5,
    )
    assert stage.regions == ((0,),)


def test_released_counts_are_exact_counts_plus_the_planned_noise(monkeypatch):
    plan = small_plan()
    sizes, rng = plan.columns.sizes, np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, s, 1000) for s in sizes])
    drawn = []

    def recorded(scale, *, size, generator):
        noise = np.arange(size) - size // 2
        drawn.append((scale, noise))
        return noise

    monkeypatch.setattr("corrdp.synthesis._estimation.discrete_gaussian", recorded)
    shape = TableShape(sizes, 1000, 4, 10_000)
    release = release_tables(codes, plan, shape, noise=rng, choices=rng)
    planned = [
        *zip(plan.singles.regions, plan.singles.scales, strict=True),
        *zip(plan.pairs.regions, plan.pairs.scales, strict=True),
        *zip(release.refined.regions, release.refined.scales, strict=True),
    ]
    noisy = iter(drawn)
    for table, (region, scale) in zip(release.tables, planned, strict=True):
        exact = count_cells(codes, region, sizes)
        assert table.region == region
        assert table.noise_scale == float(scale)
        if not scale:
            assert (table.counts == exact).all()
            continue
        used, noise = next(noisy)
        assert used == scale
        assert (table.counts - exact == noise.reshape(exact.shape)).all()
    assert next(noisy, None) is None


@pytest.mark.statistical
def test_noise_of_released_tables_has_the_variance_that_is_priced():
    plan = small_plan()
    sizes = plan.columns.sizes
    codes = np.zeros((1000, 5), dtype=np.int64)
    stage = plan.singles
    rng = np.random.default_rng(7)
    squares = [
        (table.counts - count_cells(codes, table.region, sizes)).ravel() ** 2
        / table.noise_scale**2
        for _ in range(4000)
        for table in measure(codes, stage, sizes, rng)
        if table.noise_scale
    ]
    values = np.concatenate(squares)
    # Chi-squared of independent cells (Laurent and Massart 2000), false alarm 1e-9.
    radius = (
        2 * math.sqrt(math.log(2e9) / values.size) + 2 * math.log(2e9) / values.size
    )
    assert abs(values.mean() - 1.0) <= radius
    assert abs(0.81 * values.mean() - 1.0) > radius  # a tenth less noise is caught


def test_what_is_chosen_reads_noisy_tables_alone(monkeypatch):
    plan = small_plan()
    sizes = plan.columns.sizes
    fixed = {}

    def same_tables(codes, stage, sizes, generator):
        return tuple(
            NoisyTable(r, fixed.setdefault(r, count_cells(codes, r, sizes) + 0.0), 1.0)
            for r in stage.regions
        )

    monkeypatch.setattr("corrdp.synthesis._release.measure", same_tables)
    shape = TableShape(sizes, 1000, 4, 10_000)

    def chosen(seed):
        rng = np.random.default_rng(seed)
        codes = np.column_stack([rng.integers(0, s, 1000) for s in sizes])
        fresh = np.random.default_rng(0)
        return release_tables(codes, plan, shape, noise=fresh, choices=fresh).chosen

    assert chosen(1) == chosen(2)  # other rows, the same noisy tables


def test_measurements_of_one_region_are_averaged_by_precision():
    first = NoisyTable((0,), np.array([10.0, 0.0]), 1.0)
    second = NoisyTable((0,), np.array([0.0, 10.0]), 2.0)
    (table,) = combined([first, second])
    np.testing.assert_allclose(table.counts, [8.0, 2.0])
    assert table.noise_scale == pytest.approx(math.sqrt(0.8))
    (exact,) = combined([first, NoisyTable((0,), np.array([5.0, 5.0]), 0.0), second])
    assert exact.noise_scale == 0.0


def test_the_fit_reproduces_nearly_exact_tables():
    rng = np.random.default_rng(3)
    sizes = (3, 4, 2)
    codes = np.column_stack([rng.integers(0, s, 5000) for s in sizes])
    codes[:, 1] = np.where(rng.random(5000) < 0.7, codes[:, 0], codes[:, 1])
    regions = [(0, 1), (1, 2)]
    tables = [NoisyTable(r, count_cells(codes, r, sizes) + 0.0, 1.0) for r in regions]
    tree = junction_tree(regions, sizes)
    model, _ = fit_model(tree, softened(tables), n_rows=5000, sizes=sizes)
    for table in tables:
        np.testing.assert_allclose(
            5000 * marginal(model, table.region), table.counts, atol=5.0
        )


def test_the_fit_is_the_optimum_of_the_stated_dual():
    rng = np.random.default_rng(4)
    sizes = (2, 3)
    counts = np.array([[400.0, 100.0, 80.0], [20.0, 300.0, 100.0]])
    table = NoisyTable((0, 1), counts + rng.normal(size=(2, 3)), 30.0)
    model, theta = fit_model(
        junction_tree([(0, 1)], sizes), [table], n_rows=1000, sizes=sizes
    )
    # n P = y - sigma^2 theta, up to the constant that the total of y leaves open.
    gap = 1000 * marginal(model, (0, 1)) - table.counts + 900 * theta[(0, 1)]
    np.testing.assert_allclose(gap, 0.0, atol=0.5)


def test_the_fit_does_not_hang_on_the_number_of_threads(monkeypatch):
    found, seen = _estimation.minimize, []

    def threads():
        pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        return {pool["num_threads"] for pool in pools}

    def noted(*arguments, **options):
        seen.append(threads())
        return found(*arguments, **options)

    monkeypatch.setattr(_estimation, "minimize", noted)
    table = NoisyTable((0, 1), np.array([[400.0, 100.0], [20.0, 300.0]]), 30.0)
    tree = junction_tree([(0, 1)], (2, 2))
    with threadpool_limits(2, user_api="blas"):
        assert 2 in threads()
        fit_model(tree, [table], n_rows=820, sizes=(2, 2))
    assert seen == [{1}]


def test_a_budget_without_delta_is_refused():
    with pytest.raises(BudgetError, match="delta"):
        Synthesizer(small_policy(), epsilon=1.0, delta=0.0).plan(100)


def test_columns_that_do_not_fit_are_named():
    policy = Policy(
        (
            Feature("wide", "sensitive", NumberDomain(0, 1, bins=5000)),
            Feature("narrow", "sensitive", BooleanDomain()),
        )
    )
    maker = Synthesizer(policy, epsilon=1.0, delta=1e-6, max_cells=1000)
    with pytest.raises(PolicyError, match=r"'wide' \(5000 codes\)"):
        maker.plan(100)


def test_the_budget_is_that_of_the_policy():
    budget = Budget(epsilon=1.0, delta=1e-6)
    assert small_plan().budget == budget


def test_noise_of_many_tables_is_drawn_together_and_lies_where_it_belongs(monkeypatch):
    plan = small_plan()
    sizes, rng = plan.columns.sizes, np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, s, 1000) for s in sizes])
    asked = []

    def recorded(scale, *, size, generator):
        asked.append(scale)
        return np.full(size, int(scale * 4096))

    monkeypatch.setattr("corrdp.synthesis._release._DRAWN_ALONE", 0)
    monkeypatch.setattr("corrdp.synthesis._estimation.discrete_gaussian", recorded)
    tables = measure(codes, plan.pairs, sizes, rng)
    assert [table.region for table in tables] == list(plan.pairs.regions)
    for table, scale in zip(tables, plan.pairs.scales, strict=True):
        exact = count_cells(codes, table.region, sizes)
        assert (table.counts - exact == int(scale * 4096)).all()
    assert len(asked) == len(set(asked)) == len(set(plan.pairs.scales) - {0})

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

from corrdp.accounting import (
    allocate_noise,
    isotropic_noise,
    step_mu,
)
from corrdp.accounting._allocation import is_within_budget
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    UtilityWarning,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the oracle's own deprecations are not ours
    import cvxpy


minimize_cost = allocate_noise.__globals__["minimize_cost"]


def random_instance(seed, *, largest=50):
    """Return a table with zero entries, a zero column and mixed budgets."""
    rng = np.random.default_rng(seed)
    n_rows, n_groups = rng.integers(1, largest + 1, size=2)
    sensitivity = rng.random((n_rows, n_groups)) * (
        rng.random((n_rows, n_groups)) < 0.7
    )
    sensitivity[:, rng.integers(n_groups)] = 0.0
    return {
        "sensitivity": sensitivity,
        "budget_mu": rng.uniform(0.05, 1.0, n_rows),
        "sizes": rng.integers(1, 40, n_groups),
        "weights": rng.uniform(0.5, 2.0, n_groups),
    }


def oracle_objective(sensitivity, budget_mu, sizes, weights):
    """Return the optimum found by a general convex solver, in units it likes."""
    load = (sensitivity / budget_mu[:, None]) ** 2
    load, cost = load[:, load.any(axis=0)], (sizes * weights)[load.any(axis=0)]
    if not cost.size:
        return 0.0
    unit = np.sqrt(load.max(axis=0) / cost)
    unit *= (load / unit).sum(axis=1).max()
    cost = cost * unit
    precision = cvxpy.Variable(cost.size)
    total = cvxpy.sum(cvxpy.multiply(cost / cost.sum(), cvxpy.inv_pos(precision)))
    problem = cvxpy.Problem(cvxpy.Minimize(total), [(load / unit) @ precision <= 1.0])
    problem.solve(
        solver=cvxpy.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9, tol_feas=1e-9
    )
    return float(problem.value) * cost.sum()


def plant(monkeypatch, function, name, value):
    """Replace what `function` itself looks up, however its module was imported."""
    monkeypatch.setitem(function.__globals__, name, value)


def plain_price(sensitivity, noise_scale):
    """Return squared mu per row the way a reader would write it."""
    safe = np.where(noise_scale > 0, noise_scale, 1.0)
    return np.sum((sensitivity / safe) ** 2, axis=1)


class TestStepMu:
    def test_adds_groups_in_squares(self):
        table = np.array([[3.0, 4.0], [0.0, 2.0]])
        np.testing.assert_array_equal(step_mu(table, np.array([1.0, 1.0])), [5.0, 2.0])
        np.testing.assert_array_equal(step_mu(table, np.array([2.0, 2.0])), [2.5, 1.0])

    def test_a_group_without_noise_is_free_only_if_it_never_moves(self):
        table = np.array([[0.0, 1.0], [1e-300, 1.0]])
        np.testing.assert_array_equal(step_mu(table, np.array([0.0, 1.0])), [1, np.inf])

    def test_an_unbounded_change_has_no_price(self):
        assert step_mu(np.array([[np.inf, 0.0]]), np.array([1.0, 1.0]))[0] == np.inf

    @pytest.mark.parametrize(
        ("table", "noise_scale", "message"),
        [
            ([[1.0, 2.0]], [1.0], "noise_scale must have one entry per group, 2"),
            ([[np.nan, 2.0]], [1.0, 1.0], r"got nan at index \(0, 0\)"),
            ([[1.0, 2.0]], [1.0, -1.0], r"got -1.0 at index \(1,\)"),
            ([[1.0, 2.0]], [1.0, np.inf], r"got inf at index \(1,\)"),
        ],
    )
    def test_refuses_what_has_no_meaning(self, table, noise_scale, message):
        with pytest.raises(CorrDPError, match=message):
            step_mu(table, noise_scale)


class TestOptimum:
    @pytest.mark.parametrize("seed", range(30))
    def test_agrees_with_a_general_convex_solver(self, seed):
        instance = random_instance(seed)
        allocation = allocate_noise(**instance)
        assert allocation.objective == pytest.approx(
            oracle_objective(**instance), rel=1e-6
        )
        assert allocation.optimality_gap <= 1e-9

    @pytest.mark.parametrize("n_shared", [2, 120])
    def test_rows_that_move_one_group_each_may_be_eliminated_first(
        self, n_shared, monkeypatch
    ):
        rng = np.random.default_rng(n_shared)
        n_groups = 90
        lone = np.diag(rng.uniform(0.1, 1.0, n_groups))[rng.integers(n_groups, size=99)]
        shared = rng.random((n_shared, n_groups)) * (
            rng.random((n_shared, n_groups)) < 0.6
        )
        sensitivity = rng.permutation(np.vstack([lone, shared]), axis=0)
        instance = {
            "budget_mu": rng.uniform(0.05, 1.0, len(sensitivity)),
            "sizes": rng.integers(1, 9, n_groups),
        }
        split = allocate_noise(sensitivity, **instance)
        minimize = minimize_cost.__globals__["_minimize_cost"]
        plant(monkeypatch, minimize, "MANY_LONE_ROWS", 10**6)
        whole = allocate_noise(sensitivity, **instance)
        assert split.optimality_gap <= 1e-9
        assert split.iterations <= whole.iterations + 1
        assert split.objective == pytest.approx(whole.objective, rel=1e-9)
        np.testing.assert_allclose(split.noise_scale, whole.noise_scale, rtol=1e-4)
        assert (split.noise_scale != whole.noise_scale).any()  # two ways, indeed

    def test_the_comparison_catches_a_suboptimal_allocation(self):
        for seed in range(5):
            instance = random_instance(seed)
            caught = isotropic_noise(**instance).objective
            assert caught > oracle_objective(**instance) * (1 + 1e-3)

    def test_one_row_has_a_closed_form(self):
        sensitivity = np.array([[0.1, 2.0, 0.7]])
        sizes, weights = np.array([1, 8, 30]), np.array([1.0, 0.5, 3.0])
        allocation = allocate_noise(
            sensitivity, budget_mu=[0.4], sizes=sizes, weights=weights
        )
        shape = np.sqrt(sizes * weights) / sensitivity[0]
        expected = shape * 0.4**2 / np.sum(sensitivity[0] ** 2 * shape)
        np.testing.assert_allclose(allocation.precision, expected, rtol=1e-6)
        least = np.sum(np.sqrt(sizes * weights) * sensitivity[0]) ** 2 / 0.4**2
        assert allocation.objective == pytest.approx(least, rel=1e-9)

    def test_one_class_and_one_group_is_isotropic(self):
        arguments = {"budget_mu": [0.25], "sizes": [7]}
        allocation = allocate_noise([[2.0]], **arguments)
        assert allocation.noise_scale[0] == pytest.approx(8.0, rel=1e-12)
        isotropic = isotropic_noise([[2.0]], **arguments)
        assert allocation.objective == pytest.approx(isotropic.objective, rel=1e-12)

    @pytest.mark.parametrize("seed", range(20))
    def test_badly_scaled_tables_are_solved_to_the_same_gap(self, seed):
        rng = np.random.default_rng(seed)
        shape = rng.integers(1, 40, size=2)
        sensitivity = 10.0 ** rng.uniform(-6, 6, shape) * (rng.random(shape) < 0.5)
        allocation = allocate_noise(
            sensitivity,
            budget_mu=10.0 ** rng.uniform(-3, 1, shape[0]),
            sizes=rng.integers(1, 100, shape[1]),
            weights=10.0 ** rng.uniform(-3, 3, shape[1]),
        )
        assert allocation.optimality_gap <= 1e-9
        assert allocation.iterations <= 30

    def test_repeated_rows_change_nothing(self):
        instance = random_instance(3)
        once = allocate_noise(**instance)
        instance["sensitivity"] = np.repeat(instance["sensitivity"], 3, axis=0)
        instance["budget_mu"] = np.repeat(instance["budget_mu"], 3)
        thrice = allocate_noise(**instance)
        assert thrice.objective == pytest.approx(once.objective, rel=1e-9)

    def test_an_extra_linear_row_is_just_a_row(self):
        sensitivity = np.array([[0.2, 0.1]])
        contribution = np.array([[1.0, 1.0]])
        without = allocate_noise(sensitivity, budget_mu=[1.0], sizes=[1, 1])
        both = allocate_noise(
            np.vstack([sensitivity, contribution]), budget_mu=[1.0, 2.0], sizes=[1, 1]
        )
        assert step_mu(contribution, without.noise_scale)[0] > 2.0
        assert step_mu(contribution, both.noise_scale)[0] <= 2.0

    def test_less_budget_may_mean_less_noise_for_one_group_but_not_in_total(self):
        rows = [[1.0, 1.0], [0.0, 1.0]]
        loose = allocate_noise(rows, budget_mu=[1.0, 1.0], sizes=[1, 1])
        tight = allocate_noise(rows, budget_mu=[1.0, 0.5], sizes=[1, 1])
        assert loose.precision == pytest.approx([0.5, 0.5], rel=1e-4)
        assert tight.precision == pytest.approx([0.75, 0.25], rel=1e-4)
        assert loose.objective == pytest.approx(4.0, rel=1e-9)
        assert tight.objective == pytest.approx(16 / 3, rel=1e-9)


class TestCertificateOfOptimality:
    def test_multipliers_prove_the_gap(self):
        instance = random_instance(11)
        allocation = allocate_noise(**instance)
        dual = allocation.multipliers
        cost = instance["sizes"] * instance["weights"]
        pull = dual @ instance["sensitivity"] ** 2
        lower = np.sum(np.sqrt(cost * pull)) ** 2 / (dual @ instance["budget_mu"] ** 2)
        assert np.all(dual >= 0)
        assert lower >= allocation.objective * (1 - allocation.optimality_gap - 1e-12)
        assert lower <= allocation.objective * (1 + 1e-12)

    def test_a_multiplier_is_what_more_budget_would_save(self):
        instance = random_instance(4, largest=8)
        before = allocate_noise(**instance)
        row = int(before.multipliers.argmax())
        more = instance["budget_mu"].copy()
        more[row] = np.sqrt(more[row] ** 2 + 1e-6)
        after = allocate_noise(**{**instance, "budget_mu": more})
        saved = (before.objective - after.objective) / 1e-6
        assert saved == pytest.approx(before.multipliers[row], rel=1e-2)

    @pytest.mark.parametrize("failure", ["iterations", "factorization"])
    def test_a_solver_that_stops_early_is_feasible_and_says_so(
        self, failure, monkeypatch
    ):
        if failure == "iterations":
            plant(monkeypatch, minimize_cost, "MAX_ITERATIONS", 0)
        else:
            plant(monkeypatch, minimize_cost, "dpotrf", lambda matrix, **_: (matrix, 1))
        instance = random_instance(5)
        with pytest.warns(UtilityWarning, match="above the least possible"):
            allocation = allocate_noise(**instance)
        true_gap = 1 - oracle_objective(**instance) / allocation.objective
        assert allocation.iterations == 0
        assert allocation.optimality_gap >= true_gap > 0
        mu = step_mu(instance["sensitivity"], allocation.noise_scale)
        assert np.all(mu <= instance["budget_mu"])


class TestFeasibility:
    @staticmethod
    def violations(n_instances=60):
        """Count instances whose price exceeds the budget by as little as one bit."""
        count = 0
        for seed in range(n_instances):
            instance = random_instance(seed, largest=30)
            noise_scale = allocate_noise(**instance).noise_scale
            price = plain_price(instance["sensitivity"], noise_scale)
            mu = step_mu(instance["sensitivity"], noise_scale)
            fits = (price <= instance["budget_mu"] ** 2) & (mu <= instance["budget_mu"])
            count += not fits.all()
        return count

    def test_holds_to_the_last_bit(self):
        assert self.violations() == 0

    def test_rounding_left_alone_is_caught(self, monkeypatch):
        plant(monkeypatch, allocate_noise, "_hold_exactly", lambda _, noise: noise)
        assert self.violations() > 0

    def test_the_noise_is_raised_by_rounding_only(self):
        allocation = isotropic_noise([[3.0, 4.0]], budget_mu=[0.5], sizes=[1, 1])
        assert 10.0 <= allocation.noise_scale[0] <= 10.0 * (1 + 1e-14)

    @pytest.mark.parametrize("budget", [1e-158, 1e-162, 1e-170, 1e-300, 1e200])
    def test_budgets_whose_square_is_not_a_normal_float(self, budget):
        sensitivity = np.array([[3.0, 4.0, 1.0], [1.0, 0.0, 9.0]]) * 1e-20
        for solve in (allocate_noise, isotropic_noise):
            with warnings.catch_warnings():
                # Exactness is bought with noise where squares lose their digits.
                warnings.simplefilter("ignore", UtilityWarning)
                noise_scale = solve(
                    sensitivity, budget_mu=[budget, 3 * budget], sizes=[1, 2, 3]
                ).noise_scale
            assert np.all(noise_scale > 0)
            assert np.all(step_mu(sensitivity, noise_scale) <= [budget, 3 * budget])

    def test_a_change_too_small_to_square_still_gets_noise(self):
        sensitivity = np.array([[1e-200, 1.0], [5e-324, 0.0]])
        allocation = allocate_noise(sensitivity, budget_mu=[1.0, 1e10], sizes=[1, 1])
        assert np.all(allocation.noise_scale > 0)
        assert np.all(step_mu(sensitivity, allocation.noise_scale) <= [1.0, 1e10])

    @pytest.mark.parametrize("solve", [allocate_noise, isotropic_noise])
    @pytest.mark.parametrize(("largest", "budget"), [(1e300, 1e-300), (1e308, 1.0)])
    def test_noise_beyond_floats_is_refused(self, solve, largest, budget):
        with pytest.raises(BudgetError, match="more noise than a float can hold"):
            solve(np.full((1, 4), largest), budget_mu=[budget], sizes=[1] * 4)


class TestZerosAndInfinities:
    def test_a_column_that_never_moves_gets_exactly_no_noise(self):
        allocation = allocate_noise(
            [[1.0, 0.0, 0.5], [0.2, 0.0, 1.0]], budget_mu=[1.0, 1.0], sizes=[1, 5, 1]
        )
        assert allocation.noise_scale[1] == 0.0
        assert allocation.precision[1] == np.inf
        assert np.all(allocation.noise_scale[[0, 2]] > 0.0)

    def test_an_unconstrained_row_asks_for_nothing_and_is_priced_honestly(self):
        sensitivity = np.array([[1.0, 0.0], [5.0, 5.0]])
        allocation = allocate_noise(sensitivity, budget_mu=[1.0, np.inf], sizes=[1, 1])
        assert allocation.noise_scale[1] == 0.0
        assert step_mu(sensitivity, allocation.noise_scale)[1] == np.inf

    def test_nothing_to_protect_needs_nothing(self):
        for table, budget in (([[0.0, 0.0]], 1.0), ([[1.0, 2.0]], np.inf)):
            for solve in (allocate_noise, isotropic_noise):
                allocation = solve(table, budget_mu=[budget], sizes=[1, 1])
                np.testing.assert_array_equal(allocation.noise_scale, [0.0, 0.0])
                assert allocation.objective == 0.0
                assert allocation.optimality_gap == 0.0

    def test_a_zero_budget_suits_a_row_that_never_moves(self):
        allocation = allocate_noise(
            [[0.0, 0.0], [1.0, 1.0]], budget_mu=[0.0, 1.0], sizes=[1, 1]
        )
        assert np.all(allocation.noise_scale > 0)

    def test_a_single_scale_covers_every_group(self):
        allocation = isotropic_noise(
            [[1.0, 0.0], [0.0, 0.0]], budget_mu=[0.5, 0.1], sizes=[1, 3]
        )
        assert allocation.noise_scale == pytest.approx([2.0, 2.0])
        assert allocation.objective == pytest.approx(16.0)
        assert allocation.multipliers == pytest.approx([64.0, 0.0])


GOOD = {"budget_mu": [1.0, 1.0], "sizes": [1, 1], "weights": [1.0, 1.0]}
TABLE = [[1.0, 0.5], [0.5, 1.0]]


@pytest.mark.parametrize("solve", [allocate_noise, isotropic_noise])
class TestBadInput:
    @pytest.mark.parametrize(
        ("table", "error", "message"),
        [
            (
                [[1.0, np.inf], [1, 1]],
                GuaranteeVoidError,
                r"infinite at index \(0, 1\)",
            ),
            ([[1.0, 1.0], [np.nan, 1]], CorrDPError, r"got nan at index \(1, 0\)"),
            ([[1.0, -2.0], [1, 1]], CorrDPError, r"got -2.0 at index \(0, 1\)"),
            ([1.0, 2.0], CorrDPError, "sensitivity must have 2 dimension"),
            (np.empty((0, 2)), CorrDPError, r"a row and a group, got shape \(0, 2\)"),
            ("table", CorrDPError, "sensitivity must be an array of numbers"),
        ],
    )
    def test_sensitivity(self, solve, table, error, message):
        with pytest.raises(error, match=message):
            solve(table, **GOOD)

    @pytest.mark.parametrize(
        ("name", "value", "error", "message"),
        [
            ("budget_mu", [1.0, 0.0], BudgetError, r"budget_mu\[1\]=0.0 but row 1"),
            ("budget_mu", [1.0, -1.0], BudgetError, r"got -1.0 at index \(1,\)"),
            ("budget_mu", [np.nan, 1.0], BudgetError, r"got nan at index \(0,\)"),
            ("budget_mu", [1.0], BudgetError, "one entry per row, 2 in all, got 1"),
            ("budget_mu", None, BudgetError, "budget_mu must have 1 dimension"),
            ("sizes", [1, 0], CorrDPError, "sizes must be positive, got 0 at index 1"),
            ("sizes", [1, 2, 3], CorrDPError, "one entry per group"),
            ("sizes", [1, np.inf], CorrDPError, r"got inf at index \(1,\)"),
            ("weights", [0.0, 1.0], CorrDPError, "weights must be positive, got 0"),
            ("weights", [1.0], CorrDPError, "weights must have one entry per group"),
        ],
    )
    def test_other_arguments(self, solve, name, value, error, message):
        with pytest.raises(error, match=message):
            solve(TABLE, **{**GOOD, name: value})

    def test_weights_of_the_wrong_length_alone_are_refused(self, solve):
        with pytest.raises(CorrDPError, match="sizes must have one entry per group, 2"):
            solve(TABLE, budget_mu=[1.0, 1.0], sizes=[1, 1, 1])


class TestCostsAtMost:
    """The check of every training step agrees with `step_mu`, and can fail."""

    TABLE = np.array([[3.0, 4.0], [0.0, 2.0]])

    @pytest.mark.parametrize("noise_scale", [[1.0, 1.0], [2.0, 0.5], [0.3, 7.0]])
    def test_it_is_the_price_of_the_step_that_counts(self, noise_scale):
        noise_scale = np.array(noise_scale)
        price = step_mu(self.TABLE, noise_scale)
        assert is_within_budget(self.TABLE, noise_scale, price)
        for row in range(2):
            less = price.copy()
            less[row] = np.nextafter(less[row], 0.0)
            assert not is_within_budget(self.TABLE, noise_scale, less)

    def test_no_noise_is_enough_only_where_nothing_moves(self):
        huge = np.full(2, 1e300)
        assert not is_within_budget(self.TABLE, np.array([0.0, 1.0]), huge)
        assert is_within_budget(self.TABLE[1:], np.array([0.0, 1.0]), huge[:1])

    def test_what_is_not_a_number_is_too_much(self):
        assert not is_within_budget(
            self.TABLE, np.array([np.nan, 1.0]), np.full(2, 1e9)
        )
        assert not is_within_budget(self.TABLE * np.nan, np.ones(2), np.full(2, 1e9))


def test_costs_too_far_apart_are_refused_and_not_searched_for_ever():
    for weights in ([1e-176, 1e148], [1e308, 1e308]):
        with pytest.raises(CorrDPError, match="factor"):
            allocate_noise([[2.0, 0.0]], budget_mu=[0.1], sizes=[1, 9], weights=weights)


def large_sparse_table(n_rows=80, n_groups=1_000):
    """Return a table in which a group moves three rows, and some rows one group."""
    rng = np.random.default_rng(0)
    entries = []
    for group in range(n_groups):
        for row in {0, *rng.integers(n_rows, size=2).tolist()}:
            entries.append((row, group, rng.uniform(0.1, 2.0)))
    rows, groups, values = map(np.array, zip(*entries, strict=True))
    # Entries in two parts: what lies twice at a place is their sum.
    both = np.tile(rows, 2), np.tile(groups, 2)
    table = csr_array((np.tile(values / 2, 2), both), shape=(n_rows, n_groups))
    lone = csr_array((np.ones(70), (range(70), range(70))), shape=(70, n_groups))
    return table, lone


@pytest.mark.parametrize("has_lone_rows", [False, True])
def test_a_large_sparse_table_has_the_noise_of_the_same_table_with_zeros(has_lone_rows):
    sparse, lone = large_sparse_table()
    if has_lone_rows:
        sparse = csr_array(np.vstack([sparse.toarray(), lone.toarray()]))
    rng = np.random.default_rng(1)
    terms = {
        "budget_mu": rng.uniform(0.1, 3.0, sparse.shape[0]),
        "sizes": rng.integers(1, 400, sparse.shape[1]).astype(float),
    }
    terms["budget_mu"][5] = np.inf  # a row that is not protected
    dense = sparse.toarray()
    found = allocate_noise(sparse, **terms)
    np.testing.assert_allclose(
        found.noise_scale, allocate_noise(dense, **terms).noise_scale, rtol=1e-6
    )
    assert np.all(step_mu(dense, found.noise_scale) <= terms["budget_mu"])


def test_entries_of_a_sparse_table_that_lie_at_one_place_are_added():
    n_rows, n_groups = 80, 1_000
    indices = np.repeat(np.arange(n_groups), 2)  # every entry twice, each a half
    table = csr_array(
        (
            np.full(2 * n_groups * n_rows, 0.5),
            np.tile(indices, n_rows),
            np.arange(n_rows + 1) * 2 * n_groups,
        ),
        shape=(n_rows, n_groups),
    )
    found = allocate_noise(table, budget_mu=np.ones(n_rows), sizes=np.ones(n_groups))
    np.testing.assert_allclose(found.noise_scale, np.sqrt(n_groups), rtol=1e-9)
    assert table.nnz == 2 * n_groups * n_rows  # as the caller had it


@pytest.mark.parametrize("entry", [-1.0, np.nan, np.inf])
def test_a_large_sparse_table_is_checked(entry):
    table, _ = large_sparse_table()
    table.data[7] = entry
    with pytest.raises(CorrDPError, match="sensitivity must hold non-negative finite"):
        allocate_noise(table, budget_mu=np.ones(80), sizes=np.ones(1_000))


def test_a_row_of_a_large_sparse_table_without_budget_is_refused():
    table, _ = large_sparse_table()
    budget_mu = np.ones(80)
    budget_mu[0] = 0.0
    with pytest.raises(BudgetError, match=r"budget_mu\[0\]=0.0"):
        allocate_noise(table, budget_mu=budget_mu, sizes=np.ones(1_000))
    budget_mu[0] = 5e-324
    table.data[:] *= 1e200
    with pytest.raises(BudgetError, match=r"budget_mu\[0\]=5e-324 needs more noise"):
        allocate_noise(table, budget_mu=budget_mu, sizes=np.ones(1_000))

import numpy as np
import pytest

from corrdp.accounting import (
    OnlineAllocator,
    _online_allocation,
    allocate_noise,
    step_mu,
)
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError

SIZES = np.array([3, 1, 20, 8])
BUDGET = np.array([0.3, 0.5, 1.0])


@pytest.fixture(params=["compiled", "numpy"], autouse=True)
def arithmetic(request, monkeypatch):
    """Run every test on both implementations."""
    if request.param == "numpy":
        monkeypatch.setattr(_online_allocation, "_compiled_update", lambda: None)


def test_both_implementations_give_the_same_noise():
    one, two = (
        OnlineAllocator(SIZES, budget_mu=BUDGET, compiled=compiled)
        for compiled in (True, False)
    )
    for seed in range(20):
        sensitivity = table(seed)
        if seed == 7:
            sensitivity[:, 2] = 0.0
        np.testing.assert_allclose(
            one.update(sensitivity), two.update(sensitivity), rtol=1e-10
        )


def table(seed, shape=(3, 4)):
    return np.random.default_rng(seed).random(shape) + 0.05


def total_variance(noise_scale, sizes=SIZES):
    return float(np.sum(sizes * noise_scale**2))


def excess(noise_scale, sensitivity, *, budget_mu=BUDGET, sizes=SIZES):
    """Return how far the noise is above the optimum, relatively."""
    least = allocate_noise(sensitivity, budget_mu=budget_mu, sizes=sizes).objective
    return total_variance(noise_scale, sizes) / least - 1


class TestConvergence:
    @pytest.mark.parametrize("seed", range(12))
    def test_repeated_updates_of_one_table_reach_the_optimum(self, seed):
        # Usually 1e-6 after 25 iterations; nearly tied rows need a few hundred.
        rng = np.random.default_rng(seed)
        sensitivity = 10.0 ** rng.uniform(-1, 1, (10, 10))
        budget, sizes = rng.uniform(0.1, 1.0, 10), rng.integers(1, 50, 10)
        allocator = OnlineAllocator(sizes, budget_mu=budget)
        for _ in range(250):
            noise_scale = allocator.update(sensitivity)
        above = excess(noise_scale, sensitivity, budget_mu=budget, sizes=sizes)
        assert -1e-9 <= above <= 1e-4

    def test_more_iterations_per_call_come_closer(self):
        sensitivity = table(0)
        calls = [
            OnlineAllocator(SIZES, budget_mu=BUDGET, n_iterations=n).update(sensitivity)
            for n in (1, 4, 64)
        ]
        first, second, third = (excess(call, sensitivity) for call in calls)
        assert first > second > third
        assert third <= 1e-6

    def test_weights_move_noise_to_cheap_groups(self):
        weights = np.array([100.0, 1.0, 1.0, 1.0])
        plain = OnlineAllocator(SIZES, budget_mu=BUDGET, n_iterations=50)
        weighted = OnlineAllocator(
            SIZES, budget_mu=BUDGET, weights=weights, n_iterations=50
        )
        before, after = plain.update(table(1)), weighted.update(table(1))
        assert after[0] < before[0]
        assert np.all(after[1:] > before[1:])


class TestMonotoneDual:
    LOAD = np.diag([1.0, 4.0, 9.0, 1.0, 2.0, 3.0]) + 0.1 * table(5, (6, 6))

    @staticmethod
    def bounds(exponent, n_steps=30):
        """Return the dual bounds of successive multiplicative updates."""
        load, dual, found = TestMonotoneDual.LOAD, np.ones(6), []
        for _ in range(n_steps):
            pull = np.sqrt(dual @ load)
            found.append(pull.sum() ** 2 / dual.sum())
            dual = dual * (load @ (1 / pull)) ** exponent
            dual /= dual.max()  # the bound does not depend on the scale
        return np.array(found)

    def test_the_bound_never_falls(self):
        bounds = self.bounds(exponent=2)
        assert np.all(np.diff(bounds) >= -1e-12 * bounds[:-1])

    def test_a_wrong_exponent_is_caught(self):
        bounds = self.bounds(exponent=6)
        assert np.any(np.diff(bounds) < -1e-6 * bounds[:-1])

    def test_the_allocator_takes_exactly_these_steps(self):
        load = self.LOAD
        allocator = OnlineAllocator(np.ones(6), budget_mu=np.ones(6), n_iterations=1)
        allocator._dual_floor = 0.0
        found = []
        for _ in range(30):
            dual = allocator._dual.copy()
            found.append(np.sqrt(dual @ load).sum() ** 2 / dual.sum())
            allocator.update(np.sqrt(load))
        np.testing.assert_allclose(found, self.bounds(exponent=2), rtol=1e-12)


class TestRecovery:
    LOOSE = np.array([[1.0, 1.0], [0.01, 0.01]])
    TIGHT = np.array([[1.0, 1.0], [0.01, 30.0]])

    def excess_after_tightening(self, *, plant_no_floor=False, n_calls=10):
        allocator = OnlineAllocator([1, 1], budget_mu=[1.0, 1.0])
        if plant_no_floor:
            allocator._dual_floor = 0.0
        for _ in range(300):
            allocator.update(self.LOOSE)
        for _ in range(n_calls):
            noise_scale = allocator.update(self.TIGHT)
        return excess(noise_scale, self.TIGHT, budget_mu=[1.0, 1.0], sizes=[1, 1])

    def test_a_loose_class_that_tightens_is_followed(self):
        assert self.excess_after_tightening() <= 1e-3

    def test_without_the_floor_it_is_not(self):
        assert self.excess_after_tightening(plant_no_floor=True) > 0.5

    def test_a_class_that_stood_still_may_move_again(self):
        allocator = OnlineAllocator(SIZES, budget_mu=BUDGET)
        still, moving = table(2), table(2)
        still[1] = 0.0
        for _ in range(50):
            allocator.update(still)
        for _ in range(50):
            noise_scale = allocator.update(moving)
        assert excess(noise_scale, moving) <= 1e-3


class TestEveryStepFitsItsOwnTable:
    def test_a_group_that_stands_still_has_no_noise_until_it_moves(self):
        allocator = OnlineAllocator(SIZES, budget_mu=BUDGET)
        still, moving = table(3), table(3)
        still[:, 2] = 0.0
        for _ in range(20):
            quiet = allocator.update(still)
        assert quiet[2] == 0.0
        assert np.all(quiet[[0, 1, 3]] > 0.0)
        loud = allocator.update(moving)
        assert loud[2] > 0.0
        assert np.all(step_mu(moving, loud) <= BUDGET)

    def test_noise_kept_from_an_earlier_step_is_caught(self):
        allocator = OnlineAllocator(SIZES, budget_mu=BUDGET)
        still, moving = table(3), table(3)
        still[:, 2] = 0.0
        kept = allocator.update(still)
        assert np.all(step_mu(moving, kept) == np.inf)

    def test_rows_without_a_budget_ask_for_nothing(self):
        sensitivity = table(4)
        allocator = OnlineAllocator(SIZES, budget_mu=[0.3, np.inf, 1.0])
        sensitivity[[0, 2], 1] = 0.0
        noise_scale = allocator.update(sensitivity)
        assert noise_scale[1] == 0.0
        mu = step_mu(sensitivity, noise_scale)
        assert mu[0] <= 0.3
        assert mu[1] == np.inf
        assert mu[2] <= 1.0

    def test_nothing_to_protect_needs_nothing(self):
        free = OnlineAllocator(SIZES, budget_mu=[np.inf, np.inf])
        np.testing.assert_array_equal(free.update(table(0, (2, 4))), np.zeros(4))
        allocator = OnlineAllocator(SIZES, budget_mu=BUDGET)
        np.testing.assert_array_equal(allocator.update(np.zeros((3, 4))), np.zeros(4))
        assert np.all(allocator.update(table(0)) > 0.0)

    @pytest.mark.parametrize("scale", [1e-290, 1e-100, 1e-31, 1e31, 1e100, 1e290])
    def test_tables_beyond_the_fast_range_are_solved_from_scratch(self, scale):
        allocator = OnlineAllocator(SIZES, budget_mu=BUDGET)
        allocator.update(table(6))
        sensitivity = table(7) * scale
        noise_scale = allocator.update(sensitivity)
        assert np.all(noise_scale > 0.0)
        assert np.all(step_mu(sensitivity, noise_scale) <= BUDGET)
        back = allocator.update(table(6))
        assert np.all(step_mu(table(6), back) <= BUDGET)

    def test_a_failed_check_falls_back_to_the_solver(self):
        allocator = OnlineAllocator(SIZES, budget_mu=BUDGET)
        allocator._margin = 0.5  # half the variance that the rows need
        noise_scale = allocator.update(table(8))
        assert np.all(step_mu(table(8), noise_scale) <= BUDGET)
        assert excess(noise_scale, table(8)) <= 1e-9

    def test_the_result_belongs_to_the_caller(self):
        allocator = OnlineAllocator(SIZES, budget_mu=BUDGET)
        first = allocator.update(table(0))
        kept = first.copy()
        allocator.update(table(1))
        np.testing.assert_array_equal(first, kept)


class TestBadInput:
    @pytest.mark.parametrize(
        ("index", "value", "error", "message"),
        [
            ((1, 2), np.inf, GuaranteeVoidError, r"infinite at index \(1, 2\)"),
            ((1, 2), np.nan, CorrDPError, r"got nan at index \(1, 2\)"),
            ((0, 3), -1.0, CorrDPError, r"got -1.0 at index \(0, 3\)"),
        ],
    )
    @pytest.mark.parametrize("second_budget", [1.0, np.inf])
    def test_an_entry(self, index, value, error, message, second_budget):
        allocator = OnlineAllocator(SIZES, budget_mu=[1.0, second_budget, 1.0])
        sensitivity = table(0)
        sensitivity[index] = value
        with pytest.raises(error, match=message):
            allocator.update(sensitivity)

    def test_the_shape(self):
        allocator = OnlineAllocator(SIZES, budget_mu=BUDGET)
        with pytest.raises(CorrDPError, match=r"shape \(3, 4\).*got \(4, 3\)"):
            allocator.update(table(0, (4, 3)))

    def test_the_type(self):
        allocator = OnlineAllocator(SIZES, budget_mu=BUDGET)
        with pytest.raises(
            CorrDPError, match="sensitivity must be an array of numbers"
        ):
            allocator.update("table")
        whole = np.array([[1, 2, 0, 4], [0, 1, 0, 1], [3, 0, 0, 1]])
        for sensitivity in (whole, whole.tolist(), np.asfortranarray(whole)):
            noise_scale = allocator.update(sensitivity)
            assert np.all(step_mu(whole, noise_scale) <= BUDGET)

    def test_a_row_that_moves_on_no_budget(self):
        allocator = OnlineAllocator(SIZES, budget_mu=[1.0, 0.0, 1.0])
        silent = table(0)
        silent[1] = 0.0
        assert np.all(allocator.update(silent) > 0.0)
        with pytest.raises(BudgetError, match=r"budget_mu\[1\]=0.0 but row 1"):
            allocator.update(table(0))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"n_iterations": 0}, "n_iterations must be a whole number of at least 1"),
            (
                {"budget_mu": [1.0, np.nan, 1.0]},
                r"budget_mu .* got nan at index \(1,\)",
            ),
            ({"weights": [1.0, 1.0, 0.0, 1.0]}, "weights must be positive, got 0 at"),
        ],
    )
    def test_the_constructor(self, arguments, message):
        with pytest.raises(CorrDPError, match=message):
            OnlineAllocator(SIZES, **{"budget_mu": BUDGET, **arguments})

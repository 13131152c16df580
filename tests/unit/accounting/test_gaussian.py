"""The Gaussian curve and its inverses against a slow twin in many digits."""

import math

import mpmath
import pytest

from corrdp.accounting import (
    composed_mu,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_noise_multiplier,
    gaussian_steps,
    noise_multiplier_mu,
)
from corrdp.exceptions import BudgetError, CorrDPError

EPSILONS = [1e-4, 3e-3, 0.1, 1.0, 7.0, 60.0, 1e3]
DELTAS = [1e-2, 1e-5, 1e-10, 1e-40, 1e-150, 1e-300]
BUDGETS = [(epsilon, delta) for epsilon in EPSILONS for delta in DELTAS]


def slow_delta(epsilon, mu):
    """The textbook formula, with digits enough to subtract its two terms."""
    with mpmath.workdps(80):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        first = mpmath.erfc((epsilon / mu - mu / 2) / mpmath.sqrt(2)) / 2
        second = mpmath.erfc((epsilon / mu + mu / 2) / mpmath.sqrt(2)) / 2
        return first - mpmath.exp(epsilon) * second


def slow_root(function, target, start):
    with mpmath.workdps(60):
        logarithm = mpmath.log(mpmath.mpf(target))
        pair = (mpmath.mpf(start), mpmath.mpf(start) * (1 + mpmath.mpf("1e-8")))
        root = mpmath.findroot(
            lambda value: mpmath.log(function(value)) - logarithm, pair, tol=1e-30
        )
        return float(root)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_curve_and_both_inverses_agree_with_the_slow_twin(epsilon, delta):
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    exact_mu = slow_root(lambda value: slow_delta(epsilon, value), delta, mu)
    assert mu == pytest.approx(exact_mu, rel=1e-10, abs=0)
    price = gaussian_epsilon(mu=mu, delta=delta)
    exact_price = slow_root(lambda value: slow_delta(value, mu), delta, price)
    assert price == pytest.approx(exact_price, rel=1e-10, abs=0)
    assert gaussian_delta(epsilon, mu=mu) == pytest.approx(
        float(slow_delta(epsilon, mu)), rel=1e-11, abs=0
    )


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_rounding_is_on_the_safe_side(epsilon, delta):
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    assert gaussian_delta(epsilon, mu=mu) <= delta
    price = gaussian_epsilon(mu=mu, delta=delta)
    assert price <= epsilon
    assert gaussian_delta(price, mu=mu) <= delta
    assert price == pytest.approx(epsilon, rel=1e-10, abs=0)


def test_a_formula_that_subtracts_in_floating_point_would_be_caught():
    def naive(epsilon, mu):
        upper = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2
        lower = math.erfc((epsilon / mu + mu / 2) / math.sqrt(2)) / 2
        return upper - math.exp(epsilon) * lower

    mu = gaussian_mu(epsilon=1e-4, delta=1e-300)
    exact = float(slow_delta(1e-4, mu))
    assert naive(1e-4, mu) != pytest.approx(exact, rel=1e-10, abs=0)
    assert gaussian_delta(1e-4, mu=mu) == pytest.approx(exact, rel=1e-10, abs=0)


def test_epsilon_zero_is_the_total_variation_distance():
    assert gaussian_delta(0.0, mu=1.0) == pytest.approx(math.erf(1 / math.sqrt(8)))
    mu = gaussian_mu(epsilon=0.0, delta=0.3)
    assert gaussian_delta(0.0, mu=mu) == pytest.approx(0.3, rel=1e-12)
    assert gaussian_epsilon(mu=mu, delta=0.3) == 0.0


@pytest.mark.parametrize("mu", [1e-310, 3.468940930388758e-06, 0.02, 1.0, 30.0])
@pytest.mark.parametrize("below", [1e-15, 1e-12, 1e-6])
def test_epsilons_near_zero_are_found_and_low_by_round_off_at_most(mu, below):
    delta = math.erf(mu / math.sqrt(8.0)) * (1.0 - below)
    if not 0.0 < delta < 1.0:
        return
    epsilon = gaussian_epsilon(mu=mu, delta=delta)  # was refused: "got epsilon=nan"
    assert gaussian_delta(epsilon, mu=mu) <= delta
    assert slow_delta(epsilon + 1e-14 * mu, mu) <= delta


def test_large_deltas():
    mu = gaussian_mu(epsilon=2.0, delta=0.9)
    assert gaussian_delta(2.0, mu=mu) == pytest.approx(0.9, rel=1e-12)


def test_negative_epsilon_by_symmetry():
    for epsilon in (0.3, 2.0):
        expected = float(slow_delta(-epsilon, 0.7))
        assert gaussian_delta(-epsilon, mu=0.7) == pytest.approx(expected, rel=1e-12)


def test_limits():
    assert gaussian_delta(1.0, mu=0.0) == 0.0
    assert gaussian_delta(1.0, mu=math.inf) == 1.0
    assert gaussian_delta(math.inf, mu=math.inf) == 0.0
    assert gaussian_delta(1e3, mu=1e-6) == 0.0
    assert gaussian_delta(-1.0, mu=0.0) == pytest.approx(1 - math.exp(-1))
    assert gaussian_epsilon(mu=0.0, delta=1e-5) == 0.0
    assert gaussian_epsilon(mu=math.inf, delta=1e-5) == math.inf
    assert gaussian_epsilon(mu=1e200, delta=1e-5) == math.inf
    assert gaussian_mu(epsilon=math.inf, delta=1e-5) == math.inf
    assert gaussian_noise_multiplier(epsilon=math.inf, delta=1e-5) == 0.0
    assert noise_multiplier_mu(0.0) == math.inf
    assert composed_mu([]) == 0.0
    assert composed_mu([1.0, math.inf]) == math.inf


@pytest.mark.parametrize("n_steps", [1, 7, 1000])
def test_noise_multiplier_spends_the_budget_and_no_more(n_steps):
    noise = gaussian_noise_multiplier(epsilon=1.0, delta=1e-5, n_steps=n_steps)
    mu = noise_multiplier_mu(noise, n_steps=n_steps)
    price = gaussian_epsilon(mu=mu, delta=1e-5)
    assert price <= 1.0
    assert price == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("step_mu", [0.01, 0.1, 0.2, 1.0])
def test_steps_are_the_most_that_fit(step_mu):
    n_steps = gaussian_steps(epsilon=1.0, delta=1e-5, step_mu=step_mu)
    fits = gaussian_epsilon(mu=step_mu * math.sqrt(n_steps), delta=1e-5)
    beyond = gaussian_epsilon(mu=step_mu * math.sqrt(n_steps + 1), delta=1e-5)
    assert fits <= 1.0 < beyond


def test_steps_that_exactly_fill_the_budget_survive_rounding():
    mu = gaussian_mu(epsilon=1.0, delta=1e-5)
    for n_steps in [*range(1, 50), 4134, 4150, 4165]:
        step_mu = math.nextafter(mu / math.sqrt(n_steps), 1.0)
        found = gaussian_steps(epsilon=1.0, delta=1e-5, step_mu=step_mu)
        assert found in (n_steps - 1, n_steps)
        assert step_mu * math.sqrt(found) <= mu


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, None, "small", True])
def test_delta_out_of_range(delta):
    with pytest.raises(BudgetError, match="delta"):
        gaussian_epsilon(mu=1.0, delta=delta)
    with pytest.raises(BudgetError, match="delta"):
        gaussian_mu(epsilon=1.0, delta=delta)


@pytest.mark.parametrize("mu", [-1.0, math.nan, None, "wide"])
def test_mu_out_of_range(mu):
    with pytest.raises(CorrDPError, match="mu must be"):
        gaussian_delta(1.0, mu=mu)
    with pytest.raises(CorrDPError, match="mu must be"):
        gaussian_epsilon(mu=mu, delta=1e-5)
    with pytest.raises(CorrDPError, match="mu must be"):
        composed_mu([1.0, mu])


def test_other_arguments_out_of_range():
    with pytest.raises(BudgetError, match="epsilon must be"):
        gaussian_delta(math.nan, mu=1.0)
    with pytest.raises(BudgetError, match="epsilon must be"):
        gaussian_mu(epsilon=-1.0, delta=1e-5)
    with pytest.raises(BudgetError, match="step_mu must be"):
        gaussian_steps(epsilon=1.0, delta=1e-5, step_mu=0.0)
    with pytest.raises(BudgetError, match="epsilon must be finite"):
        gaussian_steps(epsilon=math.inf, delta=1e-5, step_mu=1.0)
    with pytest.raises(CorrDPError, match="n_steps must be"):
        gaussian_noise_multiplier(epsilon=1.0, delta=1e-5, n_steps=0)
    with pytest.raises(CorrDPError, match="noise_multiplier must be"):
        noise_multiplier_mu(-1.0)


@pytest.mark.parametrize("mu", [0.1 - 1e-12, 0.1 + 1e-12])
def test_both_methods_agree_where_one_takes_over(mu):
    for epsilon in (0.01, 0.5, 3.0):
        exact = float(slow_delta(epsilon, mu))
        assert gaussian_delta(epsilon, mu=mu) == pytest.approx(exact, rel=1e-11, abs=0)


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1e-300, 1e-141])
@pytest.mark.parametrize("epsilon", [0.0, 5e-324, 1e-310, 1e-160, 9e-141])
def test_a_budget_without_a_noise_that_is_a_number_is_refused(epsilon, delta):
    with pytest.raises(BudgetError, match="1e-140 or more"):
        gaussian_mu(epsilon=epsilon, delta=delta)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-140, 5e-324), (0.0, 1e-140), (5e-324, 1e-6)]
)
def test_the_smallest_budgets_have_noise_whose_variance_is_a_number(epsilon, delta):
    noise = gaussian_noise_multiplier(epsilon=epsilon, delta=delta, n_steps=1000)
    assert 0.0 < noise**2 < math.inf

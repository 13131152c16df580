import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corrdp.accounting import OnlineAllocator, allocate_noise, isotropic_noise, step_mu

SOLVERS_GAP = 1e-9  # what allocate_noise reaches on every table drawn here


def magnitudes(low, high):
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


@st.composite
def instances(draw, *, exponent=6.0, n_tables=1):
    """Draw tables of one shape, with zeros, and budgets, some of them infinite."""
    n_rows, n_groups = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    entry = st.one_of(st.just(0.0), magnitudes(-exponent, exponent))
    entries = st.lists(
        entry, min_size=n_rows * n_groups, max_size=n_rows * n_groups
    ).map(lambda values: np.reshape(values, (n_rows, n_groups)))
    budget = st.one_of(magnitudes(-3, 1), magnitudes(-3, 1), st.just(np.inf))

    def vector(values, size):
        return np.array(draw(st.lists(values, min_size=size, max_size=size)))

    return {
        "tables": [draw(entries) for _ in range(n_tables)],
        "budget_mu": vector(budget, n_rows),
        "sizes": vector(st.integers(1, 1000), n_groups),
        "weights": vector(magnitudes(-3, 3), n_groups),
    }


def within_budget(sensitivity, noise_scale, budget_mu):
    """Check both evaluations of the price, in either memory order, exactly."""
    shown = step_mu(sensitivity, noise_scale)
    fits = np.all(shown <= budget_mu)
    for order in "CF":
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.asarray(sensitivity, order=order) / noise_scale
        price = np.sum(np.nan_to_num(ratio, nan=0.0, posinf=np.inf) ** 2, axis=1)
        fits &= np.all(price <= budget_mu**2)
    return bool(fits)


@given(instances())
def test_no_row_ever_exceeds_its_budget_by_a_single_bit(drawn):
    (sensitivity,) = drawn.pop("tables")
    for solve in (allocate_noise, isotropic_noise):
        noise_scale = solve(sensitivity, **drawn).noise_scale
        assert within_budget(sensitivity, noise_scale, drawn["budget_mu"])


@given(instances(exponent=140.0))
def test_not_even_with_absurd_magnitudes(drawn):
    (sensitivity,) = drawn.pop("tables")
    noise_scale = allocate_noise(sensitivity, **drawn).noise_scale
    assert np.all(np.isfinite(noise_scale))
    assert np.all(step_mu(sensitivity, noise_scale) <= drawn["budget_mu"])


@given(instances(n_tables=4), st.integers(1, 5))
def test_no_online_step_exceeds_its_budget_by_a_single_bit(drawn, n_iterations):
    tables = drawn.pop("tables")
    allocator = OnlineAllocator(drawn.pop("sizes"), n_iterations=n_iterations, **drawn)
    for sensitivity in [*tables, *tables]:
        noise_scale = allocator.update(sensitivity)
        assert within_budget(sensitivity, noise_scale, drawn["budget_mu"])
        constrained = sensitivity[np.isfinite(drawn["budget_mu"])]
        np.testing.assert_array_equal(noise_scale > 0, constrained.any(axis=0))


@given(instances())
def test_a_forgotten_row_is_caught(drawn):
    (sensitivity,) = drawn.pop("tables")
    noise_scale = allocate_noise(sensitivity, **drawn).noise_scale
    assume(noise_scale.any())
    budget_mu = drawn["budget_mu"][:, None]
    hardest = np.max(sensitivity / budget_mu, axis=0, keepdims=True)
    assert not within_budget(1.001 * hardest, noise_scale, np.ones(1))


@given(instances())
def test_the_gap_is_closed_on_every_table(drawn):
    (sensitivity,) = drawn.pop("tables")
    allocation = allocate_noise(sensitivity, **drawn)
    assert allocation.optimality_gap <= SOLVERS_GAP
    assert allocation.objective <= isotropic_noise(sensitivity, **drawn).objective * (
        1 + SOLVERS_GAP
    )


@given(instances(n_tables=2), st.floats(1.0, 100.0))
def test_more_sensitivity_or_less_budget_never_means_less_noise(drawn, factor):
    one, other = drawn.pop("tables")
    budget_mu = drawn.pop("budget_mu")
    low = allocate_noise(np.minimum(one, other), budget_mu=budget_mu, **drawn)
    high = allocate_noise(np.maximum(one, other), budget_mu=budget_mu, **drawn)
    less = allocate_noise(np.minimum(one, other), budget_mu=budget_mu / factor, **drawn)
    assert high.objective >= low.objective * (1 - SOLVERS_GAP)
    assert less.objective >= low.objective * (1 - SOLVERS_GAP)


@given(instances(), st.randoms(use_true_random=False))
def test_the_order_of_groups_and_rows_is_irrelevant(drawn, random):
    (sensitivity,) = drawn["tables"]
    rows, groups = (random.sample(range(n), n) for n in sensitivity.shape)
    straight = allocate_noise(
        sensitivity,
        budget_mu=drawn["budget_mu"],
        sizes=drawn["sizes"],
        weights=drawn["weights"],
    )
    shuffled = allocate_noise(
        sensitivity[rows][:, groups],
        budget_mu=drawn["budget_mu"][rows],
        sizes=drawn["sizes"][groups],
        weights=drawn["weights"][groups],
    )
    assert shuffled.objective == pytest.approx(straight.objective, rel=SOLVERS_GAP)
    cost = drawn["sizes"] * drawn["weights"]
    difference = np.abs(shuffled.noise_scale - straight.noise_scale[groups])
    weighted = np.sqrt(np.sum(cost[groups] * difference**2))
    # Strong convexity: objectives that agree to 1e-10 fix the noise to its root.
    assert weighted <= 1e-4 * np.sqrt(straight.objective)


@given(instances(exponent=3.0), magnitudes(-3, 3))
@settings(max_examples=50)
def test_noise_scales_with_the_release(drawn, factor):
    (sensitivity,) = drawn.pop("tables")
    once = allocate_noise(sensitivity, **drawn).objective
    scaled = allocate_noise(sensitivity * factor, **drawn).objective
    assert scaled == pytest.approx(once * factor**2, rel=SOLVERS_GAP)

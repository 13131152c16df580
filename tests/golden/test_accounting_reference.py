"""Published and independent numbers for the accountant."""

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from corrdp.accounting import sampled_epsilon

# rate, contribution, change, epsilon at 1000 steps and delta 1e-5, converged
CONVERGED = [
    (0.01, 1.0, 0.1, 0.33347),
    (0.01, 1.0, 2.0, 2.84344),
    (0.1, 0.2, 0.1, 1.35992),
]


@pytest.mark.parametrize(("rate", "contribution", "change", "expected"), CONVERGED)
def test_converged_values(rate, contribution, change, expected):
    found = sampled_epsilon(
        rate=rate, contribution=contribution, change=change, n_steps=1000, delta=1e-5
    )
    last_digit = 5e-6  # the reference is printed to five decimals
    assert expected - last_digit <= found <= (expected + last_digit) * 1.003


def oracle_epsilon(rate, noise, n_steps, delta, *, pessimistic):
    """dp-accounting: replace-one, Poisson sampling, contributions of norm 1.

    Its lower bound rounds losses down; connecting the dots has no such variant. Its
    grid is refined where a step's loss is narrow, as ours is.
    """
    return (
        from_gaussian_mechanism(
            noise,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=min(5e-4, 0.05 * rate / noise),
            sampling_prob=rate,
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
            use_connect_dots=pessimistic,
        )
        .self_compose(n_steps)
        .get_epsilon_for_delta(delta)
    )


def random_settings(count):
    rng = np.random.default_rng(20_240_917)
    return [
        (
            float(10 ** rng.uniform(-2.5, -0.5)),
            float(rng.uniform(1.5, 6.0)),
            int(10 ** rng.uniform(0.0, 2.7)),
            float(10 ** rng.uniform(-8.0, -4.0)),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize(("rate", "noise", "n_steps", "delta"), random_settings(24))
def test_independent_accountant_at_the_largest_change(rate, noise, n_steps, delta):
    found = sampled_epsilon(
        rate=rate,
        contribution=1 / noise,
        change=2 / noise,
        n_steps=n_steps,
        delta=delta,
    )
    upper = oracle_epsilon(rate, noise, n_steps, delta, pessimistic=True)
    lower = oracle_epsilon(rate, noise, n_steps, delta, pessimistic=False)
    assert found == pytest.approx(upper, rel=1e-3)
    assert found >= lower


def test_forgetting_that_replacement_doubles_the_change_would_be_caught():
    rate, noise, n_steps, delta = 0.05, 1.5, 100, 1e-6
    halved = sampled_epsilon(
        rate=rate,
        contribution=1 / noise,
        change=1 / noise,
        n_steps=n_steps,
        delta=delta,
    )
    assert halved < oracle_epsilon(rate, noise, n_steps, delta, pessimistic=False)

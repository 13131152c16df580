"""Each inverse of a sampled release stays within its budget and fills it."""

import math

import pytest

from corrdp.accounting import (
    gaussian_epsilon,
    gaussian_noise_multiplier,
    sampled_change,
    sampled_epsilon,
    sampled_noise_multiplier,
    sampled_steps,
)
from corrdp.exceptions import BudgetError, CorrDPError

SETTINGS = [
    {"rate": 0.01, "contribution": 1.0, "n_steps": 1000},
    {"rate": 0.2, "contribution": 0.3, "n_steps": 40},
    {"rate": 0.05, "contribution": 0.5, "n_steps": 100, "sampling": "fixed_size"},
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_change_fills_the_budget_and_no_more(setting):
    change = sampled_change(epsilon=0.5, delta=1e-6, **setting)
    price = sampled_epsilon(change=change, delta=1e-6, **setting)
    assert 0.5 * (1 - 1e-5) <= price <= 0.5


def test_any_change_fits_a_generous_budget():
    change = sampled_change(
        epsilon=50.0, delta=1e-6, rate=0.1, contribution=0.2, n_steps=10
    )
    assert change == 0.4


@pytest.mark.parametrize("sampling", ["poisson", "fixed_size"])
@pytest.mark.parametrize("relative_change", [2.0, 0.3])
def test_noise_multiplier_fills_the_budget_and_no_more(sampling, relative_change):
    setting = {"rate": 0.02, "n_steps": 200, "delta": 1e-6, "sampling": sampling}
    noise = sampled_noise_multiplier(
        epsilon=0.8, relative_change=relative_change, **setting
    )
    price = sampled_epsilon(
        contribution=1 / noise, change=relative_change * (1 / noise), **setting
    )
    assert 0.8 * (1 - 1e-5) <= price <= 0.8


def test_noise_multiplier_without_sampling_is_the_gaussian_one():
    noise = sampled_noise_multiplier(epsilon=1.0, delta=1e-6, rate=1.0, n_steps=9)
    gaussian = gaussian_noise_multiplier(epsilon=1.0, delta=1e-6, n_steps=9)
    assert noise == pytest.approx(2 * gaussian, rel=1e-6)


def test_noise_has_a_floor_when_a_record_hardly_ever_takes_part():
    noise = sampled_noise_multiplier(epsilon=1.0, delta=1e-5, rate=1e-7, n_steps=10)
    assert noise == 1e-3


def test_steps_are_the_most_that_fit():
    setting = {"rate": 0.05, "contribution": 0.5, "change": 0.2, "delta": 1e-5}
    n_steps = sampled_steps(epsilon=0.7, **setting)
    assert sampled_epsilon(n_steps=n_steps, **setting) <= 0.7
    assert sampled_epsilon(n_steps=n_steps + 1, **setting) > 0.7


def test_no_step_may_fit():
    assert (
        sampled_steps(epsilon=0.01, delta=1e-9, rate=0.9, contribution=3.0, change=3.0)
        == 0
    )


def test_certain_sampling_is_exact():
    price = sampled_epsilon(
        rate=1.0, contribution=1.0, change=0.1, n_steps=25, delta=1e-6
    )
    assert price == gaussian_epsilon(mu=0.5, delta=1e-6)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("rate", 2.0),
        ("contribution", -1.0),
        ("change", math.nan),
        ("n_steps", 0),
        ("delta", 1.0),
        ("grid", -1e-4),
        ("sampling", "shuffled"),
    ],
)
def test_arguments_out_of_range(argument, value):
    setting = {
        "rate": 0.1,
        "contribution": 1.0,
        "change": 1.0,
        "n_steps": 10,
        "delta": 1e-6,
    }
    with pytest.raises(CorrDPError, match=f"{argument} must be"):
        sampled_epsilon(**setting | {argument: value})


@pytest.mark.parametrize("epsilon", [0.0, -1.0, None, math.inf])
def test_budgets_out_of_range(epsilon):
    with pytest.raises(BudgetError, match="epsilon"):
        sampled_change(
            epsilon=epsilon, delta=1e-6, rate=0.1, contribution=1.0, n_steps=1
        )
    with pytest.raises(BudgetError, match="epsilon"):
        sampled_noise_multiplier(epsilon=epsilon, delta=1e-6, rate=0.1, n_steps=1)
    with pytest.raises(BudgetError, match="epsilon"):
        sampled_steps(
            epsilon=epsilon, delta=1e-6, rate=0.1, contribution=1.0, change=1.0
        )


def test_steps_without_end_are_refused():
    with pytest.raises(BudgetError, match="without end"):
        sampled_steps(epsilon=1.0, delta=1e-6, rate=0.0, contribution=1.0, change=1.0)


@pytest.mark.parametrize("relative_change", [0.0, 2.5])
def test_relative_change_out_of_range(relative_change):
    with pytest.raises(CorrDPError, match="relative_change must be"):
        sampled_noise_multiplier(
            epsilon=1.0,
            delta=1e-6,
            rate=0.1,
            n_steps=1,
            relative_change=relative_change,
        )

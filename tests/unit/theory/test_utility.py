"""Utility bounds against recursions, simulations and the noise of Eq. (4)."""

import math

import numpy as np
import pytest

from corrdp.accounting import (
    paper_network_noise_variance,
    paper_noise_variance,
)
from corrdp.exceptions import CorrDPError
from corrdp.theory import (
    convex_utility_upper,
    dimension_upper,
    improvement_factor,
    network_dimension,
    network_improvement_factor,
    network_utility_rate,
    noise_dimension,
    nonconvex_utility_upper,
    pl_utility_upper,
    utility_lower_rate,
)

LEAKAGE = [0.3, 0.0, 0.05, 0.2]
BUDGET = {"epsilon": 0.8, "delta": 1e-5, "lipschitz": 1.5, "n_rows": 400}
COUNTS = {"n_sensitive": 2}
NETWORK = {
    "n_parameters": 131,
    "n_columns": 8,
    "n_sensitive": 3,
    "first_layer_width": 10,
}


def noise_of_equation_4(n_steps):
    return paper_noise_variance(
        [1.0, 1.0, *LEAKAGE], **BUDGET, n_steps=n_steps, **COUNTS
    )


def test_noise_dimension_is_the_total_of_equation_4():
    variance = noise_of_equation_4(10)
    assert noise_dimension(LEAKAGE, **COUNTS) == pytest.approx(
        variance.sum() / variance[0], rel=1e-13
    )


def test_convex_bound_uses_the_steps_of_theorem_3_9():
    bound = convex_utility_upper(LEAKAGE, **BUDGET, **COUNTS, parameter_radius=2.0)
    assert bound.n_steps == 400**2
    size = math.sqrt(1.5**2 + noise_of_equation_4(bound.n_steps).sum())
    assert bound.step_size(9) == pytest.approx(2.0 / (size * 3))
    expected = 5 * 2.0 * size * (2 + math.log(bound.n_steps)) / 400
    assert bound.upper == pytest.approx(expected, rel=1e-12)
    dimension = dimension_upper(LEAKAGE, **COUNTS)
    assert bound.rate == pytest.approx(
        math.sqrt(dimension * math.log(1e5)) / (400 * 0.8)
    )


def run_noisy_descent(bound, *, noise_variance, n_runs=50):
    """Minimize |theta - (1, 0, ...)| over the unit ball with noise, last iterate."""
    rng = np.random.default_rng(0)
    target = np.eye(len(noise_variance))[0]
    theta = -np.tile(target, (n_runs, 1))
    for step in range(1, bound.n_steps + 1):
        gap = theta - target
        norm = np.linalg.norm(gap, axis=1, keepdims=True)
        gradient = gap / np.maximum(norm, 1e-12)
        gradient += rng.normal(0, np.sqrt(noise_variance), size=theta.shape)
        theta = theta - bound.step_size(step) * gradient
        theta /= np.maximum(1, np.linalg.norm(theta, axis=1, keepdims=True))
    return float(np.linalg.norm(theta - target, axis=1).mean())


def test_convex_bound_holds_for_noisy_descent():
    setting = {**BUDGET, "lipschitz": 1.0, "n_rows": 2000}
    bound = convex_utility_upper(
        LEAKAGE, **setting, **COUNTS, parameter_radius=1.0, n_steps=10_000
    )
    noise = paper_noise_variance(
        [1.0, 1.0, *LEAKAGE], **setting, n_steps=10_000, **COUNTS
    )
    assert run_noisy_descent(bound, noise_variance=noise) <= bound.upper
    # Noise that the bound was not told of shows: the comparison can fail.
    assert run_noisy_descent(bound, noise_variance=1e4 * noise) > bound.upper


def test_pl_bound_solves_the_recursion_of_corollary_c1():
    setting = {"smoothness": 4.0, "pl_constant": 0.5, "initial_gap": 3.0}
    bound = pl_utility_upper(LEAKAGE, **BUDGET, **COUNTS, **setting)
    noise = noise_of_equation_4(bound.n_steps).sum()
    gap = 3.0
    for _ in range(bound.n_steps):
        gap = (1 - 0.5 / 4.0) * gap + noise / (2 * 4.0)
    assert bound.upper == pytest.approx(gap, rel=1e-10)
    printed = (1 - 0.5 / 4) ** bound.n_steps * 3.0 + bound.n_steps * noise / 8.0
    assert bound.upper <= printed
    assert bound.step_size(1) == bound.step_size(7) == 0.25


def test_pl_steps_shrink_the_start_to_the_rate():
    setting = {"smoothness": 4.0, "pl_constant": 0.5, "initial_gap": 1.0}
    bound = pl_utility_upper(LEAKAGE, **BUDGET, **COUNTS, **setting)
    assert (1 - 0.5 / 4) ** bound.n_steps <= bound.rate


def test_perfectly_conditioned_loss_needs_one_noise_term():
    bound = pl_utility_upper(
        LEAKAGE, **BUDGET, **COUNTS, smoothness=2.0, pl_constant=2.0, initial_gap=9.0
    )
    noise = noise_of_equation_4(bound.n_steps).sum()
    assert bound.upper == pytest.approx(noise / 4)


def test_nonconvex_bound_of_corollary_c1():
    bound = nonconvex_utility_upper(
        LEAKAGE, **BUDGET, **COUNTS, smoothness=4.0, initial_gap=3.0
    )
    dimension = noise_dimension(LEAKAGE, **COUNTS)
    assert bound.n_steps == math.ceil(400 * 0.8 / math.sqrt(dimension * math.log(1e5)))
    noise = noise_of_equation_4(bound.n_steps).sum()
    assert bound.upper == pytest.approx(2 * 4.0 * 3.0 / bound.n_steps + noise)
    assert bound.measure == "expected squared gradient norm"


def test_a_tiny_table_still_takes_one_step():
    setting = {**BUDGET, "n_rows": 1, "epsilon": 0.01}
    smooth = {"smoothness": 1.0, "initial_gap": 1.0}
    assert nonconvex_utility_upper(LEAKAGE, **setting, **COUNTS, **smooth).n_steps == 1
    pl = pl_utility_upper(LEAKAGE, **setting, **COUNTS, **smooth, pl_constant=0.1)
    assert pl.n_steps == 1


def test_network_dimension_counts_what_keeps_full_noise():
    leakage = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    noise = paper_network_noise_variance(
        leakage, **BUDGET, n_steps=5, n_sensitive=3, first_layer_width=10, floor=False
    )
    n_other = 131 - noise.first_layer.size
    total = noise.first_layer.sum() + n_other * noise.other
    assert network_dimension(**NETWORK) == pytest.approx(total / noise.other)
    assert network_dimension(**NETWORK) == 131 - 5 * 10


def test_network_rate_and_factor():
    rate = network_utility_rate(**NETWORK, epsilon=0.5, n_rows=1000)
    assert rate == pytest.approx(math.sqrt(81) / 500)
    assert network_improvement_factor(**NETWORK) == pytest.approx(math.sqrt(131 / 81))


def test_improvement_factor_lies_between_one_and_sqrt_m_over_ms():
    assert improvement_factor([1.0] * 5, n_sensitive=2) == 1.0
    factor = improvement_factor([0.0] * 998, n_sensitive=2)
    assert 0.99 * math.sqrt(500) < factor < math.sqrt(500)


def test_lower_rate_picks_the_hardest_number_of_columns():
    leakage = [0.1, 0.5, 0.5, 0.5, 0.9]
    # k TV^2 over descending TV: 0.81, 0.5, 0.75, 1.0, 0.05
    rate = utility_lower_rate(leakage, epsilon=1.0, n_rows=100, n_sensitive=3)
    assert rate == pytest.approx(math.sqrt(3 + 1.0) / 100)
    assert utility_lower_rate([], epsilon=1e-9, n_rows=1, n_sensitive=1) == 1.0


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"delta": 1.5}, "delta=1.5"),
        ({"lipschitz": -1.0}, r"lipschitz=-1\.0"),
        ({"n_rows": 0}, "n_rows=0"),
        ({"n_sensitive": 0}, "n_sensitive=0"),
        ({"smoothness": 0.0}, "smoothness=0.0"),
        ({"pl_constant": 5.0}, "pl_constant=5.0"),
        ({"initial_gap": -1.0}, r"initial_gap=-1\.0"),
        ({"leakage": [1.5]}, "1 of 1 above 1"),
    ],
)
def test_arguments_of_the_pl_bound_are_checked(change, match):
    setting = {
        "leakage": LEAKAGE,
        **BUDGET,
        **COUNTS,
        "smoothness": 4.0,
        "pl_constant": 0.5,
        "initial_gap": 3.0,
    }
    with pytest.raises(CorrDPError, match=match):
        pl_utility_upper(**{**setting, **change})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"n_parameters": 79}, "first layer alone"),
        ({"n_sensitive": 9}, "n_sensitive=9"),
        ({"first_layer_width": 0}, "first_layer_width=0"),
    ],
)
def test_arguments_of_the_network_are_checked(change, match):
    with pytest.raises(CorrDPError, match=match):
        network_dimension(**{**NETWORK, **change})


def test_other_arguments_are_checked():
    with pytest.raises(CorrDPError, match=r"parameter_radius=0\.0"):
        convex_utility_upper(LEAKAGE, **BUDGET, **COUNTS, parameter_radius=0.0)
    with pytest.raises(CorrDPError, match="n_steps=0"):
        convex_utility_upper(
            LEAKAGE, **BUDGET, **COUNTS, parameter_radius=1.0, n_steps=0
        )
    bound = convex_utility_upper(LEAKAGE, **BUDGET, **COUNTS, parameter_radius=1.0)
    with pytest.raises(CorrDPError, match="step=0"):
        bound.step_size(0)
    with pytest.raises(CorrDPError, match="n_rows=0"):
        utility_lower_rate(LEAKAGE, epsilon=1.0, n_rows=0, n_sensitive=1)

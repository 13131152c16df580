"""What no bound can do (docs/theory/leakage.md, Proposition 1c), where it is attained.

With one sample and two cells the randomized limit of Clopper and Pearson is most
accurate for every distance at once, so its mean is the floor.
"""

import numpy as np
import pytest
from leakage_floor import STEPS, least_mean_upper
from scipy.optimize import brentq
from scipy.stats import binom

from corrdp.leakage._two_samples import pair_uppers


def randomized_limit(count, size, level, beta):
    """Return the share at which the lower tail, ties taken with `level`, is beta."""

    def excess(share):
        tail = binom.cdf(count - 1, size, share)
        return tail + level * binom.pmf(count, size, share) - beta

    if excess(1 - 1e-12) > 0:
        return 1.0
    return brentq(excess, 0.0, 1 - 1e-12) if excess(0.0) > 0 else 0.0


@pytest.mark.parametrize(("size", "share", "beta"), [(20, 0.3, 0.01), (60, 0.1, 0.1)])
def test_the_floor_is_the_mean_of_the_most_accurate_limit(size, share, beta):
    levels = (np.arange(50) + 0.5) / 50
    mean = sum(
        binom.pmf(count, size, share)
        * np.mean([randomized_limit(count, size, level, beta) for level in levels])
        for count in range(size + 1)
    )
    # Of the second value everything is known: all of its many rows are in one cell.
    laws = np.array([[share, 1 - share], [0.0, 1.0]])
    floor, error = least_mean_upper(laws, (size, 2000), failure_probability=beta)
    step = (1 - share) / STEPS
    # A mean limit may fall below the truth, a floor takes it to be at least that.
    assert mean - 2 * step - 3 * error <= floor <= mean + 1e-3 + 3 * error
    assert error < 0.01


def mean_upper(laws, sizes, generator, *, beta=0.01, repetitions=200):
    uppers = [
        pair_uppers(
            np.array(
                [
                    generator.multinomial(n, law)
                    for n, law in zip(sizes, laws, strict=True)
                ]
            ),
            failure_probability=beta,
        ).max()
        for _ in range(repetitions)
    ]
    return np.mean(uppers)


def test_the_bound_of_theorem_1_stays_above_the_floor_and_near_it():
    laws, sizes = np.array([[0.7, 0.3], [0.4, 0.6]]), (90, 140)
    floor, _ = least_mean_upper(laws, sizes, failure_probability=0.01)
    mean = mean_upper(laws, sizes, np.random.default_rng(81))
    assert 0.3 < floor < mean < floor + 0.05


@pytest.mark.parametrize(("n_cells", "n_values"), [(8, 2), (16, 2), (2, 4)])
def test_not_to_know_the_set_or_the_pair_costs_every_bound(n_cells, n_values):
    """Alike values: a mixture of many sets or pairs is nearer to them than one set."""
    sizes = (100,) * n_values
    laws = np.full((n_values, n_cells), 1 / n_cells)
    floor, error = least_mean_upper(laws, sizes, failure_probability=0.01)
    known, _ = least_mean_upper(
        np.full((2, 2), 0.5), sizes[:2], failure_probability=0.01
    )
    assert floor > known + 0.02 + 3 * error
    assert floor < mean_upper(laws, sizes, np.random.default_rng(82), repetitions=60)


def test_nothing_is_ruled_out_about_a_value_that_was_never_seen():
    laws = np.array([[0.5, 0.5], [0.5, 0.5]])
    assert least_mean_upper(laws, (500, 0), failure_probability=0.01) == (0.99, 0.0)

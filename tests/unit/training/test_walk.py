"""The walk goes on only while released gradients agree."""

import math

import numpy as np
import pytest

from corrdp.training._step_sizes import GROWTH, N_BLOCKS, SIGNIFICANCE, Walk

N_STEPS, N_FREE = 200, 30


def factor_after(signal, seed, noise=1.0):
    rng = np.random.default_rng(seed)
    walk = Walk(N_STEPS, N_FREE)
    direction = np.full(N_FREE, signal / math.sqrt(N_FREE))
    for _ in range(N_STEPS):
        gradient = direction + noise * rng.standard_normal(N_FREE)
        walk.observe(gradient, noise**2 * N_FREE)
    return walk.factor


def test_noise_alone_hardly_ever_lengthens_the_walk():
    # Per pair the product of means has mean 0 and variance 1 in units of chance, so
    # by Chebyshev it passes 3 with probability below 1/9; it is close to normal, in
    # fact. With 400 walks of 19 pairs the mean log growth stays below that rate.
    growths = [math.log(factor_after(0.0, seed), GROWTH) for seed in range(400)]
    assert np.mean(growths) < (N_BLOCKS - 1) / SIGNIFICANCE**2


def test_a_lasting_direction_lengthens_it_every_time():
    assert factor_after(20.0, 0) == pytest.approx(GROWTH ** (N_BLOCKS - 1))


def test_gradients_that_turn_around_do_not():
    walk = Walk(N_STEPS, N_FREE)
    for step in range(N_STEPS):
        sign = 1.0 if (step // (N_STEPS // N_BLOCKS)) % 2 else -1.0
        walk.observe(np.full(N_FREE, 50.0 * sign), float(N_FREE))
    assert walk.factor == 1.0


def test_the_scale_of_gradients_does_not_matter():
    for seed in range(5):
        small, large = Walk(N_STEPS, N_FREE), Walk(N_STEPS, N_FREE)
        rng = np.random.default_rng(seed)
        for _ in range(N_STEPS):
            gradient = 0.5 + rng.standard_normal(N_FREE)
            small.observe(1e-6 * gradient, 1e-12 * N_FREE)
            large.observe(1e6 * gradient, 1e12 * N_FREE)
        assert small.factor == large.factor


def test_few_steps_are_one_block_each():
    walk = Walk(3, 1)
    for _ in range(3):
        walk.observe(np.array([10.0]), 1.0)
    assert walk.factor == pytest.approx(GROWTH**2)


def test_patience_keeps_the_factor_until_its_part_of_the_steps():
    walk = Walk(N_STEPS, N_FREE, patience=0.5)
    factors = []
    for _ in range(N_STEPS):
        walk.observe(np.full(N_FREE, 50.0), float(N_FREE))
        factors.append(walk.factor)
    assert set(factors[: N_STEPS // 2]) == {1.0}
    assert factors[-1] == pytest.approx(GROWTH ** (N_BLOCKS // 2))

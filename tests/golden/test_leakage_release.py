"""A private leakage release, recomputed from its draws and from the printed formula.

`bound` is Theorem 2 of docs/theory/leakage.md, written from the page and not from the
code: pair by pair, no arrays shared with the library.
"""

import math

import numpy as np
import pytest

from corrdp._random import noise_generator
from corrdp.leakage import noisy_total_variation_upper
from corrdp.mechanisms import estimate_leakage
from corrdp.mechanisms.noise import discrete_gaussian, grid_scale
from leakage_models import policy_of, table_of

STEP = 2.0**-18
ROUNDING = 2.0**-10
RANDOM = np.random.default_rng(61)


def bound(cells, sizes, first, second, *, sigma, size_sigma, beta):
    """Return U_jk."""
    pair = (first, second)
    n_cells = len(cells[first])
    share = beta / 4
    t = math.log(1 / share)
    z = size_sigma * math.sqrt(2 * math.log(2 / share)) + ROUNDING
    low = {j: sizes[j] - z for j in pair}
    high = {j: sizes[j] + z for j in pair}
    if min(low.values()) <= 0:
        return 1.0
    r = {j: [n / sizes[j] for n in cells[j]] for j in pair}
    difference = [a - b for a, b in zip(r[first], r[second], strict=True)]

    def one(values):
        return sum(abs(v) for v in values)

    def two(values):
        return math.sqrt(sum(v * v for v in values))

    absolute = one(difference) / 2
    absolute += sum((one(r[j]) * z + n_cells * ROUNDING) / (2 * low[j]) for j in pair)
    squares = sum(1 / low[j] ** 2 for j in pair)
    absolute += sigma / 2 * math.sqrt(2 * n_cells * t * squares)
    length = two(difference) + sum(
        (two(r[j]) * z + math.sqrt(n_cells) * ROUNDING) / low[j] for j in pair
    )
    most = sigma**2 * squares
    least = sigma**2 * sum(1 / high[j] ** 2 for j in pair)
    a = n_cells - 4 * t
    v = least if a >= 0 else most
    inner = max(0.0, 8 * t * length**2 * most - 4 * t * a * v**2)
    center = max(0.0, length**2 - a * v + math.sqrt(inner))
    by_squares = math.sqrt(n_cells) * math.sqrt(center) / 2
    margin = math.sqrt(t / 2 * sum(1 / low[j] for j in pair))
    return min(1.0, min(absolute, by_squares) + margin)


@pytest.mark.parametrize("n_cells", [2, 7, 400])
@pytest.mark.parametrize(("sigma", "size_sigma"), [(3.0, 1.5), (12.0, 40.0)])
@pytest.mark.parametrize("beta", [1e-3, 0.2])
def test_the_bound_is_the_printed_formula(n_cells, sigma, size_sigma, beta):
    sizes = np.array([90.0, 2_000.0, 15_000.0, 40_000.0])
    shares = RANDOM.dirichlet(np.full(n_cells, 2.0), size=4)
    cells = sizes[:, None] * shares + sigma * RANDOM.standard_normal((4, n_cells))
    _, uppers = noisy_total_variation_upper(
        cells,
        sizes,
        noise_scale=sigma,
        size_noise_scale=size_sigma,
        failure_probability=beta,
    )
    expected = [
        [
            bound(cells, sizes, j, k, sigma=sigma, size_sigma=size_sigma, beta=beta)
            for k in range(4)
        ]
        for j in range(4)
    ]
    assert np.min(expected) < 1.0
    np.testing.assert_allclose(uppers, expected, rtol=1e-10)


JOINT = RANDOM.dirichlet(np.full(24, 4.0)).reshape(3, 2, 4)
NAMES = ("s", "u", "v")
EPSILON, DELTA, BETA = 0.8, 1e-6, 0.02


@pytest.mark.parametrize("seed", [0, 1])
def test_a_release_is_its_draws_and_the_formula_and_nothing_else(seed):
    """Replay: noise of the stated scale, new for every cell; beta over features."""
    policy = policy_of(JOINT, NAMES, ("s",))
    frame = table_of(JOINT, NAMES, 60_000, np.random.default_rng(62))
    leakage = estimate_leakage(
        frame,
        policy,
        epsilon=EPSILON,
        delta=DELTA,
        failure_probability=BETA,
        random_state=seed,
    )
    (component,) = leakage.components
    groups = [group.name for group in component.plan.table.groups]
    scales = dict(zip(groups, component.plan.noise_scale, strict=True))
    generator = noise_generator(seed, purpose="leakage")

    def noisy(counts, name):
        planned = float(scales[name]) / STEP
        scale = grid_scale(math.hypot(planned * (1 + 1e-12), 16) * (1 + 1e-15))
        noise = discrete_gaussian(scale, size=counts.size, generator=generator)
        steps = counts.ravel() * 2**18 + noise
        part = math.sqrt(float(scale) ** 2 - 256) * STEP
        return (steps * STEP).reshape(counts.shape), part

    for name in ("u", "v"):
        counts = np.array(
            [
                [((frame[name] == value) & (frame.s == cell)).sum() for cell in cells]
                for cells in [[f"v{i}" for i in range(3)]]
                for value in sorted(frame[name].unique())
            ]
        )
        cells, sigma = noisy(counts, name)
        sizes, size_sigma = noisy(counts.sum(axis=1), f"{name}: row sizes")
        expected = max(
            bound(cells, sizes, j, k, sigma=sigma, size_sigma=size_sigma, beta=BETA / 2)
            for j in range(len(sizes))
            for k in range(j)
        )
        assert 0.0 < expected < 1.0
        assert leakage.features[name].upper == pytest.approx(expected, rel=1e-10)
